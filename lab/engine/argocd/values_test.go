package argocd

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"
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
		t.Error("lab's other values were lost")
	}
	if got["configs"].(map[string]any)["secret"] == nil || got["dex"].(map[string]any)["enabled"] != true {
		t.Errorf("siblings were lost: %v", got)
	}
	again := Values(testSettings(), nil)["configs"].(map[string]any)["params"].(map[string]any)
	if again["server.insecure"] != "true" {
		t.Error("over changed lab's own values")
	}
}

func TestMergeArguments(t *testing.T) {
	under := map[string]any{"a": map[string]any{"b": 1}}
	over := map[string]any{"a": map[string]any{"c": 2}, "n": map[string]any{"x": nil, "y": 1}}
	got := Merge(under, over)
	want := map[string]any{"a": map[string]any{"b": 1, "c": 2}, "n": map[string]any{"y": 1}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(under["a"].(map[string]any)) != 1 || len(over["a"].(map[string]any)) != 1 {
		t.Errorf("arguments changed: %v %v", under, over)
	}
}

func TestSplitRef(t *testing.T) {
	for ref, want := range map[string][2]string{
		"quay.io/argoproj/argocd:v3": {"quay.io/argoproj/argocd", "v3"},
		"host:5000/redis":            {"host:5000/redis", ""},
		"host:5000/redis:8":          {"host:5000/redis", "8"},
		"redis":                      {"redis", ""},
		"":                           {"", ""},
	} {
		repository, tag := splitRef(ref)
		if repository != want[0] || tag != want[1] {
			t.Errorf("%q: %q %q", ref, repository, tag)
		}
	}
}

func TestHashPassword(t *testing.T) {
	h, err := HashPassword("secret")
	if err != nil {
		t.Fatal(err)
	}
	if bcrypt.CompareHashAndPassword([]byte(h), []byte("secret")) != nil || bcrypt.CompareHashAndPassword([]byte(h), []byte("other")) == nil {
		t.Error("hash does not verify")
	}
}
