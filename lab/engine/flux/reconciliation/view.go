// Package reconciliation is what the controllers of one Flux are doing: its objects as they are, what is still pending for a want, and requests that make Flux
// reconcile what is due.
package reconciliation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

// Kinds of Flux's objects.
var (
	Kustomizations   = kustomizev1.GroupVersion.WithResource("kustomizations")
	HelmReleases     = helmv2.GroupVersion.WithResource("helmreleases")
	GitRepositories  = sourcev1.GroupVersion.WithResource("gitrepositories")
	HelmRepositories = sourcev1.GroupVersion.WithResource("helmrepositories")
	HelmCharts       = sourcev1.GroupVersion.WithResource("helmcharts")
)

const (
	// FromName and FromNamespace are labels set by kustomize-controller on applied objects: their Kustomization.
	FromName      = "kustomize.toolkit.fluxcd.io/name"
	FromNamespace = "kustomize.toolkit.fluxcd.io/namespace"

	// FromRelease and FromReleaseNamespace are labels set by helm-controller on the objects of releases.
	FromRelease          = "helm.toolkit.fluxcd.io/name"
	FromReleaseNamespace = "helm.toolkit.fluxcd.io/namespace"

	// kustomizationsNote is an annotation on a root; see NoteAll.
	kustomizationsNote = "lab.homelab/kustomizations"

	// RootPart is the lab.LabelPart of the roots.
	RootPart = "root"
)

// View is a snapshot of Flux's objects.
type View struct {
	Layers   []kustomizev1.Kustomization          // the roots, by name, then the other Kustomizations that apply Kustomizations
	Apps     map[string]kustomizev1.Kustomization // by application
	Releases map[types.NamespacedName]helmv2.HelmRelease

	lab     string
	scope   flux.Scope
	sources map[types.NamespacedName]sourcev1.GitRepository
	charts  map[types.NamespacedName]sourcev1.HelmChart

	generated
}

