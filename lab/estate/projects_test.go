package estate

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"homelab/lab"
)

// projectEstate is an estate with Applications of projects; %s is appended to the synced files.
const projectEstate = `
-- clusters/hub/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: hub}
spec: {role: hub}
-- addons/root.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: root, namespace: argocd}
spec:
  project: default
  source: {repoURL: https://example.com/estate, path: addons/shop, targetRevision: HEAD}
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: rooted, namespace: argocd}
spec: {sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}]}
-- addons/shop/apps.yaml --
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: shops}
spec: {sourceRepos: ['https://example.com/*', http://lab-test-forge:3000/lab/*], destinations: [{name: hub, namespace: shop}]}
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: shop}
spec:
  generators: [{list: {elements: [{project: shops}, {project: rooted}, {project: absent}]}}]
  template:
    metadata: {name: 'shop-{{project}}'}
    spec:
      project: '{{project}}'
      source: {repoURL: https://example.com/estate, path: addons/shop/web, targetRevision: HEAD}
      destination: {name: hub, namespace: shop}
      syncPolicy: {automated: {}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: plain}
spec:
  project: theirs
  source: {repoURL: https://example.com/estate, path: addons/shop/web, targetRevision: HEAD}
  destination: {name: hub, namespace: shop}
  syncPolicy: {automated: {}}
-- addons/shop/web/web.yaml --
kind: ConfigMap
`

