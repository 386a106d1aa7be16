package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/gitfiles"

	"code.gitea.io/sdk/gitea"
)

const (
	foreignLimit = 2 * time.Minute // of a look for what others put into the forge
	wakeLimit    = time.Minute     // of a start for such a look
	pageSize     = 50              // Gitea's maximum
)

// Foreign is what the forge has that lab did not put there and no working tree or clone has. It is lost with the forge's volume.
type Foreign struct {
	Commits      []ForeignCommit // by repository and branch, newest first
	Requests     []PullRequest   // open ones
	Items        []Item          // by repository
	Repositories []string        // with content, not created by lab: OWNER/NAME
}

// ForeignCommit is a commit that only the forge has.
type ForeignCommit struct {
	Commit
	Repository string   // estate, or a mirror's name
	Branch     string   // or "tag NAME"
	Files      []string // changed paths, sorted
}

// PullRequest is an open pull request.
type PullRequest struct {
	Repository string // OWNER/NAME
	Number     int64
	Title      string
	Author     string
}

// Item is something that a repository has besides its commits: an issue, open or closed, a release or a page of its wiki.
type Item struct {
	Kind       string // issue, release or wiki page
	Repository string // OWNER/NAME
	Title      string
	Author     string // may be empty
}

// Empty reports whether there is nothing of others.
func (f Foreign) Empty() bool {
	return len(f.Commits)+len(f.Requests)+len(f.Items)+len(f.Repositories) == 0
}

// Foreign returns the commits of others that only the forge has: on the branch that engines follow those that the working tree lacks, on other branches and tags
// those that the clone lacks. Without a tree, all commits after lab's last push or pull count. A story's commits do not. If there are none, it takes one small request.
func (r Remote) Foreign(ctx context.Context, tree Tree) ([]ForeignCommit, error) {
	refs, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	branch, last := r.branch(), refs[lastRef]
	reached := sync.OnceValue(func() map[string]bool { return tree.Reached() })
	var others []string
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if name != branch && (strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/")) && refs[name] != last && refs[name] != refs[branch] && !reached()[refs[name]] {
			others = append(others, name)
		}
	}
	lacks := map[string]bool{}
	if tree.FS != nil {
		ahead, err := r.Ahead(ctx, tree)
		if err != nil {
			return nil, err
		}
		for _, c := range ahead {
			lacks[c.Hash] = true
		}
		if len(lacks)+len(others) == 0 {
			return nil, nil
		}
	} else if len(others) == 0 && refs[branch] == last {
		return nil, nil
	}
	d, err := r.open(ctx, Tree{}, false)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--", r.URL}
	if _, err := d.to().Run(ctx, append(args, "+refs/heads/*:"+seenRefs+"heads/*", "+refs/tags/*:"+seenRefs+"tags/*", "+refs/lab/*:"+seenRefs+"lab/*")...); err != nil {
		return nil, fmt.Errorf("fetch from the forge: %w", err)
	}
	var list []ForeignCommit
	var known []string // their commits are listed, or not of others
	if last != "" {
		known = append(known, last)
	}
	// walk adds the commits of a reference that are not known yet, and makes them known.
	walk := func(name string, counts func(commit) bool) error {
		if _, err := d.Run(ctx, "rev-parse", "--quiet", "--verify", refs[name]+"^{commit}"); err != nil {
			return nil //nolint:nilerr // a tag of something else
		}
		commits, err := d.log(ctx, "--diff-merges=first-parent", refs[name], known)
		known = append(known, refs[name])
		for _, c := range commits {
			if !reached()[c.Hash] && !strings.HasSuffix(c.email, storyHost) && counts(c) {
				list = append(list, ForeignCommit{Commit: c.Commit, Branch: shortName(name), Files: sorted(c.changed)})
			}
		}
		return err
	}
	all := func(commit) bool { return true }
	ahead := all
	if tree.FS != nil {
		ahead = func(c commit) bool { return lacks[c.Hash] }
	}
	if refs[branch] != "" {
		err = walk(branch, ahead)
	}
	for _, name := range others {
		err = errors.Join(err, walk(name, all))
	}
	return list, err
}

