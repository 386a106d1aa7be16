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
	"homelab/lab/engine/words"
)

const (
	refreshApplication    = "argocd.argoproj.io/refresh"                 // value normal; removed after the refresh
	refreshApplicationSet = "argocd.argoproj.io/application-set-refresh" // likewise
	refreshCluster        = refreshApplication                           // on a registration: time of the last request to read the cluster again; permanent
)

// applicationSet is the part of Argo CD's ApplicationSet that lab reads.
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

// root reports whether lab applied the ApplicationSet.
func (s applicationSet) root() bool { return s.Metadata.Labels[lab.LabelPart] == "root" }

func parseApplicationSet(o *unstructured.Unstructured) (applicationSet, error) {
	var s applicationSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s); err != nil {
		return applicationSet{}, fmt.Errorf("applicationset %s: %w", o.GetName(), err)
	}
	return s, nil
}

// fault returns why the ApplicationSet fails to generate, or "".
func (s applicationSet) fault() string {
	for _, c := range s.Status.Conditions {
		if c.Type == "ErrorOccurred" && c.Status == string(metav1.ConditionTrue) {
			return words.Clip(cmp.Or(c.Message, c.Reason), messageLimit)
		}
	}
	return ""
}

// view is a snapshot of Argo CD's state.
type view struct {
	names aliases
	apps  map[string]application
	sets  map[string]applicationSet
	since map[string]time.Time // cluster -> last registration or start, where known
}

// noRoot is the pending name of a missing root.
const noRoot = "root application"

// roots returns the Applications that lab applied, by name.
func (v view) roots() []application {
	return slices.DeleteFunc(values(v.apps), func(a application) bool { return !a.root() })
}

// leaders returns the roots, and the Applications that only contain others.
func (v view) leaders(want engine.Want) []application {
	return append(v.roots(), slices.DeleteFunc(v.relevant(want), func(a application) bool { return a.root() || !a.containsApps() })...)
}

// hasRoot reports whether any root exists, as an Application or ApplicationSet.
func (v view) hasRoot() bool {
	for _, s := range v.sets {
		if s.root() {
			return true
		}
	}
	return len(v.roots()) > 0
}

// generating returns the ApplicationSets that have Applications. The controller may never answer others.
func (v view) generating() map[string]applicationSet {
	sets := map[string]applicationSet{}
	for _, a := range v.apps {
		for _, o := range a.Metadata.OwnerReferences {
			if s, ok := v.sets[o.Name]; ok && o.Kind == "ApplicationSet" {
				sets[o.Name] = s
			}
		}
	}
	return sets
}

// isRoot reports whether a pending name is that of a root, existing or not.
func (v view) isRoot(name string) bool { return name == noRoot || v.apps[name].root() }

// relevant returns, by name, the Applications to wait for: the roots, those generated for the wanted clusters, and the expected ones. It omits the user's own.
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

// total returns the number of Applications to wait for, without the roots.
func (v view) total(want engine.Want) int {
	n := 0
	for _, a := range v.relevant(want) {
		if !a.root() {
			n++
		}
	}
	return n + len(v.absent(want))
}

