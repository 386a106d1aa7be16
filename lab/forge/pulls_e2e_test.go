//go:build e2e

package forge_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/forge"
	"homelab/lab/forge/pulls"
	"homelab/lab/scenario/live"
	"homelab/lab/scenario/scenariotest"

	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// requests is a running forge with the estate's first commit, and a working tree.
type requests struct {
	*forge.Gitea
	t    *testing.T
	dir  string
	host string
}

func (r requests) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r requests) write(name, text string) {
	r.t.Helper()
	r.must(os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644))
}

func (r requests) tree() forge.Tree { return forge.Tree{FS: os.DirFS(r.dir), Dir: r.dir} }

// on makes calls about the estate's pull requests.
func (r requests) on(bot bool, do func(ctx context.Context, p *pulls.Repository) error) error {
	r.t.Helper()
	return r.Pulls(r.t.Context(), "", "a test", bot, do)
}

// open proposes the working tree and opens a request.
func (r requests) open(title, branch string) (q pulls.Request) {
	r.t.Helper()
	_, err := r.Propose(r.t.Context(), r.tree(), branch, title)
	r.must(err)
	q, opened, err := r.OpenRequest(r.t.Context(), "", pulls.Proposal{Title: title, Body: "why\nso", Head: branch, Base: "main"}, false)
	r.must(err)
	if !opened {
		r.t.Fatalf("%s was open already", branch)
	}
	return q
}

func (r requests) get(number int64) (q pulls.Request) {
	r.t.Helper()
	r.must(r.on(false, func(ctx context.Context, p *pulls.Repository) (err error) {
		q, err = p.Get(ctx, number)
		return err
	}))
	return q
}

func (r requests) head() string {
	r.t.Helper()
	s, err := r.Observe(r.t.Context())
	r.must(err)
	return s.Revision
}

func refusedWith(err error, code string) bool {
	var e *lab.Error
	return errors.As(err, &e) && e.Code == code
}

func TestPulls(t *testing.T) {
	d := docker.New()
	creds := credentials()
	g := start(t, d, "e2e-p", creds)
	r := requests{Gitea: g, t: t, dir: t.TempDir()}
	r.must(g.Start(t.Context(), spec(t, d), 0, nil))
	s, err := g.Observe(t.Context())
	r.must(err)
	r.host = s.HostURL
	r.write("a", "1\n")
	r.write("b", "1\n")
	_, err = g.Push(t.Context(), r.tree(), "first")
	r.must(err)
	t.Run("open, judge, merge, pull", func(t *testing.T) { r.t = t; testMerged(r) })
	t.Run("refused", func(t *testing.T) { r.t = t; testRefused(r) })
	t.Run("conflict", func(t *testing.T) { r.t = t; testConflict(r) })
	t.Run("close", func(t *testing.T) { r.t = t; testClosed(r) })
	t.Run("bot", func(t *testing.T) { r.t = t; testBot(r) })
	t.Run("repository of its own", func(t *testing.T) { r.t = t; testRepository(r) })
	t.Run("of stories", func(t *testing.T) {
		git := live.NewGit(r.host+"/lab/estate.git", &githttp.BasicAuth{Username: creds.User, Password: creds.Password})
		scenariotest.RequestsContract(t, git, live.Requests{Forge: g})
	})
}