// Reached returns the commits that the clone's branches and tags have.
func (t Tree) Reached() map[string]bool {
	if t.Dir == "" {
		return nil
	}
	clone, err := gitfiles.Open(t.Dir)
	if err != nil { // no clone has them
		return nil
	}
	return clone.Reached()
}

func shortName(ref string) string {
	if tag, ok := strings.CutPrefix(ref, "refs/tags/"); ok {
		return "tag " + tag
	}
	return strings.TrimPrefix(ref, "refs/heads/")
}

// Foreign returns what others put into the forge, which must run. tree is the estate's and may be empty; mirrors are those of the estate. Of other mirrors, nothing is
// known but lab's last push.
func (g *Gitea) Foreign(ctx context.Context, tree Tree, mirrors []Mirror) (f Foreign, err error) {
	err = g.call(ctx, "the commits that exist only in the forge", foreignLimit, func(ctx context.Context, s State) error {
		f, err = g.foreign(ctx, s, tree, mirrors)
		return err
	})
	return f, err
}

func (g *Gitea) foreign(ctx context.Context, s State, tree Tree, mirrors []Mirror) (f Foreign, err error) {
	api, err := g.api(ctx, s)
	if err != nil {
		return f, err
	}
	repositories, err := g.repositories(ctx, api)
	if err != nil {
		return f, err
	}
	for _, repo := range repositories {
		items, err := items(api, repo)
		if err != nil {
			return f, err
		}
		f.Items = append(f.Items, items...)
		if repo.Empty {
			continue
		}
		r, tree, err := g.placed(ctx, s, repo, tree, mirrors)
		if err != nil {
			return f, err
		}
		if r == nil {
			f.Repositories = append(f.Repositories, repo.FullName)
		} else {
			commits, err := r.Foreign(ctx, tree)
			if err != nil {
				return f, fmt.Errorf("repository %s: %w", repo.FullName, err)
			}
			for _, c := range commits {
				c.Repository = repo.Name
				f.Commits = append(f.Commits, c)
			}
		}
		requests, err := g.requests(api, repo)
		if err != nil {
			return f, err
		}
		f.Requests = append(f.Requests, requests...)
	}
	return f, nil
}

// repositories lists all repositories of the forge, the estate's first. A forge whose admin is unknown has none if its folder of repositories is empty.
func (g *Gitea) repositories(ctx context.Context, api *gitea.Client) ([]*gitea.Repository, error) {
	var all []*gitea.Repository
	for page := 1; ; page++ {
		list, resp, err := api.SearchRepos(gitea.SearchRepoOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: pageSize}})
		if resp != nil && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden) {
			out, err := g.docker.Exec(ctx, g.name, nil, "sh", "-c", `ls -d "$1"/*/*.git 2>/dev/null || true`, "sh", workPath+"/repositories")
			if err == nil && strings.TrimSpace(string(out)) != "" {
				err = &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "its password is lost, so it cannot be queried", Cure: "lab up sets a new one"}
			}
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("repositories of the forge: %w", err)
		}
		if all = append(all, list...); len(list) < pageSize {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b *gitea.Repository) int {
		switch own := g.creds.User + "/" + Repository; {
		case a.FullName == own && b.FullName != own:
			return -1
		case b.FullName == own && a.FullName != own:
			return 1
		}
		return strings.Compare(a.FullName, b.FullName)
	})
	return all, nil
}

// placed returns the remote and the working tree of a repository, or nil if lab did not create it.
func (g *Gitea) placed(ctx context.Context, s State, repo *gitea.Repository, tree Tree, mirrors []Mirror) (*Remote, Tree, error) {
	if repo.Owner == nil || repo.Owner.UserName != g.creds.User {
		return nil, Tree{}, nil
	}
	if repo.Name == Repository {
		r := g.remote(s)
		return &r, tree, nil
	}
	if i := slices.IndexFunc(mirrors, func(m Mirror) bool { return m.Name == repo.Name }); i >= 0 {
		r := g.of(mirrors[i]).remote(s)
		return &r, mirrors[i].Tree, nil
	}
	former := g.of(Mirror{Name: repo.Name, Branch: repo.DefaultBranch}).remote(s)
	refs, err := former.list(ctx)
	if _, pushed := refs[lastRef]; !pushed || err != nil {
		return nil, Tree{}, err
	}
	return &former, Tree{}, nil
}

