package gitfiles_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab/gitfiles"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := gitCommand(t, dir, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func gitCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@lab.invalid"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	return cmd
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cloned returns a clone whose upstream has the branches main and release/1, and tags.
func cloned(t *testing.T) string {
	t.Helper()
	upstream, dir := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	git(t, upstream, "init", "--quiet", "--initial-branch", "main")
	write(t, upstream, "apps/web.yaml", "one\n")
	commit := func(tag ...string) {
		git(t, upstream, "add", "-A")
		git(t, upstream, "commit", "--quiet", "-m", "x")
		for _, name := range tag {
			git(t, upstream, "tag", name)
		}
	}
	commit("v1.0.0")
	write(t, upstream, "apps/web.yaml", "two\n")
	commit("v1.1.0", "latest")
	git(t, upstream, "tag", "-a", "-m", "annotated", "v2.0.0")
	git(t, upstream, "switch", "--quiet", "-c", "release/1")
	write(t, upstream, "apps/web.yaml", "released\n")
	commit()
	git(t, upstream, "switch", "--quiet", "main")
	git(t, upstream, "clone", "--quiet", upstream, dir)
	return dir
}

func TestCommit(t *testing.T) {
	dir := cloned(t)
	git(t, dir, "branch", "mine", "v1.0.0")
	clone, err := gitfiles.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	first := git(t, dir, "rev-parse", "v1.0.0")
	for revision, want := range map[string]string{
		"v1.0.0": "one\n", "refs/tags/v1.0.0": "one\n", "latest": "two\n", "v2.0.0": "two\n", "1.0.*": "one\n", "~1.0": "one\n", ">=1.0.0 <2.0.0": "two\n",
		"release/1": "released\n", "refs/heads/release/1": "released\n", "mine": "one\n", first: "one\n", first[:8]: "one\n",
	} {
		commit, err := clone.Commit(revision)
		if err != nil {
			t.Errorf("%s: %v", revision, err)
			continue
		}
		fsys, err := clone.Files(commit)
		if err != nil {
			t.Fatal(err)
		}
		if err := fstest.TestFS(fsys, "apps/web.yaml"); err != nil {
			t.Errorf("%s: %v", revision, err)
		}
		if got := read(t, clone, revision, "apps/web.yaml"); got != want {
			t.Errorf("%s has %q, want %q", revision, got, want)
		}
	}
	for _, revision := range []string{"v9", "9.*", "0123456789", "web", ""} {
		if commit, err := clone.Commit(revision); err == nil {
			t.Errorf("%q is %s", revision, commit)
		}
	}
}

func read(t *testing.T, clone *gitfiles.Clone, revision, name string) string {
	t.Helper()
	commit, err := clone.Commit(revision)
	if err != nil {
		t.Fatal(err)
	}
	fsys, err := clone.Files(commit)
	if err != nil {
		t.Fatal(err)
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOpenShallow(t *testing.T) {
	dir := cloned(t)
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, dir, "clone", "--quiet", "--depth", "1", "file://"+dir, shallow)
	if _, err := gitfiles.Open(shallow); err == nil || !strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Errorf("got %v", err)
	}
}

func TestFollows(t *testing.T) {
	dir := cloned(t)
	clone, err := gitfiles.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, last := git(t, dir, "rev-parse", "v1.0.0"), git(t, dir, "rev-parse", "origin/release/1")
	if !clone.Follows(last, first) || clone.Follows(first, last) || clone.Follows(last, strings.Repeat("1", 40)) {
		t.Error("wrong history")
	}
}

func TestReferences(t *testing.T) {
	dir := cloned(t)
	git(t, dir, "branch", "mine")
	clone, err := gitfiles.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	refs, err := clone.References()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range refs {
		got = append(got, r.Name+" "+r.From)
	}
	want := `refs/heads/main refs/heads/main
refs/heads/mine refs/heads/mine
refs/heads/release/1 refs/remotes/origin/release/1
refs/tags/latest refs/tags/latest
refs/tags/v1.0.0 refs/tags/v1.0.0
refs/tags/v1.1.0 refs/tags/v1.1.0
refs/tags/v2.0.0 refs/tags/v2.0.0`
	if strings.Join(got, "\n") != want {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
}

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "init", "--quiet", "--initial-branch", "main")
	write(t, dir, "base/a.yaml", "a\n")
	for name, to := range map[string]string{"linked": "base", "deep/b.yaml": "../base/a.yaml", "out": "../..", "round": "round", "root": "/etc/passwd"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "--quiet", "-m", "x")
	clone, err := gitfiles.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"linked/a.yaml", "deep/b.yaml"} {
		if got := read(t, clone, "main", name); got != "a\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
	commit, err := clone.Commit("main")
	if err != nil {
		t.Fatal(err)
	}
	fsys, err := clone.Files(commit)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"out/x", "out", "round", "root", "none", "../base"} {
		if f, err := fsys.Open(name); err == nil {
			f.Close()
			t.Errorf("opened %s", name)
		}
	}
}

func TestOpenFolder(t *testing.T) {
	if _, err := gitfiles.Open(t.TempDir()); err == nil || err.Error() != "not a Git repository" {
		t.Errorf("got %v", err)
	}
}
