package flux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

const (
	removeWithin   = 90 * time.Second // uninstalling one cluster's releases
	withdrawWithin = 3 * time.Minute  // the same for all attached clusters
	goneWithin     = 5 * time.Second  // forgetting the applications of a removed cluster
	readWithin     = 30 * time.Second // until Flux has read Git, or stopped
)

// dropTerminating removes the finalizers of the lab's terminating objects of Flux, which no controller handles any more; applied objects stay.
func (f *Flux) dropTerminating(ctx context.Context, mine func(*unstructured.Unstructured) bool) error {
	for _, r := range []schema.GroupVersionResource{kustomizations, helmReleases, gitRepositories, helmRepositories, helmCharts, receivers} {
		if err := f.unfinalize(ctx, r, metav1.NamespaceAll, mine); err != nil {
			return err
		}
	}
	return nil
}

// dropIn is dropTerminating for the namespaces that lab created.
func (f *Flux) dropIn(ctx context.Context) error {
	own, err := f.namespaces(ctx)
	if err != nil {
		return err
	}
	return f.dropTerminating(ctx, func(o *unstructured.Unstructured) bool { return slices.Contains(own, o.GetNamespace()) })
}

// unfinalize removes the finalizers of the lab's terminating objects of a kind in a namespace.
func (f *Flux) unfinalize(ctx context.Context, r schema.GroupVersionResource, namespace string, mine func(*unstructured.Unstructured) bool) error {
	list, err := f.hub.Dynamic.Resource(r).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Resource, err)
	}
	for _, o := range list.Items {
		if len(o.GetFinalizers()) == 0 || o.GetDeletionTimestamp() == nil || !mine(&o) {
			continue
		}
		if err := f.patch(ctx, r, &o, `{"metadata":{"finalizers":null}}`); err != nil {
			return err
		}
	}
	return nil
}

// patch patches an object. A missing one is not an error.
func (f *Flux) patch(ctx context.Context, r schema.GroupVersionResource, o metav1.Object, patch string) error {
	_, err := f.hub.Dynamic.Resource(r).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: kube.FieldManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return kube.Wrap(r.Resource+" "+o.GetName(), err)
}

func (f *Flux) delete(ctx context.Context, r schema.GroupVersionResource, namespace, name string) error {
	err := f.hub.Dynamic.Resource(r).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return kube.Wrap(r.Resource+" "+name, err)
}

// Unregister unregisters a cluster and describes the changes. Git should not contain the cluster's Kustomizations any more: Flux reads it first, as a root that
// still has them would recreate them, and fail once their namespace is gone.
//
// If the cluster answers, everything that Flux applied to it is removed first, and if it outlives the lab also the releases' namespaces and Flux's account. If it is
// gone, its objects on the hub lose their finalizers. The registration is deleted last, so that an interrupted run is repeated.
func (f *Flux) Unregister(ctx context.Context, d engine.Departure, p lab.Progress) ([]string, error) {
	have, err := f.registrationSecret(ctx, d.Cluster)
	if have == nil || err != nil {
		return nil, err
	}
	if have.GetLabels()[lab.LabelName] != f.lab {
		return nil, notOurs(d.Cluster)
	}
	lines, err := f.clean(ctx, d, p)
	if err == nil {
		err = f.forget(ctx, d.Cluster)
	}
	if err != nil {
		return lines, fmt.Errorf("cluster %s: %w", d.Cluster, err)
	}
	return append(lines, "cluster "+d.Cluster+" is no longer registered"), nil
}

// forget deletes a cluster's registration.
func (f *Flux) forget(ctx context.Context, cluster string) error {
	ns := flux.NamespaceOf(cluster)
	if _, err := f.dropKubeconfigs(ctx, cluster, nil); err != nil {
		return err
	}
	if err := f.delete(ctx, kube.Namespaces, "", ns); err != nil {
		return err
	}
	return f.delete(ctx, kube.Secrets, ns, flux.ClusterKubeconfig) // before the namespace, which takes longer
}

