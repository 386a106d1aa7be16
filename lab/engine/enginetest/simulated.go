package enginetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
)

// Simulation is a hub and a spoke of kubetest, on which no controller of the engine runs.
type Simulation struct {
	Hub, Spoke   *kubetest.Cluster
	Account      string                      // of the engine in spokes
	Registration types.NamespacedName        // of the spoke: a Secret on the hub
	Synced       schema.GroupVersionResource // kind of the root
	Others       string                      // prefix of the definitions on the hub that are not the engine's
}

// Subject returns the subject of an engine on a simulation.
func (s Simulation) Subject(e Engine, chart lab.Chart, root string) Subject {
	return Subject{
		Engine: e, Chart: chart, Values: map[string]any{"a": 1}, OtherValues: map[string]any{"a": 2}, Spoke: &rest.Config{}, Server: "https://spoke:6443",
		Repositories: []engine.Repository{
			{Name: "estate", Type: "git", URL: "http://forge/estate.git", Username: "lab", Password: "hush-hush"},
			{Name: "charts", Type: "helm", URL: "http://forge/charts"},
		},
		Root: engine.Root{Manifest: []byte(root)}, Revision: "one",
		Revoke: s.revoke,
		Holds: func(t *testing.T) []string {
			return slices.Concat(s.Spoke.Names(t, kube.Namespaces, ""), s.Spoke.Names(t, kube.ClusterRoleBindings, ""))
		},
		Applied: func(*testing.T) []string { return []string{"nothing runs", "that applies"} },
		Traces: func(t *testing.T) []string {
			all := slices.Concat(s.Hub.Names(t, kube.Namespaces, ""), s.Hub.Names(t, s.Synced, ""), s.Hub.Names(t, kube.CRDs, ""),
				s.Spoke.Names(t, kube.ServiceAccounts, ""), s.Spoke.Names(t, kube.ClusterRoleBindings, ""))
			return slices.DeleteFunc(all, func(name string) bool { return strings.HasPrefix(name, s.Others) })
		},
		Fingerprint: func(t *testing.T) []string {
			var list []string
			for _, c := range []*kubetest.Cluster{s.Hub, s.Spoke} {
				for what, version := range c.Versions(t) {
					list = append(list, what+" "+version)
				}
			}
			slices.Sort(list)
			return list
		},
		Patience: 20 * time.Second, Simulated: true,
	}
}

// revoke deletes the engine's account from the spoke. The registration is backdated: new credentials must be newer, in seconds.
func (s Simulation) revoke(t *testing.T) {
	t.Helper()
	for r, name := range map[schema.GroupVersionResource]string{kube.ServiceAccounts: s.Account, kube.Secrets: s.Account + "-token"} {
		if err := s.Spoke.Resource(r).Namespace(kube.SpokeNamespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.Hub.Patch(t, kube.Secrets, s.Registration.Namespace, s.Registration.Name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{kube.SinceAnnotation: time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}},
	})
}
