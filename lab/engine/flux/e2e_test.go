//go:build e2e

package flux_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab/engine"
	"homelab/lab/engine/enginetest"
	"homelab/lab/engine/flux"
	"homelab/lab/engine/helm"
)

const (
	release = "clusters/spoke/addons/hello/release.yaml"
	listing = "clusters/spoke/kustomization.yaml"
)

func TestFluxKeepsTheContract(t *testing.T) {
	w := enginetest.NewWorld(t)
	images := map[string]string{}
	for _, ref := range strings.Fields(enginetest.Env(t, "LAB_E2E_IMAGES")) {
		name := ref[strings.LastIndex(ref, "/")+1:]
		images[name[:strings.Index(name, ":")]] = ref
	}
	d := flux.Definition("")
	e, err := d.Connect(engine.Hub{Lab: "engdev", Config: w.Hub, Reach: func(string) (*rest.Config, error) { return w.Spoke, nil }})
	if err != nil {
		t.Fatal(err)
	}
	values := d.Values(engine.Settings{Lab: "engdev", Ref: func(component string) string { return images[component] }, WebhookSecret: "hush"}, nil)
	with := func(files map[string]string) string { return w.Commit(t, files) }
	changed := func(more string) map[string]string {
		return map[string]string{release: w.Read(t, "release.yaml") + more}
	}
	revision := with(map[string]string{
		"clusters/hub/spoke.yaml": w.Read(t, "layer.yaml"), "clusters/spoke/hello.yaml": w.Read(t, "hello.yaml"), "clusters/spoke/note.yaml": w.Read(t, "note.yaml"),
		listing: "resources: [note.yaml, hello.yaml]\n", release: w.Read(t, "release.yaml"),
	})
	enginetest.Contract(t, enginetest.Subject{
		Engine: e, Chart: w.Chart(t, "flux2", "2.9.5"), Values: values,
		OtherValues: helm.Merge(values, map[string]any{"logLevel": "debug"}),
		Spoke:       w.Spoke, Server: enginetest.Env(t, "LAB_E2E_SPOKE_SERVER"),
		Repositories: []engine.Repository{
			{Name: "estate", Type: "git", URL: w.URL + "/git/estate.git", Username: "lab", Password: "hush-hush"},
			{Name: "charts", Type: "helm", URL: w.URL + "/charts"},
		},
		Root:     engine.Root{Manifest: []byte(w.Read(t, "root.yaml")), RepoURL: w.URL + "/git/estate.git"},
		Revision: revision,
		Break:    func(*testing.T) string { return with(changed("    tag: 9.9.9\n")) },
		Mend:     func(*testing.T) string { return with(changed("    replicas: 2\n")) },
		Off:      func(*testing.T) string { return with(map[string]string{listing: "resources: [note.yaml]\n"}) },
		On: func(*testing.T) string {
			return with(map[string]string{listing: "resources: [note.yaml, hello.yaml]\n"})
		},
		Region:      w.Region,
		Revoke:      func(t *testing.T) { w.Revoke(t, "flux-manager") },
		Holds:       w.Holds,
		Fingerprint: func(t *testing.T) []string { return w.Fingerprint(t, d.Namespace, "cluster-spoke") },
		Patience:    3 * time.Minute,
	})
}
