package live

import (
	"context"
	"fmt"

	"homelab/lab/forge"
	"homelab/lab/forge/pulls"
	"homelab/lab/scenario"
)

// Requests are the pull requests of the estate's repository on the lab's forge.
type Requests struct{ Forge *forge.Gitea }

// Open opens a pull request.
func (r Requests) Open(ctx context.Context, p scenario.Proposal) (int64, error) {
	q, _, err := r.Forge.OpenRequest(ctx, "", pulls.Proposal{Title: p.Title, Body: p.Body, Head: p.Head, Base: p.Base}, p.Bot)
	return q.Number, err
}

func (r Requests) on(ctx context.Context, number int64, bot bool, do func(ctx context.Context, p *pulls.Repository) error) error {
	return r.Forge.Pulls(ctx, "", fmt.Sprintf("pull request #%d", number), bot, do)
}

// Look returns the state of a pull request.
func (r Requests) Look(ctx context.Context, number int64) (state map[string]any, err error) {
	err = r.on(ctx, number, false, func(ctx context.Context, p *pulls.Repository) error {
		q, err := p.Get(ctx, number)
		if err != nil {
			return err
		}
		found, err := p.Statuses(ctx, q.Commit)
		if err != nil {
			return err
		}
		statuses := map[string]any{}
		for _, s := range found {
			statuses[s.Context] = map[string]any{"state": string(s.State), "description": s.Description, "author": s.Author}
		}
		written, err := p.Comments(ctx, number)
		comments := []any{}
		for _, c := range written {
			comments = append(comments, map[string]any{"author": c.Author, "body": c.Body})
		}
		state = map[string]any{
			"number": number, "title": q.Title, "body": q.Body, "author": q.Author, "state": string(q.State), "head": q.Head, "base": q.Base, "commit": q.Commit, "merge": q.Merge,
			"statuses": statuses, "comments": comments,
		}
		return err
	})
	return state, err
}

// Act changes a pull request.
func (r Requests) Act(ctx context.Context, number int64, a scenario.RequestAct) error {
	return r.on(ctx, number, a.Bot, func(ctx context.Context, p *pulls.Repository) error {
		if a.Comment != "" {
			if _, err := p.Comment(ctx, number, a.Comment); err != nil {
				return err
			}
		}
		if a.Check != "" {
			q, err := p.Get(ctx, number)
			if err != nil {
				return err
			}
			if err := p.SetStatus(ctx, q.Commit, pulls.Status{Context: a.Check, State: pulls.Verdict(a.State), Description: a.Description}); err != nil {
				return err
			}
		}
		if a.Merge {
			if _, _, err := p.Merge(ctx, number, pulls.Merging{Keep: true}); err != nil {
				return err
			}
		}
		if a.Close {
			if _, err := p.Close(ctx, number); err != nil {
				return err
			}
		}
		return nil
	})
}
