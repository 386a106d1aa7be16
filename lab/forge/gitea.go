// Package forge is the lab's Git server: the repository that holds the estate, the registry that holds its charts, and the webhook that tells the engine of
// a commit. Gitea is the server.
package forge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"

	"code.gitea.io/sdk/gitea"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// Repository is the name of the repository that holds the estate; the admin user owns it.
const Repository = "estate"

const (
	httpPort    = "3000" // within the network
	answerLimit = 2 * time.Second
)

// Credentials are the admin's. The password is a random one of at least 128 bits: Gitea is told to hash it quickly.
type Credentials struct {
	User     string
	Password string
}

// State is what is seen of the forge.
type State struct {
	Exists   bool
	Volume   bool   // the lab's volume exists, with a container or without
	Running  bool   // the container runs, is not paused, and does not fail again and again
	Answers  bool   // and its API answers
	Prepared bool   // and admin and repository are there
	Inputs   string // digest of what it was made from, as Inputs has it
	ImageID  string
	HostURL  string // http://127.0.0.1:PORT; empty while it does not run
	Revision string // commit of the branch that engines follow; empty when there is none
}

// Ready refuses a forge that cannot be worked with; up is the command that mends it.
func (s State) Ready(labName, up string) error {
	switch {
	case !s.Running:
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the forge of lab " + labName + " does not run", Cure: up + " starts it"}
	case !s.Prepared:
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the forge of lab " + labName + " is not ready", Cure: up + " repairs it"}
	}
	return nil
}

// Commit is one commit of the estate's branch.
type Commit struct {
	Hash    string    `json:"hash"`
	Author  string    `json:"author"`
	When    time.Time `json:"when"`
	Message string    `json:"message"`
	Lab     bool      `json:"lab"` // pushed by lab from the working tree
}

// Gitea is a lab's forge in a container of its own.
type Gitea struct {
	lab    string
	name   string // of container, host and volume
	docker *docker.Docker
	creds  Credentials
	notes  Notes
	say    Commands

	repository string // that calls are about
	branch     string // of it
	describes  string // what it is
}

// Option is what a forge may be given beside what it needs.
type Option func(*Gitea)

// WithPulls makes pulls safe to interrupt and keeps their conflicts from being pushed: notes are what remembers them, say is how cures call the commands.
func WithPulls(notes Notes, say Commands) Option {
	return func(g *Gitea) { g.notes, g.say = notes, say }
}

// NewGitea returns the forge of a lab.
func NewGitea(labName string, d *docker.Docker, creds Credentials, options ...Option) *Gitea {
	g := &Gitea{lab: labName, name: lab.ForgeName(labName), docker: d, creds: creds, repository: Repository, branch: Branch, describes: "the estate of lab " + labName}
	for _, o := range options {
		o(g)
	}
	return g
}

// URL is the forge as containers and pods of the lab reach it; webhooks and the package registry name it so.
func (g *Gitea) URL() string { return "http://" + net.JoinHostPort(g.name, httpPort) + "/" }

// RepoURL is the repository as engines reach it.
func (g *Gitea) RepoURL() string { return g.URL() + g.creds.User + "/" + g.repository + ".git" }

// ChartsURL is the Helm repository as engines reach it.
func (g *Gitea) ChartsURL() string { return g.URL() + "api/packages/" + g.creds.User + "/helm" }

// HostRepoURL is the estate's repository as this machine reaches it, without credentials.
func (s State) HostRepoURL(user string) string {
	return s.HostURL + "/" + user + "/" + Repository + ".git"
}

// hostURL is the repository that calls are about, as this machine reaches it.
func (g *Gitea) hostURL(s State) string {
	return s.HostURL + "/" + g.creds.User + "/" + g.repository + ".git"
}

// running is the forge's state, or an error where it does not run.
func (g *Gitea) running(ctx context.Context) (State, error) {
	s, err := g.container(ctx)
	if err == nil && s.HostURL == "" {
		err = &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the lab's Git server does not run", Cure: "start it: lab up"}
	}
	return s, err
}

// dial is the forge as it runs, and its API.
func (g *Gitea) dial(ctx context.Context) (State, *gitea.Client, error) {
	s, err := g.running(ctx)
	if err != nil {
		return State{}, nil, err
	}
	api, err := g.api(ctx, s)
	return s, api, err
}

func (g *Gitea) api(ctx context.Context, s State) (*gitea.Client, error) {
	return gitea.NewClient(s.HostURL, gitea.SetContext(ctx), gitea.SetBasicAuth(g.creds.User, g.creds.Password), gitea.SetUserAgent("lab"),
		gitea.SetGiteaVersion(""), // saves the question: the image is pinned
		gitea.SetHTTPClient(&http.Client{Transport: &http.Transport{}}), // no proxy stands before 127.0.0.1
	)
}

func (g *Gitea) remote(s State) Remote {
	return Remote{
		URL: g.hostURL(s), Branch: g.branch, Auth: &githttp.BasicAuth{Username: g.creds.User, Password: g.creds.Password}, Notes: g.notes, Say: g.say, Now: time.Now,
	}
}

