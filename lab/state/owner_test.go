package state

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"

	"homelab/lab"
)

// calledBy is a root process that a user called with sudo.
func calledBy(uid, home string) caller {
	return caller{
		getenv: func(name string) string { return map[string]string{"SUDO_UID": uid, "SUDO_GID": uid}[name] },
		lookup: func(id string) (*user.User, error) {
			if id != "65534" {
				return nil, user.UnknownUserIdError(7)
			}
			return &user.User{Uid: id, Gid: id, HomeDir: home}, nil
		},
	}
}

func TestHomeWithSudo(t *testing.T) {
	own, his := t.TempDir(), t.TempDir()
	t.Setenv("HOME", own) // sudo keeps it, or sets it to root's if asked
	for _, c := range []struct {
		name string
		caller
		want string
	}{
		{"with sudo", calledBy("65534", his), his},
		{"root called sudo", calledBy("0", his), own},
		{"without sudo", calledBy("", his), own},
		{"sudo to another user", func() caller { c := calledBy("65534", his); c.euid = 1000; return c }(), own},
	} {
		if got, err := c.home(); err != nil || got != c.want {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
	for _, c := range []caller{calledBy("7", his), calledBy("65534", filepath.Join(his, "gone"))} {
		var e *lab.Error
		if _, err := c.home(); !errors.As(err, &e) || e.Exit != lab.ExitInvalid || e.Cure == "" {
			t.Errorf("%v", err)
		}
	}
}

// What root writes belongs to the user, and nothing else that root has.
func TestHandOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const uid = 65534
	home, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Chown(home, uid, uid); err != nil {
		t.Fatal(err)
	}
	c := calledBy(strconv.Itoa(uid), home)
	write := func(file string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(home, ".local", "state", "lab")
	roots := filepath.Join(elsewhere, "roots")
	write(roots)
	write(filepath.Join(root, "demo", "lab.json"))
	write(filepath.Join(home, "another"))
	if err := errors.Join(os.Symlink(elsewhere, filepath.Join(root, "link")), os.Link(roots, filepath.Join(root, "second-name"))); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{root, filepath.Join(root, "none"), filepath.Join(elsewhere, "lab")} {
		if err := c.handOver(dir); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]int{
		filepath.Join(home, ".local"): uid, filepath.Join(home, ".local/state"): uid, root: uid, filepath.Join(root, "demo"): uid, filepath.Join(root, "demo/lab.json"): uid,
		filepath.Join(root, "link"): uid, filepath.Join(home, "another"): 0, elsewhere: 0, roots: 0,
	} {
		if info, err := os.Lstat(file); err != nil || !belongsTo(info, want) {
			t.Errorf("%s: not %d's, %v", file, want, err)
		}
	}
}
