package fluxset

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"

	"homelab/lab/flux"
	"homelab/lab/strict"
)

const unwanted = `apiVersion: image.toolkit.fluxcd.io/v1
kind: ImagePolicy
metadata: {name: web, namespace: default}
---
apiVersion: fluxcd.controlplane.io/v1
kind: ResourceSet
metadata: {name: tenants, namespace: default}
---
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: default}
stringData: {token: 'ENC[AES256_GCM,data:x]'}
sops: {age: []}
---
apiVersion: source.toolkit.fluxcd.io/v1beta2
kind: GitRepository
metadata: {name: web, namespace: default}
spec: {interval: 1m, url: https://example.com/web, gitImplementation: go-git}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: flux-operator, namespace: default}
spec: {interval: 1m, url: oci://example.com/charts/flux-operator}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: operator, namespace: default}
spec: {interval: 1m, chartRef: {kind: OCIRepository, name: flux-operator}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fine, namespace: default}
---
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: other}
stringData: {token: plain}
---
apiVersion: source.toolkit.fluxcd.io/v1beta2
kind: GitRepository
metadata: {name: more, namespace: default}
spec: {interval: 1m, url: https://example.com/more}
`

// Objects that cannot work here are deleted at any depth, by patches that are passed on; the rest is applied.
func TestAdapt(t *testing.T) {
	files := map[string]string{
		"cluster/a.yaml":         strings.Replace(kustomizationOf("apps", ", validation: client, healthChecks: [{apiVersion: v1, kind: Pod, name: a}, {apiVersion: source.toolkit.fluxcd.io/v1beta2, kind: GitRepository, name: more, namespace: default}]"), "/v1\n", "/v1beta2\n", 1),
		"apps/a.yaml":            kustomizationOf("web", ", decryption: {provider: sops}, patches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: fine, namespace: default}, data: {a: b}}'}]"),
		"web/kustomization.yaml": "resources: [a.yaml]\nsecretGenerator: [{name: made, namespace: default, files: [secret.env]}]\n",
		"web/secret.env":         "password: ENC[AES256_GCM,data:x]\n",
		"web/a.yaml":             unwanted,
	}
	x := expandForeign(files)
	for _, a := range x.Applications {
		if a.LeftOut == "" {
			t.Errorf("%s is not left out", a.Name)
		}
	}
	m := x.Adapt(x.Roots[0])
	why := map[string]int{}
	for _, o := range m.Without {
		why[o.Why]++
	}
	if want := map[string]int{"encrypted": 2, "of image automation": 1, "of Flux Operator": 1, "another engine": 1}; !maps.Equal(why, want) {
		t.Errorf("without %v", why)
	}
	given, err := yaml.Marshal(m.Patches)
	if err != nil {
		t.Fatal(err)
	}
	root := strings.Replace(foreignRoot, "spec: {interval: 1m, prune: true, path: ./cluster, ", "spec:\n  interval: 1m\n  prune: true\n  patches:\n    "+strings.ReplaceAll(strings.TrimSpace(string(given)), "\n", "\n    ")+"\n  path: ./cluster\n  ", 1)
	root = strings.Replace(root, "name: flux-system}}\n", "name: flux-system}\n", 1)
	x = expandWith(root, files)
	if len(x.Problems) > 0 || len(x.Applications) != 2 {
		t.Fatalf("%v, %d applications\n%s", x.Problems, len(x.Applications), root)
	}
	for _, a := range x.Applications {
		if a.LeftOut != "" {
			t.Errorf("%s: %s", a.Name, a.LeftOut)
		}
	}
	var kinds []string
	if checks := strict.Get(x.Roots[0].Objects[0].Node, "spec", "healthChecks"); strict.Text(checks.Content[0], "apiVersion") != "v1" || strict.Text(checks.Content[1], "apiVersion") != "source.toolkit.fluxcd.io/v1" {
		t.Error("health checks of an old API")
	}
	for _, a := range x.Applications {
		for _, o := range a.Objects {
			kinds = append(kinds, a.Name+" "+o.Node.Content[1].Value+" "+key(o.Node))
			if strict.Get(o.Node, "spec", "validation") != nil || strict.Get(o.Node, "spec", "gitImplementation") != nil || a.Name == "apps" && strict.Get(o.Node, "spec", "decryption") != nil {
				t.Errorf("%s has a removed field", key(o.Node))
			}
		}
	}
	slices.Sort(kinds)
	want := []string{
		"apps kustomize.toolkit.fluxcd.io/v1 flux-system/web", "web source.toolkit.fluxcd.io/v1 default/flux-operator",
		"web source.toolkit.fluxcd.io/v1 default/more", "web source.toolkit.fluxcd.io/v1 default/web",
		"web v1 default/fine", "web v1 other/token",
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("%q", kinds)
	}
	versions := 0
	for _, p := range m.Patches[len(m.Patches)-1:] {
		versions += strings.Count(p.Patch, "version: v1beta2")
	}
	if versions != 1 {
		t.Errorf("%d patches for one old API", versions)
	}
	if m := x.Adapt(x.Roots[0]); len(m.Patches) > 0 {
		t.Errorf("patches of patched roots: %+v", m.Patches)
	}
}

