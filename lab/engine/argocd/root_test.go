package argocd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

const rootManifest = `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: estate}
spec: {sourceRepos: ["*"]}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: addons, labels: {team: platform, lab.homelab/part: theirs}}
spec:
  source: {repoURL: http://forge/estate.git, targetRevision: main, path: addons}
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
  syncPolicy: {retry: {limit: 10}}
`

func TestApplyRoot(t *testing.T) {
	a, hub, _ := newFake(t)
	apply := func(manifest string, want bool) {
		t.Helper()
		if changed, err := a.ApplyRoot(t.Context(), engine.Root{Manifest: []byte(manifest)}); err != nil || changed != want {
			t.Fatalf("changed %v, want %v, %v", changed, want, err)
		}
	}
	apply(rootManifest, true)
	o := hub.Get(t, applications, Namespace, "addons")
	if l := o.GetLabels(); l["team"] != "platform" || l[lab.LabelName] != "homelab" || l[lab.LabelPart] != "root" {
		t.Errorf("labels %v", l)
	}

	// Argo CD changes the object during operation.
	hub.patch(t, applications, "addons", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{refreshApplication: "normal"}},
		"status":   map[string]any{"sync": map[string]any{"status": "Synced"}}, "operation": map[string]any{"sync": map[string]any{}},
	})
	hub.Writes()
	apply(rootManifest, false)
	if w := hub.Writes(); len(w) != 0 {
		t.Errorf("requests without a change: %v", w)
	}

	apply(strings.Replace(rootManifest, "targetRevision: main", "targetRevision: other", 1), true)
	apply(strings.Replace(strings.Replace(rootManifest, "targetRevision: main", "targetRevision: other", 1), "  syncPolicy: {retry: {limit: 10}}\n", "", 1), true)
	spec := toYAML(t, hub.Get(t, applications, Namespace, "addons").Object["spec"])
	if !strings.Contains(spec, "targetRevision: other") || strings.Contains(spec, "retry") {
		t.Errorf("spec\n%s", spec)
	}
	if hub.Get(t, applications, Namespace, "addons").Object["status"] == nil {
		t.Error("status was removed")
	}
}

func TestApplyRootRepository(t *testing.T) {
	a, hub, _ := newFake(t)
	root := engine.Root{Manifest: []byte(rootManifest), RepoURL: "http://elsewhere/estate.git", Revision: "next"}
	if _, err := a.ApplyRoot(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	spec := toYAML(t, hub.Get(t, applications, Namespace, "addons").Object["spec"])
	for _, want := range []string{"repoURL: http://elsewhere/estate.git", "targetRevision: next", "path: addons"} {
		if !strings.Contains(spec, want) {
			t.Errorf("%q is not in\n%s", want, spec)
		}
	}
	if spec := toYAML(t, hub.Get(t, appProjects, Namespace, "estate").Object["spec"]); strings.Contains(spec, "elsewhere") {
		t.Errorf("project has a source\n%s", spec)
	}
}

// Each file of testdata/point is a root as written in an estate, and as applied.
func TestPoint(t *testing.T) {
	files, err := filepath.Glob("testdata/point/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := kube.Decode(archive.Files[0].Data)
			if err != nil {
				t.Fatal(err)
			}
			point(objects, engine.Root{
				RepoURL: "http://forge/lab/estate.git", Revision: "main",
				Mirrors: map[string]string{"https://github.com/org/addons": "http://forge/lab/addons.git", "https://github.com/me/estate": "http://forge/lab/estate.git"},
			})
			var got strings.Builder
			for _, o := range objects {
				got.WriteString("---\n" + toYAML(t, o.Object["spec"]) + "\n")
			}
			if *update {
				archive.Files[1].Data = []byte(got.String())
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(archive.Files[1].Data), got.String()); d != "" {
				t.Errorf("(-update rewrites the case)\n%s", d)
			}
		})
	}
}

