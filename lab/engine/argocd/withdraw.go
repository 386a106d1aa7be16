package argocd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

const (
	withdrawWithin = 3 * time.Minute  // cascading deletion of the Applications of all attached clusters
	emptyWithin    = 30 * time.Second // until the deleted pods have ended
	withdrawLook   = 500 * time.Millisecond

	resourcesFinalizer = "resources-finalizer.argocd.argoproj.io"
)

// Withdraw removes from clusters what Argo CD deployed there. It first deletes, without their objects, all Applications with other destinations, including
// roots, and all ApplicationSets, so that nothing is generated again. Applications with the clusters as destination are then deleted with all their objects,
// followed by empty namespaces created for them, and Argo CD's access. It describes what stays.
func (a *ArgoCD) Withdraw(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) ([]string, error) {
	regs, err := a.registrations(ctx)
	if err != nil {
		return nil, err
	}
	servers := map[string]string{} // server -> name of these clusters
	for _, r := range regs {
		if spokes[r.Cluster] != nil {
			servers[r.Server] = r.Cluster
		}
	}
	aim := func(app application) string {
		if name := app.Spec.Destination.Name; spokes[name] != nil {
			return name
		}
		return servers[app.Spec.Destination.Server]
	}
	brought, err := a.deleteGenerators(ctx, aim, p)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(spokes))
	for _, name := range names {
		var here []string
		for app := range brought {
			if aim(brought[app]) == name {
				here = append(here, app)
			}
		}
		if err := a.noteNamespaces(ctx, spokes[name], namespacesOf(view{apps: brought}, here)); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	if err := a.deleteApplications(ctx, brought, servers, p); err != nil {
		return nil, err
	}
	var stays []string
	for _, name := range names {
		kept, err := a.removeAccess(ctx, spokes[name], p)
		for _, k := range kept {
			stays = append(stays, "cluster "+name+": "+k)
		}
		if err != nil {
			return stays, fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	return stays, nil
}

// namespacesOf returns the namespaces that Argo CD creates for Applications.
func namespacesOf(v view, apps []string) []string {
	var list []string
	for _, name := range apps {
		spec := v.apps[name].Spec
		if slices.Contains(spec.SyncPolicy.SyncOptions, "CreateNamespace=true") && spec.Destination.Namespace != "" {
			list = append(list, spec.Destination.Namespace)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// deleteGenerators deletes whatever generates Applications, and returns those deployed to the withdrawn clusters.
func (a *ArgoCD) deleteGenerators(ctx context.Context, aim func(application) string, p lab.Progress) (map[string]application, error) {
	within, cancel := context.WithTimeoutCause(ctx, withdrawWithin, fmt.Errorf("ApplicationSets are not gone within %s", withdrawWithin))
	defer cancel()
	p("taking the ApplicationSets away")
	orphan := metav1.DeletePropagationOrphan
	for {
		v, err := a.readView(within)
		if apierrors.IsNotFound(errors.Unwrap(err)) {
			return nil, nil // Argo CD is not installed
		}
		if err != nil {
			return nil, err
		}
		makers := 0
		for _, name := range sortedKeys(v.apps) { // before the sets, which a root would recreate
			if aim(v.apps[name]) != "" {
				continue
			}
			makers++
			if err := a.dropFinalizers(within, applications, name); err != nil {
				return nil, err
			}
			if err := a.hub.Dynamic.Resource(applications).Namespace(a.namespace).Delete(within, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return nil, err
			}
		}
		for _, name := range sortedKeys(v.sets) {
			makers++
			err := a.hub.Dynamic.Resource(applicationSets).Namespace(a.namespace).Delete(within, name, metav1.DeleteOptions{PropagationPolicy: &orphan})
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, err
			}
		}
		if makers == 0 {
			return v.apps, nil
		}
		if err := lab.Sleep(within, withdrawLook); err != nil {
			return nil, err
		}
	}
}

// deleteApplications deletes Applications with all their objects, and waits until they are gone.
func (a *ArgoCD) deleteApplications(ctx context.Context, brought map[string]application, servers map[string]string, p lab.Progress) error {
	if len(brought) == 0 {
		return nil
	}
	cascade := []byte(`{"metadata":{"finalizers":["` + resourcesFinalizer + `"]}}`)
	apps := a.hub.Dynamic.Resource(applications).Namespace(a.namespace)
	for _, name := range sortedKeys(brought) {
		if app := brought[name]; !app.terminating() {
			if _, err := apps.Patch(ctx, name, types.MergePatchType, cascade, metav1.PatchOptions{FieldManager: kube.FieldManager}); err != nil && !apierrors.IsNotFound(err) {
				return kube.Wrap("application "+name, err)
			}
		}
		if err := apps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return kube.Wrap("application "+name, err)
		}
	}
	want := engine.Want{Changed: true}
	nudge := newNudger(a, want)
	end, reported := time.Now().Add(withdrawWithin), ""
	for {
		v, err := a.snapshot(ctx, want)
		if err != nil {
			return err
		}
		v.names.Clusters = servers
		left := sortedKeys(v.apps)
		if left = slices.DeleteFunc(left, func(name string) bool { _, of := brought[name]; return !of }); len(left) == 0 {
			return nil
		}
		if line := fmt.Sprintf("removing %d applications: %s", len(left), left[0]); line != reported {
			reported = line
			p(line)
		}
		if time.Now().After(end) {
			return &lab.Error{
				Exit: lab.ExitTimeout, Code: "withdraw",
				Message: fmt.Sprintf("application %s is not gone within %s: %s", left[0], withdrawWithin, errorOf(v.apps[left[0]])),
				Cure:    "lab down goes on from here; lab down --abandon CLUSTER leaves one as it is",
			}
		}
		if err := nudge.unstick(ctx, v, left); err != nil {
			return err
		}
		if err := lab.Sleep(ctx, withdrawLook); err != nil {
			return err
		}
	}
}

// errorOf returns Argo CD's error about an Application.
func errorOf(a application) string {
	var said []string
	for _, c := range a.Status.Conditions {
		said = append(said, c.Message)
	}
	if len(said) == 0 {
		return "Argo CD says nothing of why"
	}
	return strings.Join(said, "; ")
}

// namespacesNote is the annotation on lab's namespace in a spoke that lists the namespaces created for Applications, as the Applications are deleted first.
const namespacesNote = "lab.homelab/namespaces"

// noteNamespaces adds to the annotation.
func (a *ArgoCD) noteNamespaces(ctx context.Context, spoke *rest.Config, names []string) error {
	c, err := a.connect(spoke)
	if err != nil {
		return err
	}
	own, err := c.Dynamic.Resource(namespaces).Get(ctx, kube.SpokeNamespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // nothing records later namespaces
	}
	if err != nil {
		return err
	}
	all := append(strings.Fields(own.GetAnnotations()[namespacesNote]), names...)
	slices.Sort(all)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{namespacesNote: strings.Join(slices.Compact(all), " ")}}})
	if err != nil {
		return err
	}
	_, err = c.Dynamic.Resource(namespaces).Patch(ctx, kube.SpokeNamespace, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kube.FieldManager})
	return kube.Wrap("namespace "+kube.SpokeNamespace, err)
}