// absent returns the names of expected Applications that do not exist.
func (v view) absent(want engine.Want) []string {
	there := map[string]bool{}
	for _, a := range v.apps {
		there[a.Metadata.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(want.Expected), func(name string) bool { return there[name] })
}

// judge returns what has not converged: the roots first, then ApplicationSets, then Applications by name. It is a pure function.
func judge(v view, want engine.Want) []engine.Pending {
	var roots, sets, others []engine.Pending
	if !v.hasRoot() {
		roots = append(roots, engine.Pending{Application: noRoot, Reason: "does not exist yet"})
	}
	for _, name := range sortedKeys(v.sets) {
		s := v.sets[name]
		switch fault := s.fault(); {
		case leavesOutSet(want, name):
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

// unconverged returns whether an Application has not converged, and why.
func (v view) unconverged(a application, want engine.Want, estate source) (string, bool) {
	switch {
	case a.terminating():
		return a.message(), true
	case slices.Contains(want.Gone, a.Metadata.Name):
		return "is no longer wanted but still exists", true
	case hasKey(a.Metadata.Annotations, refreshApplication):
		return cmp.Or(a.message(), "is being compared"), true
	case v.blocked(a, want):
		return "", false
	case a.Status.Sync.Status != "Synced" || !a.healthy(want):
		return a.message(), true
	case v.outdated(a):
		return "not compared since its cluster came back", true
	case staleCommit(a, want, estate) != "":
		sources, revisions := a.sources()
		at, wanted := behind(sources, revisions, want, estate)
		return "is at " + abbreviated(at) + ", wanted " + abbreviated(wanted), true
	case !a.compared():
		return "is changed and being compared", true
	case a.waitsForOthers() && !retriesOld(a, want, estate):
		return "", false
	case len(a.Operation) > 0 || a.Status.OperationState.Phase == "Running":
		return "syncing: " + cmp.Or(a.Status.OperationState.Message, "started"), true
	}
	return "", false
}

// outdated reports whether an Application was last compared before its cluster was registered or started, so that its status refers to another cluster or an
// earlier time. Both times are in whole seconds.
func (v view) outdated(a application) bool {
	since := v.since[v.names.cluster(a)]
	return a.Status.ReconciledAt != "" && !timeOf(a.Status.ReconciledAt).After(since)
}

// stale reports whether an Application was last compared with an older commit than the wanted one, or with another cluster than the registered one.
func (v view) stale(a application, want engine.Want, estate source) bool {
	return staleCommit(a, want, estate) != "" || v.outdated(a)
}

// source identifies the estate's repository and revision.
type source struct{ repository, revision string }

// estate returns the estate's source as recorded by lab on the roots, or else as read by the first of them.
func (v view) estate() source {
	for _, a := range v.roots() {
		if annotation, ok := a.Metadata.Annotations[lab.AnnotationEstate]; ok {
			return parseSource(annotation)
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

func parseSource(annotation string) source {
	repository, revision, _ := strings.Cut(annotation, " ")
	return source{repository: normalRepository(repository), revision: revision}
}

// has reports whether an Application's source is the estate at its revision; one pinned to another branch or tag is not.
func (e source) has(s map[string]any) bool {
	return e.repository != "" && text(s, "chart") == "" && normalRepository(text(s, "repoURL")) == e.repository && text(s, "targetRevision") == e.revision
}

// commit returns the estate's commit that an Application was compared with, or "" if it does not read the estate or was not compared.
func (e source) commit(a application) string {
	sources, revisions := a.sources()
	for i, s := range sources {
		if e.has(s) && i < len(revisions) && revisions[i] != "" {
			return revisions[i]
		}
	}
	return ""
}

// staleCommit returns the older commit that an Application was compared with, or "" if it does not read the estate or is up to date.
func staleCommit(a application, want engine.Want, estate source) string {
	sources, revisions := a.sources()
	at, _ := behind(sources, revisions, want, estate)
	return at
}

// retriesOld reports whether an Application keeps retrying a sync to an older commit than the wanted one, or waiting in one: it ignores the other meanwhile.
func retriesOld(a application, want engine.Want, estate source) bool {
	result := a.Status.OperationState.SyncResult
	revisions := result.Revisions
	switch {
	case !a.retries() && !a.waitsForOthers():
		return false
	case len(revisions) == 0 && result.Revision == "": // the sync ended before resolving revisions
		return false
	case len(revisions) == 0:
		revisions = []string{result.Revision}
	}
	sources, _ := a.sources()
	at, _ := behind(sources, revisions, want, estate)
	return at != ""
}

// behind returns the first outdated commit among the sources' revisions and the commit wanted instead. Both are "" if all sources with a known head are up to
// date.
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

// wanted returns the commit that a source should be at, or "" for any.
func (e source) wanted(s map[string]any, want engine.Want) string {
	if e.has(s) {
		return want.Revision
	}
	address, revision := lab.RepositoryKey(text(s, "repoURL")), strings.TrimPrefix(text(s, "targetRevision"), "refs/heads/")
	for _, h := range want.Heads {
		named := slices.ContainsFunc(h.Addresses, func(a string) bool { return lab.RepositoryKey(a) == address })
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
