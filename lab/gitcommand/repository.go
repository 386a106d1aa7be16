package gitcommand

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"homelab/lab/regular"
)

// Repository is a bare repository of lab's own, in a temporary folder.
type Repository struct {
	Dir   string
	Limit time.Duration // of a run; default: a minute

	clone  *Clone
	config []string
}

// New returns a repository for a clone, which may be nil. It must be closed.
func New(ctx context.Context, clone *Clone) (r *Repository, err error) {
	dir, err := os.MkdirTemp("", "lab-git-")
	if err != nil {
		return nil, err
	}
	r = &Repository{Dir: dir, clone: clone, Limit: quick}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	for _, name := range []string{"refs", "objects/info", "info", stored} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n", alternates: filepath.Join(dir, stored) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	var all map[string]string
	if clone != nil {
		all = clone.settings
	} else if all, err = settings(ctx, dir); err != nil {
		return nil, err
	}
	// What decides which files Git ignores and how it compares them, as values. Git expands ~ itself.
	for _, key := range []string{"core.excludesfile", "core.ignorecase", "core.precomposeunicode", "core.autocrlf", "core.eol", "core.filemode", "core.symlinks"} {
		if value, ok := all[key]; ok {
			r.config = append(r.config, key+"="+value)
		}
	}
	return r, r.adopt()
}

// adopt copies what belongs to the clone's index and ignored files.
func (r *Repository) adopt() error {
	if r.clone == nil {
		return nil
	}
	copies := map[string]string{"info/exclude": filepath.Join(r.clone.Common, "info", "exclude"), "info/attributes": filepath.Join(r.clone.Common, "info", "attributes")}
	entries, err := os.ReadDir(r.clone.GitDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "sharedindex.") {
			copies[e.Name()] = filepath.Join(r.clone.GitDir, e.Name())
		}
	}
	for to, from := range copies {
		text, err := regular.Read(from, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.Dir, to), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Close deletes the repository.
func (r *Repository) Close() error { return os.RemoveAll(r.Dir) }

const (
	alternates = "objects/info/alternates"
	stored     = "stored"
)

// Lend adds the clone's objects, to read.
func (r *Repository) Lend() error {
	text := filepath.Join(r.Dir, stored) + "\n" + filepath.Join(r.clone.Common, "objects") + "\n"
	return os.WriteFile(filepath.Join(r.Dir, alternates), []byte(text), 0o600)
}

// Apart is like Command for storing objects: git would touch the files of a clone's objects that are the same.
func (r *Repository) Apart() Command {
	c := r.Command()
	c.Env = append(c.Env, "GIT_OBJECT_DIRECTORY="+filepath.Join(r.Dir, stored))
	return c
}

// Command returns a run of git in the repository.
func (r *Repository) Command() Command {
	return Command{Limit: r.Limit, Config: r.config, Env: []string{"GIT_DIR=" + r.Dir}}
}

// Run runs git in the repository.
func (r *Repository) Run(ctx context.Context, args ...string) (string, error) {
	return r.Command().Run(ctx, args...)
}

// In returns a run of git in a folder of the clone's work tree, with the index in a file; for a nil clone, the folder is the work tree.
func (r *Repository) In(dir, index string) Command {
	top := dir
	if r.clone != nil {
		top = r.clone.Top
	}
	c := r.Command()
	c.Dir, c.Env = dir, append(c.Env, "GIT_WORK_TREE="+top, "GIT_INDEX_FILE="+index)
	return c
}