// removeAccess deletes from a spoke the empty namespaces created for Applications, and then Argo CD's access. It describes what stays.
func (a *ArgoCD) removeAccess(ctx context.Context, spoke *rest.Config, p lab.Progress) ([]string, error) {
	c, err := a.connect(spoke)
	if err != nil {
		return nil, err
	}
	own, err := c.Dynamic.Resource(namespaces).Get(ctx, kube.SpokeNamespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil // lab's namespace goes last
	case err != nil:
		return nil, err
	case own.GetLabels()[lab.LabelName] != a.lab:
		return []string{"namespace " + kube.SpokeNamespace + " stays, as it is another lab's"}, nil
	}
	kept, err := removeNamespaces(ctx, c, own, p)
	if err != nil {
		return kept, err
	}
	binding, err := c.Dynamic.Resource(roleBindings).Get(ctx, a.access().Binding(), metav1.GetOptions{})
	if err == nil && binding.GetLabels()[lab.LabelName] == a.lab {
		err = c.Dynamic.Resource(roleBindings).Delete(ctx, a.access().Binding(), metav1.DeleteOptions{})
	}
	if err == nil || apierrors.IsNotFound(err) {
		err = c.Dynamic.Resource(namespaces).Delete(ctx, kube.SpokeNamespace, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return kept, err
	}
	return kept, nil
}

// removeNamespaces deletes the namespaces of the note that came with lab and hold nothing, and says of the others what is in them.
func removeNamespaces(ctx context.Context, c kube.Clients, own *unstructured.Unstructured, p lab.Progress) ([]string, error) {
	names := strings.Fields(own.GetAnnotations()[namespacesNote])
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
		ns, err := c.Dynamic.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
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
		err = c.Dynamic.Resource(namespaces).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return kept, kube.Wrap("namespace "+name, err)
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
		p("waiting for " + held[0] + " to go from namespace " + namespace)
		if err := lab.Sleep(ctx, withdrawLook); err != nil {
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

// namespaced lists the kinds of objects that a namespace of a cluster can hold. What an API service that does not answer would tell is left out.
func namespaced(c kube.Clients) ([]schema.GroupVersionResource, error) {
	lists, err := discovery.ServerPreferredNamespacedResources(c.Typed.Discovery())
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
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") && r.Name != "events" {
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
