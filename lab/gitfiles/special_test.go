//go:build unix

package gitfiles_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"homelab/lab/gitfiles"
)

// within ends a test that waits for a pipe.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal(what + " blocks")
	}
}

func fifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What is neither a file nor a folder is not listed, and what links lead to is read only if it is listed. Nothing is opened that might block.
func TestWorktreeSpecial(t *testing.T) {
	for _, repository := range []string{"git", "none"} {
		t.Run(repository, func(t *testing.T) {
			isolated(t)
			dir, outside := t.TempDir(), t.TempDir()
			if repository == "git" {
				git(t, dir, "init", "--quiet")
			}
			write(t, outside, "key", "secret")
			write(t, dir, "a", "a")
			write(t, dir, "tracked", "x")
			write(t, dir, "d/b", "b")
			if repository == "git" {
				git(t, dir, "add", "-A")
			}
			if err := os.Remove(filepath.Join(dir, "tracked")); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"tracked", "pipe", "d/pipe"} {
				fifo(t, filepath.Join(dir, name))
			}
			socket, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "socket"))
			if err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
			links := map[string]string{
				"to-pipe": "pipe", "to-tracked": "tracked", "to-socket": "socket", "to-zero": "/dev/zero", "to-stdin": "/dev/stdin", "to-key": filepath.Join(outside, "key"),
				"up": "../" + filepath.Base(outside) + "/key", "loop": "loop", "ping": "pong", "pong": "ping", "deep": "deep/deep", "out": outside, "here": ".", "gone": "nothing",
			}
			for name, to := range links {
				if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			within(t, "listing", func() {
				got := slices.DeleteFunc(listed(t, dir), func(name string) bool { return links[name] != "" })
				if want := []string{"a", "d/b"}; !slices.Equal(got, want) {
					t.Errorf("%q, want %q", got, want)
				}
			})
			w := gitfiles.OfFolder(dir)
			for name := range links {
				within(t, name, func() {
					if name == "here" {
						return
					}
					if text, err := fs.ReadFile(w, name); err == nil {
						t.Errorf("%s: read %q", name, text)
					}
					if text, err := fs.ReadFile(w, name+"/key"); err == nil {
						t.Errorf("%s/key: read %q", name, text)
					}
				})
			}
		})
	}
}

// A file that has become a pipe, a device or a link out since it was listed is not read.
func TestWorktreeReplaced(t *testing.T) {
	isolated(t)
	for name, replace := range map[string]func(path string) error{
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"out":    func(path string) error { return os.Symlink("/etc/hostname", path) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "d/a", "a")
			w := gitfiles.OfFolder(dir)
			if err := w.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "d", "a")
			if err := errors.Join(os.Remove(path), replace(path)); err != nil {
				t.Fatal(err)
			}
			within(t, "reading", func() {
				if text, err := fs.ReadFile(w, "d/a"); err == nil {
					t.Errorf("read %q", text)
				}
			})
		})
	}
}

// The files of a repository that lab itself reads may be pipes and devices, too.
func TestSpecialClone(t *testing.T) {
	isolated(t)
	for name, spoil := range map[string]func(dir string) error{
		"a pipe for .git":   func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, ".git"), 0o600) },
		"a device for .git": func(dir string) error { return os.Symlink("/dev/zero", filepath.Join(dir, ".git")) },
		"a pipe for commondir": func(dir string) error {
			git(t, dir, "init", "--quiet")
			return syscall.Mkfifo(filepath.Join(dir, ".git/commondir"), 0o600)
		},
		"an endless file for commondir": func(dir string) error {
			git(t, dir, "init", "--quiet")
			return os.Symlink("/dev/zero", filepath.Join(dir, ".git/commondir"))
		},
		"a pipe for the index": func(dir string) error {
			git(t, dir, "init", "--quiet")
			return syscall.Mkfifo(filepath.Join(dir, ".git/index"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "a", "a")
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			within(t, "listing", func() {
				if err := gitfiles.OfFolder(dir).Refresh(t.Context()); err != nil && !strings.Contains(err.Error(), dir) && !strings.Contains(err.Error(), "regular") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
