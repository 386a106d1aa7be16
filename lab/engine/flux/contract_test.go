package flux

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/enginetest"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

// keptRelease is a release that is left alone if its inputs are the same.
type keptRelease struct{ fakeRelease }

func (r *keptRelease) Ensure(ctx context.Context, want helm.Release, p lab.Progress) (helm.Result, error) {
	inputs, err := helm.Inputs(want.Chart, want.Values)
	if err != nil || r.state.Inputs == inputs {
		return helm.Result{State: r.state}, err
	}
	r.state.Inputs = inputs
	return r.fakeRelease.Ensure(ctx, want, p)
}

// The contract of engines on a simulated API, as far as it goes without Flux's controllers; with them, TestFluxContract.
func TestContract(t *testing.T) {
	hub, spoke := kubetest.New(t, kinds(), ownDefinitions).Live(t), kubetest.New(t, kinds()).Live(t)
	f := &Flux{lab: "homelab", cluster: "hub", namespace: flux.Namespace, hub: hub.Clients(), release: &keptRelease{}, connect: spoke.Connect}
	enginetest.Contract(t, enginetest.Subject{
		Engine: f, Chart: lab.Chart{Name: "flux2", Version: "2.9.5"}, Values: map[string]any{"a": 1}, OtherValues: map[string]any{"a": 2},
		Spoke: &rest.Config{}, Server: "https://spoke:6443",
		Repositories: []engine.Repository{
			{Name: "estate", Type: "git", URL: "http://forge/estate.git", Username: "lab", Password: "hush-hush"},
			{Name: "charts", Type: "helm", URL: "http://forge/charts"},
		},
		Root: engine.Root{Manifest: []byte(rootManifest)}, Revision: "one",
		Off: func(t *testing.T) string { // no controller reads Git, which a departure would wait for
			hub.Patch(t, kustomizations, flux.Namespace, "flux-system", map[string]any{"spec": map[string]any{"suspend": true}})
			return "one"
		},
		On: func(*testing.T) string { return "one" },
		Revoke: func(t *testing.T) {
			for r, name := range map[string]string{"serviceaccounts": "flux-manager", "secrets": "flux-manager-token"} {
				if err := spoke.Resource(kube.Secrets.GroupVersion().WithResource(r)).Namespace(kube.SpokeNamespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second) // credentials are dated in seconds
		},
		Holds: func(t *testing.T) []string {
			return slices.Concat(spoke.Names(t, kube.Namespaces, ""), spoke.Names(t, kube.ClusterRoleBindings, ""))
		},
		Applied: func(*testing.T) []string { return []string{"nothing runs", "that applies"} },
		Traces: func(t *testing.T) []string {
			return slices.DeleteFunc(slices.Concat(hub.Names(t, kube.Namespaces, ""), hub.Names(t, kustomizations, ""), spoke.Names(t, kube.ServiceAccounts, ""),
				spoke.Names(t, kube.ClusterRoleBindings, ""), hub.Names(t, kube.CRDs, "")), func(name string) bool { return strings.HasPrefix(name, "fluxinstances.") })
		},
		Fingerprint: func(t *testing.T) []string { return append(fingerprint(t, hub), fingerprint(t, spoke)...) },
		Patience:    20 * time.Second, Simulated: true,
	})
}

// fingerprint returns all objects with their versions.
func fingerprint(t *testing.T, c *kubetest.Cluster) []string {
	t.Helper()
	var list []string
	for what, version := range c.Versions(t) {
		list = append(list, what+" "+version)
	}
	slices.Sort(list)
	return list
}
