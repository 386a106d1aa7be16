package argocd

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"homelab/lab"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func testSettings() Settings {
	return Settings{
		Lab:           "homelab",
		Image:         lab.Image{Name: "argocd", Ref: "quay.io/argoproj/argocd:v3.2.11"},
		Redis:         lab.Image{Name: "redis", Ref: "registry.example:5000/library/redis:8.2"},
		PasswordHash:  "$2a$10$hash",
		WebhookSecret: "hush",
		URL:           "http://127.0.0.1:8080",
	}
}

// The golden file lists the keys that both upstream's chart and lab's own must support.
func TestValuesGolden(t *testing.T) {
	got, err := yaml.Marshal(Values(testSettings(), nil))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/values.golden.yaml"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("values changed (-update rewrites the file):\n%s", d)
	}
}

func TestValuesOver(t *testing.T) {
	over := map[string]any{
		"configs": map[string]any{"params": map[string]any{
			"server.insecure":              "false",
			"reposerver.parallelism.limit": nil,
			"extra":                        "yes",
		}},
		"dex": map[string]any{"enabled": true},
	}
	got := Values(testSettings(), over)
	params := got["configs"].(map[string]any)["params"].(map[string]any)
	if params["server.insecure"] != "false" || params["extra"] != "yes" {
		t.Errorf("params were not merged: %v", params)
	}
	if _, has := params["reposerver.parallelism.limit"]; has {
		t.Error("a null did not remove lab's value")
	}
	if params["controller.sync.wave.delay.seconds"] != "0" {
		t.Error("lab's other values missing")
	}
	if got["configs"].(map[string]any)["secret"] == nil || got["dex"].(map[string]any)["enabled"] != true {
		t.Errorf("siblings missing: %v", got)
	}
	again := Values(testSettings(), nil)["configs"].(map[string]any)["params"].(map[string]any)
	if again["server.insecure"] != "true" {
		t.Error("over changed lab's own values")
	}
}
