package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing/fstest" // an in-memory fs.FS; it does not import package testing

	"homelab/lab"
	"homelab/lab/forge/pulls"

	"code.gitea.io/sdk/gitea"
)

// Pulls makes calls about the pull requests of a repository, by default the estate's, as the admin or the bot. what names them in errors.
func (g *Gitea) Pulls(ctx context.Context, repository, what string, bot bool, do func(ctx context.Context, r *pulls.Repository) error) error {
	return g.call(ctx, what, gitLimit, func(ctx context.Context, s State) error {
		as := pulls.Account{User: g.creds.User, Password: g.creds.Password}
		if bot {
			a, err := g.ensureBot(ctx, s, cmp.Or(repository, Repository))
			if err != nil {
				return err
			}
			as = pulls.Account{User: a.User, Token: a.Token}
		}
		return do(ctx, pulls.New(s.HostURL, g.creds.User, cmp.Or(repository, Repository), as, g.http))
	})
}

// OpenRequest opens a pull request between branches of a repository, see pulls.Repository.Open. It refuses one that Gitea could never merge.
func (g *Gitea) OpenRequest(ctx context.Context, repository string, p pulls.Proposal, bot bool) (q pulls.Request, opened bool, err error) {
	err = g.Pulls(ctx, repository, "a pull request of "+p.Head, bot, func(ctx context.Context, r *pulls.Repository) error {
		if err := p.Check(); err != nil {
			return err
		}
		s, err := g.running(ctx)
		if err != nil {
			return err
		}
		other := *g
		other.repository = cmp.Or(repository, Repository)
		if err := other.remote(s).Related(ctx, p.Base, p.Head); err != nil {
			return err
		}
		q, opened, err = r.Open(ctx, p)
		return err
	})
	return q, opened, err
}

// Related returns an error unless a branch can be requested to be merged into another: both exist, have a commit in common, and the branch has one that the other lacks.
func (r Remote) Related(ctx context.Context, base, head string) error {
	refs, err := r.list(ctx)
	if err != nil {
		return err
	}
	var branches []string
	for name := range maps.Keys(refs) {
		if short, ok := strings.CutPrefix(name, heads); ok {
			branches = append(branches, short)
		}
	}
	slices.Sort(branches)
	for _, name := range []string{base, head} {
		if refs[heads+name] == "" {
			return &lab.Error{Exit: lab.ExitFailed, Code: "no_branch", Message: "the forge has no branch " + name, Cure: "one of: " + strings.Join(branches, ", ")}
		}
	}
	d, err := r.open(ctx, Tree{}, false)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.see(ctx, base, head); err != nil {
		return err
	}
	roots := map[string]bool{}
	out, err := d.Run(ctx, "rev-list", "--max-parents=0", refs[heads+base])
	if err != nil {
		return err
	}
	for _, root := range strings.Fields(out) {
		roots[root] = true
	}
	if out, err = d.Run(ctx, "rev-list", "--max-parents=0", refs[heads+head]); err != nil {
		return err
	}
	if !slices.ContainsFunc(strings.Fields(out), func(root string) bool { return roots[root] }) {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "unrelated", Message: fmt.Sprintf("branches %s and %s have no commit in common: a pull request could never be merged", head, base),
			Cure: fmt.Sprintf("begin %s at a commit of %s, in a clone of the forge", head, base),
		}
	}
	if d.is(ctx, refs[heads+head], refs[heads+base]) {
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_change", Message: fmt.Sprintf("branch %s has no commit that %s lacks", head, base), Cure: "commit to it first"}
	}
	return nil
}

// see fetches branches.
func (d *depot) see(ctx context.Context, branches ...string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--", d.remote.URL}
	for _, b := range branches {
		args = append(args, "+"+heads+b+":"+seenRefs+"branches/"+b)
	}
	if _, err := d.to().Run(ctx, args...); err != nil {
		return fmt.Errorf("fetch from the forge: %w", err)
	}
	return nil
}

// Propose commits the working tree on top of the estate's branch and pushes that to another branch, for a pull request. Like Push, it discards no commit of others.
func (g *Gitea) Propose(ctx context.Context, tree Tree, branch, message string) (res PushResult, err error) {
	err = g.call(ctx, "a push to branch "+branch, gitLimit, func(ctx context.Context, s State) error {
		r := g.remote(s)
		if err := r.settled(tree); err != nil {
			return err
		}
		res, err = r.Propose(ctx, tree, branch, message)
		return err
	})
	return res, err
}

// ProposeFiles commits changes of files on top of the estate's branch and pushes that to another branch, whatever the working tree has.
func (g *Gitea) ProposeFiles(ctx context.Context, edits map[string]Edit, branch, message string) (res PushResult, err error) {
	err = g.call(ctx, "a push to branch "+branch, gitLimit, func(ctx context.Context, s State) error {
		res, err = g.remote(s).ProposeFiles(ctx, edits, branch, message)
		return err
	})
	return res, err
}

