package flux

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/flux"
)

func testSettings(asked *[]string) engine.Settings {
	return engine.Settings{Lab: "demo", WebhookSecret: "hush", Ref: func(component string) string {
		*asked = append(*asked, component)
		return "host:5000/" + component + ":v1"
	}}
}

func at(v any, keys ...any) any {
	for _, k := range keys {
		switch k := k.(type) {
		case string:
			v = v.(map[string]any)[k]
		case int:
			v = v.([]any)[k]
		}
	}
	return v
}

func TestDefinition(t *testing.T) {
	d := Definition("")
	var asked []string
	values := d.Values(testSettings(&asked), map[string]any{"logLevel": "debug", "helmController": map[string]any{"tag": "mine"}})
	if slices.Sort(asked); !slices.Equal(asked, slices.Sorted(slices.Values(d.Images))) || len(asked) != 4 {
		t.Errorf("values use %q, definition lists %q", asked, d.Images)
	}
	for _, c := range []struct{ got, want any }{
		{at(values, "sourceController", "image"), "host:5000/source-controller"},
		{at(values, "sourceController", "tag"), "v1"},
		{at(values, "sourceController", "labels", lab.LabelName), "demo"},
		{at(values, "helmController", "tag"), "mine"},
		{at(values, "helmController", "image"), "host:5000/helm-controller"},
		{at(values, "helmController", "container", "additionalArgs", 2), "--feature-gates=CancelHealthCheckOnNewRevision=true,DefaultToRetryOnFailure=true"},
		{at(values, "kustomizeController", "container", "additionalArgs", 2), "--feature-gates=CancelHealthCheckOnNewRevision=true"},
		{at(values, "kustomizeController", "container", "additionalArgs", 0), "--requeue-dependency=2s"},
		{at(values, "kustomizeController", "container", "additionalArgs", 1), "--concurrent=100"},
		{at(values, "helmController", "container", "additionalArgs", 1), "--concurrent=100"},
		{at(values, "notificationController", "container"), nil},
		{at(values, "extraObjects", 1, "spec", "ports", 0, "nodePort"), d.NodePort},
		{at(values, "extraObjects", 1, "spec", "type"), "NodePort"},
		{at(values, "imageReflectionController", "create"), false},
		{at(values, "imageAutomationController", "create"), false},
		{at(values, "sourceWatcher", "create"), false},
		{at(values, "crds", "annotations", "helm.sh/resource-policy"), "keep"},
		{at(values, "extraObjects", 0, "metadata", "name"), "lab-webhook"},
		{at(values, "extraObjects", 0, "data", "token"), "aHVzaA=="},
		{at(values, "logLevel"), "debug"},
		{d.WebhookPath("hush"), fmt.Sprintf("/hook/%x", sha256.Sum256([]byte("hushlab-webhookflux-system")))},
		{Definition("mine").WebhookPath("hush"), fmt.Sprintf("/hook/%x", sha256.Sum256([]byte("hushlab-webhookmine")))},
		{d.Service, "http://webhook-receiver.flux-system.svc"},
		{d.Type, lab.EngineFlux},
		{d.Namespace, flux.Namespace},
		{d.UI, false},
	} {
		if c.got != c.want {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
}

// The extra controllers of an estate.
func TestValuesExtra(t *testing.T) {
	var asked []string
	s := testSettings(&asked)
	s.Extra = []string{flux.ImageReflector}
	values := Values(s, nil)
	if got := at(values, "imageReflectionController", "image"); got != "host:5000/image-reflector-controller" {
		t.Errorf("%v", got)
	}
	if create, off := at(values, "imageReflectionController").(map[string]any)["create"]; off {
		t.Errorf("create is %v", create)
	}
	if at(values, "imageAutomationController", "create") != false {
		t.Error("image automation is on")
	}
}

// Only with source-watcher do the appliers accept its artifacts.
func TestValuesSourceWatcher(t *testing.T) {
	var asked []string
	s := testSettings(&asked)
	s.Extra = []string{flux.SourceWatcher}
	values := Values(s, nil)
	for _, c := range []struct{ got, want any }{
		{at(values, "sourceWatcher", "image"), "host:5000/source-watcher"},
		{at(values, "sourceWatcher", "container", "additionalArgs", 0), requeue},
		{at(values, "kustomizeController", "container", "additionalArgs", 2), "--feature-gates=CancelHealthCheckOnNewRevision=true,ExternalArtifact=true"},
		{at(values, "helmController", "container", "additionalArgs", 2), "--feature-gates=CancelHealthCheckOnNewRevision=true,DefaultToRetryOnFailure=true,ExternalArtifact=true"},
		{len(at(values, "sourceController", "container", "additionalArgs").([]any)), 1},
	} {
		if c.got != c.want {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
}

// An image without a tag, or left to the chart.
func TestValuesImages(t *testing.T) {
	refs := map[string]string{"source-controller": "only"}
	values := Values(engine.Settings{Ref: func(c string) string { return refs[c] }}, nil)
	if got := at(values, "sourceController", "image"); got != "only" {
		t.Errorf("%v", got)
	}
	if _, has := at(values, "sourceController").(map[string]any)["tag"]; has {
		t.Error("an empty tag")
	}
	if _, has := at(values, "helmController").(map[string]any)["image"]; has {
		t.Error("an empty image")
	}
}

func TestDefinitionConnect(t *testing.T) {
	e, err := Definition("").Connect(engine.Hub{Lab: "demo", Config: &rest.Config{Host: "https://127.0.0.1:1"}})
	if err != nil || e == nil {
		t.Errorf("%v, %v", e, err)
	}
	if e, err := Definition("").Connect(engine.Hub{Config: &rest.Config{Host: "::"}}); err == nil || e != nil {
		t.Errorf("%v, %v, want an error and no engine", e, err)
	}
}

func TestStandaloneDefinition(t *testing.T) {
	d, hub := Standalone(""), Definition("")
	if !d.Everywhere() || hub.Everywhere() || d.Namespace != hub.Namespace || d.Type != hub.Type {
		t.Errorf("%+v", d)
	}
	h := engine.Hub{Lab: "demo", Cluster: "hub", Config: &rest.Config{Host: "https://127.0.0.1:1"}}
	e, err := d.Connect(h)
	fleet, ok := e.(*Fleet)
	if err != nil || !ok || fleet.hub.home != "hub" {
		t.Errorf("%T, %v", e, err)
	}
	if _, err := fleet.on("prod"); err == nil {
		t.Error("unknown cluster is reachable")
	}
	h.Cluster = "prod"
	i, err := d.On(h)
	if g, ok := i.(guest); err != nil || !ok || g.home != "prod" {
		t.Errorf("%T, %v", i, err)
	}
	h.Config = &rest.Config{Host: "::"}
	if e, err := d.Connect(h); err == nil || e != nil {
		t.Errorf("%v, %v, want an error and no engine", e, err)
	}
	if i, err := d.On(h); err == nil || i != nil {
		t.Errorf("%v, %v, want an error and no engine", i, err)
	}
	guests := Values(engine.Settings{Ref: func(string) string { return "" }, Guest: true}, nil)
	if len(at(guests, "extraObjects").([]any)) != 1 {
		t.Error("node port on an attached cluster")
	}
}
