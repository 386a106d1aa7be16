package pulls

import (
	"context"
	"fmt"
	"time"

	"code.gitea.io/sdk/gitea"

	"homelab/lab"
)

// Style is how a pull request is merged.
type Style string

// Styles of merges.
const (
	MergeCommit Style = "merge"
	Squash      Style = "squash"
	Rebase      Style = "rebase"
)

// Styles returns all styles, the default first.
func Styles() []Style { return []Style{MergeCommit, Squash, Rebase} }

// Merging is how to merge a pull request.
type Merging struct {
	Style   Style  // default MergeCommit
	Commit  string // that was judged: a request whose head is another is not merged; empty is the head
	Message string // of the commit; empty is Gitea's
	Keep    bool   // the branch
}

// Gitea looks for conflicts after each push, in the background. Until it has, it refuses to merge.
const (
	mergePause = 250 * time.Millisecond
	mergeLimit = 30 * time.Second
)

// Merge merges a pull request. It reports false for one that is merged already.
func (r *Repository) Merge(ctx context.Context, number int64, m Merging) (q Request, merged bool, err error) {
	api, err := r.api(ctx)
	if err != nil {
		return Request{}, false, err
	}
	if m.Style == "" {
		m.Style = MergeCommit
	}
	drop := !m.Keep
	for deadline := time.Now().Add(mergeLimit); ; {
		if q, err = r.Get(ctx, number); err != nil {
			return q, false, err
		}
		if err := m.allows(q); err != nil || q.State == Merged {
			return q, false, err
		}
		title := ""
		if m.Message != "" {
			title = m.Message
		}
		ok, resp, err := api.MergePullRequest(r.owner, r.name, number, gitea.MergePullRequestOption{
			Style: gitea.MergeStyle(m.Style), HeadCommitId: q.Commit, Title: title, DeleteBranchAfterMerge: &drop,
		})
		if err != nil {
			return q, false, fmt.Errorf("merge %s: %w", named(number), err)
		}
		if ok {
			q, err = r.Get(ctx, number)
			return q, err == nil, err
		}
		if q.Mergeable { // it had been looked at: there is another reason
			if now, err := r.Get(ctx, number); err == nil && now.Mergeable && now.State == Open && now.Commit == q.Commit {
				return now, false, m.refused(now, resp.Status)
			}
		}
		if err := lab.Sleep(ctx, mergePause); err != nil {
			return q, false, err
		}
		if time.Now().After(deadline) {
			return q, false, m.refused(q, resp.Status)
		}
	}
}

// allows returns why a request cannot be merged whatever its commits.
func (m Merging) allows(q Request) error {
	e := &lab.Error{Exit: lab.ExitFailed, Code: "refused"}
	switch {
	case q.State == Closed:
		e.Message, e.Cure = fmt.Sprintf("%s is closed", named(q.Number)), "open another one"
	case q.State == Merged:
		return nil
	case q.Draft:
		e.Message, e.Cure = fmt.Sprintf("%s is a draft: its title begins with WIP", named(q.Number)), "change the title, or open another one"
	case m.Commit != "" && m.Commit != q.Commit:
		e.Message = fmt.Sprintf("%s has commit %s, not %s any more", named(q.Number), lab.Abbreviate(q.Commit), lab.Abbreviate(m.Commit))
		e.Cure = "look at it again"
	default:
		return nil
	}
	return e
}

func (m Merging) refused(q Request, status string) error {
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "refused", Message: fmt.Sprintf("%s cannot be merged into %s: the forge refuses it", named(q.Number), q.Base), Details: []string{"it answers " + status},
		Cure: "its commit statuses, the branch's protection and the account's rights decide",
	}
	if !q.Mergeable {
		e.Message = fmt.Sprintf("%s cannot be merged into %s: both changed the same lines, or the forge has not compared them within %s", named(q.Number), q.Base, mergeLimit)
		e.Details, e.Cure = nil, fmt.Sprintf("merge %s into %s in a clone, and push that", q.Base, q.Head)
	}
	return e
}
