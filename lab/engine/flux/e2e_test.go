//go:build e2e

package flux_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/enginetest"
	"homelab/lab/engine/flux"
	"homelab/lab/engine/helm"
)

const (
	release = "clusters/spoke/addons/hello/release.yaml"
	listing = "clusters/spoke/kustomization.yaml"
)

func TestFluxContract(t *testing.T) {
	w := enginetest.NewWorld(t)
	s := subject(t, w, flux.Definition(""), func(text string) string { return text }, map[string]string{"clusters/hub/spoke.yaml": w.Read(t, "layer.yaml")})
	s.Root.Manifest = []byte(w.Read(t, "root.yaml"))
	s.Revoke = func(t *testing.T) { w.Revoke(t, "flux-manager") }
	enginetest.Contract(t, s)
}

func TestStandaloneFluxContract(t *testing.T) {
	w := enginetest.NewWorld(t)
	d := flux.Standalone("")
	here := func(text string) string {
		return strings.Replace(text, "  kubeConfig: {secretRef: {name: cluster-kubeconfig}}\n", "", 1)
	}
	s := subject(t, w, d, here, map[string]string{"clusters/hub/note.yaml": w.Read(t, "note.yaml")})
	spoke, err := d.On(engine.Hub{Lab: "engdev", Cluster: "spoke", Config: w.Spoke})
	if err != nil {
		t.Fatal(err)
	}
	s.Engine = &everywhere{Engine: s.Engine, spoke: spoke}
	root := w.Read(t, "root.yaml")
	s.Root.Own = map[string][]byte{"hub": []byte(root), "spoke": []byte(strings.Replace(root, "./clusters/hub", "./clusters/spoke", 1))}
	s.Revoke = func(t *testing.T) {
		if err := w.Client(t).CoreV1().Secrets("cluster-spoke").Delete(t.Context(), "cluster-kubeconfig", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.Renewed = "registered again"
	enginetest.Contract(t, s)
}

// everywhere installs on both clusters, like the steps engine and engine/spoke of lab up, and again before the spoke is registered again.
type everywhere struct {
	enginetest.Engine
	spoke  engine.Installer
	chart  lab.Chart
	values map[string]any
}

func (e *everywhere) Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (bool, error) {
	e.chart, e.values = chart, values
	hub, err := e.Engine.Install(ctx, chart, values, p)
	if err != nil {
		return hub, err
	}
	spoke, err := e.spoke.Install(ctx, chart, values, p)
	return hub || spoke, err
}

func (e *everywhere) Register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error) {
	if e.values != nil {
		if _, err := e.spoke.Install(ctx, e.chart, e.values, func(string) {}); err != nil {
			return nil, err
		}
	}
	return e.Engine.Register(ctx, reg, spoke)
}

// subject returns an engine on the world's clusters, with an estate of files. edit adapts the spoke's files to the shape.
func subject(t *testing.T, w *enginetest.World, d engine.Definition, edit func(string) string, files map[string]string) enginetest.Subject {
	t.Helper()
	e, values := installer(t, d, engine.Hub{Lab: "engdev", Cluster: "hub", Config: w.Hub, Reach: func(string) (*rest.Config, error) { return w.Spoke, nil }})
	with := func(files map[string]string) string { return w.Commit(t, files) }
	changed := func(more string) map[string]string {
		return map[string]string{release: edit(w.Read(t, "release.yaml")) + more}
	}
	maps.Copy(files, map[string]string{
		"clusters/spoke/hello.yaml": w.Read(t, "hello.yaml"), "clusters/spoke/note.yaml": w.Read(t, "note.yaml"),
		listing: "resources: [note.yaml, hello.yaml]\n", release: edit(w.Read(t, "release.yaml")),
	})
	revision := with(files)
	return enginetest.Subject{
		Engine: e, Chart: w.Chart(t, "flux2", "2.9.5"), Values: values,
		OtherValues: helm.Merge(values, map[string]any{"logLevel": "debug"}),
		Spoke:       w.Spoke, Server: enginetest.Env(t, "LAB_E2E_SPOKE_SERVER"),
		Repositories: []engine.Repository{
			{Name: "estate", Type: "git", URL: w.URL + "/git/estate.git", Username: "lab", Password: "hush-hush"},
			{Name: "charts", Type: "helm", URL: w.URL + "/charts"},
		},
		Root:     engine.Root{RepoURL: w.URL + "/git/estate.git"},
		Revision: revision,
		Break:    func(*testing.T) string { return with(changed("    tag: 9.9.9\n")) },
		Fix:      func(*testing.T) string { return with(changed("    replicas: 2\n")) },
		Off:      func(*testing.T) string { return with(map[string]string{listing: "resources: [note.yaml]\n"}) },
		On: func(*testing.T) string {
			return with(map[string]string{listing: "resources: [note.yaml, hello.yaml]\n"})
		},
		Region:  w.Region,
		Holds:   w.Holds,
		Applied: w.Applied,
		Traces: func(t *testing.T) []string {
			return w.Naming(t, "fluxcd.io", "flux-system", "flux-manager", "meta.helm.sh", "helm-controller", "kustomize-controller")
		},
		Fingerprint: func(t *testing.T) []string { return w.Fingerprint(t, d.Namespace, "cluster-spoke") },
		Patience:    8 * time.Minute,
	}
}

// installer returns an engine on a hub, and the values that install it.
func installer(t *testing.T, d engine.Definition, hub engine.Hub) (engine.Engine, map[string]any) {
	t.Helper()
	images := map[string]string{}
	for _, ref := range strings.Fields(enginetest.Env(t, "LAB_E2E_IMAGES")) {
		name := ref[strings.LastIndex(ref, "/")+1:]
		images[name[:strings.Index(name, ":")]] = ref
	}
	e, err := d.Connect(hub)
	if err != nil {
		t.Fatal(err)
	}
	return e, d.Values(engine.Settings{Lab: hub.Lab, Ref: func(component string) string { return images[component] }, WebhookSecret: "hush"}, nil)
}