// Several roots are applied, and deleted one by one.
func TestApplySeveralRoots(t *testing.T) {
	a, hub, _ := newFake(t)
	second := strings.Replace(rootManifest[strings.LastIndex(rootManifest, "---"):], "name: addons", "name: workloads", 1)
	sets := "---\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: bootstrap}\nspec: {}\n"
	for _, step := range []struct {
		manifest   string
		apps, sets []string
	}{
		{rootManifest + second + sets, []string{"addons", "workloads"}, []string{"bootstrap"}},
		{rootManifest + sets, []string{"addons"}, []string{"bootstrap"}},
		{sets, nil, []string{"bootstrap"}},
	} {
		root := engine.Root{Manifest: []byte(step.manifest), RepoURL: "http://forge/lab/estate.git", Revision: "main"}
		for i, want := range []bool{true, false} {
			if changed, err := a.ApplyRoot(t.Context(), root); err != nil || changed != want {
				t.Fatalf("step %d: changed %v, %v", i+1, changed, err)
			}
		}
		if got := hub.names(t, applications); !slices.Equal(got, step.apps) {
			t.Errorf("applications %v, want %v", got, step.apps)
		}
		if got := hub.names(t, applicationSets); !slices.Equal(got, step.sets) {
			t.Errorf("sets %v, want %v", got, step.sets)
		}
		set := hub.Get(t, applicationSets, Namespace, "bootstrap")
		if annotation := set.GetAnnotations()[lab.AnnotationEstate]; annotation != "http://forge/lab/estate.git main" || set.GetLabels()[lab.LabelPart] != "root" {
			t.Errorf("%q, %v", annotation, set.GetLabels())
		}
		if lines, err := a.Drift(t.Context(), root, nil); err != nil || len(lines) > 0 {
			t.Errorf("drift %v, %v", lines, err)
		}
	}
}

// A renamed root must not leave two, which would sync the same objects.
func TestApplyRootRenamed(t *testing.T) {
	a, hub, _ := newFake(t)
	mine := "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: mine, namespace: argocd}\nspec: {}\n"
	hub.create(t, mine)
	old := strings.Replace(rootManifest, "metadata: {name: addons,", "metadata: {name: addons, finalizers: [resources-finalizer.argocd.argoproj.io],", 1)
	renamed := strings.Replace(old, "name: addons,", "name: bootstrap,", 1)
	_, renamed, _ = strings.Cut(renamed, "---") // without the project
	for _, step := range []struct {
		manifest string
		changed  bool
		want     []string
	}{
		{old, true, []string{"addons", "mine"}}, {renamed, true, []string{"bootstrap", "mine"}}, {renamed, false, []string{"bootstrap", "mine"}},
	} {
		changed, err := a.ApplyRoot(t.Context(), engine.Root{Manifest: []byte(step.manifest)})
		if err != nil || changed != step.changed {
			t.Fatalf("changed %v, want %v, %v", changed, step.changed, err)
		}
		if got := hub.names(t, applications); !slices.Equal(got, step.want) {
			t.Errorf("applications %v, want %v", got, step.want)
		}
	}
	if got := hub.names(t, appProjects); !slices.Equal(got, []string{defaultProject}) {
		t.Errorf("projects left over: %v", got)
	}
}

