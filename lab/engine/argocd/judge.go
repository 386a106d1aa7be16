package argocd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"homelab/lab"
	"homelab/lab/engine"
)

const (
	refreshApplication    = "argocd.argoproj.io/refresh"                 // value normal; gone once Argo CD has looked again
	refreshApplicationSet = "argocd.argoproj.io/application-set-refresh" // likewise
	refreshCluster        = refreshApplication                           // on a registration: when somebody asked to read the cluster again; it stays
)

// applicationSet is as much of Argo CD's ApplicationSet as lab reads.
type applicationSet struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// root reports whether lab itself applied the ApplicationSet.
func (s applicationSet) root() bool { return s.Metadata.Labels[lab.LabelPart] == "root" }

func parseApplicationSet(o *unstructured.Unstructured) (applicationSet, error) {
	var s applicationSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s); err != nil {
		return applicationSet{}, fmt.Errorf("applicationset %s: %w", o.GetName(), err)
	}
	return s, nil
}

// fault is what keeps the ApplicationSet from generating; empty when it does.
func (s applicationSet) fault() string {
	for _, c := range s.Status.Conditions {
		if c.Type == "ErrorOccurred" && c.Status == string(metav1.ConditionTrue) {
			return clip(cmp.Or(c.Message, c.Reason), messageLimit)
		}
	}
	return ""
}

// view is everything that was seen at one moment.
type view struct {
	names aliases
	apps  map[string]application
	sets  map[string]applicationSet
	since map[string]time.Time // cluster -> when it came to be as it is, as far as that is known
}

// noRoot stands for the roots while there is none.
const noRoot = "root application"

// roots are the applications that lab gave to Argo CD itself, by name.
func (v view) roots() []application {
	return slices.DeleteFunc(values(v.apps), func(a application) bool { return !a.root() })
}

// leaders are the roots, and the applications that hold nothing but others.
func (v view) leaders(want engine.Want) []application {
	return append(v.roots(), slices.DeleteFunc(v.relevant(want), func(a application) bool { return a.root() || !a.leads() })...)
}

// rooted reports whether there is a root at all, be it an Application or an ApplicationSet.
func (v view) rooted() bool {
	for _, s := range v.sets {
		if s.root() {
			return true
		}
	}
	return len(v.roots()) > 0
}

// isRoot reports whether something pending is a root application, be it there or not.
func (v view) isRoot(name string) bool { return name == noRoot || v.apps[name].root() }

// relevant returns, by name, the applications that lab waits for: the roots, what was generated for the wanted clusters, and what is expected. A user's own
// are theirs.
func (v view) relevant(want engine.Want) []application {
	var out []application
	for _, a := range v.apps {
		known := a.Metadata.Name
		if slices.Contains(want.LeftOut, known) {
			continue
		}
		if a.root() || a.generated() && want.WaitsFor(v.names.cluster(a)) || slices.Contains(want.Expected, known) || slices.Contains(want.Gone, known) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b application) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	return out
}

// total is how many applications there are to wait for, the roots aside.
func (v view) total(want engine.Want) int {
	n := 0
	for _, a := range v.relevant(want) {
		if !a.root() {
			n++
		}
	}
	return n + len(v.absent(want))
}

