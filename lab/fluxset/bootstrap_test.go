package fluxset

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
)

// standalone returns files with one Flux per cluster.
func standalone(t *testing.T, more map[string]string) (fstest.MapFS, []lab.Cluster) {
	t.Helper()
	fsys, clusters := files(t, more)
	clusters[0].Engine = lab.EngineSpec{Type: lab.EngineFlux, Shape: lab.ShapeStandalone}
	return fsys, clusters
}

func TestStandaloneFiles(t *testing.T) {
	fsys, clusters := standalone(t, nil)
	want := written(t, fsys, clusters)
	if got, expected := slices.Sorted(maps.Keys(want)), []string{
		"clusters/flux-names.yaml", "clusters/hub/addons/shop/kustomization.yaml", "clusters/hub/flux.yaml", "clusters/hub/kustomization.yaml",
		"clusters/prod/addons/quota/kustomization.yaml", "clusters/prod/addons/shop/kustomization.yaml", "clusters/prod/flux-system/gotk-sync.yaml",
		"clusters/prod/flux-system/kustomization.yaml", "clusters/prod/flux.yaml", "clusters/prod/kustomization.yaml",
	}; !slices.Equal(got, expected) {
		t.Errorf("%q", got)
	}
	for name, text := range want {
		if strings.Contains(text, "kubeConfig") {
			t.Errorf("%s refers to another cluster:\n%s", name, text)
		}
	}
	if text := want["clusters/hub/kustomization.yaml"]; strings.Contains(text, "prod") {
		t.Errorf("the hub's folder refers to another cluster:\n%s", text)
	}
	if text := want["clusters/prod/kustomization.yaml"]; !strings.HasSuffix(text, "resources:\n- flux-system\n- flux.yaml\n") {
		t.Errorf("the spoke's folder:\n%s", text)
	}
	root := want["clusters/prod/flux-system/gotk-sync.yaml"]
	for _, words := range []string{"path: ./clusters/prod\n", "url: https://example.com/estate.git\n", "kind: GitRepository\n"} {
		if !strings.Contains(root, words) {
			t.Errorf("the spoke's root does not contain %q:\n%s", words, root)
		}
	}
	if ps, err := Stale(fsys, clusters); err != nil || len(ps) > 0 {
		t.Errorf("%v, %v", ps, err)
	}
	for cluster, apps := range map[string][]string{"hub": {"hub shop"}, "prod": {"prod quota", "prod shop"}} {
		x := Expand(world(fsys), lab.FluxRootFile(cluster))
		var got []string
		for _, a := range x.Applications {
			got = append(got, a.Cluster+" "+a.Name)
		}
		if slices.Sort(got); len(x.Problems) > 0 || !slices.Equal(got, apps) {
			t.Errorf("%s: %q, %v", cluster, got, x.Problems)
		}
	}
}

// Foreign roots are kept, missing ones generated.
func TestStandaloneRoots(t *testing.T) {
	mine := strings.ReplaceAll(syncFile, "clusters/hub", "clusters/prod")
	fsys, clusters := standalone(t, map[string]string{lab.FluxRootFile("prod"): mine})
	if want := written(t, fsys, clusters); want[lab.FluxRootFile("prod")] != "" || want["clusters/prod/flux-system/kustomization.yaml"] == "" {
		t.Errorf("%q", slices.Sorted(maps.Keys(want)))
	}

	fsys, clusters = standalone(t, nil)
	delete(fsys, lab.FluxRootFile("hub"))
	for range 2 { // generated roots are regenerated, not copied
		want := written(t, fsys, clusters)
		for _, cluster := range []string{"hub", "prod"} {
			text := want[lab.FluxRootFile(cluster)]
			for _, words := range []string{"url: " + Anywhere, "path: ./clusters/" + cluster + "\n", "branch: main", "retryInterval: 15s"} {
				if !strings.Contains(text, words) {
					t.Errorf("root of %s does not contain %q:\n%s", cluster, words, text)
				}
			}
			if strings.Contains(text, "status") || strings.Contains(text, "creationTimestamp") {
				t.Errorf("root of %s has cluster state:\n%s", cluster, text)
			}
		}
	}

	fsys, clusters = standalone(t, map[string]string{lab.FluxRootFile("hub"): "kind: ["})
	if want, err := Files(fsys, clusters); err == nil {
		t.Errorf("%v, from an invalid root", want)
	}
}

// Back in shape hub, other roots are left over.
func TestLeftOverRoots(t *testing.T) {
	fsys, clusters := standalone(t, nil)
	written(t, fsys, clusters)
	clusters[0].Engine.Shape = lab.ShapeHub
	want, err := Files(fsys, clusters)
	if err != nil {
		t.Fatal(err)
	}
	left, err := Left(fsys, want)
	if slices.Sort(left); err != nil || !slices.Equal(left, []string{"clusters/prod/flux-system/gotk-sync.yaml", "clusters/prod/flux-system/kustomization.yaml"}) {
		t.Errorf("%q, %v", left, err)
	}
}

func TestWithin(t *testing.T) {
	for name, want := range map[string]string{
		"./clusters/hub": "./clusters/dev", "clusters/hub/": "./clusters/dev", "./clusters/hub/base": "./clusters/dev/base",
		"./clusters/hubs": "./clusters/hubs", "./infrastructure": "./infrastructure",
	} {
		if got := within(name, "hub", "dev"); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
