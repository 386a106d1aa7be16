package gitcommand

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/regular"
)

// quick bounds a command that only reads references, configuration or the index.
const quick = time.Minute

// Clone is a Git repository of a user, and what its folder has of Git: https://git-scm.com/docs/gitrepository-layout.
type Clone struct {
	Top    string // the folder with .git
	GitDir string // of this work tree
	Common string // of all its work trees

	settings map[string]string // git's configuration, the user's included
}

// Find returns the repository that encloses a folder, or nil. It reads the configuration as values and follows none of it.
func Find(ctx context.Context, dir string) (*Clone, error) {
	top, err := Top(dir)
	if err != nil || top == "" {
		return nil, err
	}
	c := &Clone{Top: top, GitDir: filepath.Join(top, ".git")}
	linked := false
	if text, err := regular.Read(c.GitDir, regular.Small); err == nil {
		link, _ := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
		c.GitDir, linked = resolve(top, strings.TrimSpace(link)), true
	}
	c.Common = c.GitDir
	if text, err := regular.Read(filepath.Join(c.GitDir, "commondir"), regular.Small); err == nil {
		c.Common = resolve(c.GitDir, strings.TrimSpace(string(text)))
	}
	for _, dir := range []string{c.GitDir, filepath.Join(c.GitDir, "info"), c.Common, filepath.Join(c.Common, "info")} {
		if err := endless(dir); err != nil {
			return nil, err
		}
	}
	if c.settings, err = settings(ctx, c.GitDir); err != nil {
		return nil, err
	}
	if linked && !c.pointsBack() || c.Common != c.GitDir && !sameFile(filepath.Dir(filepath.Dir(c.GitDir)), c.Common) {
		return nil, unusable(fmt.Sprintf("%s refers to a repository that does not refer back: %s", filepath.Join(top, ".git"), c.Common), "git worktree repair there, or git config core.worktree")
	}
	if format := c.settings["extensions.objectformat"]; format != "" && format != "sha1" {
		return nil, unusable(top+" has "+format+" hashes, the forge has sha1", "git init --object-format=sha1 and commit the files there")
	}
	return c, nil
}

// endless returns an error if a folder has pipes or devices, from which git might read forever. A socket, such as that of git's own file monitor, cannot be opened.
func endless(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil { // git says so
		return nil
	}
	for _, e := range entries {
		if e.Type().IsRegular() || e.IsDir() {
			continue
		}
		file := filepath.Join(dir, e.Name())
		if info, err := os.Stat(file); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeDevice) != 0 {
			return unusable(file+" is a pipe or a device", "remove it")
		}
	}
	return nil
}

// Top returns the folder with .git that encloses a folder, or "".
func Top(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for top := dir; ; top = filepath.Dir(top) {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			return top, nil
		}
		if filepath.Dir(top) == top {
			return "", nil
		}
	}
}

func unusable(message, cure string) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "repository", Message: message, Cure: cure}
}

func resolve(from, to string) string {
	if filepath.IsAbs(to) {
		return filepath.Clean(to)
	}
	return filepath.Join(from, to)
}

// pointsBack reports whether the repository that a .git file names is that of this folder: any file may point to another user's repository.
func (c *Clone) pointsBack() bool {
	if back, err := regular.Read(filepath.Join(c.GitDir, "gitdir"), regular.Small); err == nil {
		return sameFile(resolve(c.GitDir, strings.TrimSpace(string(back))), filepath.Join(c.Top, ".git"))
	}
	tree := c.settings["core.worktree"]
	return tree != "" && sameFile(resolve(c.GitDir, tree), c.Top)
}

func sameFile(a, b string) bool {
	x, xerr := os.Stat(a)
	y, yerr := os.Stat(b)
	return xerr == nil && yerr == nil && os.SameFile(x, y)
}

// settings returns the configuration of a repository and its user by lower-case keys. It is data here: only values that lab reads by name are used.
func settings(ctx context.Context, gitDir string) (map[string]string, error) {
	c := Command{Limit: quick, Env: []string{"GIT_DIR=" + gitDir}, values: true}
	out, err := c.Run(ctx, "config", "--list", "--show-scope", "-z")
	if err != nil {
		return nil, fmt.Errorf("configuration of git: %w", err)
	}
	all := map[string]string{}
	fields := strings.Split(out, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		key, value, ok := strings.Cut(fields[i+1], "\n")
		if !ok {
			value = "true"
		}
		if fields[i] != "command" { // pinned
			all[key] = value
		}
	}
	return all, nil
}

// Setting returns a value of the configuration; keys are lower-case. It is "" for none.
func (c *Clone) Setting(key string) string { return c.settings[key] }

// Shallow reports whether the clone lacks a part of its history.
func (c *Clone) Shallow() bool {
	info, err := os.Stat(filepath.Join(c.Common, "shallow"))
	return err == nil && info.Size() > 0
}

// Index returns the file with the index.
func (c *Clone) Index() string { return filepath.Join(c.GitDir, "index") }

// Head returns the commit that is checked out, or "".
func (c *Clone) Head(ctx context.Context) string {
	out, err := c.References(ctx, "rev-parse", "--quiet", "--verify", "--end-of-options", "HEAD^{commit}")
	if err != nil {
		return ""
	}
	return out
}

// References runs a command on the clone's references, which reads and runs nothing else: rev-parse, symbolic-ref, update-ref.
func (c *Clone) References(ctx context.Context, args ...string) (string, error) {
	return Command{Limit: quick, Env: []string{"GIT_DIR=" + c.GitDir}}.Run(ctx, args...)
}