// absent are the applications that should exist and do not.
func (v view) absent(want engine.Want) []string {
	there := map[string]bool{}
	for _, a := range v.apps {
		there[a.Metadata.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(want.Expected), func(name string) bool { return there[name] })
}

// judge says what is not as wanted: the roots first, then ApplicationSets, then applications by name. It is pure.
func judge(v view, want engine.Want) []engine.Pending {
	var roots, sets, others []engine.Pending
	if !v.rooted() {
		roots = append(roots, engine.Pending{Application: noRoot, Reason: "does not exist yet"})
	}
	for _, name := range sortedKeys(v.sets) {
		s := v.sets[name]
		switch fault := s.fault(); {
		case fault != "":
			sets = append(sets, engine.Pending{Application: "applicationset " + name, Sync: "Unknown", Health: "Degraded", Reason: fault})
		case hasKey(s.Metadata.Annotations, refreshApplicationSet):
			sets = append(sets, engine.Pending{Application: "applicationset " + name, Sync: "Unknown", Health: "Progressing", Reason: "is generating its applications"})
		}
	}
	estate := v.estate()
	for _, a := range v.relevant(want) {
		if reason, waiting := v.unconverged(a, want, estate); waiting {
			p := engine.Pending{
				Application: a.Metadata.Name, Sync: cmp.Or(a.Status.Sync.Status, "Unknown"), Health: cmp.Or(a.Status.Health.Status, "Unknown"), Reason: reason,
			}
			if a.root() {
				roots = append(roots, p)
			} else {
				others = append(others, p)
			}
		}
	}
	for _, name := range v.absent(want) {
		others = append(others, engine.Pending{Application: name, Reason: "is not generated yet"})
	}
	return slices.Concat(roots, sets, others)
}

// unconverged says why an application is not as wanted, and whether it is not.
func (v view) unconverged(a application, want engine.Want, estate source) (string, bool) {
	switch {
	case a.terminating():
		return "is being removed", true
	case slices.Contains(want.Gone, a.Metadata.Name):
		return "is no longer wanted, and still there", true
	case hasKey(a.Metadata.Annotations, refreshApplication):
		return cmp.Or(a.message(), "is being compared"), true
	case a.Status.Sync.Status != "Synced" || a.Status.Health.Status != "Healthy":
		return a.message(), true
	case v.outdated(a):
		return "not compared since its cluster came back", true
	case lags(a, want, estate) != "":
		sources, revisions := a.sources()
		at, wanted := behind(sources, revisions, want, estate)
		return "is at " + abbreviated(at) + ", wanted " + abbreviated(wanted), true
	case !a.compared():
		return "is changed and being compared", true
	case len(a.Operation) > 0 || a.Status.OperationState.Phase == "Running":
		return "syncing: " + cmp.Or(a.Status.OperationState.Message, "started"), true
	}
	return "", false
}

// outdated reports whether an application was last compared before its cluster was registered, or started, as it is now: what it shows is of another cluster, of
// none, or of the time before.
// Both times are whole seconds.
func (v view) outdated(a application) bool {
	since := v.since[v.names.cluster(a)]
	return a.Status.ReconciledAt != "" && !timeOf(a.Status.ReconciledAt).After(since)
}

// old reports whether an application was last compared with an older commit than the wanted one, or with another cluster than the one that is registered.
func (v view) old(a application, want engine.Want, estate source) bool {
	return lags(a, want, estate) != "" || v.outdated(a)
}

// source is where the estate comes from.
type source struct{ repository, revision string }

// estate is what lab said that it is when it gave the roots, or else what the first of them reads.
func (v view) estate() source {
	for _, a := range v.roots() {
		if said, ok := a.Metadata.Annotations[lab.AnnotationEstate]; ok {
			return parseSource(said)
		}
	}
	for _, name := range sortedKeys(v.sets) {
		if s := v.sets[name]; s.root() && s.Metadata.Annotations[lab.AnnotationEstate] != "" {
			return parseSource(s.Metadata.Annotations[lab.AnnotationEstate])
		}
	}
	for _, a := range v.roots() {
		sources, _ := a.sources()
		for _, s := range sources {
			if text(s, "chart") == "" {
				return source{repository: normalRepository(text(s, "repoURL")), revision: text(s, "targetRevision")}
			}
		}
	}
	return source{}
}

func parseSource(said string) source {
	repository, revision, _ := strings.Cut(said, " ")
	return source{repository: normalRepository(repository), revision: revision}
}

// has reports whether a source of an application is the estate. One that pins another branch or tag has a commit of its own.
func (e source) has(s map[string]any) bool {
	return e.repository != "" && text(s, "chart") == "" && normalRepository(text(s, "repoURL")) == e.repository && text(s, "targetRevision") == e.revision
}

// commit is the one of the estate that an application was compared with; empty when it reads nothing from there, or was not compared.
func (e source) commit(a application) string {
	sources, revisions := a.sources()
	for i, s := range sources {
		if e.has(s) && i < len(revisions) && revisions[i] != "" {
			return revisions[i]
		}
	}
	return ""
}

// lags returns the older commit that an application was compared at; empty when it reads nothing from the estate or is at the wanted one.
func lags(a application, want engine.Want, estate source) string {
	sources, revisions := a.sources()
	at, _ := behind(sources, revisions, want, estate)
	return at
}

// retriesOld reports whether an application tries again and again to sync to an older commit than the wanted one, which it then does not look at.
func retriesOld(a application, want engine.Want, estate source) bool {
	result := a.Status.OperationState.SyncResult
	revisions := result.Revisions
	switch {
	case !a.retries():
		return false
	case len(revisions) == 0 && result.Revision == "": // it did not come that far
		return false
	case len(revisions) == 0:
		revisions = []string{result.Revision}
	}
	sources, _ := a.sources()
	at, _ := behind(sources, revisions, want, estate)
	return at != ""
}

// behind returns the older commit among the revisions of sources; empty when none of them is the estate or a repository whose head is known, or all are at the
// wanted ones; and the commit that is wanted in its place.
func behind(sources []map[string]any, revisions []string, want engine.Want, estate source) (at, wanted string) {
	for i, s := range sources {
		switch commit := estate.wanted(s, want); {
		case commit == "":
		case i >= len(revisions) || revisions[i] == "":
			return "no commit", commit
		case revisions[i] != commit:
			return revisions[i], commit
		}
	}
	return "", ""
}

// wanted is the commit that a source should be at; empty for any.
func (e source) wanted(s map[string]any, want engine.Want) string {
	if e.has(s) {
		return want.Revision
	}
	address, revision := normalRepository(text(s, "repoURL")), strings.TrimPrefix(text(s, "targetRevision"), "refs/heads/")
	for _, h := range want.Heads {
		named := slices.ContainsFunc(h.Addresses, func(a string) bool { return normalRepository(a) == address })
		if named && text(s, "chart") == "" && slices.Contains([]string{"", "HEAD", h.Branch}, revision) {
			return h.Commit
		}
	}
	return ""
}

func normalRepository(url string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(url, "/"), ".git"))
}

func hasKey(m map[string]string, key string) bool {
	_, has := m[key]
	return has
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
