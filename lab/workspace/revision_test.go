package workspace

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@lab.invalid"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// revised is an estate in the folder demo of a repository, whose branch feature left main before its last commit, and a clone beside it.
func revised(t *testing.T) (*Workspace, string) {
	t.Helper()
	wd := home(t)
	top := filepath.Dir(wd)
	hub := "apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: hub}\nspec:\n  role: hub\n  provider: kind\n  repositories: {https://example.com/acme/apps: ../apps, https://example.com/acme/own: ../own}\n"
	put(t, filepath.Join(wd, "clusters/hub/cluster.yaml"), hub)
	put(t, filepath.Join(wd, "addons/root.yaml"), "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: addons, namespace: argocd}\nspec:\n  project: default\n  source: {repoURL: https://git.example.com/lab/estate.git, targetRevision: main, path: addons}\n  destination: {server: https://kubernetes.default.svc, namespace: argocd}\n")
	text, apps := filepath.Join(wd, "text"), filepath.Join(top, "apps")
	put(t, text, "one\n")
	put(t, filepath.Join(top, "own/text"), "one\n")
	put(t, filepath.Join(apps, "text"), "one\n")
	put(t, filepath.Join(top, ".gitignore"), "/apps/\n/state/\n/home/\n")
	for _, dir := range []string{apps, top} {
		git(t, dir, "init", "--quiet", "--initial-branch", "main")
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "--quiet", "-m", "one")
		git(t, dir, "tag", "one")
	}
	git(t, top, "switch", "--quiet", "-c", "feature")
	put(t, text, "feature\n")
	put(t, filepath.Join(top, "own/text"), "feature\n")
	git(t, top, "commit", "--quiet", "-am", "feature")
	git(t, top, "switch", "--quiet", "main")
	put(t, text, "two\n")
	git(t, top, "commit", "--quiet", "-am", "two")
	put(t, text, "unsaved\n")
	put(t, filepath.Join(apps, "text"), "unsaved\n")
	w, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w, top
}

// reads returns what Desired reads in the estate, apps and own, and where from.
func reads(t *testing.T, w *Workspace) string {
	t.Helper()
	est, _, err := w.Desired()
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, files := range []fs.FS{est.FS, est.Repositories[0].FS, est.Repositories[1].FS} {
		text, err := fs.ReadFile(files, "text")
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, strings.TrimSpace(string(text)))
	}
	for _, r := range w.Revisions() {
		name, _, _ := strings.Cut(r.String(), " (")
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}

func TestRevisions(t *testing.T) {
	w, top := revised(t)
	for _, tc := range []struct{ revs, before, after string }{
		{"main", "two, unsaved, one, main, ../apps as checked out, ../own at main", "unsaved, unsaved, one, the working tree, ../apps as checked out, ../own as checked out"},
		{"main..feature", "one, unsaved, one, merge base of main and feature, ../apps as checked out, ../own at merge base of main and feature", "feature, unsaved, feature, feature, ../apps as checked out, ../own at feature"},
		{"main...feature", "one, unsaved, one, merge base of main and feature, ../apps as checked out, ../own at merge base of main and feature", "feature, unsaved, feature, feature, ../apps as checked out, ../own at feature"},
		{"one..", "one, unsaved, one, one, ../apps as checked out, ../own at one", "two, unsaved, one, HEAD, ../apps as checked out, ../own at HEAD"},
		{"../apps=one", "unsaved, one, one, the working tree, ../apps at one, ../own as checked out", "unsaved, unsaved, one, the working tree, ../apps as checked out, ../own as checked out"},
		{"main ../apps=HEAD", "two, one, one, main, ../apps at HEAD, ../own at main", "unsaved, unsaved, one, the working tree, ../apps as checked out, ../own as checked out"},
	} {
		before, after, err := w.Between(t.Context(), strings.Fields(tc.revs)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := reads(t, before); got != tc.before {
			t.Errorf("%s: before: %s, want %s", tc.revs, got, tc.before)
		}
		if got := reads(t, after); got != tc.after {
			t.Errorf("%s: after: %s, want %s", tc.revs, got, tc.after)
		}
	}
	at, err := w.At(t.Context(), "feature")
	if err != nil {
		t.Fatal(err)
	}
	if got := reads(t, at); !strings.HasPrefix(got, "feature, unsaved, feature, feature,") {
		t.Error(got)
	}
	git(t, top, "branch", "--quiet", "-m", "feature", "x")
	git(t, top, "update-ref", "refs/remotes/origin/feature", "x")
	if at, err := w.At(t.Context(), "feature"); err != nil || !strings.HasPrefix((*at.read)[0].String(), "origin/feature (") {
		t.Errorf("%v", err)
	}
}

func TestRevisionsFail(t *testing.T) {
	w, top := revised(t)
	git(t, top, "reset", "--quiet", "--hard")
	git(t, top, "switch", "--quiet", "--orphan", "other")
	put(t, filepath.Join(top, "file"), "")
	git(t, top, "add", "file")
	git(t, top, "commit", "--quiet", "-m", "other")
	put(t, filepath.Join(w.Estate.Dir, "clusters/hub/cluster.yaml"), "")
	for revs, want := range map[string]string{
		"nothing":           `no revision "nothing" in `,
		"--help":            `no revision "--help" in `,
		"main one":          "two revisions of .",
		"main..other":       "main and other have no common history in ",
		"other":             " has no estate: ",
		"../nowhere=main":   "no folder ../nowhere",
		"main clusters=one": "no repository is mounted from clusters",
	} {
		before, _, err := w.Between(t.Context(), strings.Fields(revs)...)
		if err == nil {
			_, _, err = before.Desired()
		}
		if code(err) != "revision" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", revs, err, want)
		}
	}
	if _, err := w.At(t.Context(), "one..main"); code(err) != "revision" || err.(*lab.Error).Exit != lab.ExitInvalid { //nolint:errorlint // as code found
		t.Errorf("%v", err)
	}
	w.Estate.Dir = filepath.Join(top, "apps")
	if err := os.RemoveAll(filepath.Join(top, "apps/.git")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(top, ".git")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.At(t.Context(), "one"); err == nil || !strings.Contains(err.Error(), "is in no Git repository") {
		t.Errorf("%v", err)
	}
}