func TestMissingProjects(t *testing.T) {
	fsys := archived(t, projectEstate)
	_, err := Load(fsys, "", "test")
	var failed *lab.Error
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, p := range failed.Problems {
		got = append(got, p.File+" "+p.Message)
	}
	want := []string{
		`addons/shop/apps.yaml application shop-absent: project "absent" does not exist`,
		`addons/shop/apps.yaml application plain: project "theirs" does not exist`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if names := Reached(fsys, "test", nil, nil).Projects; !slices.Equal(names, []string{"absent", "theirs"}) {
		t.Errorf("missing: %v", names)
	}
}

// A remote chart may contain projects, so a missing one is not an error.
func TestMissingProjectsUnsure(t *testing.T) {
	fsys := archived(t, projectEstate+`-- addons/shop/projects.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: projects}
spec:
  project: default
  source: {repoURL: https://charts.example.com, chart: projects, targetRevision: 1.0.0}
  destination: {name: hub, namespace: argocd}
  syncPolicy: {automated: {}}
`)
	e, err := Load(fsys, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range e.Applications {
		want := map[string]string{"plain": "its project theirs is not known to exist", "shop-absent": "its project absent is not known to exist"}[a.Name]
		if a.LeftOut != want {
			t.Errorf("%s: %q", a.Name, a.LeftOut)
		}
	}
	if names := Reached(fsys, "test", nil, nil).Projects; names != nil {
		t.Errorf("missing: %v", names)
	}
	if names := Reached(fsys, "test", nil, []string{"theirs", "unused"}).Projects; !slices.Equal(names, []string{"theirs"}) {
		t.Errorf("missing: %v", names)
	}
}

// The forge has only one branch of the estate.
func TestOwnRevision(t *testing.T) {
	text := strings.NewReplacer("project: theirs", "project: shops", ", {project: absent}", "",
		"{repoURL: https://example.com/estate, path: addons/shop/web, targetRevision: HEAD}", "{repoURL: http://lab-test-forge:3000/lab/estate.git, path: addons/shop/web, targetRevision: v1}").Replace(projectEstate)
	e, err := Load(archived(t, text), "", "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range e.Applications {
		if a.LeftOut != "the forge has only branch main of the estate, not v1" {
			t.Errorf("%s: %q", a.Name, a.LeftOut)
		}
	}
}

// lab does not wait for Applications that their project forbids.
func TestProjectRefuses(t *testing.T) {
	for name, c := range map[string]struct{ was, is, want string }{
		"permitted":     {"", "", ""},
		"source":        {"'https://example.com/*', http://lab-test-forge:3000/lab/*", "https://github.com/*/*", "its project shops does not permit the source https://example.com/estate"},
		"destination":   {"destinations: [{name: hub, namespace: shop}]", "destinations: [{name: hub, namespace: other}]", "its project shops does not permit the destination https://kubernetes.default.svc, namespace shop"},
		"nothing":       {"destinations: [{name: hub, namespace: shop}]", "destinations: []", "its project shops does not permit the destination https://kubernetes.default.svc, namespace shop"},
		"denies others": {"namespace: shop}]}", "namespace: '!kube-*'}]}", ""},
		"denies it": {
			"destinations: [{name: hub, namespace: shop}]", "destinations: [{server: '*', namespace: '*'}, {server: '*', namespace: '!sh*'}]",
			"its project shops does not permit the destination https://kubernetes.default.svc, namespace shop",
		},
		"denies the source": {"['https://example.com/*',", "['!https://example.com/*',", "its project shops does not permit the source https://example.com/estate"},
		"another protocol":  {"['https://example.com/*',", "['git@example.com:*',", "its project shops does not permit the source https://example.com/estate"},
		"another suffix":    {"['https://example.com/*',", "['https://example.com/estate.git',", ""},
		"own clusters":      {"destinations: [{name: hub", "permitOnlyProjectScopedClusters: true, destinations: [{name: hub", "its project shops does not permit the destination https://kubernetes.default.svc, namespace shop"},
		"window":            {"destinations: [{name: hub", "syncWindows: [{applications: [other], namespaces: [shop]}], destinations: [{name: hub", "its project shops has sync windows, outside of which Argo CD may not sync it"},
		"window of others":  {"destinations: [{name: hub", "syncWindows: [{andOperator: true, applications: [other], namespaces: [shop]}], destinations: [{name: hub", ""},
		"window of servers": {"destinations: [{name: hub", "syncWindows: [{clusters: ['https://kubernetes.*']}], destinations: [{name: hub", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("project: theirs", "project: shops", ", {project: absent}", "").Replace(projectEstate)
			if c.was != "" && !strings.Contains(text, c.was) {
				t.Fatalf("no %s", c.was)
			}
			e, err := Load(archived(t, strings.Replace(text, c.was, c.is, 1)), "", "test")
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range e.Applications {
				if want := map[bool]string{true: c.want}[a.Name != "shop-rooted"]; a.LeftOut != want {
					t.Errorf("%s: %q, want %q", a.Name, a.LeftOut, want)
				}
			}
		})
	}
}

// The estate's own project default applies to the root too.
func TestProjectRefusesRoot(t *testing.T) {
	text := strings.NewReplacer("project: theirs", "project: shops", ", {project: absent}", "", "name: rooted, namespace: argocd}", "name: default, namespace: argocd}",
		"{project: rooted}", "{project: shops}", "sourceRepos: ['*']", "sourceRepos: []").Replace(projectEstate)
	text = strings.Replace(text, "{project: shops}, {project: shops}", "{project: shops}", 1)
	_, err := Load(archived(t, text), "", "test")
	var failed *lab.Error
	if !errors.As(err, &failed) || len(failed.Problems) != 1 || failed.Problems[0].File != lab.RootFile ||
		failed.Problems[0].Message != "application root: its project default does not permit the source http://lab-test-forge:3000/lab/estate.git" {
		t.Errorf("got %v", err)
	}
}

// Argo CD only watches its own namespace.
func TestOtherNamespace(t *testing.T) {
	text := strings.NewReplacer("project: theirs", "project: shops", "metadata: {name: shop}", "metadata: {name: shop, namespace: team-red}").Replace(projectEstate)
	e, err := Load(archived(t, text), "", "test")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Applications) != 1 || e.Applications[0].Name != "plain" {
		t.Errorf("applications: %+v", e.Applications)
	}
	if !slices.ContainsFunc(e.Notes, func(p lab.Problem) bool {
		return p.Message == "ApplicationSet shop is in namespace team-red, but the engine only watches argocd" && p.File == "addons/shop/apps.yaml" && p.Line > 0
	}) {
		t.Errorf("notes: %v", e.Notes)
	}
}

func archived(t *testing.T, text string) fs.FS {
	t.Helper()
	fsys, err := txtar.FS(txtar.Parse([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	return fsys
}
