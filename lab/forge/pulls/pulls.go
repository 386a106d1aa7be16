// Package pulls works with the pull requests of a repository on the lab's Git server: what a person, a bot or a job that checks them does. It needs an address and an
// account, and no container engine.
package pulls

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"homelab/lab"
)

// Account is who acts: with a token, or with a password.
type Account struct {
	User     string
	Password string
	Token    string // in place of a password
}

// Repository is one repository on the server.
type Repository struct {
	url, owner, name string
	as               Account
	http             *http.Client
}

// New returns a repository. url is the server's, like http://127.0.0.1:3000; a nil client is net/http's default.
func New(url, owner, name string, as Account, client *http.Client) *Repository {
	if client == nil {
		client = http.DefaultClient
	}
	return &Repository{url: url, owner: owner, name: name, as: as, http: client}
}

func (r *Repository) api(ctx context.Context) (*gitea.Client, error) {
	auth := gitea.SetBasicAuth(r.as.User, r.as.Password)
	if r.as.Token != "" {
		auth = gitea.SetToken(r.as.Token)
	}
	return gitea.NewClient(r.url, gitea.SetContext(ctx), auth, gitea.SetUserAgent("lab"), gitea.SetHTTPClient(r.http), gitea.SetGiteaVersion(""))
}

// State is the state of a pull request.
type State string

// States of pull requests. All is for lists alone.
const (
	Open   State = "open"
	Merged State = "merged"
	Closed State = "closed" // without a merge
	All    State = "all"
)

// Request is a pull request. Title, body and author are what somebody wrote.
type Request struct {
	Repository string // OWNER/NAME
	Number     int64
	Title      string
	Body       string
	Author     string
	State      State
	Head, Base string // branches
	Fork       string // OWNER/NAME of the head's repository, if it is another one
	Commit     string // head of Head
	Onto       string // head of Base
	MergeBase  string
	Merge      string // commit of the merge; empty before
	Mergeable  bool   // known to have no conflict
	Draft      bool
	Created    time.Time
	Updated    time.Time
}

const (
	pageSize  = 50 // Gitea's maximum
	listLimit = 40 // pages
)

// refused is the error for what the server does not let an account do.
func refused(what string, err error) error {
	return &lab.Error{Exit: lab.ExitFailed, Code: "refused", Message: what + ": the forge refuses it", Details: []string{oneLine(err.Error())}, Err: err}
}

