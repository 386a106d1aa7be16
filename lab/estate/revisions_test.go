package estate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/appset"
)

// revised is an estate and a repository whose manifests use tags and branches of another.
const revised = `
-- estate/clusters/hub/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: hub}
spec:
  role: hub
  repositories:
    https://github.com/acme/fleet: ../fleet
    https://github.com/acme/apps: ../apps
-- estate/addons/root.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: root, namespace: argocd}
spec:
  project: default
  source: {repoURL: https://github.com/acme/fleet, path: sets, targetRevision: HEAD}
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
-- fleet/sets/apps.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: apps}
spec:
  goTemplate: true
  generators:
    - git: {repoURL: https://github.com/acme/apps, revision: stable, directories: [{path: apps/*}]}
  template:
    metadata: {name: '{{.path.basename}}'}
    spec:
      project: default
      source: {repoURL: https://github.com/acme/apps, path: '{{.path.path}}', targetRevision: stable}
      destination: {name: hub, namespace: '{{.path.basename}}'}
      syncPolicy: {automated: {}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: pinned}
spec:
  project: default
  source: {repoURL: https://github.com/acme/apps, path: pinned, targetRevision: 1.*}
  destination: {name: hub, namespace: argocd}
  syncPolicy: {automated: {}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: gone}
spec:
  project: default
  source: {repoURL: https://github.com/acme/apps, path: apps/web, targetRevision: v9}
  destination: {name: hub, namespace: gone}
  syncPolicy: {automated: {}}
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: nowhere}
spec:
  goTemplate: true
  generators:
    - git: {repoURL: https://github.com/acme/apps, revision: v9, directories: [{path: apps/*}]}
  template:
    metadata: {name: 'gone-{{.path.basename}}'}
    spec:
      project: default
      source: {repoURL: https://github.com/acme/apps, path: '{{.path.path}}', targetRevision: v9}
      destination: {name: hub, namespace: '{{.path.basename}}'}
-- apps/apps/web/web.yaml --
kind: ConfigMap
-- apps/pinned/inner.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: inner}
spec:
  project: default
  source: {repoURL: https://github.com/acme/apps, path: apps/web, targetRevision: v1.2.0}
  destination: {name: hub, namespace: inner}
  syncPolicy: {automated: {}}
`

// layRevised writes the estate and its clones. v1.2.0 of apps has since deleted files, its branch stable one more app.
func layRevised(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(revised)).Files {
		layFile(t, filepath.Join(dir, f.Name), f.Data)
	}
	git := func(repo string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", filepath.Join(dir, repo), "-c", "user.name=a", "-c", "user.email=a@lab.invalid"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	for _, repo := range []string{"fleet", "apps"} {
		git(repo, "init", "--quiet", "--initial-branch", "main")
		git(repo, "add", "-A")
		git(repo, "commit", "--quiet", "-m", "one")
	}
	git("apps", "tag", "v1.2.0")
	git("apps", "switch", "--quiet", "-c", "stable")
	layFile(t, filepath.Join(dir, "apps/apps/shop/shop.yaml"), []byte("kind: ConfigMap\n"))
	git("apps", "add", "-A")
	git("apps", "commit", "--quiet", "-m", "two")
	git("apps", "switch", "--quiet", "main")
	git("apps", "rm", "--quiet", "-r", "pinned")
	git("apps", "commit", "--quiet", "-m", "three")
	return filepath.Join(dir, "estate")
}

func layFile(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLoadRevisions(t *testing.T) {
	home := layRevised(t)
	e, err := Load(os.DirFS(home), home, "test")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, a := range e.Applications {
		got[a.Name] = a.LeftOut + " " + a.At.File
	}
	const missing = "../apps at v9 cannot be read: no branch, tag or commit v9: try git -C ../apps fetch --tags origin"
	want := map[string]string{
		"root": "synced manually: spec.syncPolicy.automated is not set addons/root.yaml", "web": " ../fleet/sets/apps.yaml", "shop": " ../fleet/sets/apps.yaml", "pinned": " ../fleet/sets/apps.yaml",
		"inner": " ../apps@1.*/pinned/inner.yaml", "gone": missing + " ../fleet/sets/apps.yaml",
	}
	delete(want, "root") // applied by lab
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: %q, want %q", name, got[name], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("applications: %v", got)
	}
	if !slices.ContainsFunc(e.Notes, func(p lab.Problem) bool {
		return p.Message == "unknown output of a git generator over https://github.com/acme/apps: "+missing && p.File == "../fleet/sets/apps.yaml" && p.Line > 0
	}) {
		t.Errorf("notes: %v", e.Notes)
	}
	fsys, err := World(e, e.Clusters).Repository("https://github.com/acme/apps", "v9")
	if absent := new(appset.AbsentError); fsys != nil || !errors.As(err, &absent) {
		t.Errorf("got %v, %v", fsys, err)
	}
}
