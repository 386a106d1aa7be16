//go:build e2e

package argocd_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/argocd"
	"homelab/lab/engine/enginetest"
	"homelab/lab/engine/helm"
)

const helloValues = "environments/default/addons/hello/values.yaml"

// newEngine returns the engine of the hub and lab's values for it.
func newEngine(t *testing.T, w *enginetest.World) (*argocd.ArgoCD, lab.Chart, map[string]any) {
	t.Helper()
	e, err := argocd.New("engdev", w.Hub, argocd.WithReach(func(string) (*rest.Config, error) { return w.Spoke, nil }))
	if err != nil {
		t.Fatal(err)
	}
	images := strings.Fields(enginetest.Env(t, "LAB_E2E_IMAGES"))
	// LAB_E2E_BANNER changes the values, for upgrades killed manually.
	over := map[string]any{}
	if banner := os.Getenv("LAB_E2E_BANNER"); banner != "" {
		over = map[string]any{"configs": map[string]any{"cm": map[string]any{"ui.bannercontent": banner}}}
	}
	return e, w.Chart(t, "argo-cd", enginetest.Env(t, "LAB_E2E_VERSION")), argocd.Values(argocd.Settings{
		Lab: "engdev", Image: lab.Image{Ref: images[0]}, Redis: lab.Image{Ref: images[1]},
		PasswordHash:  "$2a$10$eFJHrYvSJVdq1k2Jv8zHSOyYIRvWmeoBWgPU6v2hJ9g1c9hQ8UCiq",
		WebhookSecret: webhookSecret, URL: "http://127.0.0.1:8080",
	}, over)
}

const webhookSecret = "hush"

func TestArgoCDContract(t *testing.T) {
	w := enginetest.NewWorld(t)
	e, chart, values := newEngine(t, w)
	revision := w.Commit(t, map[string]string{
		"addons/hello/applicationset.yaml": w.Read(t, "applicationset.yaml"), helloValues: "replicas: 1\n",
	})
	enginetest.Contract(t, enginetest.Subject{
		Engine: e, Chart: chart, Values: values,
		OtherValues: helm.Merge(values, map[string]any{"configs": map[string]any{"cm": map[string]any{"ui.bannercontent": "lab"}}}),
		Spoke:       w.Spoke, Server: enginetest.Env(t, "LAB_E2E_SPOKE_SERVER"),
		Repositories: []engine.Repository{
			{Name: "estate", Type: "git", URL: w.URL + "/git/estate.git", Username: "lab", Password: "hush-hush"},
			{Name: "charts", Type: "helm", URL: w.URL + "/charts"},
		},
		Root:        engine.Root{Manifest: []byte(w.Read(t, "root.yaml"))},
		Revision:    revision,
		Break:       func(t *testing.T) string { return w.Commit(t, map[string]string{helloValues: "tag: 9.9.9\n"}) },
		Fix:         func(t *testing.T) string { return w.Commit(t, map[string]string{helloValues: "replicas: 2\n"}) },
		Region:      w.Region,
		Revoke:      func(t *testing.T) { w.Revoke(t, "argocd-manager") },
		Holds:       w.Holds,
		Applied:     w.Applied,
		Traces:      func(t *testing.T) []string { return w.Naming(t, "argoproj.io", "argocd-", `"argocd"`) },
		Fingerprint: func(t *testing.T) []string { return w.Fingerprint(t, argocd.Namespace) },
		Patience:    8 * time.Minute,
	})
}
