package gitfiles_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/gitfiles"
)

// listed returns the files of a folder.
func listed(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(gitfiles.OfFolder(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// isolated gives a test a user without a configuration.
func isolated(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	return home
}

func TestWorktree(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		do    func(t *testing.T, home, dir string)
		want  string
	}{
		"a class with a negation":    {files: map[string]string{".gitignore": "secret[!0-9].key\n", "secret1.key": "", "secretx.key": ""}, want: ".gitignore secret1.key"},
		"a class of characters":      {files: map[string]string{".gitignore": "id_[[:alnum:]]*.pem\n", "id_rsa.pem": "", "id_-.pem": ""}, want: ".gitignore id_-.pem"},
		"everything below a folder":  {files: map[string]string{".gitignore": "out/\n!out/kept\n", "out/kept": "", "x/out": "file"}, want: ".gitignore x/out"},
		"a space that is escaped":    {files: map[string]string{".gitignore": "a\\ \nb \n", "a ": "", "a": "", "b": ""}, want: ".gitignore a"},
		"a folder of the user's own": {files: map[string]string{"a": "", "x.log": ""}, do: func(t *testing.T, home, _ string) { write(t, home, ".config/git/ignore", "*.log\n") }, want: "a"},
		"core.ignoreCase": {files: map[string]string{".gitignore": "*.KEY\n", "a.key": "", "b": ""}, do: func(t *testing.T, _, dir string) {
			git(t, dir, "config", "core.ignoreCase", "true")
		}, want: ".gitignore b"},
		"core.excludesFile": {files: map[string]string{"a.key": "", "b": ""}, do: func(t *testing.T, home, _ string) {
			write(t, home, ".gitconfig", "[core]\n\texcludesFile = ~/mine\n")
			write(t, home, "mine", "*.key\n")
		}, want: "b"},
		"info/exclude": {files: map[string]string{"a.key": "", "b": ""}, do: func(t *testing.T, _, dir string) { write(t, dir, ".git/info/exclude", "*.key\n") }, want: "b"},
		"tracked and ignored": {files: map[string]string{".gitignore": "*.key\n", "a.key": "", "b.key": ""}, do: func(t *testing.T, _, dir string) {
			git(t, dir, "add", "--force", "a.key")
		}, want: ".gitignore a.key"},
		"tracked and deleted": {files: map[string]string{"a": "", "d/b": ""}, do: func(t *testing.T, _, dir string) {
			git(t, dir, "add", "-A")
			if err := os.Remove(filepath.Join(dir, "d/b")); err != nil {
				t.Fatal(err)
			}
		}, want: "a"},
		"an index that is split": {files: map[string]string{".gitignore": "*.key\n", "a.key": "", "b": ""}, do: func(t *testing.T, _, dir string) {
			git(t, dir, "add", "--force", "a.key")
			git(t, dir, "update-index", "--split-index")
			write(t, dir, "c.key", "")
			git(t, dir, "add", "--force", "c.key")
		}, want: ".gitignore a.key b c.key"},
		"a submodule and a nested repository": {files: map[string]string{"a": ""}, do: func(t *testing.T, _, dir string) {
			for _, sub := range []string{"module", "nested"} {
				git(t, dir, "init", "--quiet", sub)
				write(t, dir, sub+"/x", "x")
				git(t, filepath.Join(dir, sub), "add", "x")
				git(t, filepath.Join(dir, sub), "commit", "--quiet", "-m", "x")
			}
			git(t, dir, "add", "module")
		}, want: "a"},
		"an unmerged file": {files: map[string]string{"a": "1\n"}, do: func(t *testing.T, _, dir string) {
			git(t, dir, "add", "a")
			git(t, dir, "commit", "--quiet", "-m", "x")
			git(t, dir, "switch", "--quiet", "-c", "other")
			write(t, dir, "a", "2\n")
			git(t, dir, "commit", "--quiet", "-am", "x")
			git(t, dir, "switch", "--quiet", "-c", "third", "HEAD~1")
			write(t, dir, "a", "3\n")
			git(t, dir, "commit", "--quiet", "-am", "x")
			tolerant(t, dir, "merge", "--quiet", "other")
		}, want: "a"},
		"a folder that became a link": {files: map[string]string{"d/a": "", "e/a": ""}, do: func(t *testing.T, _, dir string) {
			git(t, dir, "add", "-A")
			if err := errors.Join(os.RemoveAll(filepath.Join(dir, "d")), os.Symlink("e", filepath.Join(dir, "d"))); err != nil {
				t.Fatal(err)
			}
		}, want: "d e/a"},
	} {
		t.Run(name, func(t *testing.T) {
			home, dir := isolated(t), t.TempDir()
			git(t, dir, "init", "--quiet", "--initial-branch", "main")
			for file, text := range test.files {
				write(t, dir, file, text)
			}
			if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
				t.Fatal(err)
			}
			if test.do != nil {
				test.do(t, home, dir)
			}
			if got := strings.Join(listed(t, dir), " "); got != test.want {
				t.Errorf("files %s, want %s", got, test.want)
			}
			if entries, err := fs.ReadDir(gitfiles.OfFolder(dir), "."); err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "empty" || e.Name() == ".git" }) {
				t.Errorf("entries %v, %v", entries, err)
			}
		})
	}
}

