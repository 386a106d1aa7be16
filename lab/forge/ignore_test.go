package forge

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

// names returns the files that a push would contain.
func (b *bench) names() []string {
	b.t.Helper()
	got, err := b.tree().read()
	b.must(err)
	return slices.Sorted(maps.Keys(got))
}

func TestIgnoreFileForms(t *testing.T) {
	for name, text := range map[string]string{
		"a line of more than 64 KiB": "# " + strings.Repeat("x", 1<<17) + "\n*.key\n",
		"CRLF":                       "*.log\r\n*.key\r\n",
		"no newline at the end":      "*.log\n*.key",
		"a byte order mark":          "\ufeff*.key\n",
		"trailing spaces":            "*.key  \n",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write(b.dir, map[string]string{".gitignore": text, "prod.key": "secret\n", "a": "a\n"})
			if got := b.names(); !slices.Equal(got, []string{".gitignore", "a"}) {
				t.Errorf("a push would carry %q", got)
			}
		})
	}
}

// Git commits what it tracks, whatever .gitignore contains.
func TestIgnoredButTracked(t *testing.T) {
	b := newBench(t)
	outer := b.dir
	b.write(outer, map[string]string{
		".gitignore": "charts/\n*.env\n", "a.env": "a\n", "b.env": "b\n", "apps/charts/x/Chart.yaml": "name: x\n", "apps/charts/y.yaml": "y\n", "applications/z.env": "z\n",
	})
	git := func(args ...string) {
		if out, err := exec.Command("git", append([]string{"-C", outer}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "--quiet")
	git("add", "--force", ".gitignore", "a.env", "apps/charts/x/Chart.yaml", "applications/z.env")
	if got := b.names(); !slices.Equal(got, []string{".gitignore", "a.env", "applications/z.env", "apps/charts/x/Chart.yaml"}) {
		t.Errorf("a push would carry %q", got)
	}
	b.dir = filepath.Join(outer, "apps")
	if got := b.names(); !slices.Equal(got, []string{"charts/x/Chart.yaml"}) {
		t.Errorf("of a folder, a push would carry %q", got)
	}
}

// Git does not follow a link at .gitignore: what it names would not be ignored.
func TestUnreadableIgnoreFile(t *testing.T) {
	b := newBench(t)
	outer := b.dir
	b.dir = filepath.Join(outer, "estate")
	b.git(outer, "init", "--quiet")
	b.write(outer, map[string]string{"estate/a": "a\n", "patterns": "a\n"})
	for _, dir := range []string{outer, b.dir} {
		file := filepath.Join(dir, ".gitignore")
		b.must(os.Symlink(filepath.Join(outer, "patterns"), file))
		_, err := b.tree().read()
		var e *lab.Error
		if !errors.As(err, &e) || e.Code != "unreadable" || e.Cure == "" {
			t.Errorf("%s: error %v", file, err)
		}
		b.must(os.Remove(file))
	}
}

// info/exclude of a linked worktree is in the main repository.
func TestIgnoreInLinkedWorktree(t *testing.T) {
	b := newBench(t)
	root := t.TempDir()
	b.dir = filepath.Join(t.TempDir(), "linked")
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"}, {"worktree", "add", "-q", b.dir}} {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	b.write(root, map[string]string{".git/info/exclude": "*.key\n"})
	b.write(b.dir, map[string]string{"a": "a\n", "prod.key": "secret\n"})
	if got := b.names(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("a push would carry %q", got)
	}
}

// The user's global excludes apply.
func TestIgnoreGlobalExcludes(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, tc := range []struct{ name, config, file, xdg string }{
		{"default", "# nothing\n", ".config/git/ignore", ""},
		{"default under XDG_CONFIG_HOME", "# nothing\n", "xdg/git/ignore", filepath.Join(home, "xdg")},
		{"configured", "[core]\n\texcludesFile = ~/mine\n", "mine", ""},
		{"configured with an absolute path", "[core]\n\texcludesfile = " + filepath.Join(home, "whole") + "\n", "whole", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("XDG_CONFIG_HOME", tc.xdg)
			b := newBench(t)
			b.write(home, map[string]string{".gitconfig": tc.config, tc.file: "*.key\n"})
			b.write(b.dir, map[string]string{"a": "a\n", "prod.key": "secret\n", ".gitignore": "!kept.key\n", "kept.key": "no secret\n"})
			if got := b.names(); !slices.Equal(got, []string{".gitignore", "a", "kept.key"}) {
				t.Errorf("a push would carry %q", got)
			}
			b.must(os.RemoveAll(filepath.Join(home, tc.file)))
		})
	}
}