// Push commits the working tree to the forge. Commits of others there are never lost: where the working tree lacks what they changed, it is refused with an
// error of code "diverged".
func (g *Gitea) Push(ctx context.Context, tree Tree, message string) (PushResult, error) {
	s, err := g.running(ctx)
	if err != nil {
		return PushResult{}, err
	}
	r := g.remote(s)
	if err := r.settled(tree); err != nil {
		return PushResult{}, err
	}
	head, same, err := g.same(ctx, s, tree)
	if err != nil || same {
		return PushResult{Commit: head.commit}, err
	}
	res, err := r.Push(ctx, tree, message)
	var known *lab.Error
	if err != nil && !errors.As(err, &known) && ctx.Err() == nil { // a rule that somebody gave to the repository, as a rule
		err = &lab.Error{
			Exit: lab.ExitFailed, Code: "forge", Message: err.Error(), Details: []string{"nothing was lost, and nothing was pushed"}, Err: err,
			Cure: "see what forbids it: " + strings.TrimSuffix(g.hostURL(s), ".git") + "/settings (lab creds forge), then lab up",
		}
	}
	return res, err
}

// Pull brings what others committed there into the working tree; see Remote.Pull.
func (g *Gitea) Pull(ctx context.Context, tree Tree, dry bool) (res PullResult, err error) {
	defer g.explain(ctx, &err)
	s, err := g.running(ctx)
	if err != nil {
		return PullResult{}, err
	}
	return g.remote(s).Pull(ctx, tree, dry)
}

// Settled returns an error of code "conflict" while a pull into the working tree has not ended, or its conflicts are unresolved: a push would return it. It looks
// at the working tree alone.
func (g *Gitea) Settled(tree Tree) error { return g.remote(State{}).settled(tree) }

// Ahead are the commits of others whose changes the working tree lacks, newest first: those for which a push would be refused. Where nobody else has committed,
// it takes one small request.
func (g *Gitea) Ahead(ctx context.Context, tree Tree) (commits []Commit, err error) {
	defer g.explain(ctx, &err)
	s, err := g.running(ctx)
	if err != nil {
		return nil, err
	}
	return g.remote(s).Ahead(ctx, tree)
}

// Diff is the paths that a push would change, sorted.
func (g *Gitea) Diff(ctx context.Context, tree Tree) ([]string, error) {
	s, err := g.running(ctx)
	if err != nil {
		return nil, err
	}
	if _, same, err := g.same(ctx, s, tree); err != nil || same {
		return nil, err
	}
	return g.remote(s).Diff(ctx, tree)
}

// same reports whether the forge's head holds the working tree; it takes one small request instead of a fetch.
func (g *Gitea) same(ctx context.Context, s State, tree Tree) (tip, bool, error) {
	head, err := g.head(ctx, s)
	if err != nil {
		return tip{}, false, err
	}
	root, err := tree.hash()
	return head, err == nil && root == head.tree, err
}

// Log is the last n commits of the estate's branch, newest first.
func (g *Gitea) Log(ctx context.Context, n int) (commits []Commit, err error) {
	defer g.explain(ctx, &err)
	_, api, err := g.dial(ctx)
	if err != nil {
		return nil, err
	}
	for page := 1; len(commits) < n; page++ { // none for less than one
		list, resp, err := api.ListRepoCommits(g.creds.User, g.repository, gitea.ListCommitOptions{
			ListOptions: gitea.ListOptions{Page: page, PageSize: min(n, 50)}, SHA: g.branch, // 50 is Gitea's most
		})
		if empty(resp) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("log of the forge: %w", err)
		}
		for _, c := range list {
			if c.RepoCommit == nil || c.RepoCommit.Author == nil {
				continue
			}
			when, err := time.Parse(time.RFC3339, c.RepoCommit.Author.Date)
			if err != nil {
				return nil, fmt.Errorf("log of the forge: commit %s: %w", c.SHA, err)
			}
			by := c.RepoCommit.Author
			commits = append(commits, Commit{
				Hash: c.SHA, Author: by.Name, When: when, Message: strings.TrimSpace(c.RepoCommit.Message), Lab: by.Email == authorEmail,
			})
		}
		if len(list) == 0 || resp.NextPage == 0 {
			break
		}
	}
	return commits[:min(max(n, 0), len(commits))], nil
}

// Remove removes the container and the volume with all commits. What is not there is no error.
func (g *Gitea) Remove(ctx context.Context) error {
	s, err := g.container(ctx)
	if err != nil {
		return err
	}
	if s.Exists {
		if _, err := g.docker.Output(ctx, nil, "rm", "--force", "--volumes", g.name); err != nil && !docker.NotFound(err) {
			return fmt.Errorf("forge: %w", err)
		}
	}
	return g.removeVolume(ctx)
}

func (g *Gitea) removeVolume(ctx context.Context) error {
	ours, err := g.volume(ctx)
	if err != nil || !ours {
		return err
	}
	if _, err := g.docker.Output(ctx, nil, "volume", "rm", g.name); err != nil && !docker.NotFound(err) {
		return fmt.Errorf("forge: %w", err)
	}
	return nil
}

// Inputs is a digest of what the forge is made from: image and settings. The port is left out, as it is chosen freely.
func (g *Gitea) Inputs(image lab.Image) string {
	sum := sha256.Sum256([]byte(image.Ref + "\n" + image.Digest + "\n" + g.settings()))
	return "sha256:" + hex.EncodeToString(sum[:])
}