// Read reads all objects of the Flux of a lab once, dependents after their dependencies. A kind that is not installed has no objects.
func Read(ctx context.Context, client dynamic.Interface, name string, scope flux.Scope) (View, error) {
	v := View{
		lab: name, scope: scope,
		sources: map[types.NamespacedName]sourcev1.GitRepository{}, charts: map[types.NamespacedName]sourcev1.HelmChart{},
		Apps: map[string]kustomizev1.Kustomization{}, Releases: map[types.NamespacedName]helmv2.HelmRelease{},
	}
	err := listInto(ctx, client, GitRepositories, func(o sourcev1.GitRepository) { v.sources[keyOf(&o)] = o })
	if err == nil {
		err = listInto(ctx, client, HelmCharts, func(o sourcev1.HelmChart) { v.charts[keyOf(&o)] = o })
	}
	if err == nil {
		err = v.readGenerated(ctx, client)
	}
	var all []kustomizev1.Kustomization
	if err == nil {
		err = listInto(ctx, client, Kustomizations, func(o kustomizev1.Kustomization) { all = append(all, o) })
	}
	if err == nil {
		err = listInto(ctx, client, HelmReleases, func(o helmv2.HelmRelease) { v.Releases[keyOf(&o)] = o })
	}
	if v.scope.Rooted {
		all = v.rooted(all)
	}
	for _, o := range all {
		_, own := v.scope.Owner(o.Namespace)
		applied := o.Labels[FromName] != ""
		switch {
		case own, v.scope.Home != "" && applied && !v.IsRoot(o):
			v.Apps[v.nameOf(o)] = o
		case v.IsRoot(o) || applied:
			v.Layers = append(v.Layers, o)
		}
	}
	slices.SortFunc(v.Layers, func(x, y kustomizev1.Kustomization) int {
		return cmp.Or(-cmp.Compare(x.Labels[lab.LabelPart], y.Labels[lab.LabelPart]), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	for _, k := range v.Layers { // a root with releases is also an application
		if v.scope.Home != "" && len(v.ReleasesOf(k)) > 0 {
			v.Apps[v.nameOf(k)] = k
		}
	}
	for _, r := range v.Releases { // a release may outlive its deleted Kustomization for a while
		_, ok := v.scope.Owner(r.Namespace)
		gone := kustomizev1.Kustomization{ObjectMeta: metav1.ObjectMeta{
			Name: r.Labels[FromName], Namespace: r.Namespace, DeletionTimestamp: cmp.Or(r.DeletionTimestamp, &metav1.Time{}),
		}}
		name := v.nameOf(gone)
		kept := r.Annotations[flux.Prune] == "disabled" && r.DeletionTimestamp == nil
		if _, there := v.Apps[name]; ok && !there && !kept && r.Labels[FromNamespace] == r.Namespace {
			v.Apps[name] = gone
		}
	}
	return v, err
}

// assign returns the cluster of a Kustomization, and the name of its application there.
func (v View) assign(k kustomizev1.Kustomization) (cluster, application string) {
	var secrets []string
	if c := k.Spec.KubeConfig; c != nil && c.SecretRef != nil {
		secrets = append(secrets, c.SecretRef.Name)
	}
	if len(v.scope.Spokes) > 0 {
		for _, r := range v.ReleasesOf(k) {
			if c := r.Spec.KubeConfig; c != nil && c.SecretRef != nil {
				secrets = append(secrets, c.SecretRef.Name)
			}
		}
	}
	return v.scope.Application(k.Namespace, k.Name, secrets...)
}

func (v View) nameOf(k kustomizev1.Kustomization) string {
	return lab.ApplicationName(v.assign(k))
}

// ClusterOf returns the cluster of a Kustomization.
func (v View) ClusterOf(k kustomizev1.Kustomization) string {
	cluster, _ := v.assign(k)
	return cluster
}

// lost reports whether a release that a Kustomization applied is gone. If it was being deleted at the time, Flux only applies it again after its health checks have
// timed out.
func (v View) lost(k kustomizev1.Kustomization) bool {
	return k.Spec.KubeConfig == nil && slices.ContainsFunc(inventory(k), func(o kube.Object) bool {
		_, there := v.Releases[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}]
		return o.Group == HelmReleases.Group && o.Kind == helmv2.HelmReleaseKind && !there
	})
}

// ReleaseIn returns the cluster of a release's namespace or kubeconfig, or "".
func (v View) ReleaseIn(r helmv2.HelmRelease) string {
	if c := r.Spec.KubeConfig; c != nil && c.SecretRef != nil {
		if cluster := v.scope.ClusterOf(r.Namespace, c.SecretRef.Name); cluster != "" {
			return cluster
		}
	}
	cluster, _ := v.scope.Owner(r.Namespace)
	return cluster
}

// IsRoot reports whether a Kustomization is a root of the lab.
func (v View) IsRoot(k kustomizev1.Kustomization) bool {
	return k.Labels[lab.LabelPart] == RootPart && k.Labels[lab.LabelName] == v.lab
}

// HasRoot reports whether the lab has a root.
func (v View) HasRoot() bool { return len(v.Layers) > 0 && v.IsRoot(v.Layers[0]) }

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func listInto[T any](ctx context.Context, client dynamic.Interface, r schema.GroupVersionResource, add func(T)) error {
	list, err := client.Resource(r).List(ctx, metav1.ListOptions{})
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

// commit returns the Git commit in a revision, "main@sha1:4f2…"; empty for others.
func commit(revision string) string {
	_, hash, ok := strings.Cut(revision, "@sha1:")
	if !ok {
		hash, _ = strings.CutPrefix(revision, "sha1:") // the source references a commit
		if hash == revision {
			return ""
		}
	}
	return hash
}

// sourceOf returns the Git repository that a Kustomization applies; false for other sources, or none yet.
func (v View) sourceOf(k kustomizev1.Kustomization) (sourcev1.GitRepository, bool) {
	ref := k.Spec.SourceRef
	s, ok := v.sources[types.NamespacedName{Namespace: cmp.Or(ref.Namespace, k.Namespace), Name: ref.Name}]
	return s, ok && ref.Kind == sourcev1.GitRepositoryKind
}

// LogInWith returns the namespaces of the GitRepositories that name a Secret.
func (v View) LogInWith(secret string) []string {
	var namespaces []string
	for key, s := range v.sources {
		if s.Spec.SecretRef != nil && s.Spec.SecretRef.Name == secret {
			namespaces = append(namespaces, key.Namespace)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// wanted returns the commit that a source should be at: the estate's for the first root's source, the head of another known repository, else its present one.
func (v View) wanted(s sourcev1.GitRepository, want engine.Want) string {
	if len(v.Layers) > 0 && want.Revision != "" {
		if estate, ok := v.sourceOf(v.Layers[0]); ok && lab.RepositoryKey(estate.Spec.URL) == lab.RepositoryKey(s.Spec.URL) {
			return want.Revision
		}
	}
	for _, h := range want.Heads {
		named := slices.ContainsFunc(h.Addresses, func(a string) bool { return lab.RepositoryKey(a) == lab.RepositoryKey(s.Spec.URL) })
		if named && follows(s.Spec.Reference, h.Branch) {
			return h.Commit
		}
	}
	return has(s)
}

// follows reports whether a reference is to the default branch.
func follows(r *sourcev1.GitRepositoryRef, branch string) bool {
	if r == nil {
		return true
	}
	return r.Commit == "" && r.Tag == "" && r.SemVer == "" && (r.Name == "" || r.Name == "refs/heads/"+branch) && (r.Branch == "" || r.Branch == branch)
}

// has returns the last fetched commit of a source.
func has(s sourcev1.GitRepository) string {
	if s.Status.Artifact == nil {
		return ""
	}
	return commit(s.Status.Artifact.Revision)
}

// parent returns the Kustomization that applied an object; false for roots and orphans.
func (v View) parent(o metav1.Object) (kustomizev1.Kustomization, bool) {
	at := types.NamespacedName{Namespace: o.GetLabels()[FromNamespace], Name: o.GetLabels()[FromName]}
	i := slices.IndexFunc(v.Layers, func(l kustomizev1.Kustomization) bool { return keyOf(&l) == at })
	if at == keyOf(o) {
		return kustomizev1.Kustomization{}, false
	}
	if i >= 0 {
		return v.Layers[i], true
	}
	for _, k := range v.Apps {
		if keyOf(&k) == at && k.ResourceVersion != "" {
			return k, true
		}
	}
	return kustomizev1.Kustomization{}, false
}

// ReleasesOf returns the HelmReleases that a Kustomization applied, by name.
func (v View) ReleasesOf(k kustomizev1.Kustomization) []helmv2.HelmRelease {
	var list []helmv2.HelmRelease
	for _, r := range v.Releases {
		if r.Labels[FromName] == k.Name && r.Labels[FromNamespace] == k.Namespace {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(x, y helmv2.HelmRelease) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return list
}

// chartLags reports whether a release's chart was made from an older commit than its repository has.
func (v View) chartLags(r helmv2.HelmRelease, want engine.Want) bool {
	namespace, name, _ := strings.Cut(r.Status.HelmChart, "/")
	c, ok := v.charts[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok || c.Spec.SourceRef.Kind != sourcev1.GitRepositoryKind {
		return false
	}
	s, ok := v.sources[types.NamespacedName{Namespace: c.Namespace, Name: c.Spec.SourceRef.Name}]
	return ok && (has(s) != v.wanted(s, want) || commit(c.Status.ObservedSourceArtifactRevision) != has(s))
}
