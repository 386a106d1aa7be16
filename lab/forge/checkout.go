package forge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/gitcommand"
	"homelab/lab/regular"
)

// checkout is the user's Git repository around the estate. A pull is committed to it unless there is a reason not to. Neither its hooks nor its filters run.
type checkout struct {
	clone  *gitcommand.Clone // nil outside a repository
	dir    string            // of the estate
	branch string            // full name
	head   string
	reason string // why nothing is committed
	next   string // suggested command
}

// openCheckout finds the repository. It is read-only.
func openCheckout(ctx context.Context, tree Tree) *checkout {
	c := &checkout{dir: tree.Dir}
	var err error
	if c.clone, err = tree.repository(ctx); err != nil {
		c.refuse(err.Error(), "git status")
	}
	if c.clone == nil {
		return c
	}
	for name, doing := range map[string]string{
		"rebase-merge": "a rebase", "rebase-apply": "a rebase", "MERGE_HEAD": "a merge", "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert",
	} {
		if _, err := os.Lstat(filepath.Join(c.clone.GitDir, name)); err == nil {
			c.refuse(doing+" is in progress", "git status")
			return c
		}
	}
	if c.branch, err = c.clone.References(ctx, "symbolic-ref", "--quiet", "HEAD"); err != nil {
		c.refuse("no branch is checked out", "git switch BRANCH")
		return c
	}
	if c.head = c.clone.Head(ctx); c.head == "" {
		c.refuse("the branch has no commit yet", "git commit")
	}
	return c
}

// refuse records the first reason not to commit.
func (c *checkout) refuse(reason, next string) {
	if c.reason == "" {
		c.reason, c.next = reason, next
	}
}

