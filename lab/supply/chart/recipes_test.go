package chart

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
)

func TestRecipesStrict(t *testing.T) {
	const good = "{name: a, version: 1.0.0, kind: folder, module: m@v1, path: charts/a}"
	for text, want := range map[string]string{
		"charts: [" + good + "]":                                        "",
		"charts: [" + good + ", " + good + "]":                          "duplicate",
		"charts: [{name: a, verison: 1.0.0}]":                           "verison",
		"charts: [{name: a, version: 1.0.0}]":                           "are required",
		strings.Replace("charts: ["+good+"]", "folder", "oci", 1):       `unknown kind "oci"`,
		strings.Replace("charts: ["+good+"]", "charts/a", "../../a", 1): "leaves the module",

		"charts: [" + strings.TrimSuffix(good, "}") + ", parts: [p@v2], add: [{part: p, from: crds, to: templates/crds.yaml}], without: [b]}]": "",
		"charts: [" + strings.TrimSuffix(good, "}") + ", add: [{part: p, from: crds, to: templates/crds.yaml}]}]":                              "part that parts lacks",
		"charts: [" + strings.TrimSuffix(good, "}") + ", add: [{from: ../crds, to: templates/crds.yaml}]}]":                                    "within the module",
		"charts: [" + strings.TrimSuffix(good, "}") + ", add: [{from: crds}]}]":                                                                "from and to",
		strings.Replace("charts: ["+strings.TrimSuffix(good, "}")+", without: [b]}]", "folder", "manifests", 1):                                `are of kind "folder"`,
	} {
		_, err := parseRecipes([]byte(text))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	r, err := Find("podinfo", "6.7.0")
	if err != nil || r.Version != "6.7.0" {
		t.Fatal(r, err)
	}
	_, err = Find("podinfo", "1.0.0")
	var e *lab.Error
	if !errors.As(err, &e) || !strings.Contains(e.Cure, "6.9.2, 6.7.0") {
		t.Errorf("got %v", err)
	}
}

func TestBuildRefuses(t *testing.T) {
	chartWith := func(yaml string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte(yaml), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	install := func(text string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "install.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	without := Recipe{Name: "podinfo", Version: "6.9.2", Kind: KindFolder, Module: "m@v1", Path: ".", Without: []string{"redis"}}
	plain := Recipe{Name: "podinfo", Version: "6.9.2", Kind: KindManifests, Module: "m@v1", Path: "install.yaml"}
	const deployment = "kind: Deployment\nmetadata: {name: a}\nspec: {replicas: 1, template: {spec: {containers: [{name: a, image: example.com/a/b:latest}]}}}\n"
	folder := Recipe{Name: "podinfo", Version: "6.9.2", Kind: KindFolder, Module: "m@v1", Path: "."}
	argo := Recipe{Name: "argo-cd", Version: "1.0.0", Kind: KindArgoCD, Module: "m@v1", Path: "."}
	for _, tc := range []struct {
		name, dir string
		r         Recipe
		want      string
	}{
		{"another version", chartWith("apiVersion: v2\nname: podinfo\nversion: 6.9.3\n"), folder, "m@v1 contains podinfo 6.9.3"},
		{"no chart", t.TempDir(), folder, "Chart.yaml"},
		{"without what it has not", chartWith("apiVersion: v2\nname: podinfo\nversion: 6.9.2\n"), without, "does not have the dependencies redis"},
		{"two Deployments", install(deployment + "---\n" + deployment), plain, "a is the second Deployment"},
		{"no Deployment", install("kind: Secret\nmetadata: {name: a}\n"), plain, "no Deployment in install.yaml"},
		{"a container without an image", install(strings.Replace(deployment, "image: example.com/a/b:latest", "command: [a]", 1)), plain, "not one container"},
		{"no manifests", t.TempDir(), argo, "install.yaml"},
		{"an empty install.yaml", install("# nothing\n"), argo, "holds no manifest"},
		{"broken YAML", install("kind: [\n"), argo, "install.yaml: yaml"},
		{"a document without a kind", install("metadata: {name: a}\n"), argo, "document 1 has no kind"},
		{"an object that is not Argo CD's", install("kind: Service\nmetadata: {name: other}\n"), argo, "belongs to no component"},
		{"a missing workload", install("kind: ServiceAccount\nmetadata: {name: argocd-server}\n"), argo, "has no workload argocd-application-controller"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := t.TempDir()
			_, err := Build(t.Context(), tc.r, Sources{tc.r.Module: tc.dir}, out)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if left, _ := os.ReadDir(out); len(left) != 0 {
				t.Errorf("left %v behind", left)
			}
		})
	}
}
