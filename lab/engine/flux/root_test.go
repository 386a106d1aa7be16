package flux

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

const rootManifest = `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: elsewhere, labels: {mine: "yes"}}
spec: {url: https://github.com/example/estate.git, ref: {branch: main}, interval: 1m}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: other}
spec: {url: https://github.com/example/other}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: far}
spec: {url: https://github.com/example/far}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system}
spec: {path: ./clusters/hub, suspend: true}
`

func theRoot() engine.Root {
	return engine.Root{
		Manifest: []byte(rootManifest), RepoURL: "http://forge/lab/estate.git", Revision: "lab",
		Mirrors: map[string]string{"git@github.com:example/other.git": "http://forge/lab/other.git"},
	}
}

func TestApplyRoot(t *testing.T) {
	f, hub, _ := newFake(t)
	for _, want := range []bool{true, false} {
		if changed, err := f.ApplyRoot(t.Context(), theRoot()); err != nil || changed != want {
			t.Errorf("changed %t, %v; want %t", changed, err, want)
		}
	}
	for name, want := range map[string]map[string]any{
		"flux-system": {"url": "http://forge/lab/estate.git", "interval": "1m", "ref": map[string]any{"branch": "lab"}, "secretRef": map[string]any{"name": "estate"}},
		"other":       {"url": "http://forge/lab/other.git", "secretRef": map[string]any{"name": "lab-homelab-mirrors"}},
		"far":         {"url": "https://github.com/example/far"},
	} {
		o := hub.Get(t, gitRepositories, flux.Namespace, name)
		if got := o.Object["spec"]; !equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
		if o.GetLabels()[lab.LabelName] != "homelab" || o.GetLabels()[lab.LabelPart] != "root" || name == "flux-system" && o.GetLabels()["mine"] != "yes" {
			t.Errorf("%s: %v", name, o.GetLabels())
		}
	}
	if spec := hub.Get(t, kustomizations, flux.Namespace, "flux-system").Object["spec"]; !equal(spec, map[string]any{"path": "./clusters/hub", "suspend": false}) {
		t.Errorf("%v", spec)
	}
	r := hub.Get(t, receivers, flux.Namespace, "lab-webhook")
	if got := at(r.Object, "spec", "secretRef", "name"); got != "lab-webhook" || at(r.Object, "spec", "type") != "github" {
		t.Errorf("%v", r.Object)
	}
	var selected []string
	for _, o := range at(r.Object, "spec", "resources").([]any) {
		for k, v := range at(o, "matchLabels").(map[string]any) {
			selected = append(selected, at(o, "kind").(string)+" "+at(o, "name").(string)+" "+k+"="+v.(string))
		}
	}
	if want := []string{
		"GitRepository * lab.homelab/name=homelab", "GitRepository * kustomize.toolkit.fluxcd.io/namespace=flux-system",
		"HelmRepository * lab.homelab/name=homelab", "HelmRepository * kustomize.toolkit.fluxcd.io/namespace=flux-system",
	}; !slices.Equal(selected, want) {
		t.Errorf("%q", selected)
	}
}

func equal(a, b any) bool {
	x, ok := a.(map[string]any)
	y, is := b.(map[string]any)
	if !ok || !is {
		return a == b
	}
	return maps.EqualFunc(x, y, equal)
}

