// Package forge runs the lab's Git server, Gitea: it hosts the estate's repository and Helm charts, and notifies the
// engine of commits.
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
)

// Repository is the name of the estate's repository, owned by the admin user.
const Repository = "estate"

const (
	httpPort     = "3000" // in the container
	answerLimit  = 2 * time.Second
	explainLimit = 10 * time.Second // of docker, asked why a call failed: on a busy machine, it alone may take some seconds
)

// Credentials are the admin's, which only lab itself uses, and Gitea's keys. The password must be random, of at least
// 128 bits: Gitea is configured to hash it quickly.
type Credentials struct {
	User     string
	Password string
	Keys     Keys
}

// State is the observed state of the forge.
type State struct {
	Exists   bool
	Volume   bool   // the lab's volume exists, with or without a container
	Running  bool   // neither paused nor restarting
	Answers  bool   // the API answers
	Prepared bool   // admin and repository exist
	Guarded  bool   // the repository is private, and the engines' accounts have access
	Empty    bool   // it answers, and has no commit of the estate
	Inputs   string // digest of its inputs, see Inputs
	ImageID  string
	HostURL  string // http://127.0.0.1:PORT; empty unless running
	Revision string // head of the branch that engines follow; may be empty
}

// Ready returns an error unless the forge is usable; up is the command that repairs it.
func (s State) Ready(labName, up string) error {
	switch {
	case !s.Running:
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the forge of lab " + labName + " does not run", Cure: up + " starts it"}
	case !s.Prepared:
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the forge of lab " + labName + " is not ready", Cure: up + " repairs it"}
	}
	return nil
}

// Commit is a commit on the estate's branch.
type Commit struct {
	Hash    string    `json:"hash"`
	Author  string    `json:"author"`
	When    time.Time `json:"when"`
	Message string    `json:"message"`
	Lab     bool      `json:"lab"` // pushed by lab from the working tree
}

// Gitea is a lab's forge in a container.
type Gitea struct {
	lab      string
	name     string // of container, host and volume
	docker   *docker.Docker
	creds    Credentials
	tokens   Tokens
	notes    Notes
	commands Commands
	http     *http.Client // one for all calls, without a proxy: the forge is at 127.0.0.1
	patience time.Duration

	repository string // repository that calls refer to
	branch     string // its branch
	describes  string // its description
}

// Option configures a forge.
type Option func(*Gitea)

// WithPulls makes pulls resumable and blocks pushes with unresolved conflicts. Notes persists pulls, commands formats the
// commands in cures.
func WithPulls(notes Notes, commands Commands) Option {
	return func(g *Gitea) { g.notes, g.commands = notes, commands }
}

// WithTokens sets where the tokens of the engines' accounts are kept. A forge without cannot be started.
func WithTokens(t Tokens) Option { return func(g *Gitea) { g.tokens = t } }

// WithPatience sets how long the forge may be silent during a call.
func WithPatience(d time.Duration) Option { return func(g *Gitea) { g.patience = d } }

// NewGitea returns the forge of a lab.
func NewGitea(labName string, d *docker.Docker, creds Credentials, options ...Option) *Gitea {
	g := &Gitea{
		lab: labName, name: lab.ForgeName(labName), docker: d, creds: creds, repository: Repository, branch: Branch, describes: "the estate of lab " + labName,
		tokens: noTokens{}, patience: defaultPatience, http: &http.Client{Transport: &http.Transport{IdleConnTimeout: defaultPatience, MaxIdleConnsPerHost: 8}},
	}
	for _, o := range options {
		o(g)
	}
	return g
}

// URL returns the forge's address inside the lab's network, used by webhooks and the package registry.
func (g *Gitea) URL() string { return "http://" + net.JoinHostPort(g.name, httpPort) + "/" }

// RepoURL returns the address of the repository for engines.
func (g *Gitea) RepoURL() string { return g.URL() + g.creds.User + "/" + g.repository + ".git" }

// ChartsURL returns the address of the Helm repository for engines.
func (g *Gitea) ChartsURL() string { return g.URL() + "api/packages/" + g.creds.User + "/helm" }

// HostRepoURL returns the address of the estate's repository on this machine, without credentials.
func (s State) HostRepoURL(user string) string {
	return s.HostURL + "/" + user + "/" + Repository + ".git"
}

func (g *Gitea) hostURL(s State) string {
	return s.HostURL + "/" + g.creds.User + "/" + g.repository + ".git"
}

// running returns the state, or an error if the forge does not run.
func (g *Gitea) running(ctx context.Context) (State, error) {
	s, err := g.container(ctx)
	if err == nil && s.HostURL == "" {
		err = &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the lab's Git server does not run", Cure: "start it: lab up"}
	}
	return s, err
}

// api returns an API client of the admin.
func (g *Gitea) api(ctx context.Context, s State) (*gitea.Client, error) {
	return g.client(ctx, s, gitea.SetBasicAuth(g.creds.User, g.creds.Password))
}

func (g *Gitea) client(ctx context.Context, s State, as gitea.ClientOption) (*gitea.Client, error) {
	return gitea.NewClient(s.HostURL, gitea.SetContext(ctx), as, gitea.SetUserAgent("lab"), gitea.SetHTTPClient(g.http),
		gitea.SetGiteaVersion(""), // skips a request: the version is pinned
	)
}

func (g *Gitea) remote(s State) Remote {
	return Remote{
		URL: g.hostURL(s), Branch: g.branch, Auth: g.creds, Notes: g.notes, Commands: g.commands, Now: time.Now,
		Unlock: g.unlock,
	}
}

