package argocd

import (
	"slices"
	"testing"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
)

func TestDefinition(t *testing.T) {
	d := Definition("")
	var asked []string
	values := d.Values(engine.Settings{
		Lab: "demo", Ref: func(component string) string { asked = append(asked, component); return component + ":v1" },
		PasswordHash: "h", WebhookSecret: "w", URL: "http://127.0.0.1:8080",
	}, nil)
	if slices.Sort(asked); !slices.Equal(asked, d.Images) {
		t.Errorf("values use %q, definition lists %q", asked, d.Images)
	}
	at := func(keys ...string) any {
		var v any = values
		for _, k := range keys {
			v = v.(map[string]any)[k]
		}
		return v
	}
	for _, c := range []struct{ got, want any }{
		{at("global", "image", "repository"), "argocd"},
		{at("redis", "image", "repository"), "redis"},
		{at("server", "service", "nodePortHttp"), d.NodePort},
		{at("configs", "secret", "gogsSecret"), "w"},
	} {
		if c.got != c.want {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
	if d.Type != lab.EngineArgoCD || d.Namespace != Namespace || !d.UI {
		t.Errorf("%s in %s, UI %t", d.Type, d.Namespace, d.UI)
	}
	if got := d.WebhookPath("w"); got != "/api/webhook" {
		t.Errorf("webhook %q", got)
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
