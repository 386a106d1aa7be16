package forgetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/forge"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Fake is a forge without a container: a bare repository in a folder. Pushes share the code of Gitea's.
type Fake struct {
	Dir string // of the repository; created by Start, deleted by Remove
	// Memory holds the repository instead of Dir, if not nil. The caller must make Git clients resolve Dir to it.
	Memory *memory.Storage

	Notes forge.Notes // of pulls; may be nil

	inputs     string // empty before the first Start
	port       string
	up         bool
	unprepared bool
	paused     bool
	silent     bool
	charts     map[string]string // name and version -> digest
	hook       string            // URL and secret
	hooks      map[string]string // same, by mirror

	requests     []forge.PullRequest
	repositories []string // of others
}

var _ Forge = (*Fake)(nil)

const main = plumbing.ReferenceName("refs/heads/" + forge.Branch)

func (f *Fake) open() (*git.Repository, error) {
	if f.Memory != nil {
		return git.Open(f.Memory, nil)
	}
	return git.PlainOpen(f.Dir)
}

func (f *Fake) init() (*git.Repository, error) {
	if f.Memory != nil {
		return git.Init(f.Memory, nil)
	}
	return git.PlainInit(f.Dir, true)
}

// empty deletes the repository.
func (f *Fake) empty() error {
	if f.Memory != nil {
		f.Memory = memory.NewStorage()
	}
	return os.RemoveAll(f.Dir)
}

