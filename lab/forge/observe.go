package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"homelab/lab"
	"homelab/lab/docker"

	"code.gitea.io/sdk/gitea"
)

// Observe returns the state of the forge. An API that does not answer, or an unprepared forge, is not an error.
func (g *Gitea) Observe(ctx context.Context) (State, error) {
	s, err := g.container(ctx)
	if err != nil {
		return s, err
	}
	var foreign *lab.Error
	if s.Volume, err = g.volume(ctx); err != nil && !errors.As(err, &foreign) { // a foreign volume is not the lab's
		return s, err
	}
	if s.HostURL == "" {
		return s, nil
	}
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	head, err := g.head(limited, s)
	switch {
	case err == nil:
		s.Answers, s.Prepared, s.Revision, s.Empty = true, true, head.commit, head.commit == ""
		if s.Guarded, err = g.admits(limited, s); err != nil && ctx.Err() != nil {
			return s, ctx.Err()
		}
	case ctx.Err() != nil:
		return s, ctx.Err()
	default:
		s.Answers, s.Empty = errors.Is(err, errUnprepared), errors.Is(err, errNoRepository)
	}
	return s, nil
}

// container inspects the container.
func (g *Gitea) container(ctx context.Context) (State, error) {
	s, _, err := g.inspect(ctx)
	return s, err
}

func (g *Gitea) inspect(ctx context.Context) (State, docker.Container, error) {
	c, exists, err := g.docker.Container(ctx, g.name)
	if err != nil || !exists {
		return State{}, docker.Container{}, err
	}
	if c.Labels[lab.LabelName] != g.lab {
		return State{}, c, &lab.Error{
			Exit: lab.ExitFailed, Code: "not_ours", Message: "a container called " + g.name + " exists and was not created by lab",
			Cure: "choose another --name, or remove it: docker rm -f " + lab.Quote(g.name),
		}
	}
	s := State{Exists: true, Running: c.Running && c.Status != "restarting" && !c.Paused(), ImageID: c.ImageID, Inputs: c.Labels[lab.LabelInputs]}
	if at := c.Ports[httpPort+"/tcp"]; at != "" && s.Running {
		s.HostURL = "http://" + at
	}
	return s, c, nil
}

// tip is the head of the estate's branch; tree may be unknown.
type tip struct{ commit, tree string }

// errUnprepared means that the forge answers but lacks the admin or the repository: its start was interrupted.
var errUnprepared = &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the lab's Git server is not prepared yet", Cure: "lab up prepares it"}

// errNoRepository is errUnprepared for a forge that accepts the admin.
var errNoRepository = fmt.Errorf("%w", errUnprepared)

func (g *Gitea) head(ctx context.Context, s State) (tip, error) {
	api, err := g.api(ctx, s)
	if err != nil {
		return tip{}, err
	}
	list, resp, err := api.ListRepoCommits(g.creds.User, g.repository, gitea.ListCommitOptions{ListOptions: gitea.ListOptions{PageSize: 1}, SHA: g.branch})
	if resp != nil && resp.StatusCode == http.StatusNotFound { // the branch, or the repository?
		_, resp, err = api.GetRepo(g.creds.User, g.repository)
		if err == nil {
			return g.tipByGit(ctx, s)
		}
	}
	switch {
	case resp != nil && resp.StatusCode == http.StatusNotFound:
		return tip{}, errNoRepository
	case resp != nil && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden):
		return tip{}, errUnprepared
	case empty(resp):
		return g.tipByGit(ctx, s)
	case err != nil:
		return tip{}, fmt.Errorf("head of the forge: %w", err)
	}
	if len(list) == 0 || list[0].RepoCommit == nil || list[0].RepoCommit.Tree == nil {
		return tip{}, errors.New("head of the forge: its answer has no tree")
	}
	return tip{commit: list[0].SHA, tree: list[0].RepoCommit.Tree.SHA}, nil
}

// tipByGit asks over Git: Gitea's API lags behind the first commit.
func (g *Gitea) tipByGit(ctx context.Context, s State) (tip, error) {
	commit, err := g.remote(s).head(ctx)
	return tip{commit: commit}, err
}

// empty reports whether Gitea's answer means a repository without commits.
func empty(resp *gitea.Response) bool {
	return resp != nil && (resp.StatusCode == http.StatusConflict || resp.StatusCode == http.StatusNotFound)
}

// explain replaces errors of a forge that is not prepared.
func (g *Gitea) explain(ctx context.Context, err *error) {
	var known *lab.Error
	if *err == nil || errors.As(*err, &known) || ctx.Err() != nil {
		return
	}
	s, cerr := g.container(ctx)
	if cerr != nil || s.HostURL == "" {
		return
	}
	if _, herr := g.head(ctx, s); errors.Is(herr, errUnprepared) {
		*err = herr
	}
}