// Push commits the working tree to the forge. It never discards commits of others: if the working tree lacks their
// changes, it fails with code "diverged".
func (g *Gitea) Push(ctx context.Context, tree Tree, message string) (res PushResult, err error) {
	err = g.call(ctx, "a push to repository "+g.repository, gitLimit, func(ctx context.Context, s State) error {
		res, err = g.push(ctx, s, tree, message)
		return err
	})
	return res, err
}

func (g *Gitea) push(ctx context.Context, s State, tree Tree, message string) (PushResult, error) {
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
	if err != nil && !errors.As(err, &known) && ctx.Err() == nil { // usually a branch protection rule
		e := &lab.Error{
			Exit: lab.ExitFailed, Code: "forge", Message: err.Error(), Details: []string{"nothing was pushed"}, Err: err,
			Cure: "see the branch protection in " + strings.TrimSuffix(g.hostURL(s), ".git") + "/settings (lab creds forge), then lab up",
		}
		if g.archived(ctx, s) { // git prints the status of the answer alone
			e.Message, e.Err = "repository "+g.repository+" of the forge is archived", nil
			e.Cure = "unarchive it in " + strings.TrimSuffix(g.hostURL(s), ".git") + "/settings (lab creds forge), then lab up"
		}
		err = e
	}
	if err == nil && head.commit == "" {
		err = g.awaitFirst(ctx, s)
	}
	return res, err
}

// noteLimit is how long Gitea may take to note a commit, a fraction of a second as a rule.
const noteLimit = 30 * time.Second

// awaitFirst waits until Gitea has noted the first commit. It does so after the push, in memory: a forge that was stopped before would answer 404 to all that concerns pull requests.
func (g *Gitea) awaitFirst(ctx context.Context, s State) error {
	api, err := g.api(ctx, s)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(noteLimit); ; {
		repo, _, err := api.GetRepo(g.creds.User, g.repository)
		if err != nil || !repo.Empty {
			return err
		}
		if time.Now().After(deadline) {
			return &lab.Error{
				Exit: lab.ExitFailed, Code: "forge", Message: fmt.Sprintf("the forge has the first commit of repository %s, but calls it empty after %s", g.repository, noteLimit),
				Cure: "lab up",
			}
		}
		if err := lab.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// archived reports whether the repository is known to be read-only.
func (g *Gitea) archived(ctx context.Context, s State) bool {
	api, err := g.api(ctx, s)
	if err != nil {
		return false
	}
	repo, _, err := api.GetRepo(g.creds.User, g.repository)
	return err == nil && repo.Archived
}

// Pull pulls commits of others into the working tree; see Remote.Pull.
func (g *Gitea) Pull(ctx context.Context, tree Tree, dry bool) (res PullResult, err error) {
	err = g.call(ctx, "a pull from the estate's repository", gitLimit, func(ctx context.Context, s State) error {
		res, err = g.remote(s).Pull(ctx, tree, dry)
		return err
	})
	return res, err
}

// Settled returns an error with code "conflict" if a pull is incomplete or has unresolved conflicts, which would block
// a push. It only reads the working tree.
func (g *Gitea) Settled(tree Tree) error { return g.remote(State{}).settled(tree) }

// Ahead returns the commits of others that the working tree lacks, newest first: a push would be rejected because of
// them. Without any, it takes one small request.
func (g *Gitea) Ahead(ctx context.Context, tree Tree) (commits []Commit, err error) {
	err = g.call(ctx, "the commits of others", gitLimit, func(ctx context.Context, s State) error {
		commits, err = g.remote(s).Ahead(ctx, tree)
		return err
	})
	return commits, err
}

// Diff returns the paths that a push would change, sorted.
func (g *Gitea) Diff(ctx context.Context, tree Tree) (paths []string, err error) {
	err = g.call(ctx, "the files of the estate's repository", gitLimit, func(ctx context.Context, s State) error {
		_, same, err := g.same(ctx, s, tree)
		if err == nil && !same {
			paths, err = g.remote(s).Diff(ctx, tree)
		}
		return err
	})
	return paths, err
}

// same reports whether the forge's head equals the working tree, with one small request instead of a fetch.
func (g *Gitea) same(ctx context.Context, s State, tree Tree) (tip, bool, error) {
	head, err := g.head(ctx, s)
	if err != nil {
		return tip{}, false, err
	}
	root, err := tree.Hash()
	return head, err == nil && root == head.tree, err
}

// Log returns the last n commits of the estate's branch, newest first.
func (g *Gitea) Log(ctx context.Context, n int) (commits []Commit, err error) {
	err = g.call(ctx, "the log of the estate's repository", apiLimit, func(ctx context.Context, s State) error {
		commits, err = g.log(ctx, s, n)
		return err
	})
	return commits, err
}

func (g *Gitea) log(ctx context.Context, s State, n int) (commits []Commit, err error) {
	api, err := g.api(ctx, s)
	if err != nil {
		return nil, err
	}
	for page := 1; len(commits) < n; page++ { // also none for n < 1
		list, resp, err := api.ListRepoCommits(g.creds.User, g.repository, gitea.ListCommitOptions{
			ListOptions: gitea.ListOptions{Page: page, PageSize: min(n, 50)}, SHA: g.branch, // 50 is Gitea's maximum
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

// Remove deletes the container and the volume, including all commits. Missing ones are ignored.
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

// Inputs returns a digest of the images, the engines' accounts and the settings. The port is excluded, as it may change freely.
func (g *Gitea) Inputs(spec Spec) string {
	text := fmt.Appendf(nil, "%s\n%s\n%s\nwriter %t\n%s", spec.Image.Ref, spec.Image.Digest, spec.Gate.Ref, spec.Writer, g.settings())
	if spec.Runner != (Guest{}) {
		text = fmt.Appendf(text, "\nrunner %q", spec.Runner)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