func expandWith(root string, files map[string]string, extra ...string) Expansion {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return Expand(World{
		FS: fstest.MapFS{"root.yaml": &fstest.MapFile{Data: []byte(root)}}, Scope: flux.Scope{Home: "prod"}, Extra: extra,
		Vars: func(string, string) map[string]string { return nil },
		Repository: func(url, revision string) (fs.FS, string, error) {
			switch {
			case url != "https://example.com/fleet":
				return nil, "", &Absent{}
			case revision != "main":
				return nil, "", &Absent{Why: "no " + revision}
			}
			return fsys, "../fleet", nil
		},
	}, "root.yaml")
}

const source = "apiVersion: source.toolkit.fluxcd.io/v1\n"

// Revisions, ignored files, includes and Secrets of sources.
func TestOrigins(t *testing.T) {
	read := func(name, kind, spec string) string {
		return source + "kind: " + kind + "\nmetadata: {name: " + name + ", namespace: flux-system}\nspec: {interval: 1m, " + spec + "}\n---\n" +
			"apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: " + name + ", namespace: flux-system}\nspec: {interval: 1m, prune: true, path: ./apps, sourceRef: {kind: " + kind + ", name: " + name + "}}\n---\n"
	}
	const own = "url: https://example.com/fleet"
	x := expandForeign(map[string]string{
		"cluster/a.yaml": read("default", "GitRepository", own) +
			read("main", "GitRepository", own+", ref: {name: main}") +
			read("strict", "GitRepository", own+`, ref: {branch: main}, ignore: "/apps/*\n!/apps/a.yaml"`) +
			read("whole", "GitRepository", own+", ref: {branch: main}, include: [{repository: {name: main}}]") +
			read("bucket", "Bucket", "endpoint: minio.example.com, bucketName: b") +
			read("locked", "Bucket", "endpoint: minio.example.com, bucketName: b, secretRef: {name: minio}") +
			read("opened", "Bucket", "endpoint: minio.example.com, bucketName: b, secretRef: {name: known}") +
			"apiVersion: v1\nkind: Secret\nmetadata: {name: known, namespace: flux-system}\nstringData: {accesskey: a}\n---\n" +
			strings.Replace(kustomizationOf("far", ", kubeConfig: {secretRef: {name: other}}"), "./far", "./apps", 1) +
			strings.Replace(kustomizationOf("near", ", kubeConfig: {secretRef: {name: known}}"), "./near", "./apps", 1),
		".sourceignore":        "apps/ignored.yaml\n# nothing\n.sops.yaml\n", // the default exclusions are for those without
		"apps/a.yaml":          "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n",
		"apps/b.yaml":          "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: default}\n",
		"apps/ignored.yaml":    "no: manifest\n",
		"apps/.sops.yaml":      "creation_rules: []\n",
		"apps/x/.sourceignore": "c.yaml\n",
		"apps/x/c.yaml":        "no: manifest\n",
	})
	got := map[string]string{}
	for _, a := range x.Applications {
		is := a.LeftOut
		if is == "" {
			is = a.Elsewhere
		}
		for _, o := range a.Objects {
			is += " " + strict.Text(o.Node, "metadata", "name")
		}
		got[a.Name] = strings.TrimSpace(is)
	}
	want := map[string]string{
		"default": "GitRepository flux-system/default: no master", "main": "a b", "strict": "a",
		"whole":  "GitRepository flux-system/whole includes other repositories, which is not supported: spec.include a b",
		"bucket": "https://minio.example.com/b", "opened": "https://minio.example.com/b",
		"locked": "Bucket flux-system/locked needs Secret minio, which is missing",
		"far":    "Kustomization far is for a remote cluster, whose Secret other is missing a b", "near": "a b",
	}
	if len(x.Problems) > 0 || !maps.Equal(got, want) {
		t.Errorf("%v, got\n%q\nwant\n%q", x.Problems, got, want)
	}
}