func TestApplyRootInvalid(t *testing.T) {
	a, hub, _ := newFake(t)
	_, err := a.ApplyRoot(t.Context(), engine.Root{Manifest: []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n")})
	var e *lab.Error
	if !errors.As(err, &e) || e.Exit != lab.ExitInvalid || !strings.Contains(e.Message, `Secret "x"`) {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "---\n", "a: [", "text"} {
		if _, err := a.ApplyRoot(t.Context(), engine.Root{Manifest: []byte(bad)}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if w := hub.Writes(); len(w) != 0 {
		t.Errorf("requests %v", w)
	}
}

func TestApplyRepositories(t *testing.T) {
	a, hub, _ := newFake(t)
	hub.create(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: repo-mine, namespace: argocd, labels: {argocd.argoproj.io/secret-type: repository}}\n")
	git := engine.Repository{Name: "estate", Type: "git", URL: "http://forge/estate.git", Username: "lab", Password: "hush"}
	charts := engine.Repository{Name: "charts", Type: "helm", URL: "http://forge/helm"}
	moved, renewed := git, git
	moved.URL, renewed.Password = "http://other/estate.git", "other"
	for i, step := range []struct {
		repos []engine.Repository
		want  []string
	}{
		{[]engine.Repository{git, charts}, []string{"repository charts: http://forge/helm", "repository estate: http://forge/estate.git"}},
		{[]engine.Repository{git, charts}, nil},
		{[]engine.Repository{renewed, charts}, []string{"repository estate: credentials renewed"}},
		{[]engine.Repository{moved}, []string{"repository charts: removed", "repository estate: http://forge/estate.git -> http://other/estate.git"}},
		{nil, []string{"repository estate: removed"}},
	} {
		got, err := a.ApplyRepositories(t.Context(), step.repos)
		if err != nil || !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, %v; want %q", i, got, err, step.want)
		}
		if i == 0 {
			o := hub.Get(t, secrets, Namespace, "repo-estate")
			if o.GetLabels()[argo.SecretType] != "repository" || kube.SecretField(o, "password") != "hush" || kube.SecretField(o, "type") != "git" {
				t.Errorf("%v", o.Object)
			}
		}
	}
	hub.Get(t, secrets, Namespace, "repo-mine") // foreign
}

// The credentials of a registry are templates: every repository in it has them, by either of its addresses.
func TestRegistryCredentials(t *testing.T) {
	a, hub, _ := newFake(t)
	repos := []engine.Repository{{Name: "registry", Type: "oci", URL: "registry:5000", Username: "lab", Password: "hush", All: true}}
	got, err := a.ApplyRepositories(t.Context(), repos)
	if want := []string{"repository registry-charts: registry:5000", "repository registry: oci://registry:5000"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for name, want := range map[string]map[string]string{
		"repo-registry":        {"type": "oci", "url": "oci://registry:5000", "password": "hush", "insecureOCIForceHttp": "true", "enableOCI": ""},
		"repo-registry-charts": {"type": "helm", "url": "registry:5000", "password": "hush", "insecureOCIForceHttp": "true", "enableOCI": "true"},
	} {
		o := hub.Get(t, secrets, Namespace, name)
		if got := o.GetLabels()[argo.SecretType]; got != "repo-creds" {
			t.Errorf("%s is a %s", name, got)
		}
		for key, value := range want {
			if got := kube.SecretField(o, key); got != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got, value)
			}
		}
	}
	if got, err := a.Drift(t.Context(), engine.Root{Manifest: []byte(rootManifest)}, repos); err != nil || slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "repository") }) {
		t.Errorf("drift: %q, %v", got, err)
	}
	if got, err := a.ApplyRepositories(t.Context(), nil); err != nil || !slices.Equal(got, []string{"repository registry-charts: removed", "repository registry: removed"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// A push that Argo CD has not read yet.
func TestBehind(t *testing.T) {
	a, hub, _ := newFake(t)
	if _, err := a.ApplyRoot(t.Context(), engine.Root{Manifest: []byte(rootManifest)}); err != nil {
		t.Fatal(err)
	}
	at := func(revision, sync string) {
		hub.patch(t, applications, "addons", map[string]any{"status": map[string]any{
			"health": map[string]any{"status": "Healthy"},
			"sync": map[string]any{"status": sync, "revision": revision, "comparedTo": map[string]any{
				"source":      map[string]any{"repoURL": "http://forge/estate.git", "targetRevision": "main", "path": "addons"},
				"destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": "argocd"},
			}},
		}})
	}
	at("c1", "Synced")
	if s, err := a.Snapshot(t.Context()); err != nil || !s.Root || s.Revision != "c1" || !slices.Equal(s.Behind(engine.Want{Revision: "c2"}, nil), []string{"addons"}) {
		t.Errorf("behind: %+v, %v", s, err)
	}
	at("c2", "OutOfSync")
	if s, err := a.Snapshot(t.Context()); err != nil || s.Settled || !slices.Equal(s.Behind(engine.Want{Revision: "c2"}, nil), []string{"addons"}) {
		t.Errorf("not synced: %+v, %v", s, err)
	}
	at("c2", "Synced")
	if s, err := a.Snapshot(t.Context()); err != nil || len(s.Behind(engine.Want{Revision: "c2"}, nil)) > 0 {
		t.Errorf("at the head: %+v, %v", s, err)
	}
}
