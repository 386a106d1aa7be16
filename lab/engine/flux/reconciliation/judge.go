package reconciliation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab/engine"
)

// NoRoot is the pending name of a missing root.
const NoRoot = "root kustomization"

// Pending is an unmet part of a want.
type Pending struct {
	engine.Pending
	Lags   bool // last compared with another commit than the wanted one, or with another cluster than the registered one
	Layer  bool // not an application
	Silent bool // a cluster that does not answer, which no view contains
}

// Judge returns the pending objects: layers first, then applications, by name. With an asker, unanswered objects are pending.
func (v View) Judge(want engine.Want, ask *Asker, registrations []engine.Registered) []Pending {
	if len(v.Layers) == 0 {
		return []Pending{{Pending: engine.Pending{Application: NoRoot, Reason: "does not exist yet"}, Lags: true, Layer: true}}
	}
	var list []Pending
	for _, k := range v.Layers {
		if slices.Contains(want.LeftOut, v.nameOf(k)) {
			continue
		}
		if p := v.judgeLayer(k, want, ask); p.Application != "" {
			list = append(list, p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Apps)) {
		cluster := v.ClusterOf(v.Apps[name])
		if slices.Contains(want.LeftOut, name) || !want.WaitsFor(cluster) {
			continue
		}
		if p := v.judgeApp(name, want, ask, want.ValidSince(cluster, registrations)); p.Application != "" {
			list = append(list, p)
		}
	}
	for _, name := range slices.Sorted(slices.Values(want.Expected)) {
		if _, there := v.Apps[name]; !there {
			list = append(list, Pending{Pending: engine.Pending{Application: name, Reason: "is not generated yet"}})
		}
	}
	return list
}

// judgeLayer judges a layer by the objects it applied; its health is up to the applications.
func (v View) judgeLayer(k kustomizev1.Kustomization, want engine.Want, ask *Asker) Pending {
	sync, health, message := v.state(k)
	p := Pending{Pending: engine.Pending{Application: k.Name, Sync: outOfSync, Health: Healthy}, Layer: true}
	lag := v.lag(k, want)
	switch {
	case k.DeletionTimestamp != nil:
		p.Reason = message
	case lag != "":
		p.Lags, p.Reason = true, lag
	case !ask.answered(&k, k.Status.GetLastHandledReconcileRequest()):
		p.Reason = "is being compared"
	case health == Healthy && sync == synced, healthFailed(k), sync == synced && health == progressing && k.Spec.Wait:
		return Pending{}
	default:
		p.Sync, p.Health, p.Reason = sync, health, message
	}
	return p
}

func (v View) judgeApp(name string, want engine.Want, ask *Asker, since time.Time) Pending {
	k := v.Apps[name]
	a := v.application(name, k)
	p := Pending{Pending: engine.Pending{Application: name, Sync: a.Sync, Health: a.Health, Reason: a.Message}}
	stale := func(reason string) {
		p.Sync = outOfSync
		if a.Health == Healthy {
			p.Reason = reason
		}
	}
	lag := v.lag(k, want)
	releases := v.ReleasesOf(k)
	switch {
	case k.DeletionTimestamp != nil:
	case slices.Contains(want.Gone, name):
		stale("is no longer wanted but still exists")
	case lag != "":
		p.Lags = true
		stale(lag)
	case !ask.answered(&k, k.Status.GetLastHandledReconcileRequest()):
		stale("is being compared")
	case comparedAt(k).Before(since) && !k.Spec.Suspend:
		p.Lags = true
		stale("is not compared since its cluster came back")
	case slices.ContainsFunc(releases, func(r helmv2.HelmRelease) bool { return v.chartLags(r, want) }):
		p.Lags = true
		stale("has a chart of an older commit")
	case slices.ContainsFunc(releases, func(r helmv2.HelmRelease) bool { return releasedAt(r).Before(since) && !r.Spec.Suspend }):
		p.Lags = true
		stale("is not compared since its cluster came back")
	case slices.ContainsFunc(releases, func(r helmv2.HelmRelease) bool {
		return !ask.answered(&r, r.Status.GetLastHandledReconcileRequest())
	}):
		stale("is being compared")
	case a.Converged():
		return Pending{}
	}
	return p
}

// lag returns why a Kustomization is not at its wanted commit, or "".
func (v View) lag(k kustomizev1.Kustomization, want engine.Want) string {
	if k.Spec.SourceRef.Kind == sourcev1.ExternalArtifactKind {
		return v.behind(k, want)
	}
	s, ok := v.sourceOf(k)
	at, wanted := commit(applied(k)), v.wanted(s, want)
	switch text := failure(k.Status.Conditions); {
	case !ok || at == wanted:
		return ""
	case has(s) != wanted && failure(s.Status.Conditions) != "":
		return v.notFetched(s, want)
	case text != "":
		return text
	case at == "":
		return fmt.Sprintf("is at no commit, wanted %.7s", wanted)
	default:
		return fmt.Sprintf("is at %.7s, wanted %.7s", at, wanted)
	}
}

// failure returns a controller's message about a failed object, or "".
func failure(conditions []metav1.Condition) string {
	if c := apimeta.FindStatusCondition(conditions, meta.ReadyCondition); c != nil && c.Status == metav1.ConditionFalse {
		return c.Message
	}
	return ""
}

// comparedAt returns the start of Flux's last comparison; zero if unknown.
func comparedAt(k kustomizev1.Kustomization) time.Time {
	at := requestedAt(k.Status.GetLastHandledReconcileRequest())
	if latest := k.Status.History.Latest(); latest != nil {
		if began := latest.LastReconciled.Add(-latest.LastReconciledDuration.Duration); began.After(at) {
			at = began
		}
	}
	return at
}

// releasedAt returns the time of a release's last deployment.
func releasedAt(r helmv2.HelmRelease) time.Time {
	at := requestedAt(r.Status.GetLastHandledReconcileRequest())
	if latest := r.Status.History.Latest(); latest != nil && latest.LastDeployed.After(at) {
		at = latest.LastDeployed.Time
	}
	return at
}

// requestedAt parses the time in a request of lab or Flux's command line; zero for other requests.
func requestedAt(token string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, token)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Settled returns the commit applied by the first root, and whether all layers have applied theirs.
func (v View) Settled() (string, bool) {
	if !v.HasRoot() {
		return "", false
	}
	return commit(applied(v.Layers[0])), !slices.ContainsFunc(v.Layers, func(k kustomizev1.Kustomization) bool {
		sync, health, _ := v.state(k)
		return sync != synced || health != Healthy
	})
}