// A HelmChart's chart is from its own source, and a Receiver reads its token.
func TestHelmChart(t *testing.T) {
	x := expandForeign(map[string]string{
		"cluster/a.yaml": kustomizationOf("apps", ""),
		"apps/a.yaml": "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: web}\nspec: {interval: 1m, chartRef: {kind: HelmChart, name: web, namespace: charts}}\n---\n" +
			source + "kind: HelmChart\nmetadata: {name: web, namespace: charts}\nspec: {interval: 1m, chart: web, version: 1.x, sourceRef: {kind: HelmRepository, name: far}}\n---\n" +
			source + "kind: HelmRepository\nmetadata: {name: far, namespace: charts}\nspec: {url: https://charts.example.com}\n---\n" +
			"apiVersion: notification.toolkit.fluxcd.io/v1\nkind: Receiver\nmetadata: {name: push, namespace: web}\nspec: {secretRef: {name: hook}}\n",
	})
	a := x.Applications[0]
	if r := a.Releases[0]; r.URL != "https://charts.example.com" || r.Chart != "web" || r.Version != "1.x" || r.Source != "HelmRepository charts/far" {
		t.Errorf("%+v", r)
	}
	if len(a.Reads) != 1 || a.Reads[0].key() != "Secret web/hook" || a.Reads[0].Keys[0].Name != "token" {
		t.Errorf("%+v", a.Reads)
	}
}

// The estate's own manifests of an old API are problems.
func TestOutdated(t *testing.T) {
	fsys := fstest.MapFS{
		"root.yaml":      {Data: []byte(foreignRoot)},
		"cluster/a.yaml": {Data: []byte("apiVersion: helm.toolkit.fluxcd.io/v2beta1\nkind: HelmRelease\nmetadata: {name: web, namespace: web}\n")},
	}
	x := Expand(World{
		FS: fsys, Scope: flux.Scope{Home: "prod"}, Vars: func(string, string) map[string]string { return nil },
		Repository: func(string, string) (fs.FS, string, error) { return fsys, "", nil },
	}, "root.yaml")
	want := "cluster/a.yaml:1: HelmRelease web is of helm.toolkit.fluxcd.io/v2beta1, which Flux no longer serves: write helm.toolkit.fluxcd.io/v2"
	if got := x.Problems.Error(); strings.TrimSpace(got) != want {
		t.Errorf("%q", got)
	}
}

