package flux

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

// letGo removes the finalizers of Flux's objects that are being deleted while nobody is left to finish them; what they applied stays.
func (f *Flux) letGo(ctx context.Context) error {
	for _, r := range []schema.GroupVersionResource{kustomizations, helmReleases, gitRepositories, helmRepositories} {
		if err := f.release1(ctx, r, metav1.NamespaceAll, true); err != nil {
			return err
		}
	}
	return nil
}

// release1 removes the finalizers of a kind's objects in a namespace; with leaving, of those alone that are being deleted.
func (f *Flux) release1(ctx context.Context, r schema.GroupVersionResource, namespace string, leaving bool) error {
	list, err := f.hub.Dynamic.Resource(r).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Resource, err)
	}
	for _, o := range list.Items {
		if len(o.GetFinalizers()) == 0 || leaving && o.GetDeletionTimestamp() == nil {
			continue
		}
		_, err := f.hub.Dynamic.Resource(r).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: kube.FieldManager})
		if err != nil && !apierrors.IsNotFound(err) {
			return kube.Wrap(r.Resource+" "+o.GetName(), err)
		}
	}
	return nil
}

// Unregister makes Flux forget a cluster, and describes what that took. From one that answers, what Flux applied there is removed first; from one that is gone
// nothing can be, and its objects on the hub lose their finalizers.
func (f *Flux) Unregister(ctx context.Context, d engine.Departure, p lab.Progress) ([]string, error) {
	have, err := f.registrationSecret(ctx, d.Cluster)
	if have == nil || err != nil {
		return nil, err
	}
	ns := namespaceOf(d.Cluster)
	if have.GetLabels()[lab.LabelName] != f.lab {
		return nil, &lab.Error{
			Exit: lab.ExitFailed, Code: "not_ours", Message: "cluster " + d.Cluster + " was registered by someone else",
			Cure: "remove the namespace " + ns + " by hand if it is no longer wanted",
		}
	}
	var lines []string
	left, err := f.empty(ctx, d.Cluster, d.Spoke != nil, p)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", d.Cluster, err)
	}
	for _, name := range left {
		lines = append(lines, "application "+name+" is let go, what it made stays where it was")
	}
	if err := f.hub.Dynamic.Resource(kube.Namespaces).Delete(ctx, ns, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return lines, fmt.Errorf("cluster %s: %w", d.Cluster, err)
	}
	return append(lines, "cluster "+d.Cluster+" is no longer registered"), nil
}

// empty deletes the applications of a cluster with what they applied, if the cluster answers, and returns those that had to be let go.
func (f *Flux) empty(ctx context.Context, cluster string, answers bool, p lab.Progress) ([]string, error) {
	ns := namespaceOf(cluster)
	for _, r := range []schema.GroupVersionResource{kustomizations, helmReleases} {
		err := f.hub.Dynamic.Resource(r).Namespace(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	end := time.Now().Add(removeWithin)
	if !answers {
		end = time.Now()
	}
	told := ""
	for {
		v, err := f.look(ctx)
		if err != nil {
			return nil, err
		}
		var left []string
		for _, name := range slices.Sorted(maps.Keys(v.apps)) {
			if v.apps[name].Namespace == ns {
				left = append(left, name)
			}
		}
		held := len(left) > 0
		for at := range v.releases {
			held = held || at.Namespace == ns
		}
		if !held {
			return nil, nil
		}
		if time.Now().After(end) {
			for _, r := range []schema.GroupVersionResource{kustomizations, helmReleases} {
				if err := f.release1(ctx, r, ns, true); err != nil {
					return left, err
				}
			}
			return left, nil
		}
		if len(left) > 0 {
			if line := fmt.Sprintf("removing %d applications of %s: %s", len(left), cluster, left[0]); line != told {
				told = line
				p(line)
			}
		}
		if err := lab.Sleep(ctx, lookEvery); err != nil {
			return left, err
		}
	}
}

// Withdraw removes from clusters what Flux brought there, its own access included, and returns what stays. The roots are suspended first, so that nothing is
// applied any more.
func (f *Flux) Withdraw(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) ([]string, error) {
	v, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range v.roots {
		_, err := f.hub.Dynamic.Resource(kustomizations).Namespace(r.Namespace).Patch(ctx, r.Name, types.MergePatchType, []byte(`{"spec":{"suspend":true}}`),
			metav1.PatchOptions{FieldManager: kube.FieldManager})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, kube.Wrap("kustomization "+r.Name, err)
		}
	}
	var stays []string
	for _, name := range slices.Sorted(maps.Keys(spokes)) {
		left, err := f.empty(ctx, name, true, p)
		for _, l := range left {
			stays = append(stays, "cluster "+name+" keeps what "+l+" made there")
		}
		if err != nil {
			return stays, fmt.Errorf("cluster %s: %w", name, err)
		}
		// TODO(flux): the namespaces that HelmReleases created, and the account: kube.Leave, once argocd's removeAccess is there.
	}
	return stays, nil
}