// Edit is a change of an existing file.
type Edit struct{ Before, After []byte }

// ProposeFiles is Propose for files of the branch that engines follow. It is rejected if one is not as before.
func (r Remote) ProposeFiles(ctx context.Context, edits map[string]Edit, branch, message string) (PushResult, error) {
	if err := r.proposable(branch); err != nil {
		return PushResult{}, err
	}
	res, _, err := r.propose(ctx, Tree{}, branch, message, false, func(_ *depot, theirs files) (fs.FS, files, error) {
		from, ours := fstest.MapFS{}, maps.Clone(theirs)
		for name, e := range edits {
			was, there := ours[name]
			if !there || was.Hash != blobHash(e.Before) {
				return nil, nil, changedMeanwhile(name)
			}
			mode := fs.FileMode(0o644)
			if was.Mode == modeExecutable {
				mode = 0o755
			}
			from[name], ours[name] = &fstest.MapFile{Data: e.After, Mode: mode}, entry{blobHash(e.After), was.Mode}
		}
		return from, ours, nil
	})
	return res, err
}

// Propose commits the working tree and pushes that to a branch, never to the one that engines follow. The commit is on top of both. It is rejected if the working tree lacks
// changes of others, and if the branch has commits that lab did not make. Neither the clone nor what counts as pushed changes.
func (r Remote) Propose(ctx context.Context, tree Tree, branch, message string) (PushResult, error) {
	if err := r.proposable(branch); err != nil {
		return PushResult{}, err
	}
	change := func(d *depot, theirs files) (fs.FS, files, error) {
		from := tree.Listed()
		ours, err := read(from)
		if err == nil {
			err = d.safe(ctx, ours, theirs)
		}
		return from, ours, err
	}
	res, lent, err := r.propose(ctx, tree, branch, message, true, change)
	var known *lab.Error
	if err != nil && lent && !errors.As(err, &known) && ctx.Err() == nil { // the clone may be incomplete
		res, _, err = r.propose(ctx, tree, branch, message, false, change)
	}
	return res, err
}

// proposable returns an error unless a branch can be pushed to for a pull request.
func (r Remote) proposable(branch string) error {
	if err := pulls.CheckBranch(branch); err != nil {
		return err
	}
	if heads+branch == r.branch() {
		return &lab.Error{
			Exit: lab.ExitInvalid, Code: "invalid_request", Message: "engines follow branch " + branch + ": a pull request needs another one", Cure: "choose another name",
		}
	}
	return nil
}

// propose pushes what change makes of the files of the engines' branch.
func (r Remote) propose(
	ctx context.Context, tree Tree, branch, message string, lend bool, change func(d *depot, theirs files) (fs.FS, files, error),
) (res PushResult, lent bool, err error) {
	d, err := r.open(ctx, tree, lend)
	if err != nil {
		return res, false, err
	}
	defer d.Close()
	lent = d.lent
	if err := d.fetch(ctx, 0); err != nil {
		return res, lent, err
	}
	if d.head == "" {
		return res, lent, &lab.Error{Exit: lab.ExitFailed, Code: "no_branch", Message: "the forge has no commits yet", Cure: r.up()}
	}
	theirs, err := d.files(ctx, d.head)
	if err != nil {
		return res, lent, err
	}
	from, ours, err := change(d, theirs)
	if err != nil {
		return res, lent, err
	}
	if res.Changed = changed(theirs, ours); len(res.Changed) == 0 {
		return res, lent, &lab.Error{
			Exit: lab.ExitFailed, Code: "no_change", Message: "nothing to propose: the forge has the working tree", Cure: "change a file of the estate",
		}
	}
	was, err := d.proposed(ctx, branch)
	if err != nil {
		return res, lent, err
	}
	root, err := d.store(ctx, from, ours, theirs)
	if err != nil {
		return res, lent, err
	}
	if was != "" {
		if had, err := d.Run(ctx, "rev-parse", "--verify", was+"^{tree}"); err == nil && had == root && d.is(ctx, d.head, was) {
			res.Commit = was
			return res, lent, nil
		}
	}
	if res.Commit = d.tip(ctx, root); res.Commit == "" || was != "" {
		parents := d.parents(ctx)
		if was != "" && !d.is(ctx, was, d.head) {
			parents = append([]string{was}, slices.DeleteFunc(parents, func(p string) bool { return d.is(ctx, p, was) })...)
		}
		if res.Commit, err = d.commit(ctx, root, message, r.Now(), parents); err != nil {
			return res, lent, err
		}
	}
	res.Pushed = true
	return res, lent, d.push(ctx, update{heads + branch, was, res.Commit})
}

