package flux

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

// guest installs Flux on a cluster that may already run one.
type guest struct{ *Flux }

// Install fails on a cluster with a Flux that lab did not install.
func (g guest) Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (bool, error) {
	own, others, err := g.kinds().Find(ctx, g.hub)
	if err != nil {
		return false, err
	}
	last, err := g.release.Observe(ctx, releaseName)
	if err != nil {
		return false, err
	}
	if len(others) > 0 && len(own) == 0 || last.Revision > 0 && last.Lab != g.lab {
		return false, &lab.Error{
			Exit: lab.ExitFailed, Code: "not_ours", Message: "cluster " + g.home + " already runs a Flux that lab did not install",
			Details: []string{"nothing was changed"}, Cure: "with spec.engine.shape: hub, the hub's Flux manages the cluster",
		}
	}
	return g.Flux.Install(ctx, chart, values, p)
}

// isDefinition reports whether a CustomResourceDefinition is Flux's.
func isDefinition(name string) bool {
	return strings.HasSuffix(name, ".toolkit.fluxcd.io") || strings.HasSuffix(name, ".source.extensions.fluxcd.io")
}

// kinds returns Flux's definitions in a cluster.
func (f *Flux) kinds() kube.Definitions {
	return kube.Definitions{Of: isDefinition, Release: releaseName, Namespace: f.namespace, Attached: f.attached}
}

// stopAndPrune stops a cluster's Flux and removes its objects. It returns the applications that remain after the time limit.
func (f *Flux) stopAndPrune(ctx context.Context, d engine.Departure, within time.Duration, p lab.Progress) ([]lab.Application, error) {
	if err := f.suspend(ctx, p); err != nil {
		return nil, err
	}
	v, err := f.look(ctx)
	if err == nil {
		err = f.noteNamespaces(ctx, v)
	}
	if err == nil && d.LivesOn {
		err = f.takeNote(ctx, d.Cluster, d.Spoke)
	}
	if err != nil {
		return nil, err
	}
	return f.empty(ctx, []string{d.Cluster}, within, p)
}

// uninstall removes Flux and lab's namespaces from an attached cluster, and describes what remains.
func (f *Flux) uninstall(ctx context.Context, cluster string, spoke *rest.Config, p lab.Progress) ([]string, error) {
	p("removing flux from cluster " + cluster)
	if _, err := f.extras().Apply(ctx, nil); err != nil {
		return nil, err
	}
	if err := f.clear(ctx); err != nil {
		return nil, err
	}
	if _, err := f.clearMirrors(ctx); err != nil {
		return nil, err
	}
	if err := f.removeRelease(ctx); err != nil {
		return nil, err
	}
	stays, _, err := f.kinds().Remove(ctx, f.hub)
	for i := range stays {
		stays[i] = "cluster " + cluster + ": " + stays[i]
	}
	if err != nil {
		return stays, err
	}
	for _, name := range []string{flux.NamespaceOf(cluster), f.namespace} {
		ns, err := f.hub.Dynamic.Resource(kube.Namespaces).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && ns.GetLabels()[lab.LabelName] != f.lab {
			continue
		}
		if err == nil {
			err = f.delete(ctx, kube.Namespaces, "", name)
		}
		if err != nil {
			return stays, kube.Wrap("namespace "+name, err)
		}
	}
	kept, err := f.removeAccess(ctx, cluster, spoke, p)
	return append(stays, kept...), err
}

