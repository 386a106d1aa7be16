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

// projectEstate is an estate with Applications of projects; %s is more of what the root syncs.
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
  generators: [{list: {elements: [{project: shops}, {project: rooted}, {project: nobodys}]}}]
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
		`addons/shop/apps.yaml application shop-nobodys: project "nobodys" does not exist`,
		`addons/shop/apps.yaml application plain: project "theirs" does not exist`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if names := MissingProjects(fsys, "test", nil); !slices.Equal(names, []string{"nobodys", "theirs"}) {
		t.Errorf("missing: %v", names)
	}
}

// Where a chart of a registry may bring projects, an Application of a missing one is only not waited for.
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
		want := map[string]string{"plain": "its project theirs is none that the root is known to bring", "shop-nobodys": "its project nobodys is none that the root is known to bring"}[a.Name]
		if a.LeftOut != want {
			t.Errorf("%s: %q", a.Name, a.LeftOut)
		}
	}
	if names := MissingProjects(fsys, "test", nil); names != nil {
		t.Errorf("missing: %v", names)
	}
}

// The forge has one branch of the estate.
func TestOwnRevision(t *testing.T) {
	text := strings.NewReplacer("project: theirs", "project: shops", ", {project: nobodys}", "",
		"{repoURL: https://example.com/estate, path: addons/shop/web, targetRevision: HEAD}", "{repoURL: http://lab-test-forge:3000/lab/estate.git, path: addons/shop/web, targetRevision: v1}").Replace(projectEstate)
	e, err := Load(archived(t, text), "", "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range e.Applications {
		if a.LeftOut != "the forge has the estate as branch main alone, and not v1" {
			t.Errorf("%s: %q", a.Name, a.LeftOut)
		}
	}
}

// What a project does not permit, Argo CD leaves alone; so does lab, and says why.
func TestProjectRefuses(t *testing.T) {
	for name, c := range map[string]struct{ was, is, want string }{
		"permitted":   {"", "", ""},
		"source":      {"'https://example.com/*', http://lab-test-forge:3000/lab/*", "https://github.com/*/*", "its project shops does not permit the source https://example.com/estate"},
		"destination": {"destinations: [{name: hub, namespace: shop}]", "destinations: [{name: hub, namespace: other}]", "its project shops does not permit the destination https://kubernetes.default.svc, namespace shop"},
		"nothing":     {"destinations: [{name: hub, namespace: shop}]", "destinations: []", "its project shops does not permit the destination https://kubernetes.default.svc, namespace shop"},
		"denies":      {"namespace: shop}]}", "namespace: '!kube-*'}]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("project: theirs", "project: shops", ", {project: nobodys}", "").Replace(projectEstate)
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

// A project of the estate that is called default rules the root too.
func TestProjectRefusesRoot(t *testing.T) {
	text := strings.NewReplacer("project: theirs", "project: shops", ", {project: nobodys}", "", "name: rooted, namespace: argocd}", "name: default, namespace: argocd}",
		"{project: rooted}", "{project: shops}", "sourceRepos: ['*']", "sourceRepos: []").Replace(projectEstate)
	text = strings.Replace(text, "{project: shops}, {project: shops}", "{project: shops}", 1)
	_, err := Load(archived(t, text), "", "test")
	var failed *lab.Error
	if !errors.As(err, &failed) || len(failed.Problems) != 1 || failed.Problems[0].File != lab.RootFile ||
		failed.Problems[0].Message != "application root: its project default does not permit the source http://lab-test-forge:3000/lab/estate.git" {
		t.Errorf("got %v", err)
	}
}

// Argo CD looks for ApplicationSets and Applications in its own namespace.
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
		return p.Message == "ApplicationSet shop is in namespace team-red, and the engine looks for it in argocd alone" && p.File == "addons/shop/apps.yaml" && p.Line > 0
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