// proposed returns the head of a branch, or "" if there is none. It is an error if the branch has commits that lab did not make.
func (d *depot) proposed(ctx context.Context, branch string) (string, error) {
	refs, err := d.remote.list(ctx)
	was := refs[heads+branch]
	if err != nil || was == "" {
		return "", err
	}
	if err := d.see(ctx, branch); err != nil {
		return "", err
	}
	known := []string{d.head}
	if d.shares() {
		known = append(known, d.own)
	}
	commits, err := d.log(ctx, "-c", was, known)
	if err != nil {
		return "", err
	}
	var others []string
	for _, c := range commits {
		if !c.Lab {
			others = append(others, fmt.Sprintf("%s %s (%s)", c.Hash[:7], subject(c.Message), c.Author))
		}
	}
	if len(others) > 0 {
		return "", &lab.Error{
			Exit: lab.ExitFailed, Code: "diverged", Message: "branch " + branch + " of the forge has " + count(len(others), "commit") + " of others", Details: others,
			Cure: "choose another branch, or continue that one in a clone of the forge",
		}
	}
	return was, nil
}

// bot is the user of jobs and scripts.
const bot = "lab-bot"

// Bot ensures an account for jobs and scripts, and returns it. On one repository it may push branches other than the one that engines follow, open pull requests,
// comment, and set statuses. It can neither merge nor change the engines' branch, which a protection rule ensures from then on, nor see other repositories.
func (g *Gitea) Bot(ctx context.Context, repository string) (a Account, err error) {
	err = g.call(ctx, "the bot's account", apiLimit, func(ctx context.Context, s State) error {
		a, err = g.ensureBot(ctx, s, cmp.Or(repository, Repository))
		return err
	})
	return a, err
}

func (g *Gitea) ensureBot(ctx context.Context, s State, repository string) (Account, error) {
	api, err := g.api(ctx, s)
	if err != nil {
		return Account{}, err
	}
	if err := g.ensureAccount(ctx, s, api, bot, "write:repository", "write:issue"); err != nil {
		return Account{}, fmt.Errorf("%s of the forge: %w", bot, err)
	}
	repo, _, err := api.GetRepo(g.creds.User, repository)
	if err != nil {
		return Account{}, fmt.Errorf("repository %s of the forge: %w", repository, err)
	}
	if err := g.guard(api, repository, repo.DefaultBranch); err != nil {
		return Account{}, err
	}
	write := gitea.AccessModeWrite
	if _, err := api.AddCollaborator(g.creds.User, repository, bot, gitea.AddCollaboratorOption{Permission: &write}); err != nil {
		return Account{}, fmt.Errorf("access of %s to repository %s of the forge: %w", bot, repository, err)
	}
	return Account{User: bot, Token: g.tokens.ForgeToken(bot)}, nil
}

// guard lets only the admin and the engines' writer push to a branch, and only the admin merge into it.
func (g *Gitea) guard(api *gitea.Client, repository, branch string) error {
	pushers := []string{g.creds.User}
	if g.tokens.ForgeToken(writer) != "" {
		pushers = append(pushers, writer)
	}
	rules, _, err := api.ListBranchProtections(g.creds.User, repository, gitea.ListBranchProtectionsOptions{})
	if err != nil {
		return fmt.Errorf("protection of repository %s of the forge: %w", repository, err)
	}
	yes := true
	if i := slices.IndexFunc(rules, func(b *gitea.BranchProtection) bool { return b.RuleName == branch }); i >= 0 {
		had := rules[i]
		missing := func(list []string) bool {
			return slices.ContainsFunc(pushers, func(p string) bool { return !slices.Contains(list, p) })
		}
		if had.EnablePush && had.EnablePushWhitelist && had.EnableMergeWhitelist && !missing(had.PushWhitelistUsernames) && !slices.Contains(had.PushWhitelistUsernames, bot) {
			return nil // also what the user added
		}
		_, _, err = api.EditBranchProtection(g.creds.User, repository, branch, gitea.EditBranchProtectionOption{
			EnablePush: &yes, EnablePushWhitelist: &yes, PushWhitelistUsernames: pushers, EnableMergeWhitelist: &yes, MergeWhitelistUsernames: []string{g.creds.User},
		})
	} else {
		_, _, err = api.CreateBranchProtection(g.creds.User, repository, gitea.CreateBranchProtectionOption{
			RuleName: branch, EnablePush: true, EnablePushWhitelist: true, PushWhitelistUsernames: pushers, EnableMergeWhitelist: true, MergeWhitelistUsernames: []string{g.creds.User},
		})
	}
	if err != nil {
		return fmt.Errorf("protection of branch %s of repository %s of the forge: %w", branch, repository, err)
	}
	return nil
}
