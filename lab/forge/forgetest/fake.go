package forgetest

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/forge"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Fake is a forge without a container: a bare repository in a folder, and notes of the rest. Pushes go through the same code as to Gitea.
type Fake struct {
	Dir string // of the repository; made by Start, removed by Remove

	inputs string // empty while it does not exist
	port   string
	up     bool
	charts map[string]string // name and version -> digest
	hook   string            // url and secret
}

var _ Forge = (*Fake)(nil)

const main = plumbing.ReferenceName("refs/heads/" + forge.Branch)

// Observe tells what there is of the forge.
func (f *Fake) Observe(context.Context) (forge.State, error) {
	if f.inputs == "" {
		return forge.State{}, nil
	}
	s := forge.State{Exists: true, Inputs: f.inputs, ImageID: f.inputs}
	if !f.up {
		return s, nil
	}
	s.Running, s.Answers, s.HostURL = true, true, "http://127.0.0.1:"+f.port
	repo, err := git.PlainOpen(f.Dir)
	if err != nil {
		return s, err
	}
	ref, err := repo.Reference(main, true)
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Revision = ref.Hash().String()
	return s, nil
}

// Inputs is a digest of what the forge is made from.
func (f *Fake) Inputs(image lab.Image) string { return image.Ref + "@" + image.Digest }

// Start makes the repository where there is none.
func (f *Fake) Start(_ context.Context, image lab.Image, _ int, _ lab.Progress) error {
	if f.inputs == "" {
		repo, err := git.PlainInit(f.Dir, true)
		if err != nil {
			return err
		}
		if err := repo.Storer.SetReference(plumbing.NewSymbolicReference(plumbing.HEAD, main)); err != nil {
			return err
		}
		f.charts, f.port = map[string]string{}, "3000"
	}
	f.inputs, f.up = f.Inputs(image), true
	return nil
}

// Stop stops it.
func (f *Fake) Stop() { f.up = false }

func (f *Fake) running() (forge.Remote, error) {
	if !f.up {
		return forge.Remote{}, &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the lab's Git server does not run"}
	}
	return forge.Remote{URL: f.Dir, Cure: "git pull", Now: time.Now}, nil
}

// Push commits the working tree.
func (f *Fake) Push(ctx context.Context, tree forge.Tree, message string) (forge.PushResult, error) {
	r, err := f.running()
	if err != nil {
		return forge.PushResult{}, err
	}
	return r.Push(ctx, tree, message)
}

// Diff is the paths that a push would change.
func (f *Fake) Diff(ctx context.Context, tree forge.Tree) ([]string, error) {
	r, err := f.running()
	if err != nil {
		return nil, err
	}
	return r.Diff(ctx, tree)
}

// Log is the last n commits.
func (f *Fake) Log(_ context.Context, n int) ([]forge.Commit, error) {
	repo, err := git.PlainOpen(f.Dir)
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

// MissingCharts are those of the charts that were not published as they are.
func (f *Fake) MissingCharts(_ context.Context, charts []lab.Chart) ([]string, error) {
	var missing []string
	for _, c := range charts {
		if f.charts[c.Name+" "+c.Version] != c.Digest {
			missing = append(missing, c.Name+" "+c.Version)
		}
	}
	return missing, nil
}

// PublishCharts notes charts.
func (f *Fake) PublishCharts(ctx context.Context, charts []lab.Chart) ([]string, error) {
	changed, err := f.MissingCharts(ctx, charts)
	for _, c := range charts {
		f.charts[c.Name+" "+c.Version] = c.Digest
	}
	return changed, err
}

// HasWebhook says whether that webhook was noted.
func (f *Fake) HasWebhook(_ context.Context, url, secret string) (bool, error) {
	return f.hook == url+" "+secret, nil
}

// EnsureWebhook notes a webhook.
func (f *Fake) EnsureWebhook(ctx context.Context, url, secret string) (bool, error) {
	has, err := f.HasWebhook(ctx, url, secret)
	f.hook = url + " " + secret
	return !has, err
}

// Remove removes the repository.
func (f *Fake) Remove(context.Context) error {
	dir := f.Dir
	*f = Fake{Dir: dir}
	return os.RemoveAll(dir)
}
