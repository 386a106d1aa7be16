package reconciliation

import (
	"cmp"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/engine/words"
)

// Sync and health, in Argo CD's words.
const (
	synced, outOfSync, unknown = "Synced", "OutOfSync", "Unknown"

	Healthy, progressing, Degraded, suspended = "Healthy", "Progressing", "Degraded", "Suspended"
)

// application converts a Kustomization of a cluster.
func (v View) application(name string, k kustomizev1.Kustomization) lab.Application {
	cluster, addon := v.assign(k)
	a := lab.Application{Name: name, Addon: addon, Cluster: cluster, Namespace: k.Spec.TargetNamespace, Revision: cmp.Or(commit(applied(k)), commit(k.Status.LastAppliedOriginRevision))}
	a.Sync, a.Health, a.Message = v.state(k)
	for _, r := range v.ReleasesOf(k) {
		if latest := r.Status.History.Latest(); latest != nil {
			a.Version = versionOf(r, latest.ChartVersion)
		}
		if drifted(r) {
			a.Sync = outOfSync
		}
		a.Namespace = cmp.Or(r.Spec.TargetNamespace, a.Namespace)
		if health, message := releaseHealth(r); worse(health, a.Health) || health == a.Health && health != Healthy {
			a.Health, a.Message = health, cmp.Or(message, a.Message)
		}
	}
	if a.Version == "" {
		a.Version = a.Revision[:min(7, len(a.Revision))]
	}
	a.Message = words.Clip(a.Message, messageLimit)
	return a
}

// versionOf returns the chart version of a release, without suffixes: the commit that source-controller appends for charts in Git, and helm-controller's digest of
// an artifact.
func versionOf(r helmv2.HelmRelease, version string) string {
	if r.Spec.ChartRef != nil || r.Spec.Chart != nil && r.Spec.Chart.Spec.SourceRef.Kind == sourcev1.GitRepositoryKind {
		version, _, _ = strings.Cut(version, "+")
	}
	return version
}

// drifted reports whether helm-controller has detected drift, which it looks for once per interval.
func drifted(r helmv2.HelmRelease) bool {
	return apimeta.IsStatusConditionTrue(r.Status.Conditions, helmv2.DriftedCondition)
}

// Heals reports whether Flux reverts manual changes of an application.
func (v View) Heals(k kustomizev1.Kustomization) bool { return heals(k, v.ReleasesOf(k)) }

// heals reports whether Flux reverts manual changes: always for a Kustomization, for a HelmRelease with drift correction.
func heals(k kustomizev1.Kustomization, releases []helmv2.HelmRelease) bool {
	return !k.Spec.Suspend && !slices.ContainsFunc(releases, func(r helmv2.HelmRelease) bool {
		return r.Spec.Suspend || r.GetDriftDetection().GetMode() != helmv2.DriftDetectionEnabled
	})
}

// messageLimit bounds messages, which may contain a whole Helm error.
const messageLimit = 200

// state returns the state of a Kustomization and the reason for it. A periodic reconciliation does not change the state.
func (v View) state(k kustomizev1.Kustomization) (sync, health, message string) {
	c := apimeta.FindStatusCondition(k.Status.Conditions, meta.ReadyCondition)
	switch {
	case k.DeletionTimestamp != nil:
		return outOfSync, progressing, "is being removed"
	case k.Spec.Suspend:
		return synced, suspended, "is suspended"
	case c == nil:
		return unknown, progressing, "is not reconciled yet"
	}
	sync, health = synced, Healthy
	if s, ok := v.sourceOf(k); ok && commit(applied(k)) != has(s) || applied(k) == "" {
		sync, message = outOfSync, "is not at the fetched commit"
	}
	if a, ok := v.artifactOf(k); ok && a.Status.Artifact != nil && applied(k) != a.Status.Artifact.Revision {
		sync, message = outOfSync, "is not at the latest artifact"
	}
	switch {
	case c.Status == metav1.ConditionTrue && k.Status.ObservedGeneration == k.Generation, c.Status == metav1.ConditionUnknown && again(k):
		return sync, Healthy, message
	case c.Status == metav1.ConditionTrue: // of a previous spec
		return outOfSync, progressing, "has a new spec"
	case c.Status == metav1.ConditionUnknown, passing(c.Reason):
		return sync, progressing, cmp.Or(reconciling(k.Status.Conditions), c.Message)
	case !healthFailed(k): // nothing was applied
		sync = outOfSync
	}
	return sync, Degraded, c.Message
}

// again reports whether a Kustomization that was ready is being reconciled.
func again(k kustomizev1.Kustomization) bool {
	latest := k.Status.History.Latest()
	return latest != nil && latest.LastReconciledStatus == meta.ReconciliationSucceededReason && k.Status.ObservedGeneration == k.Generation &&
		k.Status.LastAppliedRevision == k.Status.LastAttemptedRevision
}

// passing reports whether a failure is transient.
func passing(reason string) bool {
	return slices.Contains([]string{meta.DependencyNotReadyReason, meta.HealthCheckCanceledReason, "SourceNotReady", meta.ArtifactFailedReason}, reason)
}

// healthFailed reports whether a Kustomization was applied but its health checks failed.
func healthFailed(k kustomizev1.Kustomization) bool {
	c := apimeta.FindStatusCondition(k.Status.Conditions, meta.ReadyCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == meta.HealthCheckFailedReason
}

// applied returns the applied revision, healthy or not.
func applied(k kustomizev1.Kustomization) string {
	if healthFailed(k) || strings.HasPrefix(reconciling(k.Status.Conditions), "Running health checks") {
		return k.Status.LastAttemptedRevision
	}
	return k.Status.LastAppliedRevision
}

// reconciling returns what a controller is doing, or "".
func reconciling(conditions []metav1.Condition) string {
	if c := apimeta.FindStatusCondition(conditions, meta.ReconcilingCondition); c != nil && c.Status == metav1.ConditionTrue {
		return c.Message
	}
	return ""
}

// releaseHealth returns the health of a release and the reason for it.
func releaseHealth(r helmv2.HelmRelease) (health, message string) {
	c := apimeta.FindStatusCondition(r.Status.Conditions, meta.ReadyCondition)
	switch {
	case r.DeletionTimestamp != nil && c != nil && c.Reason == helmv2.UninstallFailedReason: // it is tried again
		return progressing, "is being removed: " + c.Message
	case r.DeletionTimestamp != nil:
		return progressing, "is being removed"
	case r.Spec.Suspend:
		return suspended, "release " + r.Name + " is suspended"
	case c == nil:
		return progressing, cmp.Or(reconciling(r.Status.Conditions), "release "+r.Name+" is not reconciled yet")
	case c.Status == metav1.ConditionFalse && !passing(c.Reason):
		return Degraded, c.Message
	case c.Status != metav1.ConditionTrue:
		return progressing, cmp.Or(c.Message, reconciling(r.Status.Conditions))
	case r.Status.ObservedGeneration != r.Generation:
		return progressing, "release " + r.Name + " has a new spec"
	}
	return Healthy, ""
}

// worse reports whether a health is worse than another.
func worse(health, than string) bool {
	order := []string{Healthy, suspended, progressing, Degraded}
	return slices.Index(order, health) > slices.Index(order, than)
}

// Applications returns all applications, sorted by name.
func (v View) Applications() []lab.Application {
	list := make([]lab.Application, 0, len(v.Apps))
	for name, k := range v.Apps {
		list = append(list, v.application(name, k))
	}
	slices.SortFunc(list, func(x, y lab.Application) int { return cmp.Compare(x.Name, y.Name) })
	return list
}
