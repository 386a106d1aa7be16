package flux

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
	"homelab/lab/engine"
)

// view is everything that was seen at one moment.
type view struct {
	sources  []sourcev1.GitRepository
	roots    []kustomizev1.Kustomization
	apps     map[string]kustomizev1.Kustomization // by application
	releases map[types.NamespacedName]helmv2.HelmRelease
}

// look reads everything once. A kind that is not there yet has no objects.
func (f *Flux) look(ctx context.Context) (view, error) {
	v := view{apps: map[string]kustomizev1.Kustomization{}, releases: map[types.NamespacedName]helmv2.HelmRelease{}}
	err := listInto(ctx, f, gitRepositories, func(o sourcev1.GitRepository) { v.sources = append(v.sources, o) })
	if err == nil {
		err = listInto(ctx, f, kustomizations, func(o kustomizev1.Kustomization) {
			if cluster, ok := clusterOf(o.Namespace); ok {
				v.apps[cluster+"-"+o.Name] = o
			} else if o.Labels[lab.LabelPart] == rootPart && o.Labels[lab.LabelName] == f.lab {
				v.roots = append(v.roots, o)
			}
		})
	}
	if err == nil {
		err = listInto(ctx, f, helmReleases, func(o helmv2.HelmRelease) {
			v.releases[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o
		})
	}
	return v, err
}

func listInto[T any](ctx context.Context, f *Flux, r schema.GroupVersionResource, add func(T)) error {
	list, err := f.hub.Dynamic.Resource(r).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Resource, err)
	}
	for i := range list.Items {
		o, err := parse[T](&list.Items[i])
		if err != nil {
			return err
		}
		add(o)
	}
	return nil
}

func parse[T any](u *unstructured.Unstructured) (o T, err error) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o); err != nil {
		return o, fmt.Errorf("%s %s: %w", strings.ToLower(u.GetKind()), u.GetName(), err)
	}
	return o, nil
}

// commit is the Git commit of a revision, "main@sha1:4f2…"; empty for others.
func commit(revision string) string {
	_, hash, ok := strings.Cut(revision, "@sha1:")
	if !ok {
		return ""
	}
	return hash
}

// releasesOf returns the HelmReleases that a Kustomization applied on the hub.
func (v view) releasesOf(k kustomizev1.Kustomization) []helmv2.HelmRelease {
	if k.Status.Inventory == nil {
		return nil
	}
	var list []helmv2.HelmRelease
	for _, e := range k.Status.Inventory.Entries { // NAMESPACE_NAME_GROUP_KIND
		parts := strings.Split(e.ID, "_")
		if len(parts) != 4 || parts[3] != helmv2.HelmReleaseKind {
			continue
		}
		if r, ok := v.releases[types.NamespacedName{Namespace: parts[0], Name: parts[1]}]; ok {
			list = append(list, r)
		}
	}
	return list
}

// The words of lab for sync and health, which are Argo CD's.
const (
	synced, outOfSync, unknown = "Synced", "OutOfSync", "Unknown"

	healthy, progressing, degraded, suspended = "Healthy", "Progressing", "Degraded", "Suspended"
)

// application describes a Kustomization of a cluster in lab's words.
func (v view) application(name string, k kustomizev1.Kustomization) lab.Application {
	cluster, _ := clusterOf(k.Namespace)
	a := lab.Application{
		Name: name, Addon: k.Name, Cluster: cluster, Sync: synced, Health: healthy, Revision: commit(k.Status.LastAppliedRevision), Namespace: k.Spec.TargetNamespace,
	}
	ready := apimeta.FindStatusCondition(k.Status.Conditions, meta.ReadyCondition)
	switch {
	case k.Spec.Suspend:
		a.Health = suspended
	case ready == nil:
		a.Sync, a.Health = unknown, progressing
	case k.Status.LastAttemptedRevision != k.Status.LastAppliedRevision, k.Status.ObservedGeneration != k.Generation:
		a.Sync = outOfSync
	}
	if ready != nil && !k.Spec.Suspend {
		switch {
		case ready.Status == metav1.ConditionTrue:
		case ready.Status == metav1.ConditionUnknown, ready.Reason == meta.DependencyNotReadyReason:
			a.Health, a.Message = progressing, ready.Message
		default:
			a.Health, a.Message = degraded, ready.Message
		}
	}
	for _, r := range v.releasesOf(k) {
		if latest := r.Status.History.Latest(); latest != nil {
			a.Version = latest.ChartVersion
		}
		a.Namespace = cmp.Or(r.Spec.TargetNamespace, a.Namespace)
		ready := apimeta.FindStatusCondition(r.Status.Conditions, meta.ReadyCondition)
		switch {
		case ready == nil, r.Status.ObservedGeneration != r.Generation, ready.Status == metav1.ConditionUnknown:
			if a.Health == healthy {
				a.Health = progressing
			}
		case ready.Status == metav1.ConditionFalse:
			a.Health, a.Message = degraded, ready.Message
		}
	}
	if a.Version == "" && a.Revision != "" {
		a.Version = a.Revision[:min(7, len(a.Revision))]
	}
	if a.Converged() {
		a.Message = ""
	}
	return a
}

// applications describes all of them, by name.
func (v view) applications() []lab.Application {
	list := make([]lab.Application, 0, len(v.apps))
	for name, k := range v.apps {
		list = append(list, v.application(name, k))
	}
	slices.SortFunc(list, func(x, y lab.Application) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// Applications lists what runs in the clusters.
func (f *Flux) Applications(ctx context.Context) ([]lab.Application, error) {
	v, err := f.look(ctx)
	return v.applications(), err
}

// rootCommit is the commit that the first root last applied.
func (v view) rootCommit() string {
	if len(v.roots) == 0 {
		return ""
	}
	return commit(v.roots[0].Status.LastAppliedRevision)
}

// Standing returns what Flux has of the lab, from one look.
func (f *Flux) Standing(ctx context.Context) (engine.Standing, error) {
	v, err := f.look(ctx)
	if err != nil {
		return engine.Standing{}, err
	}
	apps := v.applications()
	s := engine.Standing{Applications: apps, Root: len(v.roots) > 0, Revision: v.rootCommit()}
	s.Settled = s.Root && len(v.judge(engine.Want{Revision: s.Revision}, "", nil)) == 0
	s.Behind = func(want engine.Want, registrations []engine.Registered) []string {
		behind := []string{}
		for _, p := range v.judge(engine.Want{Revision: want.Revision, Clusters: want.Clusters, LeftOut: want.LeftOut, Expected: want.Expected, Since: want.Since}, "", registrations) {
			if p.Sync == outOfSync {
				behind = append(behind, p.Application)
			}
		}
		return behind
	}
	return s, nil
}