func testMerged(r requests) {
	t, ctx := r.t, r.t.Context()
	before := r.head()
	r.write("a", "2\n")
	q := r.open("two of a", "pr/two-of-a")
	if q.State != pulls.Open || q.Title != "two of a" || q.Body != "why\nso" || q.Head != "pr/two-of-a" || q.Base != "main" || q.Author != "lab" || q.Repository != "lab/estate" || q.Fork != "" ||
		q.Onto != before || q.MergeBase != before || len(q.Commit) != 40 || q.Created.IsZero() || q.Draft {
		t.Errorf("opened %+v", q)
	}
	if r.head() != before {
		t.Error("main moved")
	}
	if again, opened, err := r.OpenRequest(ctx, "", pulls.Proposal{Title: "other", Head: "pr/two-of-a", Base: "main"}, false); err != nil || opened || again.Number != q.Number || again.Title != "two of a" {
		t.Errorf("again: %+v, opened %t, %v", again, opened, err)
	}
	r.must(r.on(false, func(ctx context.Context, p *pulls.Repository) error {
		list, err := p.List(ctx, pulls.Open)
		if err != nil || len(list) != 1 || list[0].Number != q.Number || list[0].Commit != q.Commit {
			t.Errorf("open are %+v, %v", list, err)
		}
		for _, s := range []pulls.Status{
			{Context: "lab/lint", State: pulls.Success, Description: "no findings"},
			{Context: "lab/diff", State: pulls.Pending},
			{Context: "lab/diff", State: pulls.Failure, Description: "2 objects", URL: "http://127.0.0.1/x"},
		} {
			r.must(p.SetStatus(ctx, q.Commit, s))
		}
		statuses, err := p.Statuses(ctx, q.Commit)
		var got []string
		for _, s := range statuses {
			got = append(got, s.Context+" "+string(s.State)+" "+s.Description+" "+s.URL+" "+s.Author)
		}
		if want := []string{"lab/diff failure 2 objects http://127.0.0.1/x lab", "lab/lint success no findings  lab"}; !slices.Equal(got, want) {
			t.Errorf("statuses %q, %v", got, err)
		}
		if none, err := p.Statuses(ctx, before); err != nil || len(none) > 0 {
			t.Errorf("statuses of main %+v, %v", none, err)
		}
		_, err = p.Comment(ctx, q.Number, "what does it cost? @lab <b>x</b>")
		r.must(err)
		for i, body := range []string{"<!-- m -->one", "<!-- m -->two", "<!-- m -->two"} {
			if _, changed, err := p.Upsert(ctx, q.Number, "<!-- m -->", body); err != nil || changed != (i < 2) {
				t.Errorf("%s: changed %t, %v", body, changed, err)
			}
		}
		comments, err := p.Comments(ctx, q.Number)
		if err != nil || len(comments) != 2 || comments[0].Body != "what does it cost? @lab <b>x</b>" || comments[1].Body != "<!-- m -->two" || comments[0].Author != "lab" || comments[0].Created.IsZero() {
			t.Errorf("comments %+v, %v", comments, err)
		}
		return nil
	}))
	// More commits on the branch, and a merge of what was reviewed alone.
	r.write("b", "2\n")
	_, err := r.Propose(ctx, r.tree(), "pr/two-of-a", "and b")
	r.must(err)
	r.must(r.on(false, func(ctx context.Context, p *pulls.Repository) error {
		if _, merged, err := p.Merge(ctx, q.Number, pulls.Merging{Commit: q.Commit}); merged || !refusedWith(err, "refused") {
			t.Errorf("merged %t what was not reviewed: %v", merged, err)
		}
		now, merged, err := p.Merge(ctx, q.Number, pulls.Merging{Commit: r.get(q.Number).Commit})
		if err != nil || !merged || now.State != pulls.Merged || now.Merge == "" {
			t.Errorf("merged %t: %+v, %v", merged, now, err)
		}
		again, merged, err := p.Merge(ctx, q.Number, pulls.Merging{})
		if err != nil || merged || again.State != pulls.Merged {
			t.Errorf("merged again: %t, %+v, %v", merged, again, err)
		}
		if now.Merge != r.head() {
			t.Errorf("main is at %s, the merge is %s", r.head(), now.Merge)
		}
		if closed, err := p.Close(ctx, q.Number); closed || err != nil {
			t.Errorf("closed a merged request: %t, %v", closed, err)
		}
		if list, err := p.List(ctx, pulls.Open); err != nil || len(list) > 0 {
			t.Errorf("open are %+v, %v", list, err)
		}
		if list, err := p.List(ctx, pulls.Merged); err != nil || len(list) != 1 || list[0].Head != "pr/two-of-a" {
			t.Errorf("merged are %+v, %v", list, err)
		}
		if removed, err := p.RemoveBranch(ctx, "pr/two-of-a"); removed || err != nil {
			t.Errorf("the branch was there: %t, %v", removed, err)
		}
		return nil
	}))
	pulled, err := r.Pull(ctx, r.tree(), false)
	r.must(err)
	if len(pulled.Files) > 0 || pulled.Commit != r.head() {
		t.Errorf("pulled %+v", pulled)
	}
	r.write("a", "3\n")
	_, err = r.Push(ctx, r.tree(), "after a merge")
	r.must(err)
	if f, err := r.Foreign(ctx, r.tree(), nil); err != nil || !f.Empty() {
		t.Errorf("of others %+v, %v", f, err)
	}
}

