package forge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"homelab/lab/docker"

	"code.gitea.io/sdk/gitea"
)

// Account is a user of the forge whom engines act as.
type Account struct {
	User  string
	Token string // empty before the forge's first start
}

// Users of the engines' accounts, and the name of the token that each has
const (
	reader    = "lab-reader"
	writer    = "lab-writer"
	tokenName = "lab"
)

// Tokens keeps the tokens of accounts: Gitea shows one only when it is made.
type Tokens interface {
	ForgeToken(user string) string
	SaveForgeToken(user, token string) error // empty: none
}

// Account returns the account that engines read with, or the one that may also commit. Neither can do anything else: their tokens have no other scope, and their users no
// other repositories than the lab's.
func (g *Gitea) Account(writes bool) Account {
	user := reader
	if writes {
		user = writer
	}
	return Account{User: user, Token: g.tokens.ForgeToken(user)}
}

// noTokens is for a forge that is not started.
type noTokens struct{}

func (noTokens) ForgeToken(string) string            { return "" }
func (noTokens) SaveForgeToken(string, string) error { return errors.New("forge: no place for tokens") }

// prepare creates admin and repository, if missing.
func (g *Gitea) prepare(ctx context.Context, s State) error {
	api, err := g.api(ctx, s)
	if err != nil {
		return err
	}
	_, resp, err := api.GetRepo(g.creds.User, g.repository)
	if resp != nil && resp.StatusCode == http.StatusUnauthorized {
		if err := g.ensureAdmin(ctx, s); err != nil {
			return err
		}
		_, resp, err = api.GetRepo(g.creds.User, g.repository)
	}
	if resp != nil && resp.StatusCode == http.StatusNotFound {
		_, _, err = api.CreateRepo(gitea.CreateRepoOption{Name: g.repository, DefaultBranch: g.branch, Description: g.describes, Private: true})
	}
	if err != nil {
		return fmt.Errorf("repository of the forge: %w", err)
	}
	return nil
}

// seclude makes all repositories private, and ensures the engines' accounts: a reader, and a writer if one is wanted.
func (g *Gitea) seclude(ctx context.Context, s State, writes bool) error {
	api, err := g.api(ctx, s)
	if err != nil {
		return err
	}
	yes, no := true, false
	for {
		public, _, err := api.SearchRepos(gitea.SearchRepoOptions{IsPrivate: &no})
		if err != nil {
			return fmt.Errorf("repositories of the forge: %w", err)
		}
		if len(public) == 0 {
			break
		}
		for _, r := range public {
			if _, _, err := api.EditRepo(r.Owner.UserName, r.Name, gitea.EditRepoOption{Private: &yes}); err != nil {
				return fmt.Errorf("make repository %s of the forge private: %w", r.FullName, err)
			}
		}
	}
	if err := g.ensureAccount(ctx, s, api, reader, "read:repository", "read:package"); err != nil {
		return fmt.Errorf("%s of the forge: %w", reader, err)
	}
	if writes {
		err = g.ensureAccount(ctx, s, api, writer, "write:repository", "read:package")
	} else {
		err = g.dropAccount(api, writer)
	}
	if err != nil {
		return fmt.Errorf("%s of the forge: %w", writer, err)
	}
	return nil
}

// ensureAccount ensures a user that can do only what its token's scopes say. Its password is not stored.
func (g *Gitea) ensureAccount(ctx context.Context, s State, api *gitea.Client, user string, scopes ...gitea.AccessTokenScope) error {
	if known, err := g.knows(ctx, s, user); known || err != nil {
		return err
	}
	password, yes, no, none, hidden := rand.Text(), true, false, 0, gitea.VisibleTypePrivate
	_, resp, err := api.AdminCreateUser(gitea.CreateUserOption{
		Username: user, Email: user + "@" + authorHost, Password: password, MustChangePassword: &no, Visibility: &hidden,
	})
	if err != nil && (resp == nil || resp.StatusCode != http.StatusUnprocessableEntity) { // it exists
		return err
	}
	if _, err := api.AdminEditUser(user, gitea.EditUserOption{
		LoginName: user, Password: password, MustChangePassword: &no, Active: &yes, Admin: &no, ProhibitLogin: &no, Restricted: &yes, MaxRepoCreation: &none, AllowCreateOrganization: &no,
	}); err != nil {
		return err
	}
	own, err := g.client(ctx, s, gitea.SetBasicAuth(user, password))
	if err != nil {
		return err
	}
	if resp, err := own.DeleteAccessToken(tokenName); err != nil && (resp == nil || resp.StatusCode != http.StatusNotFound) {
		return err
	}
	token, _, err := own.CreateAccessToken(gitea.CreateAccessTokenOption{Name: tokenName, Scopes: scopes})
	if err != nil {
		return err
	}
	return g.tokens.SaveForgeToken(user, token.Token)
}

