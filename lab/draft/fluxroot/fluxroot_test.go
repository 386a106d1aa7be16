package fluxroot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/draft/fluxroot"
	"homelab/lab/render"
)

// object returns an object of Flux in flux-system.
func object(group, kind, name, spec string) string {
	return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: flux-system}\nspec: {%s}\n", group, kind, name, spec)
}

func kustomization(name, dir string) string {
	return object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", name, "interval: 1m, timeout: 7m, path: "+dir+", prune: true, sourceRef: {kind: GitRepository, name: flux-system}")
}

// candidates returns those of a repository with files.
func candidates(t *testing.T, files map[string]string) *fluxroot.Candidates {
	t.Helper()
	fsys := fstest.MapFS{}
	r := &lab.Repository{URL: "https://git.example.com/acme/fleet", Dir: "../fleet", Branch: "main", FS: fsys}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	s := &fluxroot.Candidates{}
	for name, text := range files {
		docs, err := render.Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			s.Add(r, name, doc.Node)
		}
	}
	return s
}

// Folders that something syncs win over those that only look like a cluster's.
func TestRoots(t *testing.T) {
	source := object("source.toolkit.fluxcd.io/v1", "GitRepository", "flux-system", "interval: 1m, url: https://git.example.com/acme/origin, ref: {branch: main}")
	for name, tc := range map[string]struct {
		files        map[string]string
		want         []string // folder, name and address
		bootstrapped bool
	}{
		"nothing": {files: map[string]string{"a.yaml": "kind: ConfigMap\n"}},
		"bootstrapped": {files: map[string]string{
			"clusters/prod/flux-system/gotk-sync.yaml": source + kustomization("flux-system", "./clusters/prod"),
			"clusters/dev/apps.yaml":                   kustomization("apps", "./apps"),
		}, want: []string{"clusters/prod flux-system https://git.example.com/acme/origin"}, bootstrapped: true},
		"whole repository": {files: map[string]string{"flux-system/gotk-sync.yaml": kustomization("flux-system", "./")}, want: []string{". flux-system "}, bootstrapped: true},
		"instance": {files: map[string]string{
			"flux.yaml":             object("fluxcd.controlplane.io/v1", "FluxInstance", "flux", "sync: {kind: GitRepository, url: https://git.example.com/acme/fleet, path: clusters/one}"),
			"clusters/one/map.yaml": "kind: ConfigMap\n",
		}, want: []string{"clusters/one flux-system https://git.example.com/acme/fleet"}, bootstrapped: true},
		"instance of a missing folder": {files: map[string]string{
			"flux.yaml": object("fluxcd.controlplane.io/v1", "FluxInstance", "flux", "sync: {kind: GitRepository, url: https://git.example.com/acme/fleet, path: clusters/one}"),
		}},
		"assembled": {files: map[string]string{
			"sync/kustomization.yaml": "resources: [../base]\n", "base/kustomization.yaml": "resources: [sync.yaml]\n", "base/sync.yaml": kustomization("flux-system", "./sync"),
		}, want: []string{"sync flux-system "}, bootstrapped: true},
		"assembled, one of them wrongly": {files: map[string]string{
			"a/kustomization.yaml": "resources: [../base]\npatches: [{path: ../a.yaml}]\n", "b/kustomization.yaml": "resources: [../none]\npatches: [{path: ../b.yaml}]\n",
			"base/kustomization.yaml": "resources: [sync.yaml]\n", "base/sync.yaml": kustomization("flux-system", "./none"),
			"a.yaml":    object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "flux-system", "path: ./a"),
			"b.yaml":    object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "flux-system", "path: ./b"),
			"apps.yaml": object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "apps", "path: ./b"),
		}, want: []string{"a flux-system ", "b flux-system "}, bootstrapped: true},
		"folders of clusters": {files: map[string]string{
			"clusters/a/apps.yaml": kustomization("apps", "./apps"), "clusters/b/more/apps.yaml": kustomization("apps", "./apps"), "apps/web.yaml": kustomization("web", "./web"),
			"clusters/base/apps.yaml": kustomization("apps", "./apps"),
		}, want: []string{"clusters/a flux-system ", "clusters/b flux-system "}},
		"not synced by another":             {files: map[string]string{"top/apps.yaml": kustomization("apps", "./apps"), "apps/web.yaml": kustomization("web", "./web")}, want: []string{"top flux-system "}},
		"parts of one cluster, or clusters": {files: map[string]string{"a/web.yaml": kustomization("web", "./web"), "b/api.yaml": kustomization("api", "./api")}},
		"clusters of one shape": {files: map[string]string{
			"a/apps.yaml": kustomization("apps", "./apps"), "b/apps.yaml": kustomization("apps", "./apps"), "c/other.yaml": kustomization("other", "./other"),
		}, want: []string{"a flux-system ", "b flux-system "}},
		"one that leads on": {files: map[string]string{
			"a/apps.yaml": kustomization("apps", "./apps"), "apps/web.yaml": kustomization("web", "./web"), "c/other.yaml": kustomization("other", "./other"),
		}, want: []string{"a flux-system "}},
		"an application that syncs itself": {files: map[string]string{
			"prod/apps.yaml": kustomization("apps", "./apps"), "infra/web/web.yaml": kustomization("web", "./infra/web"),
		}, want: []string{"prod flux-system "}},
		"nothing but what syncs itself": {files: map[string]string{"infra/web/web.yaml": kustomization("web", "./infra/web")}, want: []string{"infra/web flux-system "}},
		"applications beside what they sync": {files: map[string]string{
			"clusters/one/apps/apps.yaml": strings.ReplaceAll(kustomization("apps", "./clusters/one/apps"), "GitRepository", "OCIRepository"), "clusters/one/apps/kustomization.yaml": "resources: [map.yaml]\n",
			"clusters/one/apps/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		}, want: []string{"clusters/one flux-system "}},
		"a cluster that syncs itself": {files: map[string]string{"infra/one/sync.yaml": kustomization("one", "./infra/one") + source}, want: []string{
			"infra/one one https://git.example.com/acme/origin",
		}, bootstrapped: true},
		"releases beside kustomizations of clusters": {files: map[string]string{
			"apps/web.yaml":                 object("helm.toolkit.fluxcd.io/v2", "HelmRelease", "web", "interval: 1m"),
			"clusters/a/kustomization.yaml": "resources: [../../apps/web.yaml]\n",
		}, want: []string{"clusters/a flux-system "}},
	} {
		t.Run(name, func(t *testing.T) {
			roots, bootstrapped := candidates(t, tc.files).Roots()
			var got []string
			for _, r := range roots {
				got = append(got, r.Dir+" "+r.Name+" "+r.URL)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) || bootstrapped != tc.bootstrapped {
				t.Errorf("%q, bootstrapped %t", got, bootstrapped)
			}
		})
	}
}

