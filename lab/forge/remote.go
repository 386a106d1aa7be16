package forge

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing/fstest" // an in-memory fs.FS; it does not import package testing
	"time"

	"homelab/lab/gitcommand"
)

// Branch is the branch that engines follow.
const Branch = "main"

const heads = "refs/heads/"

// lastRef records the commit that the working tree last had, by push or pull. It is stored in the forge, so that it
// moves with the repository.
const lastRef = "refs/lab/last"

// Remote is the forge's repository over Git.
type Remote struct {
	URL      string
	Branch   string      // that engines follow; default Branch
	Auth     Credentials // may be empty
	Notes    Notes       // of pulls; may be nil
	Commands Commands
	Now      func() time.Time

	// Unlock removes reference locks of a killed git and reports whether there were any; may be nil.
	Unlock func(ctx context.Context) (bool, error)
}

// branch returns the full name of the branch.
func (r Remote) branch() string { return heads + cmp.Or(r.Branch, Branch) }

func (r Remote) remote() gitcommand.Remote {
	return gitcommand.Remote{URL: r.URL, User: r.Auth.User, Password: r.Auth.Password}
}

// Commands are command lines for cures. The zero value is for a lab that needs no flags.
type Commands struct {
	Pull string // default: lab git pull
	URL  string // default: lab git url --credentials; a mirror's name is added
	Up   string // default: lab up
}

func (r Remote) cure() string { return cmp.Or(r.Commands.Pull, "lab git pull") }
func (r Remote) up() string   { return cmp.Or(r.Commands.Up, "lab up") }

// list returns the forge's references, with one small request.
func (r Remote) list(ctx context.Context) (map[string]string, error) {
	c := gitcommand.Command{Limit: time.Minute, Env: []string{"GIT_DIR=" + os.DevNull}, Remote: r.remote()}
	out, err := c.Run(ctx, "ls-remote", "--quiet", "--refs", "--", r.URL)
	if err != nil {
		return nil, fmt.Errorf("references of the forge: %w", err)
	}
	found := map[string]string{}
	for line := range strings.Lines(out) {
		if hash, name, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			found[name] = hash
		}
	}
	return found, nil
}

// head returns the head of the branch, or "".
func (r Remote) head(ctx context.Context) (string, error) {
	refs, err := r.list(ctx)
	return refs[r.branch()], err
}

// Files returns the files at the head of the branch, or nil without commits.
func (r Remote) Files(ctx context.Context) (fs.FS, error) {
	d, err := r.open(ctx, Tree{}, false)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	const headAlone = 1
	if err := d.fetch(ctx, headAlone); err != nil || d.head == "" {
		return nil, err
	}
	theirs, err := d.files(ctx, d.head)
	if err != nil {
		return nil, fmt.Errorf("files of the forge: %w", err)
	}
	wanted := map[string]bool{}
	for _, e := range theirs {
		if e.Mode != modeModule {
			wanted[e.Hash] = true
		}
	}
	texts, err := d.blobs(ctx, wanted)
	if err != nil {
		return nil, fmt.Errorf("files of the forge: %w", err)
	}
	found := fstest.MapFS{}
	for name, e := range theirs {
		mode := fs.FileMode(0o644)
		switch e.Mode {
		case modeExecutable:
			mode = 0o755
		case modeLink:
			mode = fs.ModeSymlink | 0o777
		case modeModule:
			mode = fs.ModeDir | 0o755
		}
		found[name] = &fstest.MapFile{Data: bytes.Clone(texts[e.Hash]), Mode: mode}
	}
	return found, nil
}

// MirrorFiles returns the files at the head of a mirror's branch, as Estate does, or nil if they are those of its working tree: a mirror may be large.
func (g *Gitea) MirrorFiles(ctx context.Context, m Mirror) (fs.FS, error) {
	other, same := g.of(m), false
	err := g.call(ctx, "the state of mirror "+m.Name, gitLimit, func(ctx context.Context, s State) (err error) {
		_, same, err = other.same(ctx, s, m.Tree)
		return err
	})
	if err == nil && same {
		return nil, nil
	}
	return other.Estate(ctx)
}

// Estate waits until the forge answers and returns the files at the head of the branch, or nil without commits.
func (g *Gitea) Estate(ctx context.Context) (files fs.FS, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s, err := g.running(ctx)
	if err != nil {
		return nil, err
	}
	if err := g.awaitHealth(ctx, s); err != nil {
		return nil, err
	}
	err = g.call(ctx, "the files of the estate's repository", gitLimit, func(ctx context.Context, s State) error {
		files, err = g.remote(s).Files(ctx)
		return err
	})
	return files, err
}