func (g *Gitea) dropAccount(api *gitea.Client, user string) error {
	if resp, err := api.AdminDeleteUser(user); err != nil && (resp == nil || resp.StatusCode != http.StatusNotFound) {
		return err
	}
	if g.tokens.ForgeToken(user) == "" {
		return nil
	}
	return g.tokens.SaveForgeToken(user, "")
}

// knows reports whether there is a token of an account that the forge accepts.
func (g *Gitea) knows(ctx context.Context, s State, user string) (bool, error) {
	token := g.tokens.ForgeToken(user)
	if token == "" {
		return false, nil
	}
	_, resp, err := g.seenBy(ctx, s, token)
	if resp != nil && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusUnauthorized) {
		return resp.StatusCode == http.StatusNotFound, nil
	}
	return err == nil, err
}

// seenBy returns the repository as the owner of a token sees it.
func (g *Gitea) seenBy(ctx context.Context, s State, token string) (*gitea.Repository, *gitea.Response, error) {
	api, err := g.client(ctx, s, gitea.SetToken(token))
	if err != nil {
		return nil, nil, err
	}
	return api.GetRepo(g.creds.User, g.repository)
}

// admit gives the engines' accounts access to the repository.
func (g *Gitea) admit(ctx context.Context, s State) error {
	api, err := g.api(ctx, s)
	if err != nil {
		return err
	}
	read, write := gitea.AccessModeRead, gitea.AccessModeWrite
	for user, mode := range map[string]*gitea.AccessMode{reader: &read, writer: &write} {
		if g.tokens.ForgeToken(user) == "" {
			continue
		}
		if _, err := api.AddCollaborator(g.creds.User, g.repository, user, gitea.AddCollaboratorOption{Permission: mode}); err != nil {
			return fmt.Errorf("access of %s to repository %s of the forge: %w", user, g.repository, err)
		}
	}
	if g.tokens.ForgeToken(bot) != "" { // the writer may be new
		return g.guard(api, g.repository, g.branch)
	}
	return nil
}

// admits reports whether the repository is private, and whether the engines' accounts can do their part there.
func (g *Gitea) admits(ctx context.Context, s State) (bool, error) {
	for _, a := range []Account{g.Account(false), g.Account(true)} {
		if a.Token == "" && a.User == writer {
			continue
		}
		repo, resp, err := g.seenBy(ctx, s, a.Token)
		switch {
		case resp != nil && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("access to repository %s of the forge: %w", g.repository, err)
		case !repo.Private, repo.Permissions == nil, repo.Permissions.Push != (a.User == writer):
			return false, nil
		}
	}
	return true, nil
}

var tokenPattern = regexp.MustCompile(`\b[0-9a-f]{40}\b`)

// ensureAdmin sets the admin's password. Gitea's commands take a password only on the command line, visible to every
// local user: the account is created with a random one and a temporary token, and the password is set through the API.
func (g *Gitea) ensureAdmin(ctx context.Context, s State) error {
	name := "lab-" + rand.Text()[:8]
	admin := func(args ...string) (string, error) {
		command := append([]string{program, "--work-path", workPath, "--config", appINI, "admin", "user"}, args...)
		out, err := g.docker.Exec(ctx, g.name, nil, command...)
		if err != nil {
			return "", err
		}
		token := tokenPattern.FindString(string(out))
		if token == "" {
			return "", errors.New("gitea admin user " + args[0] + " gave no token")
		}
		return token, nil
	}
	token, err := admin("create", "--admin", "--username", g.creds.User, "--email", g.creds.User+"@"+authorHost, "--random-password",
		"--must-change-password=false", "--access-token", "--access-token-name", name)
	if docker.Prints(err, "already exists") { // with another password: the lab's files were lost, or its keys are new
		token, err = admin("generate-access-token", "--username", g.creds.User, "--token-name", name, "--scopes", "all", "--raw")
	}
	if err != nil {
		return fmt.Errorf("admin of the forge: %w", err)
	}
	api, err := g.client(ctx, s, gitea.SetToken(token))
	if err != nil {
		return err
	}
	no := false
	_, err = api.AdminEditUser(g.creds.User, gitea.EditUserOption{LoginName: g.creds.User, Password: g.creds.Password, MustChangePassword: &no})
	if err != nil {
		return fmt.Errorf("admin of the forge: %w", err)
	}
	if api, err = g.api(ctx, s); err != nil { // a token cannot delete tokens
		return err
	}
	if _, err := api.DeleteAccessToken(name); err != nil {
		return fmt.Errorf("admin of the forge: %w", err)
	}
	return nil
}