// What an artifact may contain makes no root: its paths are not those of the repository.
func TestPacked(t *testing.T) {
	ofArtifact := strings.NewReplacer("GitRepository", "OCIRepository").Replace
	s := candidates(t, map[string]string{
		"deploy/clusters/one/flux.yaml": object("fluxcd.controlplane.io/v1", "FluxInstance", "flux", "sync: {kind: OCIRepository, url: 'oci://git.example.com/acme/fleet', path: clusters/one}"),
		"deploy/clusters/one/apps.yaml": ofArtifact(kustomization("apps", "./apps")), "deploy/clusters/base/base.yaml": ofArtifact(kustomization("base", "./base")),
	})
	if roots, _ := s.Roots(); len(roots) > 0 {
		t.Errorf("%+v", roots)
	}
	const want = "it syncs clusters/one of oci://git.example.com/acme/fleet, and the repository has deploy/clusters/one: if that is an artifact of deploy, draft from ../fleet/deploy: lab init --from"
	if left := s.Packed(); len(left) != 1 || left[0].Why != want || left[0].At.File != "../fleet/deploy/clusters/one/flux.yaml" {
		t.Errorf("%+v", left)
	}
}

func TestFree(t *testing.T) {
	s := candidates(t, map[string]string{"a.yaml": kustomization("estate", "./a") + object("source.toolkit.fluxcd.io/v1", "GitRepository", "lab-estate", "interval: 1m")})
	for name, want := range map[string]string{"seeds": "seeds", "estate": "lab-lab-estate"} {
		if got := s.Free(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A kustomization with a remote base is hidden, and reported.
func TestRemoteBase(t *testing.T) {
	roots, _ := candidates(t, map[string]string{
		"clusters/a/kustomization.yaml": "resources:\n- https://git.example.com/else/where//base?ref=v1\n- apps.yaml\n", "clusters/a/apps.yaml": kustomization("apps", "./apps"),
	}).Roots()
	if len(roots) != 1 || len(roots[0].Left) != 1 || roots[0].Left[0].At.File != "../fleet/clusters/a/kustomization.yaml" {
		t.Fatalf("%+v", roots)
	}
	roots[0].Cluster = "a"
	if text := roots[0].Manifest("estate", ""); !strings.Contains(text, "/clusters/a/kustomization.yaml") {
		t.Errorf("%s", text)
	}
}

// A root keeps its Kustomization's spec, with lab's patches, and waits for what the cluster lacks.
func TestManifest(t *testing.T) {
	roots, _ := candidates(t, map[string]string{"clusters/prod/flux-system/gotk-sync.yaml": strings.Replace(kustomization("flux-system", "./clusters/prod"), "timeout: 7m",
		"timeout: 7m, postBuild: {substitute: {a: b}}, patches: [{patch: mine, target: {kind: Job}}]", 1)}).Roots()
	r := roots[0]
	r.Cluster = "prod"
	text := r.Manifest("estate", "seeds")
	for _, want := range []string{"url: https://git.example.com/acme/fleet\n", "path: ./clusters/prod\n", "timeout: 7m\n", "retryInterval: 15s\n", "patch: mine\n", "postBuild:", "dependsOn:\n    - name: seeds\n", "branch: main\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	all := r.Spec
	r.WithoutVariables()
	if text := r.Manifest("estate", ""); strings.Contains(text, "postBuild") || strings.Contains(text, "dependsOn") || !strings.Contains(text, "timeout: 7m") {
		t.Errorf("%s", text)
	}
	if len(all.Content) == len(r.Spec.Content) {
		t.Error("the repository's own spec has changed")
	}
	if got, want := r.Source("web", "apps"), "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata:\n  name: apps\n  namespace: web\nspec:\n  interval: 1m0s\n  url: https://git.example.com/acme/fleet\n  ref:\n    branch: main\n"; got != want {
		t.Errorf("%s", got)
	}
}