func tolerant(t *testing.T, dir string, args ...string) {
	t.Helper()
	_ = gitCommand(t, dir, args...).Run()
}

// A folder without a repository, one that Git ignores, and a folder of a repository.
func TestWorktreeOfFolders(t *testing.T) {
	isolated(t)
	top := t.TempDir()
	write(t, top, "plain/.gitignore", "secret[!0-9].key\n")
	write(t, top, "plain/secretx.key", "")
	write(t, top, "plain/d/a", "")
	if got := listed(t, filepath.Join(top, "plain")); !slices.Equal(got, []string{".gitignore", "d/a"}) {
		t.Errorf("in no repository: %q", got)
	}
	git(t, top, "init", "--quiet")
	write(t, top, ".gitignore", "ignored/\n/part/*.log\n")
	write(t, top, "ignored/estate/a", "")
	write(t, top, "part/a", "")
	write(t, top, "part/x.log", "")
	write(t, top, "other", "")
	for dir, want := range map[string]string{"ignored/estate": "a", "part": "a"} {
		if got := strings.Join(listed(t, filepath.Join(top, dir)), " "); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

// Links are followed to what is listed, and never out of the folder.
func TestWorktreeLinks(t *testing.T) {
	isolated(t)
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret", "s\n")
	write(t, dir, ".gitignore", "*.key\n")
	write(t, dir, "a.key", "s\n")
	write(t, dir, "d/b", "b\n")
	write(t, dir, "d/unread", "b\n")
	for name, to := range map[string]string{"good": "d/b", "folder": "d", "ignored": "a.key", "out": filepath.Join(outside, "secret"), "up": "../" + filepath.Base(outside) + "/secret", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	files := gitfiles.OfFolder(dir)
	for name, want := range map[string]string{"good": "b\n", "folder/b": "b\n", "ignored": "", "out": "", "up": "", "loop": ""} {
		text, err := fs.ReadFile(files, name)
		if string(text) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if _, err := fs.ReadLink(files, name); err != nil && name != "folder/b" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "unread"} {
		write(t, outside, name, "theirs\n")
	}
	if text, err := fs.ReadFile(files, "d/b"); string(text) != "b\n" {
		t.Errorf("a file that was read before: %q, %v", text, err)
	}
	if text, err := fs.ReadFile(files, "d/unread"); err == nil { // replaced after the listing
		t.Errorf("read %q outside", text)
	}
}

func TestWorktreeFS(t *testing.T) {
	isolated(t)
	dir := t.TempDir()
	write(t, dir, "a", "1\n")
	write(t, dir, "d/e/b", "2\n")
	files := gitfiles.OfFolder(dir)
	if err := fstest.TestFS(files, "a", "d/e/b"); err != nil {
		t.Error(err)
	}
	write(t, dir, "new", "3\n")
	if _, err := fs.Stat(files, "new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("listed without being asked: %v", err)
	}
	if err := files.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, err := fs.ReadFile(files, "new"); err != nil || string(text) != "3\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// Without git, and with a repository that is not the folder's, there is an error with a cure, and not another view.
func TestWorktreeFails(t *testing.T) {
	isolated(t)
	private, dir := t.TempDir(), t.TempDir()
	git(t, private, "init", "--quiet")
	write(t, private, "secret", "")
	write(t, dir, "a", "")
	fails := func(code string) {
		t.Helper()
		var e *lab.Error
		if err := gitfiles.OfFolder(dir).Refresh(t.Context()); !errors.As(err, &e) || e.Code != code || e.Cure == "" {
			t.Errorf("%v, want %s", err, code)
		}
	}
	write(t, dir, ".git", "gitdir: "+filepath.Join(private, ".git")+"\n") // somebody else's
	fails("repository")
	write(t, dir, ".git", "gitdir: fake\n") // a work tree of it, by its own word
	write(t, dir, "fake/commondir", filepath.Join(private, ".git")+"\n")
	write(t, dir, "fake/gitdir", filepath.Join(dir, ".git")+"\n")
	fails("repository")
	if err := os.Remove(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "--quiet", "--object-format=sha256")
	fails("repository")
	t.Setenv("PATH", t.TempDir())
	fails("no_git")
}

// A linked work tree and a submodule are read like any clone.
func TestWorktreeElsewhere(t *testing.T) {
	isolated(t)
	top, linked := t.TempDir(), filepath.Join(t.TempDir(), "linked")
	git(t, top, "init", "--quiet")
	write(t, top, "a", "")
	git(t, top, "add", "a")
	git(t, top, "commit", "--quiet", "-m", "x")
	git(t, top, "worktree", "add", "--quiet", linked)
	git(t, top, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", top, "module")
	for _, dir := range []string{linked, filepath.Join(top, "module")} {
		if got := listed(t, dir); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%s: %q", dir, got)
		}
	}
}