// dirty marks changes to files with uncommitted changes.
func (c *checkout) dirty(ctx context.Context, changes []change) error {
	if c.clone == nil || c.reason != "" {
		return nil
	}
	repo, err := c.repository(ctx)
	if err != nil {
		return err
	}
	defer repo.Close()
	index, err := regular.Read(c.clone.Index(), 0)
	if err != nil {
		return err
	}
	copied := filepath.Join(repo.Dir, "index")
	if err := os.WriteFile(copied, index, 0o600); err != nil {
		return err
	}
	prefix, err := repo.In(c.dir, copied).Run(ctx, "rev-parse", "--show-prefix")
	if err != nil {
		return err
	}
	out, err := repo.In(c.dir, copied).Run(ctx, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", ".")
	if err != nil {
		return err
	}
	touched := map[string]bool{}
	for line := range strings.SplitSeq(out, "\x00") {
		const code = len("XY ")
		if len(line) > code {
			touched[strings.TrimPrefix(line[code:], prefix)] = true
		}
	}
	for i, ch := range changes {
		if !ch.done {
			changes[i].Dirty = touched[ch.Path]
		}
	}
	return nil
}

// commit commits only the pulled files, through a temporary index. It returns the commit, or "" with a reason set.
func (c *checkout) commit(ctx context.Context, d *depot, p *pull) string {
	if c.clone == nil || c.reason != "" {
		return ""
	}
	var paths []string
	for _, ch := range p.Changes {
		switch {
		case ch.Did == Conflict:
			c.refuse("there are conflicts", "edit the files, then git commit")
		case ch.Did == Kept:
			continue
		case ch.Dirty:
			c.refuse(ch.Path+" has uncommitted changes", "git add "+lab.Quote(ch.Path)+" && git commit")
		}
		paths = append(paths, ch.Path)
	}
	if c.reason != "" || len(paths) == 0 {
		return ""
	}
	commit, err := c.record(ctx, d, p, paths)
	if err != nil {
		c.refuse(err.Error(), "git commit")
	}
	return commit
}

// repository returns a depot whose HEAD is the clone's, and whose objects are the clone's own.
func (c *checkout) repository(ctx context.Context) (*gitcommand.Repository, error) {
	repo, err := gitcommand.New(ctx, c.clone)
	if err != nil {
		return nil, err
	}
	if err = repo.Lend(); err == nil {
		err = os.WriteFile(filepath.Join(repo.Dir, "HEAD"), []byte(c.head+"\n"), 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, repo.Close())
	}
	return repo, nil
}

func (c *checkout) record(ctx context.Context, d *depot, p *pull, paths []string) (string, error) {
	repo, err := c.repository(ctx)
	if err != nil {
		return "", err
	}
	defer repo.Close()
	// New objects are the clone's.
	run := func(git gitcommand.Command, stdin string, args ...string) (string, error) {
		git.Env = append(git.Env, "GIT_OBJECT_DIRECTORY="+filepath.Join(c.clone.Common, "objects"))
		git.Stdin = strings.NewReader(stdin)
		return git.Run(ctx, args...)
	}
	parents := []string{"-p", c.head}
	if d.root {
		if err := c.fetch(ctx, repo, d.remote, p.Head, run); err != nil {
			return "", err
		}
		if _, err := run(repo.Command(), "", "merge-base", "--is-ancestor", p.Head, c.head); err == nil {
			return c.head, nil // committed by an interrupted run
		}
		parents = append(parents, "-p", p.Head)
	}
	list := strings.Join(paths, "\x00") + "\x00"
	own, theirs := repo.In(c.dir, filepath.Join(repo.Dir, "index")), repo.In(c.dir, c.clone.Index())
	if filtered, err := run(theirs, list, "check-attr", "-z", "--stdin", "filter"); err != nil || hasFilter(filtered) {
		return "", errors.Join(err, errors.New("a file has a Git filter, which lab does not run"))
	}
	update := []string{"update-index", "--add", "--remove", "--replace", "-z", "--stdin"}
	if _, err := run(own, "", "read-tree", c.head); err != nil {
		return "", err
	}
	if _, err := run(own, list, update...); err != nil {
		return "", err
	}
	tree, err := run(own, "", "write-tree")
	if err != nil {
		return "", err
	}
	if was, err := run(own, "", "rev-parse", c.head+"^{tree}"); err != nil || was == tree {
		return c.head, err
	}
	author, message := signed(p.commits)
	signing := repo.Command()
	signing.Env = append(signing.Env, author...)
	for _, key := range []string{"user.name", "user.email", "user.useconfigonly", "author.name", "author.email", "committer.name", "committer.email"} {
		if value := c.clone.Setting(key); value != "" {
			signing.Config = append(signing.Config, key+"="+value)
		}
	}
	commit, err := run(signing, message, append([]string{"commit-tree", tree, "-F", "-"}, parents...)...)
	if err != nil {
		return "", err
	}
	// Update the index first: a run killed in between leaves what looks like a staged commit.
	if _, err := run(theirs, list, update...); err != nil {
		return "", err
	}
	_, err = c.clone.References(ctx, "update-ref", "-m", "lab git pull", c.branch, commit, c.head)
	return commit, err
}

// hasFilter reports whether git check-attr names a driver.
func hasFilter(out string) bool {
	fields := strings.Split(out, "\x00")
	for i := 2; i < len(fields); i += 3 { // path, attribute, value
		if fields[i] != "unspecified" && fields[i] != "unset" {
			return true
		}
	}
	return false
}

// fetch fetches the forge's commit into the clone, without a ref.
func (c *checkout) fetch(ctx context.Context, repo *gitcommand.Repository, from Remote, commit string, run func(gitcommand.Command, string, ...string) (string, error)) error {
	if _, err := run(repo.Command(), "", "cat-file", "-e", commit+"^{commit}"); err == nil {
		return nil
	}
	git := repo.Command()
	git.Limit, git.Remote = carryLimit, from.remote()
	_, err := run(git, "", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--", from.URL, from.branch())
	return err
}

// signed returns author and message: those of a single pulled commit, else lab's with a list of the commits.
func signed(commits []commit) (env []string, message string) {
	if len(commits) == 1 {
		by := commits[0]
		return []string{"GIT_AUTHOR_NAME=" + by.Author, "GIT_AUTHOR_EMAIL=" + by.email, "GIT_AUTHOR_DATE=" + by.When.Format(time.RFC3339)}, by.Message
	}
	var b strings.Builder
	fmt.Fprintf(&b, "pull %s from the forge\n\n", count(len(commits), "commit"))
	for _, c := range commits {
		fmt.Fprintf(&b, "%s: %s\n", c.Author, subject(c.Message))
	}
	return nil, b.String()
}
