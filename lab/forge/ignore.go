package forge

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"homelab/lab"

	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

const ignoreFile = ".gitignore"

// outerPatterns returns the patterns of the user's global excludes file, of the enclosing repository's info/exclude,
// and of .gitignore files above the estate.
func (t Tree) outerPatterns() (patterns []gitignore.Pattern, base []string, err error) {
	if t.Dir == "" {
		return nil, nil, nil
	}
	add := func(file string, domain []string) error {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unreadable(file, err)
		}
		patterns = append(patterns, parseIgnore(text, domain)...)
		return nil
	}
	root := t.repository()
	if file := excludesFile(root); file != "" {
		if err := add(file, nil); err != nil {
			return nil, nil, err
		}
	}
	if root == "" {
		return patterns, nil, nil
	}
	if base, err = t.within(root); err != nil {
		return nil, nil, err
	}
	if err := add(filepath.Join(commonDir(root), "info", "exclude"), nil); err != nil {
		return nil, nil, err
	}
	for i := range base { // the estate's own is read by walk
		if err := add(filepath.Join(root, filepath.Join(base[:i]...), ignoreFile), base[:i]); err != nil {
			return nil, nil, err
		}
	}
	return patterns, base, nil
}

// excludesFile returns the user's global excludes file (https://git-scm.com/docs/gitignore), or "" without a home
// folder. Errors in the configuration are left to git.
func excludesFile(root string) string {
	file := ""
	look := func(c *config.Config, err error) {
		if err == nil && c.Raw != nil && c.Raw.Section("core").HasOption("excludesfile") {
			file = c.Raw.Section("core").Option("excludesfile")
		}
	}
	look(config.LoadConfig(config.SystemScope))
	look(config.LoadConfig(config.GlobalScope))
	if root != "" {
		if f, err := os.Open(filepath.Join(commonDir(root), "config")); err == nil {
			look(config.ReadConfig(f))
			_ = f.Close()
		}
	}
	home, err := os.UserHomeDir()
	switch {
	case file == "" && os.Getenv("XDG_CONFIG_HOME") != "":
		return filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "git", "ignore")
	case filepath.IsAbs(file):
		return file
	case err != nil:
		return ""
	case file == "":
		return filepath.Join(home, ".config", "git", "ignore")
	case strings.HasPrefix(file, "~/"):
		return filepath.Join(home, file[2:])
	}
	return filepath.Join(root, file)
}

// repository returns the root of the enclosing repository, or "".
func (t Tree) repository() string {
	if t.Dir == "" {
		return ""
	}
	for root := t.Dir; ; root = filepath.Dir(root) {
		if _, err := os.Lstat(filepath.Join(root, ".git")); err == nil {
			return root
		}
		if filepath.Dir(root) == root {
			return ""
		}
	}
}

// within returns the estate's path in a repository.
func (t Tree) within(root string) ([]string, error) {
	rel, err := filepath.Rel(root, t.Dir)
	if err != nil || rel == "." {
		return nil, err
	}
	return strings.Split(filepath.ToSlash(rel), "/"), nil
}

// commonDir returns the folder that the worktrees of a repository share. In a linked worktree, .git is a file that
// points to it (https://git-scm.com/docs/gitrepository-layout).
func commonDir(root string) string {
	dir := filepath.Join(root, ".git")
	text, err := os.ReadFile(dir)
	if err != nil { // a folder
		return dir
	}
	resolve := func(from, to string) string {
		if filepath.IsAbs(to) {
			return to
		}
		return filepath.Join(from, to)
	}
	link, _ := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
	dir = resolve(root, strings.TrimSpace(link))
	if text, err = os.ReadFile(filepath.Join(dir, "commondir")); err != nil { // of a submodule
		return dir
	}
	return resolve(dir, strings.TrimSpace(string(text)))
}

// unreadable is an error, as ignored files may be keys and must not be pushed.
func unreadable(file string, err error) error {
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "unreadable", Message: "cannot read " + file + " to find ignored files",
		Cure: "make it readable", Err: err,
	}
}

// parseIgnore parses a pattern file as Git does: any line length, LF or CRLF, optional byte order mark.
func parseIgnore(text []byte, domain []string) []gitignore.Pattern {
	var patterns []gitignore.Pattern
	for line := range strings.Lines(string(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		patterns = append(patterns, gitignore.ParsePattern(line, domain))
	}
	return patterns
}

// ignores reports whether Git ignores a path of the estate.
func (t Tree) ignores(name string) (bool, error) {
	patterns, base, err := t.outerPatterns()
	if err != nil {
		return false, err
	}
	parts := strings.Split(name, "/")
	for i := range parts {
		within := slices.Concat(base, parts[:i])
		file := path.Join(path.Join(parts[:i]...), ignoreFile)
		text, err := fs.ReadFile(t.FS, file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotDir) {
			return false, unreadable(file, err)
		}
		patterns = append(patterns, parseIgnore(text, within)...)
		if gitignore.NewMatcher(patterns).Match(slices.Concat(within, parts[i:i+1]), i < len(parts)-1) {
			return true, nil
		}
	}
	return false, nil
}

// errNotDir is the error for a path below a file.
const errNotDir = syscall.ENOTDIR