// requests lists the open pull requests of a repository.
func (g *Gitea) requests(api *gitea.Client, repo *gitea.Repository) ([]PullRequest, error) {
	if repo.OpenPulls == 0 || repo.Owner == nil {
		return nil, nil
	}
	var all []PullRequest
	err := pages(func(o gitea.ListOptions) (int, *gitea.Response, error) {
		list, resp, err := api.ListRepoPullRequests(repo.Owner.UserName, repo.Name, gitea.ListPullRequestsOptions{ListOptions: o, State: gitea.StateOpen})
		for _, p := range list {
			all = append(all, PullRequest{Repository: repo.FullName, Number: p.Index, Title: p.Title, Author: loginOf(p.Poster)})
		}
		return len(list), resp, err
	})
	if err != nil {
		return nil, fmt.Errorf("pull requests of %s: %w", repo.FullName, err)
	}
	return all, nil
}

// items lists what a repository has besides its commits and pull requests. A part that the repository does not have at all is not found.
func items(api *gitea.Client, repo *gitea.Repository) (all []Item, err error) {
	if repo.Owner == nil {
		return nil, nil
	}
	owner, name := repo.Owner.UserName, repo.Name
	add := func(kind, title, author string) {
		all = append(all, Item{Kind: kind, Repository: repo.FullName, Title: title, Author: author})
	}
	for what, list := range map[string]func(o gitea.ListOptions) (int, *gitea.Response, error){
		"issues": func(o gitea.ListOptions) (int, *gitea.Response, error) {
			list, resp, err := api.ListRepoIssues(owner, name, gitea.ListIssueOption{ListOptions: o, State: gitea.StateAll, Type: gitea.IssueTypeIssue})
			for _, i := range list {
				add("issue", fmt.Sprintf("#%d %s", i.Index, i.Title), loginOf(i.Poster))
			}
			return len(list), resp, err
		},
		"releases": func(o gitea.ListOptions) (int, *gitea.Response, error) {
			list, resp, err := api.ListReleases(owner, name, gitea.ListReleasesOptions{ListOptions: o})
			for _, r := range list {
				add("release", cmp.Or(r.Title, r.TagName), loginOf(r.Publisher))
			}
			return len(list), resp, err
		},
		"wiki": func(o gitea.ListOptions) (int, *gitea.Response, error) {
			list, resp, err := api.ListWikiPages(owner, name, gitea.ListWikiPagesOptions{ListOptions: o})
			for _, p := range list {
				add("wiki page", p.Title, "")
			}
			return len(list), resp, err
		},
	} {
		if err := pages(list); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", what, repo.FullName, err)
		}
	}
	slices.SortStableFunc(all, func(a, b Item) int { return strings.Compare(a.Kind, b.Kind) })
	return all, nil
}

// pages reads a list page by page; one that is not found is empty.
func pages(list func(o gitea.ListOptions) (int, *gitea.Response, error)) error {
	for page := 1; ; page++ {
		n, resp, err := list(gitea.ListOptions{Page: page, PageSize: pageSize})
		if resp != nil && resp.StatusCode == http.StatusNotFound {
			return nil
		}
		if err != nil || n < pageSize {
			return err
		}
	}
}

func loginOf(u *gitea.User) string {
	if u == nil {
		return ""
	}
	return u.UserName
}

// Wake starts a stopped or paused container as it is, so that Foreign can ask it, and waits until it answers. It reports false if there is nothing to wake: the container
// has no settings, so it never ran.
func (g *Gitea) Wake(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, wakeLimit)
	defer cancel()
	s, c, err := g.inspect(ctx)
	if err != nil || !s.Exists {
		return false, err
	}
	switch {
	case s.Running:
	case c.Paused():
		err = g.docker.Unpause(ctx, g.name)
	default:
		if _, err := g.docker.File(ctx, g.name, appINI); errors.Is(err, docker.ErrNoFile) {
			return false, nil
		}
		err = g.docker.Start(ctx, g.name, lab.NetworkName(g.lab))
	}
	if err == nil {
		s, err = g.running(ctx)
	}
	if err == nil {
		err = g.awaitHealth(ctx, s)
	}
	return true, err
}
