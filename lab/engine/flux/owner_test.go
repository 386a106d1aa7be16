package flux

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

// appliedToEdge is what the release web of the lab's Flux applied to the attached cluster.
const appliedToEdge = `
apiVersion: v1
kind: Namespace
metadata: {name: web, creationTimestamp: "2026-11-02T00:00:00Z", annotations: {by: engine}, managedFields: [{manager: helm-controller}]}
---
apiVersion: v1
kind: Secret
metadata: {name: sh.helm.release.v1.web.v1, namespace: cluster-edge, labels: {owner: helm, name: web-web, version: "1"}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: web
  uid: lab-web
  creationTimestamp: "2026-11-02T00:00:00Z"
  labels: {helm.toolkit.fluxcd.io/name: web, helm.toolkit.fluxcd.io/namespace: cluster-edge}
  annotations: {meta.helm.sh/release-name: web, meta.helm.sh/release-namespace: web}
  managedFields: [{manager: helm-controller}]
`

// An attached cluster keeps everything of its owner's engines when the hub's Flux is replaced, or releases it.
func TestBesideOwner(t *testing.T) {
	spokes := map[string]*rest.Config{"edge": {}}
	for name, leave := range map[string]func(context.Context, *Flux) error{
		"retire": func(ctx context.Context, f *Flux) error { return f.Retire(ctx, spokes, silent) },
		"unregister": func(ctx context.Context, f *Flux) error {
			_, err := f.Unregister(ctx, engine.Departure{Cluster: "edge", Spoke: &rest.Config{}, LivesOn: true}, silent)
			return err
		},
		"withdraw": func(ctx context.Context, f *Flux) error { _, err := f.Withdraw(ctx, spokes, silent); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, hub, _ := newFake(t, strings.Replace(source(newCommit)+layer("flux-system", "", newCommit), "prune: true", "prune: true, suspend: true", 1))
				edge := kubetest.Owned(t, kinds())
				hers := edge.Versions(t)
				edge.Attach(t, "flux-manager")
				f.connect, f.guest = func(*rest.Config) (kube.Clients, error) { return edge.Clients(), nil }, func(cluster string) bool { return cluster == "edge" }
				f.release = &fakeRelease{state: helm.State{Revision: 1, Status: "deployed"}}
				if _, err := f.Register(t.Context(), lab.Registration{Cluster: "edge", Server: "https://edge"}, &rest.Config{}); err != nil {
					t.Fatal(err)
				}
				hub.Create(t, "", app("edge", "web", newCommit)+releaseOf("edge", "web"))
				hub.Patch(t, helmReleases, "cluster-edge", "web", map[string]any{"status": map[string]any{"inventory": map[string]any{"entries": []any{map[string]any{"id": "web_web_apps_Deployment", "v": "v1"}}}}})
				edge.Create(t, "", appliedToEdge)
				edge.Unchanged(t, hers)
				if name != "retire" { // as Flux does on the way
					if err := edge.Resource(kube.ExtraKinds["Deployment"]).Namespace("web").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if err := leave(t.Context(), f); err != nil {
					t.Fatal(err)
				}
				edge.Unchanged(t, hers)
				if name == "retire" {
					web := edge.Get(t, kube.ExtraKinds["Deployment"], "web", "web")
					if len(web.GetAnnotations())+len(web.GetLabels()) > 0 || slices.ContainsFunc(web.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "helm-controller" }) {
						t.Errorf("traces of lab's engine: %v", web.Object["metadata"])
					}
					if got := edge.Names(t, kube.Secrets, "cluster-edge"); len(got) > 0 {
						t.Errorf("helm's records %v", got)
					}
					return
				}
				edge.Released(t, "web")
			})
		})
	}
}

// A cluster with a Flux of its owner's gets no other one, which changes nothing, and neither does letting go of the cluster: not even if the owner's is installed
// under the names that lab would choose.
func TestFleetBesideOwner(t *testing.T) {
	spokes := map[string]*rest.Config{"edge": {}}
	for name, leave := range map[string]func(context.Context, *Fleet) error{
		"retire": func(ctx context.Context, fleet *Fleet) error { return fleet.Retire(ctx, spokes, silent) },
		"unregister": func(ctx context.Context, fleet *Fleet) error {
			_, err := fleet.Unregister(ctx, engine.Departure{Cluster: "edge", Spoke: &rest.Config{}, LivesOn: true}, silent)
			return err
		},
		"withdraw": func(ctx context.Context, fleet *Fleet) error {
			_, err := fleet.Withdraw(ctx, spokes, silent)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet, _, _ := newFleet(t, first(pair()), "")
				edge := kubetest.Owned(t, kinds())
				hers := edge.Versions(t)
				edge.Attach(t, "flux-manager")
				release := &fakeRelease{state: helm.State{Revision: 3, Status: "deployed", Workloads: []string{"Deployment/source-controller"}}}
				fleet.join = func(cluster string, _ *rest.Config) (*Flux, error) {
					return &Flux{
						lab: "homelab", namespace: flux.Namespace, home: cluster, attached: true, hub: edge.Clients(), release: release,
						connect: func(*rest.Config) (kube.Clients, error) { return edge.Clients(), nil },
					}, nil
				}
				if _, err := fleet.Register(t.Context(), lab.Registration{Cluster: "edge", Server: "https://edge"}, &rest.Config{}); err != nil {
					t.Fatal(err)
				}
				f, err := fleet.on("edge")
				if err != nil {
					t.Fatal(err)
				}
				var failed *lab.Error
				if _, err := (guest{f}).Install(t.Context(), lab.Chart{Name: "flux2"}, nil, silent); !errors.As(err, &failed) || failed.Code != "not_ours" {
					t.Errorf("%v", err)
				}
				edge.Unchanged(t, hers)
				if err := leave(t.Context(), fleet); err != nil {
					t.Fatal(err)
				}
				edge.Unchanged(t, hers)
				if release.removed {
					t.Error("the owner's release was removed")
				}
			})
		})
	}
}
