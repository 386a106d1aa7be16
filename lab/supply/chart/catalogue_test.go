package chart

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"

	"homelab/lab/supply/source"
)

// With the default estate's values, the catalogue's charts run images of lab's recipes alone, and ask for a processor and memory that a laptop has five times.
func TestCatalogueImages(t *testing.T) {
	recipes, err := source.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"sealed-secrets", "gatekeeper", "cert-manager", "external-secrets", "kyverno", "argo-rollouts", "flux-operator", "external-dns", "karpenter", "karpenter/kwok", "istio/istiod",
	} {
		t.Run(name, func(t *testing.T) {
			addon, name := path.Split(name)
			addon = cmp.Or(strings.TrimSuffix(addon, "/"), name)
			r, err := Find(name, "")
			if err != nil {
				t.Fatal(err)
			}
			values, err := os.ReadFile(filepath.Join("..", "..", "..", "environments", "default", "addons", addon, "values.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			c, _ := build(t, r, cached(t, r))
			if len(c.Metadata.Dependencies) > 0 && len(c.Dependencies()) < len(c.Metadata.Dependencies) {
				t.Errorf("dependencies are missing: Helm refuses the chart")
			}
			if runs(t, recipes, render(t, c, string(values))) == 0 {
				t.Error("no Deployment")
			}
		})
	}
}

// So do the charts that the estate has of its own.
func TestOwnImages(t *testing.T) {
	recipes, err := source.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	charts, err := filepath.Glob(filepath.Join("..", "..", "..", "addons", "*", "*", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	workloads := 0
	for _, file := range charts {
		dir := filepath.Dir(file)
		addon := filepath.Base(filepath.Dir(dir))
		t.Run(addon, func(t *testing.T) {
			c, err := loader.LoadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var values []byte
			if filepath.Base(dir) == "chart" { // others stand beside upstream's chart, whose values these are
				if values, err = os.ReadFile(filepath.Join("..", "..", "..", "environments", "default", "addons", addon, "values.yaml")); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
			const bridge = "\nrepository: http://forge/lab/estate.git\n" // what one of them requires
			workloads += runs(t, recipes, render(t, c, string(values)+bridge))
		})
	}
	if workloads == 0 {
		t.Errorf("no Deployment in %q", charts)
	}
}

// runs checks the containers of objects, and returns how many of them are those of Deployments.
func runs(t *testing.T, recipes *source.Recipes, objects map[string]map[string]any) (workloads int) {
	t.Helper()
	for id, o := range objects {
		if annotations, _ := o["metadata"].(map[string]any)["annotations"].(map[string]any); strings.HasPrefix(text(annotations["helm.sh/hook"]), "test") {
			continue
		}
		for _, c := range containers(o) {
			if ref := text(c["image"]); recipes.ByRef(ref) == "" {
				t.Errorf("%s runs %s, of which there is no recipe", id, ref)
			}
			if !strings.HasPrefix(id, "Deployment/") {
				continue
			}
			workloads++
			requests, _ := c["resources"].(map[string]any)["requests"].(map[string]any)
			if !small.MatchString(text(requests["cpu"]) + " " + text(requests["memory"])) {
				t.Errorf("%s requests %v", id, requests)
			}
		}
	}
	return workloads
}

var small = regexp.MustCompile(`^(5|10)m [0-9]{2}Mi$`)

func text(v any) string { s, _ := v.(string); return s }

// containers returns the containers in an object, wherever they are.
func containers(v any) (list []map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		if image, ok := v["image"].(string); ok && v["name"] != nil && image != "" {
			list = append(list, v)
		}
		for _, x := range v {
			list = append(list, containers(x)...)
		}
	case []any:
		for _, x := range v {
			list = append(list, containers(x)...)
		}
	}
	return list
}

// The chart of Gateway API has nothing but definitions, which may be left out, and stay when their release goes: Flux removes it before those with objects of their kinds.
func TestGatewayAPI(t *testing.T) {
	r, err := Find("gateway-api", "")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := build(t, r, cached(t, r))
	if objects := render(t, c, "installCRDs: false"); len(objects) > 0 {
		t.Errorf("there is %v", objects)
	}
	objects := render(t, c, "")
	for _, name := range []string{"gateways", "httproutes"} {
		definition := objects["CustomResourceDefinition/"+name+".gateway.networking.k8s.io"]
		if definition == nil {
			t.Errorf("no %s in %d objects", name, len(objects))
			continue
		}
		if annotations := definition["metadata"].(map[string]any)["annotations"].(map[string]any); annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s has %v", name, annotations)
		}
	}
}