func notOurs(cluster string) error {
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "not_ours", Message: "cluster " + cluster + " was registered by someone else",
		Cure: "remove the namespace " + flux.NamespaceOf(cluster) + " manually if it is no longer needed",
	}
}

// abandon removes the finalizers of a cluster's remaining applications and describes each.
func (f *Flux) abandon(ctx context.Context, cluster string, left []lab.Application) ([]string, error) {
	if len(left) == 0 {
		return nil, nil
	}
	v, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	mine := func(o *unstructured.Unstructured) bool { return !f.attached || v.Made(o.GetLabels()) }
	for _, r := range []schema.GroupVersionResource{kustomizations, helmReleases} {
		if err := f.unfinalize(ctx, r, flux.NamespaceOf(cluster), mine); err != nil {
			return nil, err
		}
	}
	if v, err = f.look(ctx); err != nil {
		return nil, err
	}
	const without = `{"metadata":{"finalizers":null}}`
	for _, k := range v.Apps {
		if v.ClusterOf(k) == cluster && k.DeletionTimestamp != nil && len(k.Finalizers) > 0 {
			err = errors.Join(err, f.patch(ctx, kustomizations, &k, without))
		}
	}
	for _, r := range v.Releases {
		if v.ReleaseIn(r) == cluster && r.DeletionTimestamp != nil && len(r.Finalizers) > 0 {
			err = errors.Join(err, f.patch(ctx, helmReleases, &r, without))
		}
	}
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, a := range left {
		lines = append(lines, "application "+a.Name+" is abandoned, its objects stay")
	}
	return lines, nil
}

// clean removes everything that Flux applied to a cluster, and describes what stays.
func (f *Flux) clean(ctx context.Context, d engine.Departure, p lab.Progress) ([]string, error) {
	v, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.noteNamespaces(ctx, v); err != nil {
		return nil, err
	}
	if err := f.readGit(ctx, p); err != nil {
		return nil, err
	}
	if d.Spoke != nil && d.LivesOn {
		if err := f.takeNote(ctx, d.Cluster, d.Spoke); err != nil {
			return nil, err
		}
	}
	within := removeWithin
	if d.Spoke == nil {
		within = goneWithin
	}
	left, err := f.empty(ctx, []string{d.Cluster}, within, p)
	if err != nil {
		return nil, err
	}
	lines, err := f.abandon(ctx, d.Cluster, left)
	if err != nil || d.Spoke == nil || !d.LivesOn {
		return lines, err
	}
	kept, err := f.removeAccess(ctx, d.Cluster, d.Spoke, p)
	return append(lines, kept...), err
}

// readGit waits until the sources and the layers have read Git, if possible.
func (f *Flux) readGit(ctx context.Context, p lab.Progress) error {
	within, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	want := engine.Want{Clusters: []string{}}
	ask := reconciliation.NewAsker(f.hub.Dynamic, want)
	for reported := false; ; {
		v, err := f.look(within)
		if err == nil {
			left := slices.DeleteFunc(v.Judge(want, ask, nil), func(p reconciliation.Pending) bool { return !p.Layer })
			if len(left) == 0 || left[0].Application == reconciliation.NoRoot || v.Layers[0].Spec.Suspend {
				return nil
			}
			if !reported {
				reported = true
				p("making flux read git")
			}
			err = ask.Look(within, v)
		}
		if lab.Sleep(within, lookEvery) != nil {
			return cmp.Or(ctx.Err(), transient(err))
		}
	}
}

