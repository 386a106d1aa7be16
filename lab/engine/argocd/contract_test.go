package argocd

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/enginetest"
	"homelab/lab/engine/kube"
)

// The contract of engines on a simulated API, as far as it goes without Argo CD's controllers; with them, TestArgoCDContract.
func TestContract(t *testing.T) {
	hub, spoke := newCluster(t, ownDefinitions, theDefaultProject), newCluster(t)
	hub.Live(t)
	spoke.Live(t)
	rel := &fakeRelease{}
	a := &ArgoCD{lab: "homelab", namespace: Namespace, hub: hub.Clients(), release: rel, connect: spoke.Connect}
	enginetest.Contract(t, enginetest.Subject{
		Engine: a, Chart: lab.Chart{Name: "argo-cd", Version: "3.2.11"}, Values: map[string]any{"a": 1}, OtherValues: map[string]any{"a": 2},
		Spoke: &rest.Config{}, Server: "https://spoke:6443",
		Repositories: []engine.Repository{
			{Name: "estate", Type: "git", URL: "http://forge/estate.git", Username: "lab", Password: "hush-hush"},
			{Name: "charts", Type: "helm", URL: "http://forge/charts"},
		},
		Root: engine.Root{Manifest: []byte(rootManifest)}, Revision: "one",
		Revoke: func(t *testing.T) {
			for r, name := range map[string]string{"serviceaccounts": "argocd-manager", "secrets": "argocd-manager-token"} {
				if err := spoke.Resource(kube.Secrets.GroupVersion().WithResource(r)).Namespace(kube.SpokeNamespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second) // credentials are dated in seconds
		},
		Holds: func(t *testing.T) []string {
			return slices.Concat(spoke.Names(t, kube.Namespaces, ""), spoke.Names(t, roleBindings, ""))
		},
		Applied: func(*testing.T) []string { return []string{"nothing runs", "that applies"} },
		Traces: func(t *testing.T) []string {
			return slices.DeleteFunc(slices.Concat(hub.Names(t, kube.Namespaces, ""), hub.Names(t, applications, ""), spoke.Names(t, serviceAccounts, ""), spoke.Names(t, roleBindings, ""),
				hub.Names(t, kube.CRDs, "")), func(name string) bool { return strings.HasPrefix(name, "rollouts.") })
		},
		Fingerprint: func(t *testing.T) []string { return append(hub.fingerprint(t), spoke.fingerprint(t)...) },
		Patience:    20 * time.Second, Simulated: true,
	})
}

// fingerprint returns all objects with their versions.
func (c *cluster) fingerprint(t *testing.T) []string {
	t.Helper()
	var list []string
	for what, version := range c.Versions(t) {
		list = append(list, what+" "+version)
	}
	slices.Sort(list)
	return list
}