func TestApplyRootRevision(t *testing.T) {
	for revision, want := range map[string]map[string]any{"": {"branch": "main"}, "lab": {"branch": "lab"}, newCommit: {"commit": newCommit}} {
		f, hub, _ := newFake(t)
		root := theRoot()
		root.Revision = revision
		if _, err := f.ApplyRoot(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		if got := at(hub.Get(t, gitRepositories, flux.Namespace, "flux-system").Object, "spec", "ref"); !equal(got, want) {
			t.Errorf("%q: %v", revision, got)
		}
	}
	f, hub, _ := newFake(t)
	root := theRoot()
	root.RepoURL = ""
	if _, err := f.ApplyRoot(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if got := at(hub.Get(t, gitRepositories, flux.Namespace, "flux-system").Object, "spec", "url"); got != "https://github.com/example/estate.git" {
		t.Errorf("%v", got)
	}
}

// Former roots are deleted; their objects stay.
func TestApplyRootFormer(t *testing.T) {
	f, hub, _ := newFake(t, kustomization("flux-system", "foreign", "", newCommit))
	root := theRoot()
	if _, err := f.ApplyRoot(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	root.Manifest = []byte(strings.ReplaceAll(rootManifest, "name: flux-system", "name: new"))
	hub.ClearActions()
	if changed, err := f.ApplyRoot(t.Context(), root); err != nil || !changed {
		t.Errorf("%t, %v", changed, err)
	}
	if got := hub.Names(t, kustomizations, flux.Namespace); !slices.Equal(got, []string{"foreign", "new"}) {
		t.Errorf("%q", got)
	}
	if got := hub.Names(t, gitRepositories, flux.Namespace); !slices.Equal(got, []string{"far", "new", "other"}) {
		t.Errorf("%q", got)
	}
	w := hub.Writes()
	orphaned, deleted := slices.Index(w, "patch kustomizations flux-system"), slices.Index(w, "delete kustomizations flux-system")
	if orphaned < 0 || deleted < orphaned {
		t.Errorf("%q", w)
	}
}

func TestApplyRootInvalid(t *testing.T) {
	for manifest, want := range map[string]string{
		"kind: Namespace\napiVersion: v1\nmetadata: {name: x}":                                   `the root's file contains a Namespace "x"`,
		"kind: Kustomization\napiVersion: kustomize.config.k8s.io/v1\nmetadata: {name: x}":       `the root's file contains a Kustomization "x"`,
		"kind: Kustomization\napiVersion: kustomize.toolkit.fluxcd.io/v1\nmetadata: {name: one}": "root: kustomization one has no spec",
		"a: [":  "root: ",
		"# nil": "root: the manifest is empty",
	} {
		f, hub, _ := newFake(t)
		_, err := f.ApplyRoot(t.Context(), engine.Root{Manifest: []byte(manifest)})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", manifest, err)
		}
		if w := hub.Writes(); len(w) != 0 {
			t.Errorf("%q: wrote %q", manifest, w)
		}
		if _, err := f.Drift(t.Context(), engine.Root{Manifest: []byte(manifest)}, nil); err == nil {
			t.Errorf("%q: Drift accepts it", manifest)
		}
	}
}

func TestApplyRepositories(t *testing.T) {
	f, hub, _ := newFake(t)
	repos := []engine.Repository{
		{Name: "estate", Type: "git", URL: "http://forge/estate.git", Username: "lab", Password: "hush"},
		{Name: "open", Type: "git", URL: "http://forge/open.git"},
		{Name: "charts", Type: "helm", URL: "http://forge/charts", Username: "lab", Password: "hush"},
		{Name: "free", Type: "helm", URL: "http://forge/free"},
	}
	apply := func(want ...string) {
		t.Helper()
		if lines, err := f.ApplyRepositories(t.Context(), repos); err != nil || !slices.Equal(lines, want) {
			t.Errorf("%q, %v; want %q", lines, err, want)
		}
		if lines, err := f.ApplyRepositories(t.Context(), repos); err != nil || len(lines) != 0 {
			t.Errorf("second call: %q, %v", lines, err)
		}
		if lines, err := f.Drift(t.Context(), engine.Root{Manifest: []byte(rootManifest)}, repos); err != nil || len(lines) != 5 || !strings.Contains(lines[0], "gitrepository") {
			t.Errorf("drift %q, %v", lines, err)
		}
	}
	apply("repository charts: http://forge/charts", "repository estate: http://forge/estate.git", "repository free: http://forge/free", "repository open: http://forge/open.git")
	if got := hub.Names(t, kube.Secrets, flux.Namespace); !slices.Equal(got, []string{"charts", "estate", "open"}) {
		t.Errorf("%q", got)
	}
	if s := hub.Get(t, kube.Secrets, flux.Namespace, "charts"); kube.SecretField(s, "username") != "lab" || kube.SecretField(s, "password") != "hush" {
		t.Errorf("%v", s.Object)
	}
	if got := at(hub.Get(t, helmRepositories, flux.Namespace, "charts").Object, "spec", "secretRef", "name"); got != "charts" {
		t.Errorf("%v", got)
	}
	if got := at(hub.Get(t, helmRepositories, flux.Namespace, "free").Object, "spec").(map[string]any); got["secretRef"] != nil || got["url"] != "http://forge/free" {
		t.Errorf("%v", got)
	}
	repos[0].Password, repos[3].URL = "other", "http://forge/x"
	apply("repository estate: credentials renewed", "repository free: http://forge/free -> http://forge/x")
	repos[2].Username, repos[2].Password = "", ""
	apply("repository charts: credentials renewed")
	repos = repos[:2]
	apply("repository charts: removed", "repository free: removed")
	broken := errors.New("broken")
	hub.Refuse("get secrets", broken)
	if _, err := f.ApplyRepositories(t.Context(), repos); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "repository estate: ") {
		t.Errorf("%v", err)
	}
}

func TestDrift(t *testing.T) {
	f, hub, _ := newFake(t)
	repos := []engine.Repository{{Name: "charts", Type: "helm", URL: "http://forge/charts", Username: "lab", Password: "hush"}}
	root := theRoot()
	stray := func(want ...string) {
		t.Helper()
		if got, err := f.Drift(t.Context(), root, repos); err != nil || !slices.Equal(got, want) {
			t.Errorf("drift %q, %v; want %q", got, err, want)
		}
	}
	stray("repository charts is gone", "gitrepository flux-system is gone", "gitrepository other is gone", "gitrepository far is gone", "kustomization flux-system is gone", "receiver lab-webhook is gone")
	if _, err := f.ApplyRepositories(t.Context(), repos); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ApplyRoot(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	stray()
	hub.Patch(t, gitRepositories, flux.Namespace, "flux-system", map[string]any{"spec": map[string]any{"url": "http://x"}}) // Git's concern
	hub.Patch(t, helmRepositories, flux.Namespace, "charts", map[string]any{"spec": map[string]any{"url": "http://x"}})
	if err := hub.Resource(receivers).Namespace(flux.Namespace).Delete(t.Context(), "lab-webhook", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stray("repository charts was changed", "receiver lab-webhook is gone")
	if err := hub.Resource(kube.Secrets).Namespace(flux.Namespace).Delete(t.Context(), "charts", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stray("repository charts is gone", "receiver lab-webhook is gone")
}

// A root's extra objects are applied with it, and reported when missing.
func TestApplyRootExtras(t *testing.T) {
	f, hub, _ := newFake(t)
	root := theRoot()
	root.Extra = []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{
		"name": "front", "namespace": flux.Namespace, "labels": map[string]any{lab.LabelName: "homelab", lab.LabelPart: kube.ExtraPart},
	}}}}
	if lines, err := f.Drift(t.Context(), root, nil); err != nil || lines[0] != "service front is gone" {
		t.Errorf("%q, %v", lines, err)
	}
	for _, want := range []int{1, 0} {
		if changed, err := f.ApplyRoot(t.Context(), root); err != nil || !changed {
			t.Errorf("%t, %v", changed, err)
		}
		if got := hub.Names(t, kube.ExtraKinds["Service"], flux.Namespace); len(got) != want {
			t.Errorf("%q", got)
		}
		root.Extra = nil
	}
}

// Namespaces of clusters that were never registered are deleted; those in use and foreign ones stay.
func TestApplyRootRemovesNamespaces(t *testing.T) {
	const labels = "labels: {lab.homelab/name: homelab, lab.homelab/part: registration}"
	rooms := ""
	for _, cluster := range []string{"prod", "gone", "synced", "registered"} {
		rooms += "apiVersion: v1\nkind: Namespace\nmetadata: {name: cluster-" + cluster + ", " + labels + "}\n---\n"
	}
	rooms += "apiVersion: v1\nkind: Namespace\nmetadata: {name: cluster-hers}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: cluster-kubeconfig, namespace: cluster-registered}\n---" + app("synced", "podinfo", newCommit)
	f, hub, _ := newFake(t, rooms)
	root := engine.Root{Manifest: []byte(strings.TrimPrefix(source(newCommit), "\n"))}
	if _, err := f.ApplyRoot(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if got := hub.Names(t, kube.Namespaces, ""); len(got) != 5 {
		t.Errorf("without a list of clusters: %v", got)
	}
	root.Clusters = []string{"prod"}
	if changed, err := f.ApplyRoot(t.Context(), root); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if got, want := hub.Names(t, kube.Namespaces, ""), []string{"cluster-hers", "cluster-prod", "cluster-registered", "cluster-synced"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if changed, err := f.ApplyRoot(t.Context(), root); err != nil || changed {
		t.Errorf("second call: %v, %v", changed, err)
	}
	for _, request := range []string{"list namespaces", "list helmreleases", "delete namespaces"} {
		f, hub, _ := newFake(t, rooms)
		broken := errors.New("broken")
		hub.Refuse(request, broken)
		if _, err := f.ApplyRoot(t.Context(), root); !errors.Is(err, broken) {
			t.Errorf("%s: %v", request, err)
		}
	}
}

// The credentials of a registry are a Secret that sources of artifacts can name.
func TestRegistryCredentials(t *testing.T) {
	f, hub, _ := newFake(t)
	repos := []engine.Repository{{Name: "registry", Type: "oci", URL: "registry:5000", Username: "lab", Password: "hush", All: true}}
	for _, want := range [][]string{{"repository registry: registry:5000"}, nil} {
		if got, err := f.ApplyRepositories(t.Context(), repos); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	o := hub.Get(t, kube.Secrets, flux.Namespace, "registry")
	if got, want := kube.SecretField(o, ".dockerconfigjson"), `{"auths":{"registry:5000":{"auth":"bGFiOmh1c2g=","password":"hush","username":"lab"}}}`; got != want || o.Object["type"] != "kubernetes.io/dockerconfigjson" {
		t.Errorf("%v: %s, want %s", o.Object["type"], got, want)
	}
	if got, err := f.ApplyRepositories(t.Context(), nil); err != nil || !slices.Equal(got, []string{"repository registry: removed"}) {
		t.Errorf("%q, %v", got, err)
	}
}
