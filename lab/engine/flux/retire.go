package flux

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

// tracesOf returns the traces of the lab's Flux in applied objects, and Helm's in those of releases.
func tracesOf(v reconciliation.View) kube.Traces {
	return kube.Traces{
		Labels:   []string{reconciliation.FromName, reconciliation.FromNamespace, reconciliation.FromRelease, reconciliation.FromReleaseNamespace},
		Shared:   []string{"meta.helm.sh/release-name", "meta.helm.sh/release-namespace"},
		Managers: managers,
		Origin:   v.Origin(), Except: isDefinition,
	}
}

// managers are the field managers of what Flux applies and creates.
var managers = []string{"helm-controller", "kustomize-controller"}

// Retire removes Flux; see engine.Retirer. Namespaces created by its releases are noted in the spokes, for their removal.
func (f *Flux) Retire(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) error {
	v, err := f.look(ctx)
	if err == nil {
		err = f.noteNamespaces(ctx, v)
	}
	if err == nil && f.home != "" {
		err = f.noteAtHome(ctx)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	clients := map[string]kube.Clients{}
	for _, name := range slices.Sorted(maps.Keys(spokes)) {
		if err := f.takeNote(ctx, name, spokes[name]); err != nil {
			return fmt.Errorf("cluster %s: %w", name, err)
		}
		if clients[name], err = f.connect(spokes[name]); err != nil {
			return fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	namespaces, err := f.namespaces(ctx)
	if err != nil {
		return err
	}
	rel, err := f.ownRelease(ctx)
	if err != nil {
		return err
	}
	return kube.Retirement{
		Title: "flux", Lab: f.lab, Namespace: f.namespace, Workloads: rel.Workloads, Access: f.access(), Traces: tracesOf(v), Applied: v.Applied,
		Attached: func(spoke string) bool { return spoke == "" && f.attached || f.guest != nil && f.guest(spoke) },
		Kinds:    f.kinds(), Installed: rel.Revision > 0 && !f.attached, Namespaces: namespaces,
		Uninstall: func(ctx context.Context) error {
			if _, err := f.clearMirrors(ctx); err != nil {
				return err
			}
			if _, err := f.dropKubeconfigs(ctx, "", nil); err != nil {
				return err
			}
			return f.removeRelease(ctx)
		},
		Leave: func(ctx context.Context, spoke string, c kube.Clients) error {
			return forgetReleases(ctx, c, v.ReleasesIn(spoke))
		},
	}.Run(ctx, f.hub, clients, p)
}

// ownRelease observes lab's release of Flux. Another installation, under the same name, counts as none.
func (f *Flux) ownRelease(ctx context.Context) (helm.State, error) {
	rel, err := f.release.Observe(ctx, releaseName)
	if err != nil || !f.attached || rel.Lab == f.lab {
		return rel, err
	}
	return helm.State{}, nil
}

// removeRelease uninstalls lab's release of Flux.
func (f *Flux) removeRelease(ctx context.Context) error {
	rel, err := f.ownRelease(ctx)
	if err != nil || rel.Revision == 0 && f.attached {
		return err
	}
	return f.release.Remove(ctx, releaseName)
}

// noteAtHome copies the note of a deleted namespace to lab's namespace in the cluster.
func (f *Flux) noteAtHome(ctx context.Context) error {
	own, err := f.hub.Dynamic.Resource(kube.Namespaces).Get(ctx, flux.NamespaceOf(f.home), metav1.GetOptions{})
	if err != nil {
		return err
	}
	return kube.NoteCreated(ctx, f.hub.Dynamic, kube.NotedNamespaces(own), managers)
}

// namespaces returns those that lab created for Flux and for clusters.
func (f *Flux) namespaces(ctx context.Context) ([]string, error) {
	list, err := f.hub.Dynamic.Resource(kube.Namespaces).List(ctx, metav1.ListOptions{LabelSelector: lab.LabelName + "=" + f.lab})
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	var names []string
	for _, ns := range list.Items {
		if _, ok := flux.ClusterOf(ns.GetName()); ok || ns.GetName() == f.namespace {
			names = append(names, ns.GetName())
		}
	}
	return names, nil
}

// forgetReleases removes Helm's records of releases, whose objects are unmanaged from now on.
func forgetReleases(ctx context.Context, c kube.Clients, releases []helmv2.HelmRelease) error {
	for _, r := range releases {
		secrets := c.Dynamic.Resource(kube.Secrets).Namespace(r.GetStorageNamespace())
		list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + r.GetReleaseName()})
		if err != nil {
			return fmt.Errorf("release %s: %w", r.GetReleaseName(), err)
		}
		for _, s := range list.Items {
			if !wrote(r, s.GetLabels()["version"]) {
				continue // before Flux took the release over
			}
			if err := secrets.Delete(ctx, s.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("release %s: %w", r.GetReleaseName(), err)
			}
		}
	}
	return nil
}

// wrote reports whether a revision is not older than the first one that Flux knows to be its own.
func wrote(r helmv2.HelmRelease, revision string) bool {
	number, err := strconv.Atoi(revision)
	return err == nil && slices.ContainsFunc(r.Status.History, func(s *helmv2.Snapshot) bool { return number >= s.Version })
}

// Retire removes every cluster's Flux; see engine.Retirer. The hub's is removed last, as it has the other registrations.
func (t *Fleet) Retire(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) error {
	group, within := errgroup.WithContext(ctx)
	for _, name := range slices.Sorted(maps.Keys(spokes)) {
		group.Go(func() error {
			f, err := t.at(name, spokes[name])
			if err != nil {
				return err
			}
			if err := f.Retire(within, nil, func(s string) { p("cluster " + name + ": " + s) }); err != nil {
				return fmt.Errorf("cluster %s: %w", name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return t.hub.Retire(ctx, nil, p)
}
