package draft_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/draft"
	"homelab/lab/estate"
)

// Flux sources at other revisions are read from the clone.
func TestFluxRevisions(t *testing.T) {
	dir := t.TempDir()
	git := func(repo string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", filepath.Join(dir, repo), "-c", "user.name=a", "-c", "user.email=a@lab.invalid"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(repo, message string) {
		t.Helper()
		git(repo, "add", "--all")
		git(repo, "commit", "--quiet", "--message", message)
	}
	object := func(apiVersion, kind, name, spec string) string {
		return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: flux-system}\nspec: {%s}\n", apiVersion, kind, name, spec)
	}
	const source, kustomize = "source.toolkit.fluxcd.io/v1", "kustomize.toolkit.fluxcd.io/v1"
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

	home := filepath.Join(dir, "estate")
	write(t, filepath.Join(home, "none"), nil)
	mounted, err := estate.Mount(home, []lab.Repository{{URL: "https://github.com/acme/fleet", Dir: "../fleet"}, {URL: "https://github.com/acme/apps", Dir: "../apps"}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := draft.New("test", mounted)
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