// Objects for remote clusters, engines and image automation are left out.
func TestLeftOutReleases(t *testing.T) {
	release := func(name, spec string) string {
		return "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: " + name + ", namespace: web}\nspec: {interval: 1m, " + spec + "}\n"
	}
	files := map[string]string{
		"cluster/a.yaml": kustomizationOf("far", "") + kustomizationOf("cloud", "") + kustomizationOf("engine", "") + kustomizationOf("policy", "") + kustomizationOf("update", "") + kustomizationOf("set", "") + kustomizationOf("old", ""),
		"far/a.yaml":     release("web", "chartRef: {kind: HelmChart, name: web}, kubeConfig: {secretRef: {name: other}}"),
		"cloud/a.yaml":   release("web", "chartRef: {kind: HelmChart, name: web}, kubeConfig: {configMapRef: {name: eks}}"),
		"engine/a.yaml":  release("flux", "chart: {spec: {chart: flux2, sourceRef: {kind: HelmRepository, name: x}}}"),
		"policy/a.yaml":  "apiVersion: image.toolkit.fluxcd.io/v1\nkind: ImagePolicy\nmetadata: {name: web, namespace: web}\n",
		"update/a.yaml":  "apiVersion: image.toolkit.fluxcd.io/v1\nkind: ImageUpdateAutomation\nmetadata: {name: web, namespace: web}\n",
		"set/a.yaml":     "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: web, namespace: web}\n",
		"old/a.yaml":     "apiVersion: notification.toolkit.fluxcd.io/v1beta2\nkind: Receiver\nmetadata: {name: web, namespace: web}\n",
	}
	why := func(extra ...string) map[string]string {
		got := map[string]string{}
		for _, a := range expandWith(foreignRoot, files, extra...).Applications {
			got[a.Name] = a.LeftOut
		}
		return got
	}
	const none = " needs a component of Flux that is not installed: spec.engine.componentsExtra of the hub"
	want := map[string]string{
		"far": "HelmRelease web is for a remote cluster, whose Secret other is missing", "cloud": "HelmRelease web is for a remote cluster with the identity of a cloud, in ConfigMap eks",
		"engine": "HelmRelease flux would replace the lab's engine",
		"policy": "ImagePolicy web" + none, "update": "ImageUpdateAutomation web" + none, "set": "ResourceSet web is of Flux Operator, which is not part of Flux",
		"old": "Receiver web is of notification.toolkit.fluxcd.io/v1beta2, which Flux no longer serves",
	}
	if got := why(); !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
	want["policy"] = ""
	if got := why("image-reflector-controller"); !maps.Equal(got, want) {
		t.Errorf("with a controller: %q", got)
	}
}

// Of the objects in an encrypted file, only those with encrypted values are left out.
func TestMarkedBySOPS(t *testing.T) {
	const sops = "sops: {mac: \"ENC[AES256_GCM,data:bWFj,iv:aXY=,tag:dGFn,type:str]\", version: 3.9.2}\n"
	files := map[string]string{"apps/a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: login, namespace: flux-system}\nstringData: {password: \"ENC[AES256_GCM,data:eA==,iv:aXY=,tag:dGFn,type:str]\"}\n" + sops +
		"---\n" + source + "kind: GitRepository\nmetadata: {name: far, namespace: flux-system}\nspec: {interval: 1m, url: https://example.com/far}\n" + sops}
	for decryption, want := range map[string][]string{
		", decryption: {provider: sops}": {"Secret"},
		"":                               {"Secret", "GitRepository"}, // Flux refuses its metadata
	} {
		files["cluster/a.yaml"] = kustomizationOf("apps", decryption)
		x := expandForeign(files)
		m := x.Adapt(x.Roots[0])
		var without []string
		for _, o := range m.Without {
			without = append(without, strict.Text(o.Node, "kind"))
		}
		removes := len(m.Patches) == 1 && strings.Contains(m.Patches[0].Patch, "path: /sops")
		if !slices.Equal(without, want) || removes != (decryption != "") {
			t.Errorf("%q: without %q, %+v", decryption, without, m.Patches)
		}
	}
}
