package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
)

const (
	emptyWithin = 30 * time.Second // until deleted pods have ended
	emptyLook   = 500 * time.Millisecond
)

// namespacesNote is the annotation on a namespace that lists the namespaces created for applications, as these are deleted first.
const namespacesNote = "lab.homelab/namespaces"

// NoteNamespaces adds the namespaces created for applications to a namespace's note, for Access.Remove to that of SpokeNamespace in a spoke.
func NoteNamespaces(ctx context.Context, client dynamic.Interface, in string, names []string) error {
	own, err := client.Resource(Namespaces).Get(ctx, in, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // nothing records later namespaces
	}
	if err != nil {
		return err
	}
	noted := NotedNamespaces(own)
	all := slices.Concat(noted, names)
	slices.Sort(all)
	if all = slices.Compact(all); slices.Equal(all, noted) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{namespacesNote: strings.Join(all, " ")}}})
	if err != nil {
		return err
	}
	_, err = client.Resource(Namespaces).Patch(ctx, in, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return Wrap("namespace "+in, err)
}

// NoteCreated adds to the note in a spoke those of the namespaces that an engine created for applications, according to their field managers.
func NoteCreated(ctx context.Context, spoke dynamic.Interface, names, managers []string) error {
	var created []string
	for _, name := range names {
		ns, err := spoke.Resource(Namespaces).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return Wrap("namespace "+name, err)
		}
		if slices.ContainsFunc(ns.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return slices.Contains(managers, e.Manager) }) {
			created = append(created, name)
		}
	}
	return NoteNamespaces(ctx, spoke, SpokeNamespace, created)
}

// NotedNamespaces returns the note of a namespace, sorted.
func NotedNamespaces(o *unstructured.Unstructured) []string {
	return strings.Fields(o.GetAnnotations()[namespacesNote])
}

// Remove deletes from a spoke the empty noted namespaces, then the account and lab's namespace. It describes what stays.
func (x Access) Remove(ctx context.Context, c Clients, p lab.Progress) ([]string, error) {
	own, err := c.Dynamic.Resource(Namespaces).Get(ctx, SpokeNamespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil // lab's namespace is deleted last
	case err != nil:
		return nil, err
	case any(own.GetLabels()[lab.LabelName]) != x.Labels[lab.LabelName]:
		return []string{"namespace " + SpokeNamespace + " stays, as it belongs to another lab"}, nil
	}
	kept, err := removeNamespaces(ctx, c, own, p)
	if err != nil {
		return kept, err
	}
	binding, err := c.Dynamic.Resource(ClusterRoleBindings).Get(ctx, x.Binding(), metav1.GetOptions{})
	if err == nil && any(binding.GetLabels()[lab.LabelName]) == x.Labels[lab.LabelName] {
		err = c.Dynamic.Resource(ClusterRoleBindings).Delete(ctx, x.Binding(), metav1.DeleteOptions{})
	}
	if err == nil || apierrors.IsNotFound(err) {
		err = c.Dynamic.Resource(Namespaces).Delete(ctx, SpokeNamespace, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return kept, err
	}
	return kept, nil
}

// removeNamespaces deletes empty noted namespaces that lab created, and describes the content of the others.
func removeNamespaces(ctx context.Context, c Clients, own *unstructured.Unstructured, p lab.Progress) ([]string, error) {
	names := NotedNamespaces(own)
	if len(names) == 0 {
		return nil, nil
	}
	kinds, err := namespaced(c)
	if err != nil {
		return nil, err
	}
	came := own.GetCreationTimestamp()
	var kept []string
	for _, name := range names {
		ns, err := c.Dynamic.Resource(Namespaces).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return kept, err
		}
		if at := ns.GetCreationTimestamp(); at.Before(&came) {
			continue // it existed before
		}
		held, err := waitEmpty(ctx, c.Dynamic, kinds, name, p)
		if err != nil {
			return kept, err
		}
		if len(held) > 0 {
			kept = append(kept, fmt.Sprintf("namespace %s stays, with %s", name, summary(held)))
			continue
		}
		uid := ns.GetUID()
		err = c.Dynamic.Resource(Namespaces).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return kept, Wrap("namespace "+name, err)
		}
	}
	return kept, nil
}

// waitEmpty waits for terminating objects of a namespace, and returns the remaining ones.
func waitEmpty(ctx context.Context, in dynamic.Interface, kinds []schema.GroupVersionResource, namespace string, p lab.Progress) ([]string, error) {
	for end := time.Now().Add(emptyWithin); ; {
		held, err := listObjects(ctx, in, kinds, namespace)
		if err != nil || len(held) == 0 || time.Now().After(end) {
			return held, err
		}
		p("waiting for the removal of " + held[0] + " in namespace " + namespace)
		if err := lab.Sleep(ctx, emptyLook); err != nil {
			return held, err
		}
	}
}

func summary(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return fmt.Sprintf("%s and %d more", list[0], len(list)-1)
}

// namespaced returns a cluster's namespaced kinds. API services that do not answer are skipped.
func namespaced(c Clients) ([]schema.GroupVersionResource, error) {
	lists, err := discovery.ServerPreferredNamespacedResources(c.Typed.Discovery())
	return kindsWith(lists, err, "list", "delete")
}

// resources returns a cluster's kinds with these verbs. API services that do not answer are skipped.
func resources(c Clients, verbs ...string) ([]schema.GroupVersionResource, error) {
	lists, err := discovery.ServerPreferredResources(c.Typed.Discovery())
	return kindsWith(lists, err, verbs...)
}

func kindsWith(lists []*metav1.APIResourceList, err error, verbs ...string) ([]schema.GroupVersionResource, error) {
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, err
	}
	var kinds []schema.GroupVersionResource
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range l.APIResources {
			if sets.New(r.Verbs...).HasAll(verbs...) && r.Name != "events" {
				kinds = append(kinds, gv.WithResource(r.Name))
			}
		}
	}
	return kinds, nil
}

// listObjects lists the objects in a namespace, except those that Kubernetes creates in each.
func listObjects(ctx context.Context, in dynamic.Interface, kinds []schema.GroupVersionResource, namespace string) ([]string, error) {
	var held []string
	for _, k := range kinds {
		list, err := in.Resource(k).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 10})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", k.Resource, namespace, err)
		}
		for _, o := range list.Items {
			if k.Resource == "configmaps" && o.GetName() == "kube-root-ca.crt" || k.Resource == "serviceaccounts" && o.GetName() == "default" {
				continue
			}
			held = append(held, strings.ToLower(o.GetKind())+" "+o.GetName())
		}
	}
	return held, nil
}
