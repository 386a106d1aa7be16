package draft_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/draft"
	"homelab/lab/estate"
)

const source, kustomize = "source.toolkit.fluxcd.io/v1", "kustomize.toolkit.fluxcd.io/v1"

func object(apiVersion, kind, name, spec string) string {
	return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: flux-system}\nspec: {%s}\n", apiVersion, kind, name, spec)
}

// clones returns functions that run git in a folder of dir, and commit everything in it.
func clones(t *testing.T, dir string) (git func(repo string, args ...string) string, commit func(repo, message string)) {
	t.Helper()
	git = func(repo string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", filepath.Join(dir, repo), "-c", "user.name=a", "-c", "user.email=a@lab.invalid"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit = func(repo, message string) {
		t.Helper()
		git(repo, "add", "--all")
		git(repo, "commit", "--quiet", "--message", message)
	}
	return git, commit
}

// Positions at revisions are relative to the estate, whatever names the folder.
func TestWriteRevisions(t *testing.T) {
	dir := t.TempDir()
	git, commit := clones(t, dir)
	write(t, filepath.Join(dir, "fleet/apps/map.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: web}\n"))
	write(t, filepath.Join(dir, "fleet/clusters/prod/flux-system/gotk-sync.yaml"), []byte(object(source, "GitRepository", "flux-system", "interval: 1m, url: https://github.com/acme/fleet, ref: {branch: main}")+
		object(kustomize, "Kustomization", "flux-system", "interval: 1m, path: ./clusters/prod, prune: true, sourceRef: {kind: GitRepository, name: flux-system}")))
	write(t, filepath.Join(dir, "fleet/clusters/prod/apps.yaml"), []byte(object(source, "GitRepository", "tagged", "interval: 1m, url: https://github.com/acme/fleet, ref: {tag: v1}")+
		object(kustomize, "Kustomization", "apps", "interval: 1m, path: ./apps, prune: true, sourceRef: {kind: GitRepository, name: tagged}")))
	git("fleet", "init", "--quiet", "--initial-branch", "main")
	git("fleet", "remote", "add", "origin", "https://github.com/acme/fleet")
	commit("fleet", "one")
	git("fleet", "tag", "v1")
	d, err := draft.Write(t.Context(), draft.Options{Name: "test", Dir: filepath.Join(dir, "estate"), From: []string{filepath.Join(dir, "fleet")}, Progress: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Keys) != 1 || d.Keys[0].At.File != "../fleet@v1/apps/map.yaml" {
		t.Errorf("%v", d.Keys)
	}
}

// Flux sources at other revisions are read from the clone.
func TestFluxRevisions(t *testing.T) {
	dir := t.TempDir()
	git, commit := clones(t, dir)
	write(t, filepath.Join(dir, "apps/web/map.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: default}\ndata: {host: '${web_host}'}\n"))
	git("apps", "init", "--quiet", "--initial-branch", "main")
	commit("apps", "one")
	git("apps", "tag", "v1.2.0")
	first := git("apps", "rev-parse", "HEAD")
	git("apps", "branch", "stable")
	git("apps", "mv", "web", "other")
	commit("apps", "two")
	var apps string
	for name, ref := range map[string]string{
		"tagged": "tag: v1.2.0", "versions": "semver: 1.x", "version": "semver: 1.2.0", "branch": "branch: stable", "named": "name: refs/tags/v1.2.0",
		"at": "branch: main, commit: " + first, "lost": "tag: v9", "now": "branch: main",
	} {
		apps += object(source, "GitRepository", name, "interval: 1m, url: https://github.com/acme/apps, ref: {"+ref+"}") +
			object(kustomize, "Kustomization", name, "interval: 1m, path: ./web, prune: true, sourceRef: {kind: GitRepository, name: "+name+"}, postBuild: {substituteFrom: [{kind: ConfigMap, name: settings}]}")
	}
	write(t, filepath.Join(dir, "fleet/clusters/one/apps.yaml"), []byte(apps))
	write(t, filepath.Join(dir, "fleet/clusters/one/flux-system/gotk-sync.yaml"), []byte(
		object(source, "GitRepository", "flux-system", "interval: 1m, url: https://github.com/acme/fleet, ref: {branch: main}")+
			object(kustomize, "Kustomization", "flux-system", "interval: 1m, path: ./clusters/one, prune: true, sourceRef: {kind: GitRepository, name: flux-system}")))
	git("fleet", "init", "--quiet", "--initial-branch", "main")
	commit("fleet", "one")

	d, e := drafted(t, dir, lab.Repository{URL: "https://github.com/acme/fleet", Dir: "../fleet"}, lab.Repository{URL: "https://github.com/acme/apps", Dir: "../apps"})
	got, want := map[string]string{}, map[string]string{
		"one-seeds": "", "one-tagged": "", "one-versions": "", "one-version": "", "one-branch": "", "one-named": "", "one-at": "",
		"one-lost": "GitRepository flux-system/lost: ../apps at v9 cannot be read: no branch, tag or commit v9: try git -C ../apps fetch --tags origin",
		"one-now":  "cannot be built: web: no such folder",
	}
	for _, a := range e.Applications {
		got[a.Name] = a.LeftOut
	}
	if !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
	found := false
	for _, k := range d.Keys {
		found = found || k.Name == "web_host" && strings.HasPrefix(k.At.String(), "../apps@") && strings.HasSuffix(k.At.String(), "/web/map.yaml:4")
	}
	if !found {
		t.Errorf("keys %+v", d.Keys)
	}
}

// drafted returns the draft of repositories in dir, and the estate that it becomes.
func drafted(t *testing.T, dir string, repositories ...lab.Repository) (*draft.Draft, *lab.Estate) {
	t.Helper()
	home := filepath.Join(dir, "estate")
	write(t, filepath.Join(home, "none"), nil)
	mounted, err := estate.Mount(home, repositories)
	if err != nil {
		t.Fatal(err)
	}
	d, err := draft.New("test", mounted, draft.Wishes{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(home, d.Files); err != nil {
		t.Fatal(err)
	}
	e, err := estate.Load(os.DirFS(home), home, "test")
	if err != nil {
		t.Fatal(err)
	}
	return d, e
}

// Every root is read at the revision of its own GitRepository; the checked-out branch is for one that the clone does not have.
func TestFluxRootRevisions(t *testing.T) {
	dir := t.TempDir()
	git, commit := clones(t, dir)
	root := func(cluster, ref, more string) {
		t.Helper()
		write(t, filepath.Join(dir, "fleet/clusters", cluster, "flux-system/gotk-sync.yaml"), []byte(
			object(source, "GitRepository", "flux-system", "interval: 1m, url: https://github.com/acme/fleet, ref: {"+ref+"}")+
				object(kustomize, "Kustomization", "flux-system", "interval: 1m, path: ./clusters/"+cluster+", prune: true, sourceRef: {kind: GitRepository, name: flux-system}"+more)))
		write(t, filepath.Join(dir, "fleet/clusters", cluster, "apps.yaml"), []byte(object(kustomize, "Kustomization", "apps", "interval: 1m, path: ./apps, prune: true, sourceRef: {kind: GitRepository, name: flux-system}")))
	}
	write(t, filepath.Join(dir, "fleet/apps/map.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: default}\n"))
	root("prod", "branch: release", ", timeout: 7m")
	root("staging", "branch: main", "")
	root("test", "tag: v1.0.0", "")
	root("lost", "branch: gone", "")
	git("fleet", "init", "--quiet", "--initial-branch", "main")
	commit("fleet", "one")
	git("fleet", "branch", "release")
	git("fleet", "tag", "v1.0.0")
	for _, cluster := range []string{"prod", "staging", "test", "lost"} {
		write(t, filepath.Join(dir, "fleet/clusters", cluster, "new.yaml"), []byte(object(kustomize, "Kustomization", "new", "interval: 1m, path: ./apps, prune: true, sourceRef: {kind: GitRepository, name: flux-system}")))
	}
	root("prod", "branch: release", ", timeout: 9m")
	commit("fleet", "two")

	d, e := drafted(t, dir, lab.Repository{URL: "https://github.com/acme/fleet", Dir: "../fleet"})
	for cluster, want := range map[string][]string{
		"prod": {"branch: release", "timeout: 7m", "../fleet@release/clusters/prod"}, "staging": {"branch: main"}, "test": {"tag: v1.0.0"}, "lost": {"branch: main", "../fleet/clusters/lost"},
	} {
		text, err := fs.ReadFile(d.Files, lab.FluxRootFile(cluster))
		for _, w := range want {
			if err != nil || !strings.Contains(string(text), w) {
				t.Errorf("%s: no %q in\n%s", cluster, w, text)
			}
		}
	}
	var got []string
	for _, a := range e.Applications {
		got = append(got, a.Name+a.LeftOut)
	}
	slices.Sort(got)
	if want := []string{"lost-apps", "lost-new", "prod-apps", "staging-apps", "staging-new", "test-apps"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
