package argocd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

const (
	withdrawWithin = 3 * time.Minute // cascading deletion of the Applications of all attached clusters
	withdrawLook   = 500 * time.Millisecond
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

// deleteGenerators deletes the generators of Applications, and returns those deployed to the withdrawn clusters.
func (a *ArgoCD) deleteGenerators(ctx context.Context, aim func(application) string, p lab.Progress) (map[string]application, error) {
	within, cancel := context.WithTimeoutCause(ctx, withdrawWithin, fmt.Errorf("ApplicationSets are not gone within %s", withdrawWithin))
	defer cancel()
	p("deleting the ApplicationSets")
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
	cascade := []byte(`{"metadata":{"finalizers":["` + argo.Finalizer + `"]}}`)
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
				Cure:    "run lab down again to continue; lab down --abandon CLUSTER skips a cluster",
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
	var messages []string
	for _, c := range a.Status.Conditions {
		messages = append(messages, c.Message)
	}
	if len(messages) == 0 {
		return "Argo CD reports no error"
	}
	return strings.Join(messages, "; ")
}

// noteNamespaces notes in a spoke those of namespaces that Argo CD created.
func (a *ArgoCD) noteNamespaces(ctx context.Context, spoke *rest.Config, names []string) error {
	c, err := a.connect(spoke)
	if err != nil {
		return err
	}
	return kube.NoteCreated(ctx, c.Dynamic, names, managers)
}

// removeAccess deletes from a spoke the empty noted namespaces, and Argo CD's access. It describes what stays.
func (a *ArgoCD) removeAccess(ctx context.Context, spoke *rest.Config, p lab.Progress) ([]string, error) {
	c, err := a.connect(spoke)
	if err != nil {
		return nil, err
	}
	return a.access().Remove(ctx, c, p)
}