// fail explains an error of the API.
func (r *Repository) fail(what string, resp *gitea.Response, err error) error {
	if err == nil {
		return nil
	}
	if resp == nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	status := resp.StatusCode
	if strings.Contains(err.Error(), "object does not exist") { // of a commit, with a status that blames the server
		status = http.StatusNotFound
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusBadRequest, http.StatusLocked:
		return refused(what, err)
	case http.StatusNotFound:
		return &lab.Error{Exit: lab.ExitFailed, Code: "not_found", Message: what + ": not found in repository " + r.owner + "/" + r.name, Err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

func named(number int64) string { return fmt.Sprintf("pull request #%d", number) }

// List returns the pull requests in a state, newest first.
func (r *Repository) List(ctx context.Context, state State) ([]Request, error) {
	api, err := r.api(ctx)
	if err != nil {
		return nil, err
	}
	asked := map[State]gitea.StateType{Open: gitea.StateOpen, Merged: gitea.StateClosed, Closed: gitea.StateClosed, All: gitea.StateAll}[state]
	var all []Request
	for page := 1; page <= listLimit; page++ {
		list, resp, err := api.ListRepoPullRequests(r.owner, r.name, gitea.ListPullRequestsOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: pageSize}, State: asked})
		if err != nil {
			return nil, r.fail("pull requests", resp, err)
		}
		for _, p := range list {
			if one := r.request(p); state == All || one.State == state {
				all = append(all, one)
			}
		}
		if len(list) < pageSize {
			break
		}
	}
	slices.SortFunc(all, func(a, b Request) int { return int(b.Number - a.Number) })
	return all, nil
}

// Get returns a pull request.
func (r *Repository) Get(ctx context.Context, number int64) (Request, error) {
	api, err := r.api(ctx)
	if err != nil {
		return Request{}, err
	}
	p, resp, err := api.GetPullRequest(r.owner, r.name, number)
	if err != nil {
		return Request{}, r.fail(named(number), resp, err)
	}
	return r.request(p), nil
}

// request converts one of the API.
func (r *Repository) request(p *gitea.PullRequest) Request {
	q := Request{
		Repository: r.owner + "/" + r.name, Number: p.Index, Title: p.Title, Body: p.Body, State: Open, MergeBase: p.MergeBase, Mergeable: p.Mergeable, Draft: p.Draft,
		Created: at(p.Created), Updated: at(p.Updated),
	}
	if p.Poster != nil {
		q.Author = p.Poster.UserName
	}
	if p.Head != nil {
		q.Head, q.Commit = p.Head.Ref, p.Head.Sha
		if p.Head.Name != "" && strings.HasPrefix(q.Head, "refs/pull/") { // the branch is gone
			q.Head = p.Head.Name
		}
		if p.Head.Repository != nil && p.Head.Repository.FullName != q.Repository {
			q.Fork = p.Head.Repository.FullName
		}
	}
	if p.Base != nil {
		q.Base, q.Onto = p.Base.Ref, p.Base.Sha
	}
	switch {
	case p.HasMerged:
		q.State = Merged
		if p.MergedCommitID != nil {
			q.Merge = *p.MergedCommitID
		}
	case p.State == gitea.StateClosed:
		q.State = Closed
	}
	return q
}

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// Proposal is a pull request to open.
type Proposal struct {
	Title, Body string
	Head, Base  string // branches of the repository
}

// Open opens a pull request, unless one is open for the same branches: that one is returned as it is. The histories must be related, which Gitea does not check:
// it opens the request and then fails on it for ever.
func (r *Repository) Open(ctx context.Context, p Proposal) (q Request, opened bool, err error) {
	if err := p.Check(); err != nil {
		return Request{}, false, err
	}
	list, err := r.List(ctx, Open)
	if err != nil {
		return Request{}, false, err
	}
	if i := slices.IndexFunc(list, func(q Request) bool { return q.Head == p.Head && q.Base == p.Base && q.Fork == "" }); i >= 0 {
		return list[i], false, nil
	}
	api, err := r.api(ctx)
	if err != nil {
		return Request{}, false, err
	}
	made, resp, err := api.CreatePullRequest(r.owner, r.name, gitea.CreatePullRequestOption{Head: p.Head, Base: p.Base, Title: p.Title, Body: p.Body})
	if err != nil {
		return Request{}, false, r.fail("a pull request of "+p.Head+" for "+p.Base, resp, err)
	}
	return r.request(made), true, nil
}

// Edit changes title and body of a pull request. It reports false if they are so already.
func (r *Repository) Edit(ctx context.Context, number int64, title, body string) (bool, error) {
	q, err := r.Get(ctx, number)
	if err != nil {
		return false, err
	}
	if err := (Proposal{Title: title, Body: body, Head: q.Head, Base: q.Base}).Check(); err != nil {
		return false, err
	}
	if q.Title == title && strings.TrimSpace(q.Body) == strings.TrimSpace(body) {
		return false, nil
	}
	api, err := r.api(ctx)
	if err != nil {
		return false, err
	}
	_, resp, err := api.EditPullRequest(r.owner, r.name, number, gitea.EditPullRequestOption{Title: title, Body: &body})
	return err == nil, r.fail(named(number), resp, err)
}

// Close closes an open pull request. It reports false for one that is not open.
func (r *Repository) Close(ctx context.Context, number int64) (closed bool, err error) {
	q, err := r.Get(ctx, number)
	if err != nil || q.State != Open {
		return false, err
	}
	api, err := r.api(ctx)
	if err != nil {
		return false, err
	}
	state := gitea.StateClosed
	_, resp, err := api.EditPullRequest(r.owner, r.name, number, gitea.EditPullRequestOption{State: &state})
	return err == nil, r.fail(named(number), resp, err)
}

// RemoveBranch deletes a branch. It reports false if there is none.
func (r *Repository) RemoveBranch(ctx context.Context, branch string) (removed bool, err error) {
	api, err := r.api(ctx)
	if err != nil {
		return false, err
	}
	gone, resp, err := api.DeleteRepoBranch(r.owner, r.name, branch)
	switch {
	case err != nil:
		return false, fmt.Errorf("branch %s: %w", branch, err)
	case gone:
		return true, nil
	case resp.StatusCode == http.StatusNotFound:
		return false, nil
	}
	return false, refused("branch "+branch, errors.New(resp.Status))
}

// Comment comments on a pull request.
func (r *Repository) Comment(ctx context.Context, number int64, body string) (Comment, error) {
	if err := checkText("the comment", body); err != nil {
		return Comment{}, err
	}
	if _, err := r.Get(ctx, number); err != nil { // Gitea would comment on an issue
		return Comment{}, err
	}
	api, err := r.api(ctx)
	if err != nil {
		return Comment{}, err
	}
	made, resp, err := api.CreateIssueComment(r.owner, r.name, number, gitea.CreateIssueCommentOption{Body: body})
	if err != nil {
		return Comment{}, r.fail("a comment on "+named(number), resp, err)
	}
	return comment(made), nil
}