func testRefused(r requests) {
	t, ctx := r.t, r.t.Context()
	other := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(ctx, "git", append([]string{"-C", other, "-c", "user.name=ann", "-c", "user.email=ann@example.org"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "-m", "stray")
	bot, err := r.Bot(ctx, "")
	r.must(err)
	git("push", "--quiet", within(r.host+"/lab/estate.git", bot), "HEAD:refs/heads/stray")
	for head, code := range map[string]string{"stray": "unrelated", "none": "no_branch", "--upload-pack=x": "invalid_request", "main": "invalid_request"} {
		if _, _, err := r.OpenRequest(ctx, "", pulls.Proposal{Title: "x", Head: head, Base: "main"}, false); !refusedWith(err, code) {
			t.Errorf("%s: %v, want %s", head, err, code)
		}
	}
	r.must(r.on(false, func(ctx context.Context, p *pulls.Repository) error {
		for what, err := range map[string]error{
			"get":     func() error { _, err := p.Get(ctx, 999); return err }(),
			"comment": func() error { _, err := p.Comment(ctx, 999, "x"); return err }(),
			"merge":   func() error { _, _, err := p.Merge(ctx, 999, pulls.Merging{}); return err }(),
			"close":   func() error { _, err := p.Close(ctx, 999); return err }(),
			"status":  p.SetStatus(ctx, strings.Repeat("0", 40), pulls.Status{Context: "x", State: pulls.Success}),
		} {
			if !refusedWith(err, "not_found") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if list, err := p.List(ctx, pulls.Open); err != nil || len(list) > 0 {
			t.Errorf("open are %+v, %v", list, err)
		}
		_, err := p.RemoveBranch(ctx, "stray")
		return err
	}))
}

func testConflict(r requests) {
	t, ctx := r.t, r.t.Context()
	r.write("a", "request\n")
	q := r.open("WIP: a", "pr/a")
	r.must(r.on(false, func(ctx context.Context, p *pulls.Repository) error {
		if _, merged, err := p.Merge(ctx, q.Number, pulls.Merging{}); merged || !refusedWith(err, "refused") || !strings.Contains(err.Error(), "draft") {
			t.Errorf("merged a draft: %t, %v", merged, err)
		}
		return nil
	}))
	r.write("a", "main\n")
	_, err := r.Push(ctx, r.tree(), "meanwhile")
	r.must(err)
	r.write("a", "other\n")
	if _, err := r.Propose(ctx, r.tree(), "pr/other", "other"); err != nil {
		t.Fatal(err)
	}
	one, _, err := r.OpenRequest(ctx, "", pulls.Proposal{Title: "other", Head: "pr/other", Base: "main"}, false)
	r.must(err)
	r.write("a", "main again\n")
	_, err = r.Push(ctx, r.tree(), "meanwhile again")
	r.must(err)
	r.must(r.on(false, func(ctx context.Context, p *pulls.Repository) error {
		_, merged, err := p.Merge(ctx, one.Number, pulls.Merging{})
		if merged || !refusedWith(err, "refused") || !strings.Contains(err.Error(), "same lines") {
			t.Errorf("merged a conflict: %t, %v", merged, err)
		}
		for _, n := range []int64{one.Number, q.Number} {
			if closed, err := p.Close(ctx, n); !closed || err != nil {
				t.Errorf("close: %t, %v", closed, err)
			}
		}
		for _, branch := range []string{"pr/a", "pr/other"} {
			if removed, err := p.RemoveBranch(ctx, branch); !removed || err != nil {
				t.Errorf("remove %s: %t, %v", branch, removed, err)
			}
		}
		return nil
	}))
}

func testClosed(r requests) {
	t, ctx := r.t, r.t.Context()
	r.write("b", "closed\n")
	q := r.open("to be closed", "pr/closed")
	f, err := r.Foreign(ctx, r.tree(), nil)
	r.must(err)
	if len(f.Requests) != 1 || f.Requests[0].Title != "to be closed" {
		t.Errorf("lost with the forge: %+v", f)
	}
	r.must(r.on(false, func(ctx context.Context, p *pulls.Repository) error {
		for i := range 2 {
			if closed, err := p.Close(ctx, q.Number); err != nil || closed != (i == 0) {
				t.Errorf("closed %t, %v", closed, err)
			}
		}
		if now := r.get(q.Number); now.State != pulls.Closed || now.Merge != "" {
			t.Errorf("closed: %+v", now)
		}
		if _, merged, err := p.Merge(ctx, q.Number, pulls.Merging{}); merged || !refusedWith(err, "refused") {
			t.Errorf("merged a closed request: %t, %v", merged, err)
		}
		removed, err := p.RemoveBranch(ctx, q.Head)
		if !removed {
			t.Error("no branch was removed")
		}
		return err
	}))
	if now := r.get(q.Number); now.Head != "pr/closed" {
		t.Errorf("without its branch, head is %q", now.Head)
	}
}

// Another repository has credentials of its own, which open nothing else.
func testRepository(r requests) {
	t, ctx := r.t, r.t.Context()
	reader, created, err := r.CreateRepository(ctx, "shop", false)
	if err != nil || !created {
		t.Fatalf("created %t, %v", created, err)
	}
	writer, created, err := r.CreateRepository(ctx, "shop", true)
	if err != nil || created || writer.User == reader.User {
		t.Fatalf("created %t: %s, %v", created, writer.User, err)
	}
	if again, _, err := r.CreateRepository(ctx, "shop", false); err != nil || again != reader {
		t.Errorf("again %s, %v", again.User, err)
	}
	bot, err := r.Bot(ctx, "")
	r.must(err)
	dir := t.TempDir()
	push := func(a forge.Account, repository string) error {
		out, err := exec.CommandContext(ctx, "git", "-C", dir, "push", "--quiet", within(r.host+"/lab/"+repository+".git", a), "HEAD:refs/heads/by-"+a.User).CombinedOutput()
		if err != nil {
			return errors.New(string(out))
		}
		return nil
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"-c", "user.name=ann", "-c", "user.email=ann@example.org", "commit", "--quiet", "--allow-empty", "-m", "first"}} {
		if out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	r.must(push(writer, "shop"))
	for _, c := range []struct {
		who        forge.Account
		repository string
		reads      bool
	}{{reader, "shop", true}, {writer, "shop", true}, {reader, "estate", false}, {writer, "estate", false}, {bot, "shop", false}} {
		if err := lsRemote(t, within(r.host+"/lab/"+c.repository+".git", c.who)); (err == nil) != c.reads {
			t.Errorf("%s reads %s: %v", c.who.User, c.repository, err)
		}
		if c.who.User != writer.User && push(c.who, c.repository) == nil {
			t.Errorf("%s pushes to %s", c.who.User, c.repository)
		}
	}
	if err := lsRemote(t, r.host+"/lab/shop.git"); err == nil {
		t.Error("anybody reads it")
	}
	if f, err := r.Foreign(ctx, r.tree(), nil); err != nil || !slices.Contains(f.Repositories, "lab/shop") {
		t.Errorf("lost with the forge %q, %v", f.Repositories, err)
	}
	for _, there := range []bool{true, false} {
		if has, err := r.HasRepository(ctx, "shop"); err != nil || has != there {
			t.Errorf("there %t, %v", has, err)
		}
		r.must(r.RemoveRepository(ctx, "shop"))
	}
	if _, created, err := r.CreateRepository(ctx, "shop", true); err != nil || !created {
		t.Errorf("created %t, %v", created, err)
	}
	r.must(r.RemoveRepository(ctx, "shop"))
}

// The bot can do what a job does, and nothing else.
func testBot(r requests) {
	t, ctx := r.t, r.t.Context()
	r.write("b", "2\n") // as main has it
	bot, err := r.Bot(ctx, "")
	r.must(err)
	if again, err := r.Bot(ctx, ""); err != nil || again != bot {
		t.Errorf("a second bot: %v", err)
	}
	url := within(r.host+"/lab/estate.git", bot)
	clone := t.TempDir()
	git := func(args ...string) error {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", clone, "-c", "user.name=bot", "-c", "user.email=bot@example.org"}, args...)...).CombinedOutput()
		if err != nil {
			return errors.New(string(out))
		}
		return nil
	}
	r.must(git("clone", "--quiet", "--branch", "main", url, "."))
	r.must(os.WriteFile(filepath.Join(clone, "b"), []byte("by the bot\n"), 0o644))
	r.must(git("commit", "--quiet", "--all", "-m", "by the bot"))
	before := r.head()
	if err := git("push", "--quiet", "origin", "HEAD:main"); err == nil || !strings.Contains(err.Error(), "protected") {
		t.Errorf("the bot pushes to main: %v", err)
	}
	r.must(git("push", "--quiet", "origin", "HEAD:bot/b"))
	q, opened, err := r.OpenRequest(ctx, "", pulls.Proposal{Title: "by the bot", Head: "bot/b", Base: "main"}, true)
	if err != nil || !opened || q.Author != "lab-bot" {
		t.Fatalf("opened %t: %+v, %v", opened, q, err)
	}
	r.must(r.on(true, func(ctx context.Context, p *pulls.Repository) error {
		c, err := p.Comment(ctx, q.Number, "checked")
		if err != nil || c.Author != "lab-bot" {
			t.Errorf("comment %+v, %v", c, err)
		}
		r.must(p.SetStatus(ctx, q.Commit, pulls.Status{Context: "bot", State: pulls.Success}))
		if _, merged, err := p.Merge(ctx, q.Number, pulls.Merging{}); merged || !refusedWith(err, "refused") {
			t.Errorf("the bot merged %t: %v", merged, err)
		}
		return nil
	}))
	if r.head() != before {
		t.Error("main moved")
	}
	as := bot.User + ":" + bot.Token
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/api/v1/user/repos", `{"name": "x"}`},
		{http.MethodPatch, "/api/v1/repos/lab/estate", `{"private": false}`},
		{http.MethodGet, "/api/v1/repos/lab/estate/hooks", ""},
		{http.MethodDelete, "/api/v1/repos/lab/estate/branch_protections/main", ""},
		{http.MethodPut, "/api/v1/repos/lab/estate/collaborators/lab-reader", `{"permission": "write"}`},
		{http.MethodGet, "/api/v1/admin/users", ""},
		{http.MethodDelete, "/api/v1/repos/lab/estate", ""},
		{http.MethodPost, "/api/v1/users/lab-bot/tokens", `{"name": "x", "scopes": ["all"]}`},
	} {
		if status, text := ask(t, c.method, r.host+c.path, "", as, c.body); status < http.StatusBadRequest {
			t.Errorf("the bot may %s %s: %d %s", c.method, c.path, status, text)
		}
	}
	// A restart keeps both, and lab still pushes.
	r.must(r.on(false, func(ctx context.Context, p *pulls.Repository) error {
		_, merged, err := p.Merge(ctx, q.Number, pulls.Merging{Style: pulls.Squash})
		if !merged {
			t.Error("not merged")
		}
		return err
	}))
	_, err = r.Pull(ctx, r.tree(), false)
	r.must(err)
	r.write("a", "after the bot\n")
	if res, err := r.Push(ctx, r.tree(), "after the bot"); err != nil || !res.Pushed {
		t.Errorf("lab pushes %+v, %v", res, err)
	}
}