// copied returns a deep copy.
func copied(from *memory.Storage) (*memory.Storage, error) {
	to := memory.NewStorage()
	for _, o := range from.Objects {
		if _, err := to.SetEncodedObject(o); err != nil {
			return nil, err
		}
	}
	for _, ref := range from.ReferenceStorage {
		if err := to.SetReference(ref); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// Observe returns the state of the forge.
func (f *Fake) Observe(context.Context) (forge.State, error) {
	if f.inputs == "" {
		return forge.State{}, nil
	}
	s := forge.State{Exists: true, Volume: true, Inputs: f.inputs, ImageID: f.inputs}
	if !f.up || f.paused {
		return s, nil
	}
	s.Running, s.Answers, s.Prepared, s.HostURL = true, !f.silent, !f.silent && !f.unprepared, "http://127.0.0.1:"+f.port
	s.Admits = s.Prepared
	if !s.Prepared {
		s.Empty = f.unprepared && !f.silent
		return s, nil
	}
	repo, err := f.open()
	if err != nil {
		return s, err
	}
	ref, err := repo.Reference(main, true)
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		s.Empty = true
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Revision = ref.Hash().String()
	return s, nil
}

// Inputs returns a digest of the images.
func (f *Fake) Inputs(spec forge.Spec) string {
	return fmt.Sprintf("%s@%s, %s, writer %t", spec.Image.Ref, spec.Image.Digest, spec.Gate.Ref, spec.Writer)
}

// Account returns an account whose token is its name's.
func (f *Fake) Account(writes bool) forge.Account {
	if writes {
		return forge.Account{User: "lab-writer", Token: "token of lab-writer"}
	}
	return forge.Account{User: "lab-reader", Token: "token of lab-reader"}
}

// Start creates the repository, if missing.
func (f *Fake) Start(_ context.Context, spec forge.Spec, _ int, _ lab.Progress) error {
	if f.inputs == "" || f.unprepared {
		repo, err := f.init()
		if err != nil {
			return err
		}
		if err := repo.Storer.SetReference(plumbing.NewSymbolicReference(plumbing.HEAD, main)); err != nil {
			return err
		}
		f.charts, f.port = map[string]string{}, "3000"
	}
	if f.silent {
		return &lab.Error{Exit: lab.ExitFailed, Code: "forge", Message: "the lab's Git server does not answer"}
	}
	f.inputs, f.up, f.paused, f.unprepared = f.Inputs(spec), true, false, false
	return nil
}

// Stop stops the forge.
func (f *Fake) Stop() { f.up = false }

// Pause freezes the forge until Start.
func (f *Fake) Pause() { f.paused = true }

// Take copies the content into a folder. The returned function restores it, with the forge stopped.
func (f *Fake) Take(folder string) (func() error, error) {
	taken := *f
	taken.charts = maps.Clone(f.charts)
	if f.Memory != nil {
		var err error
		if taken.Memory, err = copied(f.Memory); err != nil {
			return nil, err
		}
	} else if err := os.CopyFS(folder, os.DirFS(f.Dir)); err != nil {
		return nil, err
	}
	return func() (err error) {
		if err := f.empty(); err != nil {
			return err
		}
		f.inputs, f.port, f.hook, f.hooks, f.up = taken.inputs, taken.port, taken.hook, taken.hooks, false
		f.paused, f.silent, f.unprepared, f.charts = false, false, taken.unprepared, maps.Clone(taken.charts)
		f.requests, f.repositories = taken.requests, taken.repositories
		if f.Memory != nil {
			f.Memory, err = copied(taken.Memory)
			return err
		}
		return os.CopyFS(f.Dir, os.DirFS(folder))
	}, nil
}

// Estate returns the files of the head, or nil without commits.
func (f *Fake) Estate(ctx context.Context) (fs.FS, error) {
	r, err := f.running()
	if err != nil {
		return nil, err
	}
	return r.Files(ctx)
}

// Silence makes a running forge stop answering, or answer again.
func (f *Fake) Silence(silent bool) { f.silent = silent }

// Unprepare deletes the repository, as if Start had been interrupted.
func (f *Fake) Unprepare() error {
	f.unprepared, f.charts, f.hook, f.hooks = true, map[string]string{}, "", nil
	f.requests, f.repositories = nil, nil
	return f.empty()
}

// Contents lists the content, one item per line, without what differs between runs.
func (f *Fake) Contents(ctx context.Context) ([]string, error) {
	if f.inputs == "" {
		return nil, nil
	}
	lines := []string{fmt.Sprintf("forge %s: up %t, prepared %t, hook %s", f.inputs, f.up, !f.unprepared, f.hook)}
	for _, chart := range slices.Sorted(maps.Keys(f.charts)) {
		lines = append(lines, "chart "+chart+" "+f.charts[chart])
	}
	commits, err := f.Log(ctx, math.MaxInt)
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return append(lines, "no commit"), nil
	}
	if err != nil {
		return nil, err
	}
	for _, c := range commits {
		lines = append(lines, "commit of "+c.Author+": "+c.Message)
	}
	tree, err := f.tree()
	if err != nil {
		return nil, err
	}
	err = tree.Files().ForEach(func(file *object.File) error {
		lines = append(lines, fmt.Sprintf("file %s: %x", file.Name, file.Hash[:6]))
		return nil
	})
	return lines, err
}

// Tree returns a digest of the head's files, or "".
func (f *Fake) Tree() string {
	tree, err := f.tree()
	if err != nil {
		return ""
	}
	return tree.Hash.String()
}

func (f *Fake) tree() (*object.Tree, error) {
	repo, err := f.open()
	if err != nil {
		return nil, err
	}
	ref, err := repo.Reference(main, true)
	if err != nil {
		return nil, err
	}
	commit, err := repo.CommitObject(ref.Hash())
	if err != nil {
		return nil, err
	}
	return commit.Tree()
}

func (f *Fake) running() (forge.Remote, error) {
	s, err := f.Observe(context.Background())
	switch {
	case err != nil:
		return forge.Remote{}, err
	case !s.Running:
		return forge.Remote{}, &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the lab's Git server does not run"}
	case f.silent:
		return forge.Remote{}, &lab.Error{Exit: lab.ExitFailed, Code: "forge", Message: "the lab's Git server did not answer for 30s", Cure: "lab up"}
	case !s.Prepared:
		return forge.Remote{}, &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the lab's Git server is not prepared yet"}
	}
	return forge.Remote{URL: f.Dir, Notes: f.Notes, Now: time.Now}, nil
}

// Push commits the working tree.
func (f *Fake) Push(ctx context.Context, tree forge.Tree, message string) (forge.PushResult, error) {
	r, err := f.running()
	if err != nil {
		return forge.PushResult{}, err
	}
	return r.Push(ctx, tree, message)
}

// Diff returns the paths that a push would change.
func (f *Fake) Diff(ctx context.Context, tree forge.Tree) ([]string, error) {
	r, err := f.running()
	if err != nil {
		return nil, err
	}
	return r.Diff(ctx, tree)
}

// Pull pulls changes of others into the working tree.
func (f *Fake) Pull(ctx context.Context, tree forge.Tree, dry bool) (forge.PullResult, error) {
	r, err := f.running()
	if err != nil {
		return forge.PullResult{}, err
	}
	return r.Pull(ctx, tree, dry)
}

// Ahead returns the commits of others that the working tree lacks.
func (f *Fake) Ahead(ctx context.Context, tree forge.Tree) ([]forge.Commit, error) {
	r, err := f.running()
	if err != nil {
		return nil, err
	}
	return r.Ahead(ctx, tree)
}

// Log returns the last n commits.
func (f *Fake) Log(_ context.Context, n int) ([]forge.Commit, error) {
	if _, err := f.running(); err != nil {
		return nil, err
	}
	repo, err := f.open()
	if err != nil {
		return nil, err
	}
	iter, err := repo.Log(&git.LogOptions{})
	if err != nil {
		return nil, err
	}
	defer iter.Close()
	var commits []forge.Commit
	err = iter.ForEach(func(c *object.Commit) error {
		if len(commits) < n {
			commits = append(commits, forge.Commit{
				Hash: c.Hash.String(), Author: c.Author.Name, When: c.Author.When, Message: strings.TrimSpace(c.Message), Lab: c.Author.Name == "lab",
			})
		}
		return nil
	})
	return commits, err
}

// MissingCharts returns the charts that are not published with the same content.
func (f *Fake) MissingCharts(_ context.Context, charts []lab.Chart) ([]string, error) {
	if _, err := f.running(); err != nil {
		return nil, err
	}
	var missing []string
	for _, c := range charts {
		if f.charts[c.Name+" "+c.Version] != c.Digest {
			missing = append(missing, c.Name+" "+c.Version)
		}
	}
	return missing, nil
}

// PublishCharts records charts.
func (f *Fake) PublishCharts(ctx context.Context, charts []lab.Chart) ([]string, error) {
	changed, err := f.MissingCharts(ctx, charts)
	if err != nil {
		return nil, err
	}
	for _, c := range charts {
		f.charts[c.Name+" "+c.Version] = c.Digest
	}
	return changed, nil
}

// HasWebhook reports whether the webhook is recorded.
func (f *Fake) HasWebhook(_ context.Context, url, secret string, also ...string) (bool, error) {
	if _, err := f.running(); err != nil {
		return false, err
	}
	return f.hook == hookOf(url, secret, also), nil
}

func hookOf(url, secret string, also []string) string {
	return strings.Join(append([]string{url}, also...), " ") + " " + secret
}

// EnsureWebhook records a webhook.
func (f *Fake) EnsureWebhook(ctx context.Context, url, secret string, also ...string) (bool, error) {
	has, err := f.HasWebhook(ctx, url, secret, also...)
	if err != nil {
		return false, err
	}
	f.hook = hookOf(url, secret, also)
	return !has, nil
}

// Remove deletes the repository.
func (f *Fake) Remove(context.Context) error {
	*f = Fake{Dir: f.Dir, Memory: f.Memory, Notes: f.Notes}
	return f.empty()
}
