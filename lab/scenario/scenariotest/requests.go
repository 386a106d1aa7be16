package scenariotest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"homelab/lab"
	"homelab/lab/scenario"
)

// Requests are the pull requests of an in-memory forge.
type Requests struct {
	forge *Forge
	list  []*pull
}

type pull struct {
	scenario.Proposal
	author   string
	state    string
	merge    string
	statuses map[string]any
	comments []any
}

// Requests returns the forge's pull requests.
func (f *Forge) Requests() *Requests { return &Requests{forge: f} }

func authorOf(bot bool) string {
	if bot {
		return "lab-bot"
	}
	return "lab"
}

func refusal(code, format string, args ...any) error {
	return &lab.Error{Exit: lab.ExitFailed, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Open opens a pull request.
func (r *Requests) Open(ctx context.Context, p scenario.Proposal) (int64, error) {
	if err := r.forge.through(ctx); err != nil {
		return 0, err
	}
	r.forge.mu.Lock()
	defer r.forge.mu.Unlock()
	for i, q := range r.list {
		if q.state == "open" && q.Head == p.Head && q.Base == p.Base {
			return int64(i + 1), nil
		}
	}
	head, base := r.forge.branches[p.Head], r.forge.branches[p.Base]
	switch {
	case head == nil || base == nil:
		return 0, refusal("no_branch", "the forge has no branch %s", p.Head)
	case p.Head == p.Base || slices.ContainsFunc(base, func(c Commit) bool { return c.Hash == head[len(head)-1].Hash }):
		return 0, refusal("no_change", "branch %s has no commit that %s lacks", p.Head, p.Base)
	case head[0].Hash != base[0].Hash:
		return 0, refusal("unrelated", "branches %s and %s have no commit in common", p.Head, p.Base)
	}
	r.list = append(r.list, &pull{Proposal: p, author: authorOf(p.Bot), state: "open", statuses: map[string]any{}})
	return int64(len(r.list)), nil
}

func (r *Requests) get(number int64) (*pull, error) {
	if number < 1 || int(number) > len(r.list) {
		return nil, refusal("not_found", "pull request #%d: not found", number)
	}
	return r.list[number-1], nil
}

// Look returns the state of a pull request.
func (r *Requests) Look(ctx context.Context, number int64) (map[string]any, error) {
	if err := r.forge.through(ctx); err != nil {
		return nil, err
	}
	r.forge.mu.Lock()
	defer r.forge.mu.Unlock()
	q, err := r.get(number)
	if err != nil {
		return nil, err
	}
	commit := ""
	if head := r.forge.branches[q.Head]; len(head) > 0 {
		commit = head[len(head)-1].Hash
	}
	return map[string]any{
		"number": number, "title": q.Title, "body": q.Body, "author": q.author, "state": q.state, "head": q.Head, "base": q.Base, "commit": commit, "merge": q.merge,
		"statuses": maps.Clone(q.statuses), "comments": append([]any{}, q.comments...),
	}, nil
}

// Act changes a pull request.
func (r *Requests) Act(ctx context.Context, number int64, a scenario.RequestAct) error {
	if err := r.forge.through(ctx); err != nil {
		return err
	}
	r.forge.mu.Lock()
	q, err := r.get(number)
	pushed := func() {}
	if err == nil {
		if a.Comment != "" {
			q.comments = append(q.comments, map[string]any{"author": authorOf(a.Bot), "body": a.Comment})
		}
		if a.Check != "" {
			q.statuses[a.Check] = map[string]any{"state": a.State, "description": a.Description, "author": authorOf(a.Bot)}
		}
		if a.Merge {
			err = r.merge(number, q, a.Bot)
			if err == nil && q.Base == scenario.Branch {
				pushed = r.forge.pushed
			}
		}
		if a.Close && q.state == "open" {
			q.state = "closed"
		}
	}
	r.forge.mu.Unlock()
	if err == nil {
		pushed()
	}
	return err
}

// merge commits what the head changed since it left the base.
func (r *Requests) merge(number int64, q *pull, bot bool) error {
	switch {
	case q.state == "merged":
		return nil
	case q.state != "open":
		return refusal("refused", "pull request #%d is closed", number)
	case bot:
		return refusal("refused", "pull request #%d cannot be merged into %s: the forge refuses it", number, q.Base)
	}
	head, base := r.forge.branches[q.Head], r.forge.branches[q.Base]
	common := 0
	for common < min(len(head), len(base)) && head[common].Hash == base[common].Hash {
		common++
	}
	was, theirs, files := head[common-1].files, head[len(head)-1].files, maps.Clone(base[len(base)-1].files)
	for _, name := range changedFiles(was, theirs) {
		if !sameFile(files[name], was[name]) && !sameFile(files[name], theirs[name]) {
			return refusal("refused", "pull request #%d cannot be merged into %s: both changed the same lines", number, q.Base)
		}
		if files[name] = theirs[name]; theirs[name] == nil {
			delete(files, name)
		}
	}
	q.state, q.merge = "merged", hashOf(files, fmt.Sprint(len(base), "merge"))
	r.forge.branches[q.Base] = append(base, Commit{Hash: q.merge, Author: "lab", Message: "merge of " + q.Title, files: files})
	return nil
}

func changedFiles(a, b map[string]*scenario.File) (names []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for name := range all {
		if !sameFile(a[name], b[name]) {
			names = append(names, name)
		}
	}
	return names
}

func sameFile(a, b *scenario.File) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Executable == b.Executable && string(a.Content) == string(b.Content)
}

// RequestsContract tests pull requests of a forge that holds ContractFiles.
func RequestsContract(t *testing.T, forge scenario.Forge, requests scenario.Requests) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	commit := func(branch, name, text string) string {
		t.Helper()
		hash, err := forge.Commit(ctx, scenario.Change{Branch: branch, Author: "ann", Message: "a change", Files: map[string]*scenario.File{name: {Content: []byte(text)}}})
		must(err)
		return hash
	}
	refused := func(code string, err error) {
		t.Helper()
		if e, ok := err.(*lab.Error); !ok || e.Code != code {
			t.Errorf("%v, want code %s", err, code)
		}
	}
	look := func(n int64) map[string]any {
		t.Helper()
		state, err := requests.Look(ctx, n)
		must(err)
		return state
	}
	p := scenario.Proposal{Title: "two of c", Body: "why", Head: "pr/c", Base: scenario.Branch}
	_, err := requests.Open(ctx, p)
	refused("no_branch", err)
	head := commit("pr/c", "requests/c.yaml", "c: 2\n")
	n, err := requests.Open(ctx, p)
	must(err)
	if again, err := requests.Open(ctx, p); err != nil || again != n {
		t.Errorf("opened again as %d, %v", again, err)
	}
	must(requests.Act(ctx, n, scenario.RequestAct{Comment: "looks good", Bot: true}))
	must(requests.Act(ctx, n, scenario.RequestAct{Check: "lab/diff", State: "pending"}))
	must(requests.Act(ctx, n, scenario.RequestAct{Check: "lab/diff", State: "success", Description: "1 object", Bot: true}))
	refused("refused", requests.Act(ctx, n, scenario.RequestAct{Merge: true, Bot: true}))
	got := look(n)
	for at, want := range map[string]string{"title": "two of c", "body": "why", "author": "lab", "state": "open", "head": "pr/c", "base": scenario.Branch, "commit": head, "merge": ""} {
		if got[at] != want {
			t.Errorf("%s is %v, want %q", at, got[at], want)
		}
	}
	if want := "map[lab/diff:map[author:lab-bot description:1 object state:success]]"; fmt.Sprint(got["statuses"]) != want {
		t.Errorf("statuses %v, want %s", got["statuses"], want)
	}
	if want := "[map[author:lab-bot body:looks good]]"; fmt.Sprint(got["comments"]) != want {
		t.Errorf("comments %v, want %s", got["comments"], want)
	}
	if got["number"] != n {
		t.Errorf("number %v, want %d", got["number"], n)
	}
	commit(scenario.Branch, "README", "meanwhile\n")
	must(requests.Act(ctx, n, scenario.RequestAct{Merge: true}))
	must(requests.Act(ctx, n, scenario.RequestAct{Merge: true})) // nothing
	must(requests.Act(ctx, n, scenario.RequestAct{Close: true})) // nothing
	tree, err := forge.Tree(ctx, scenario.Branch)
	must(err)
	if got := look(n); got["state"] != "merged" || got["merge"] != tree.Commit {
		t.Errorf("merged: %v, main is at %s", got, tree.Commit)
	}
	p.Head = "pr/d"
	commit("pr/d", "requests/d.yaml", "d: 2\n")
	n, err = requests.Open(ctx, p)
	must(err)
	must(requests.Act(ctx, n, scenario.RequestAct{Close: true}))
	if got := look(n); got["state"] != "closed" {
		t.Errorf("closed: %v", got)
	}
	refused("refused", requests.Act(ctx, n, scenario.RequestAct{Merge: true}))
	_, err = requests.Look(ctx, 999)
	refused("not_found", err)
}
