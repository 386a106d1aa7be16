package fluxset

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/flux"
	"homelab/lab/strict"
)

const shop = `apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: shop}
spec:
  interval: 1m
  targetNamespace: shop
  chart: {spec: {chart: shop, version: 1.0.0, sourceRef: {kind: HelmRepository, name: charts, namespace: flux-system}}}
  valuesFrom:
  - {kind: ConfigMap, name: shop-values, valuesKey: default.yaml}
  values: {region: "${region}"}
`

const syncFile = `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, url: https://example.com/estate.git}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, prune: true, path: ./clusters/hub, sourceRef: {kind: GitRepository, name: flux-system}}
`

func files(t *testing.T, more map[string]string) (fstest.MapFS, []lab.Cluster) {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"addons/shop/flux/release.yaml":                shop,
		"addons/shop/flux/versions/prod.yaml":          "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: shop}\nspec: {interval: 1m, chart: {spec: {version: 2.0.0}}}\n",
		"addons/quota/flux/quota.yaml":                 "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: quota, namespace: default}\n",
		"environments/default/addons/shop/values.yaml": "replicas: 1\n",
		"clusters/prod/addons/shop/values.yaml":        "replicas: 3\n",
		"clusters/hub/flux-system/gotk-sync.yaml":      syncFile,
		"clusters/hub/flux-system/kustomization.yaml":  "resources: [gotk-sync.yaml]\n",
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range more {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys, []lab.Cluster{
		{Name: "hub", Role: lab.RoleHub, Addons: map[string]bool{"shop": true, "absent": true}},
		{Name: "prod", Role: lab.RoleSpoke, Environment: "prod", Addons: map[string]bool{"shop": true, "quota": true, "off": false}},
	}
}

// written adds the generated files.
func written(t *testing.T, fsys fstest.MapFS, clusters []lab.Cluster) map[string]string {
	t.Helper()
	want, err := Files(fsys, clusters)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range want {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return want
}

func world(fsys fs.FS) World {
	return World{
		FS: fsys,
		Vars: func(namespace, name string) map[string]string {
			if namespace != "cluster-prod" && namespace != "cluster-hub" || name != flux.ClusterVars {
				return nil
			}
			return map[string]string{"region": namespace}
		},
		Repository: func(url, _ string) (fs.FS, string, error) {
			if url != "https://example.com/estate.git" {
				return nil, "", &Absent{}
			}
			return fsys, "", nil
		},
	}
}

func TestFiles(t *testing.T) {
	fsys, clusters := files(t, nil)
	want := written(t, fsys, clusters)
	got := slices.Sorted(maps.Keys(want))
	expected := []string{
		"clusters/flux-names.yaml", "clusters/hub/addons/shop/kustomization.yaml", "clusters/hub/flux.yaml", "clusters/hub/kustomization.yaml",
		"clusters/prod/addons/quota/kustomization.yaml", "clusters/prod/addons/shop/kustomization.yaml", "clusters/prod/flux.yaml", "clusters/prod/kustomization.yaml",
	}
	if !slices.Equal(got, expected) {
		t.Errorf("%q", got)
	}
	for name, text := range want {
		if !Marked([]byte(text)) {
			t.Errorf("%s is not marked", name)
		}
	}
	for name, words := range map[string][]string{
		"clusters/hub/kustomization.yaml":               {"- flux-system\n", "- ../prod\n", "- flux.yaml\n"},
		"clusters/prod/addons/shop/kustomization.yaml":  {"default.yaml=../../../../environments/default/addons/shop/values.yaml", "environment.yaml={}", "cluster.yaml=values.yaml", "versions/prod.yaml", "/spec/kubeConfig"},
		"clusters/prod/addons/quota/kustomization.yaml": {"addons/quota/flux/quota.yaml"},
		"clusters/prod/flux.yaml":                       {"kubeConfig:", "wait: true", "name: cluster-vars", "namespace: cluster-prod"},
	} {
		for _, w := range words {
			if !strings.Contains(want[name], w) {
				t.Errorf("%s does not contain %q:\n%s", name, w, want[name])
			}
		}
	}
	for name, word := range map[string]string{
		"clusters/hub/addons/shop/kustomization.yaml":   "kubeConfig", // the hub's own Flux needs no kubeconfig
		"clusters/prod/addons/quota/kustomization.yaml": "namespace:", // manifests have their own
	} {
		if strings.Contains(want[name], word) {
			t.Errorf("%s has %q:\n%s", name, word, want[name])
		}
	}
	if n := strings.Count(want["clusters/prod/flux.yaml"], "kubeConfig:"); n != 1 {
		t.Errorf("%d Kustomizations have a kubeConfig, want only that of the manifests", n)
	}
}

func TestStale(t *testing.T) {
	fsys, clusters := files(t, nil)
	ps, err := Stale(fsys, clusters)
	if err != nil || len(ps) != 8 || !strings.Contains(ps[0].Message, "does not exist") {
		t.Fatalf("%v, %v", ps, err)
	}
	written(t, fsys, clusters)
	if ps, err := Stale(fsys, clusters); err != nil || len(ps) != 0 {
		t.Fatalf("%v, %v", ps, err)
	}
	fsys["clusters/prod/flux.yaml"].Data = append(fsys["clusters/prod/flux.yaml"].Data, '\n')
	fsys["clusters/hub/kustomization.yaml"].Data = []byte("resources: []\n")
	clusters[1].Addons["quota"] = false
	ps, err = Stale(fsys, clusters)
	var got []string
	for _, p := range ps {
		got = append(got, p.File+" "+p.Message)
	}
	want := []string{
		"clusters/hub/kustomization.yaml was not written by lab",
		"clusters/prod/addons/quota/kustomization.yaml is left over: no longer needed",
		"clusters/prod/flux.yaml is stale: edited, or older than cluster.yaml and addons/",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestExpand(t *testing.T) {
	fsys, clusters := files(t, nil)
	written(t, fsys, clusters)
	x := Expand(world(fsys), "clusters/hub/flux-system/gotk-sync.yaml")
	if len(x.Problems) > 0 {
		t.Fatal(x.Problems)
	}
	var got []string
	for _, a := range x.Applications {
		line := a.Cluster + " " + a.Name
		for _, r := range a.Releases {
			line += " " + r.Chart + " " + r.Version + " " + r.TargetNamespace + " " + r.Source
		}
		for _, o := range a.Objects {
			if region := strict.Text(o.Node, "spec", "values", "region"); region != "" {
				line += " " + region
			}
		}
		if len(a.Unset) > 0 {
			t.Errorf("%s: %v", a.Name, a.Unset)
		}
		got = append(got, line)
	}
	slices.Sort(got)
	if want := []string{
		"hub shop shop 1.0.0 shop HelmRepository flux-system/charts cluster-hub", "prod quota", "prod shop shop 2.0.0 shop HelmRepository flux-system/charts cluster-prod",
	}; !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestExpandProblems(t *testing.T) {
	for name, c := range map[string]struct{ file, was, is, want string }{
		"root":      {"clusters/hub/flux-system/gotk-sync.yaml", "./clusters/hub", "./clusters/nowhere", "no such folder"},
		"source":    {"clusters/hub/flux-system/gotk-sync.yaml", "{kind: GitRepository, name: flux-system}}", "{kind: GitRepository, name: other}}", "does not exist"},
		"manifest":  {"addons/quota/flux/quota.yaml", "metadata: {name: quota", "metadata: {name: [", ""},
		"no object": {"clusters/hub/flux-system/gotk-sync.yaml", "kind: Kustomization", "kind: Other", "contains no Kustomization"},
	} {
		fsys, clusters := files(t, nil)
		written(t, fsys, clusters)
		fsys[c.file].Data = []byte(strings.Replace(string(fsys[c.file].Data), c.was, c.is, 1))
		x := Expand(world(fsys), "clusters/hub/flux-system/gotk-sync.yaml")
		if len(x.Problems) == 0 || !strings.Contains(x.Problems.Error(), c.want) {
			t.Errorf("%s: %v", name, x.Problems)
		}
	}
}

// The default estate's generated files are up to date.
