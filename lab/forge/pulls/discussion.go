package pulls

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"homelab/lab"
)

// Comment is a comment on a pull request.
type Comment struct {
	ID      int64
	Author  string
	Body    string
	Created time.Time
	Updated time.Time
}

// Verdict is the state of a commit status.
type Verdict string

// Verdicts of a commit status.
const (
	Pending Verdict = "pending"
	Success Verdict = "success"
	Failure Verdict = "failure"
	Error   Verdict = "error" // no verdict could be reached
	Warning Verdict = "warning"
)

// Verdicts returns all verdicts.
func Verdicts() []Verdict { return []Verdict{Pending, Success, Failure, Error, Warning} }

// Status is what one check says about a commit.
type Status struct {
	Context     string // name of the check
	State       Verdict
	Description string
	URL         string // of details; may be empty
	Author      string
	When        time.Time
}

// Comments returns the comments on a pull request, oldest first.
func (r *Repository) Comments(ctx context.Context, number int64) ([]Comment, error) {
	api, err := r.api(ctx)
	if err != nil {
		return nil, err
	}
	var all []Comment
	for page := 1; page <= listLimit; page++ {
		list, resp, err := api.ListIssueComments(r.owner, r.name, number, gitea.ListIssueCommentOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: pageSize}})
		if err != nil {
			return nil, r.fail("comments on "+named(number), resp, err)
		}
		for _, c := range list {
			if !slices.ContainsFunc(all, func(a Comment) bool { return a.ID == c.ID }) { // some versions ignore pages
				all = append(all, comment(c))
			}
		}
		if len(list) < pageSize {
			break
		}
	}
	slices.SortFunc(all, func(a, b Comment) int { return int(a.ID - b.ID) })
	return all, nil
}

func comment(c *gitea.Comment) Comment {
	made := Comment{ID: c.ID, Body: c.Body, Created: c.Created.UTC(), Updated: c.Updated.UTC()}
	if c.Poster != nil {
		made.Author = c.Poster.UserName
	}
	return made
}

// Upsert keeps one comment up to date: the one of this account that begins with marker, which body begins with, too. Anybody can write a marker, so that the author counts.
// It reports false if that comment was the same.
func (r *Repository) Upsert(ctx context.Context, number int64, marker, body string) (Comment, bool, error) {
	if !strings.HasPrefix(body, marker) || marker == "" {
		return Comment{}, false, errors.New("a comment that is kept up to date begins with its marker")
	}
	if err := checkText("the comment", body); err != nil {
		return Comment{}, false, err
	}
	list, err := r.Comments(ctx, number)
	if err != nil {
		return Comment{}, false, err
	}
	i := slices.IndexFunc(list, func(c Comment) bool { return c.Author == r.as.User && strings.HasPrefix(c.Body, marker) })
	if i < 0 {
		c, err := r.Comment(ctx, number, body)
		return c, err == nil, err
	}
	if strings.TrimSpace(list[i].Body) == strings.TrimSpace(body) {
		return list[i], false, nil
	}
	api, err := r.api(ctx)
	if err != nil {
		return Comment{}, false, err
	}
	made, resp, err := api.EditIssueComment(r.owner, r.name, list[i].ID, gitea.EditIssueCommentOption{Body: body})
	if err != nil {
		return Comment{}, false, r.fail("the comment on "+named(number), resp, err)
	}
	return comment(made), true, nil
}

// Statuses returns the newest status of each check of a commit, sorted by check.
func (r *Repository) Statuses(ctx context.Context, commit string) ([]Status, error) {
	api, err := r.api(ctx)
	if err != nil {
		return nil, err
	}
	newest := map[string]*gitea.Status{}
	for page := 1; page <= listLimit; page++ {
		list, resp, err := api.ListStatuses(r.owner, r.name, commit, gitea.ListStatusesOption{ListOptions: gitea.ListOptions{Page: page, PageSize: pageSize}})
		if err != nil {
			return nil, r.fail("statuses of commit "+lab.Abbreviate(commit), resp, err)
		}
		for _, s := range list {
			if newest[s.Context] == nil || newest[s.Context].ID < s.ID {
				newest[s.Context] = s
			}
		}
		if len(list) < pageSize {
			break
		}
	}
	var all []Status
	for _, s := range newest {
		one := Status{Context: s.Context, State: Verdict(s.State), Description: s.Description, URL: s.TargetURL, When: s.Created.UTC()}
		if s.Creator != nil {
			one.Author = s.Creator.UserName
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Context, b.Context) })
	return all, nil
}

// SetStatus sets the status of a check on a commit.
func (r *Repository) SetStatus(ctx context.Context, commit string, s Status) error {
	if err := s.check(); err != nil {
		return err
	}
	api, err := r.api(ctx)
	if err != nil {
		return err
	}
	_, resp, err := api.CreateStatus(r.owner, r.name, commit, gitea.CreateStatusOption{
		State: gitea.StatusState(s.State), TargetURL: s.URL, Description: s.Description, Context: s.Context,
	})
	return r.fail("status "+s.Context+" of commit "+lab.Abbreviate(commit), resp, err)
}
