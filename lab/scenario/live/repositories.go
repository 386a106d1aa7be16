package live

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"homelab/lab"
	"homelab/lab/forge"
	"homelab/lab/scenario"
)

// Repositories are the Git server's repositories beside the estate's.
type Repositories struct {
	Forge  *forge.Gitea
	URL    string // of the Git server, for this machine
	Within string // for engines
	User   string // whose repositories they are
}

// Exists implements scenario.Repositories.
func (r Repositories) Exists(ctx context.Context, name string) (bool, error) {
	return r.Forge.HasRepository(ctx, name)
}

// Create implements scenario.Repositories.
func (r Repositories) Create(ctx context.Context, name string) (scenario.Repository, error) {
	reader, _, err := r.Forge.CreateRepository(ctx, name, false)
	if err != nil {
		return scenario.Repository{}, err
	}
	writer, _, err := r.Forge.CreateRepository(ctx, name, true)
	if err != nil {
		return scenario.Repository{}, err
	}
	as := func(repository string) *Git {
		return NewGit(r.URL+"/"+r.User+"/"+repository+".git", &githttp.BasicAuth{Username: writer.User, Password: writer.Token})
	}
	return scenario.Repository{
		URL: r.Within + r.User + "/" + name + ".git", User: reader.User, Password: reader.Token, Forge: as(name), Estate: outsider{as(forge.Repository)},
	}, nil
}

// Bot returns the estate's repository with the bot's credentials.
func (r Repositories) Bot(ctx context.Context) (scenario.Repository, error) {
	bot, err := r.Forge.Bot(ctx, forge.Repository)
	return scenario.Repository{URL: r.Within + r.User + "/" + forge.Repository + ".git", User: bot.User, Password: bot.Token}, err
}

// Remove implements scenario.Repositories.
func (r Repositories) Remove(ctx context.Context, name string) error {
	return r.Forge.RemoveRepository(ctx, name)
}

// outsider is a repository for an account that may not be let in.
type outsider struct{ *Git }

// Tree implements scenario.Forge.
func (o outsider) Tree(ctx context.Context, branch string) (scenario.Tree, error) {
	tree, err := o.Git.Tree(ctx, branch)
	return tree, shutOut(err)
}

// Commit implements scenario.Forge.
func (o outsider) Commit(ctx context.Context, c scenario.Change) (string, error) {
	hash, err := o.Git.Commit(ctx, c)
	return hash, shutOut(err)
}

func shutOut(err error) error {
	for _, is := range []error{transport.ErrRepositoryNotFound, transport.ErrAuthenticationRequired, transport.ErrAuthorizationFailed} {
		if errors.Is(err, is) {
			return &lab.Error{Exit: lab.ExitFailed, Code: "refused", Message: fmt.Sprintf("the forge refuses it: %v", err), Err: err}
		}
	}
	return err
}