// clear deletes lab's objects of Flux's kinds and those that its Kustomizations applied. Workloads remain.
func (f *Flux) clear(ctx context.Context) error {
	v, err := f.look(ctx)
	if err != nil {
		return err
	}
	mine := func(o *unstructured.Unstructured) bool {
		return o.GetLabels()[lab.LabelName] == f.lab || v.Made(o.GetLabels())
	}
	kinds := []schema.GroupVersionResource{receivers, gitRepositories, helmRepositories}
	for _, r := range kinds {
		list, err := f.hub.Dynamic.Resource(r).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // kind not installed
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.Resource, err)
		}
		for _, o := range list.Items {
			if o.GetLabels()[lab.LabelPart] == reconciliation.RootPart || !mine(&o) {
				continue
			}
			if err := f.delete(ctx, r, o.GetNamespace(), o.GetName()); err != nil {
				return err
			}
		}
	}
	if _, err := f.drop(ctx, repositoriesPart, []schema.GroupVersionResource{helmRepositories, kube.Secrets}, nil); err != nil {
		return err
	}
	// The roots determine what is the lab's.
	if _, err := f.drop(ctx, reconciliation.RootPart, []schema.GroupVersionResource{kustomizations, gitRepositories}, nil); err != nil {
		return err
	}
	for end := time.Now().Add(goneWithin); time.Now().Before(end); {
		leaving, err := f.leaving(ctx, append(kinds, kustomizations, helmCharts), mine)
		if err != nil || !leaving {
			return err
		}
		if err := lab.Sleep(ctx, lookEvery); err != nil {
			return err
		}
	}
	return f.dropTerminating(ctx, mine)
}

// leaving reports whether any of the lab's objects of these kinds are being deleted.
func (f *Flux) leaving(ctx context.Context, kinds []schema.GroupVersionResource, mine func(*unstructured.Unstructured) bool) (bool, error) {
	for _, r := range kinds {
		list, err := f.hub.Dynamic.Resource(r).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", r.Resource, err)
		}
		if slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil && mine(&o) }) {
			return true, nil
		}
	}
	return false, nil
}

// Unregister unregisters a cluster. If it answers, everything that its Flux applied is removed, and Flux itself if the cluster outlives the lab. The hub's
// registration is deleted last, so that an interrupted run is repeated.
func (t *Fleet) Unregister(ctx context.Context, d engine.Departure, p lab.Progress) ([]string, error) {
	have, err := t.hub.registrationSecret(ctx, d.Cluster)
	if have == nil || err != nil {
		return nil, err
	}
	if have.GetLabels()[lab.LabelName] != t.hub.lab {
		return nil, notOurs(d.Cluster)
	}
	var lines []string
	if d.Spoke != nil {
		if lines, err = t.depart(ctx, d, p); err != nil {
			return lines, fmt.Errorf("cluster %s: %w", d.Cluster, err)
		}
	}
	if err := t.hub.forget(ctx, d.Cluster); err != nil {
		return lines, fmt.Errorf("cluster %s: %w", d.Cluster, err)
	}
	return append(lines, "cluster "+d.Cluster+" is no longer registered"), nil
}

func (t *Fleet) depart(ctx context.Context, d engine.Departure, p lab.Progress) ([]string, error) {
	f, err := t.at(d.Cluster, d.Spoke)
	if err != nil {
		return nil, err
	}
	left, err := f.stopAndPrune(ctx, d, removeWithin, p)
	if err != nil {
		return nil, err
	}
	lines, err := f.abandon(ctx, d.Cluster, left)
	if err != nil || !d.LivesOn {
		return lines, err
	}
	kept, err := f.uninstall(ctx, d.Cluster, d.Spoke, p)
	return append(lines, kept...), err
}

// Withdraw removes from clusters everything that their Flux applied, then Flux itself, and describes what stays.
func (t *Fleet) Withdraw(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) ([]string, error) {
	var stays []string
	for _, name := range slices.Sorted(maps.Keys(spokes)) {
		f, err := t.at(name, spokes[name])
		if err != nil {
			return stays, err
		}
		left, err := f.stopAndPrune(ctx, engine.Departure{Cluster: name, Spoke: spokes[name], LivesOn: true}, withdrawWithin, p)
		if err == nil && len(left) > 0 {
			return stays, notWithdrawn(left)
		}
		if err == nil {
			var kept []string
			kept, err = f.uninstall(ctx, name, spokes[name], p)
			stays = append(stays, kept...)
		}
		if err != nil {
			return stays, fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	return stays, nil
}

// notWithdrawn returns the error for applications that were not removed in time.
func notWithdrawn(left []lab.Application) error {
	return &lab.Error{
		Exit: lab.ExitTimeout, Code: "withdraw",
		Message: fmt.Sprintf("application %s is not gone within %s: %s", left[0].Name, lab.WholeSeconds(withdrawWithin), cmp.Or(left[0].Message, "flux reports no error")),
		Cure:    "run lab down again to continue; lab down --abandon CLUSTER skips a cluster",
	}
}