// transient drops an error caused by lab's own deadline.
func transient(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// empty deletes the applications of clusters with everything they applied, and returns those that remain after the time limit.
func (f *Flux) empty(ctx context.Context, clusters []string, within time.Duration, p lab.Progress) ([]lab.Application, error) {
	asked := map[types.UID]bool{}
	reported := ""
	for end := time.Now().Add(within); ; {
		v, err := f.look(ctx)
		if err != nil {
			return nil, err
		}
		v.Keep(clusters)
		for _, name := range slices.Sorted(maps.Keys(v.Apps)) {
			k := v.Apps[name]
			if err := f.remove(ctx, kustomizations, &k, `{"spec":{"suspend":false,"prune":true,"deletionPolicy":"Delete"}}`, asked); err != nil {
				return nil, err
			}
		}
		for _, r := range v.Releases {
			if v.Applies(r) {
				continue // removed with its Kustomization
			}
			if err := f.remove(ctx, helmReleases, &r, `{"spec":{"suspend":false}}`, asked); err != nil {
				return nil, err
			}
		}
		left := v.Applications()
		if len(left) == 0 && len(v.Releases) == 0 {
			return nil, nil
		}
		for _, r := range v.Releases { // pruning skips suspended releases
			if r.Spec.Suspend {
				if err := f.patch(ctx, helmReleases, &r, `{"spec":{"suspend":false}}`); err != nil {
					return nil, err
				}
			}
		}
		if len(left) == 0 {
			left = append(left, lab.Application{Name: slices.SortedFunc(maps.Keys(v.Releases), compareKeys)[0].Name})
		}
		if !time.Now().Before(end) {
			return left, nil
		}
		if line := fmt.Sprintf("removing %d applications: %s", len(left), left[0].Name); line != reported {
			reported = line
			p(line)
		}
		if err := lab.Sleep(ctx, lookEvery); err != nil {
			return left, err
		}
	}
}

func compareKeys(x, y types.NamespacedName) int {
	return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
}

// remove patches and deletes an object, once.
func (f *Flux) remove(ctx context.Context, r schema.GroupVersionResource, o metav1.Object, patch string, asked map[types.UID]bool) error {
	if o.GetDeletionTimestamp() != nil || asked[o.GetUID()] {
		return nil
	}
	if err := f.patch(ctx, r, o, patch); err != nil {
		return err
	}
	asked[o.GetUID()] = true
	return f.delete(ctx, r, o.GetNamespace(), o.GetName())
}

// noteNamespaces notes on the hub the namespaces that releases create in each cluster, as they outlive the releases.
func (f *Flux) noteNamespaces(ctx context.Context, v reconciliation.View) error {
	made := map[string][]string{}
	for _, r := range v.Releases {
		cluster := v.ReleaseIn(r)
		if in := r.Spec.TargetNamespace; cluster != "" && in != "" && r.Spec.Install != nil && r.Spec.Install.CreateNamespace {
			made[cluster] = append(made[cluster], in)
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(made)) {
		if err := kube.NoteNamespaces(ctx, f.hub.Dynamic, flux.NamespaceOf(cluster), made[cluster]); err != nil {
			return err
		}
	}
	return nil
}

// takeNote copies the note of a cluster into the cluster itself.
func (f *Flux) takeNote(ctx context.Context, cluster string, spoke *rest.Config) error {
	own, err := f.hub.Dynamic.Resource(kube.Namespaces).Get(ctx, flux.NamespaceOf(cluster), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c, err := f.connect(spoke)
	if err != nil {
		return err
	}
	return kube.NoteCreated(ctx, c.Dynamic, kube.NotedNamespaces(own), managers)
}

// removeAccess deletes from a spoke the empty noted namespaces, and Flux's account. It describes what stays.
func (f *Flux) removeAccess(ctx context.Context, cluster string, spoke *rest.Config, p lab.Progress) ([]string, error) {
	c, err := f.connect(spoke)
	if err != nil {
		return nil, err
	}
	kept, err := f.access().Remove(ctx, c, p)
	for i := range kept {
		kept[i] = "cluster " + cluster + ": " + kept[i]
	}
	return kept, err
}
