package forge

import (
	"context"
	"fmt"
	"net/http"
	"regexp"

	"homelab/lab"

	"code.gitea.io/sdk/gitea"
)

// repositoryName is what a user of the forge may be called, too, with what is around it.
var repositoryName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// CheckRepository returns what is wrong with the name of a new repository.
func CheckRepository(name string) error {
	const most = 28
	if len(name) > most || !repositoryName.MatchString(name) || name == Repository {
		return &lab.Error{
			Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%q is not a valid repository name", name[:min(len(name), 2*most)]),
			Cure: fmt.Sprintf("at most %d lower-case letters, digits and -, and not %s", most, Repository),
		}
	}
	return nil
}

// CreateRepository ensures an empty private repository beside the estate's, and an account that may read it, or also push to it, and sees no other one: neither the engines
// nor the bot do. It reports whether the repository is new.
func (g *Gitea) CreateRepository(ctx context.Context, name string, writes bool) (a Account, created bool, err error) {
	if err := CheckRepository(name); err != nil {
		return a, false, err
	}
	err = g.call(ctx, "repository "+name, apiLimit, func(ctx context.Context, s State) error {
		api, err := g.api(ctx, s)
		if err != nil {
			return err
		}
		_, resp, err := api.GetRepo(g.creds.User, name)
		if resp != nil && resp.StatusCode == http.StatusNotFound {
			_, _, err = api.CreateRepo(gitea.CreateRepoOption{Name: name, DefaultBranch: Branch, Private: true})
			created = err == nil
		}
		if err != nil {
			return fmt.Errorf("repository %s of the forge: %w", name, err)
		}
		a.User, a.Token = repositoryUsers(name)[0], ""
		mode, scope := gitea.AccessModeRead, gitea.AccessTokenScope("read:repository")
		if writes {
			a.User, mode, scope = repositoryUsers(name)[1], gitea.AccessModeWrite, "write:repository"
		}
		if err := g.ensureAccount(ctx, s, api, a.User, scope); err != nil {
			return fmt.Errorf("%s of the forge: %w", a.User, err)
		}
		if _, err := api.AddCollaborator(g.creds.User, name, a.User, gitea.AddCollaboratorOption{Permission: &mode}); err != nil {
			return fmt.Errorf("access of %s to repository %s of the forge: %w", a.User, name, err)
		}
		a.Token = g.tokens.ForgeToken(a.User)
		return nil
	})
	return a, created, err
}

// repositoryUsers returns who may read a repository beside the estate's, and who may push to it.
func repositoryUsers(name string) [2]string {
	return [2]string{"repo-" + name, "repo-" + name + "-writer"}
}

// HasRepository reports whether there is a repository beside the estate's.
func (g *Gitea) HasRepository(ctx context.Context, name string) (has bool, err error) {
	if err := CheckRepository(name); err != nil {
		return false, err
	}
	err = g.call(ctx, "repository "+name, apiLimit, func(ctx context.Context, s State) error {
		api, err := g.api(ctx, s)
		if err != nil {
			return err
		}
		_, resp, err := api.GetRepo(g.creds.User, name)
		if has = err == nil; resp != nil && resp.StatusCode == http.StatusNotFound {
			return nil
		}
		return err
	})
	return has, err
}

// RemoveRepository removes a repository beside the estate's with all that is in it, and its accounts, if they exist.
func (g *Gitea) RemoveRepository(ctx context.Context, name string) error {
	if err := CheckRepository(name); err != nil {
		return err
	}
	return g.call(ctx, "repository "+name, apiLimit, func(ctx context.Context, s State) error {
		api, err := g.api(ctx, s)
		if err != nil {
			return err
		}
		if resp, err := api.DeleteRepo(g.creds.User, name); err != nil && (resp == nil || resp.StatusCode != http.StatusNotFound) {
			return fmt.Errorf("repository %s of the forge: %w", name, err)
		}
		for _, user := range repositoryUsers(name) {
			if err := g.dropAccount(api, user); err != nil {
				return fmt.Errorf("%s of the forge: %w", user, err)
			}
		}
		return nil
	})
}
