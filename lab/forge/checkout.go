package forge

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/object"

	"homelab/lab"
	"homelab/lab/gitcommand"
)

// checkout is the user's Git repository around the estate. It runs the git command, so that the user's identity,
// filters and settings apply. A pull is committed to it unless there is a reason not to.
type checkout struct {
	dir    string // of the estate; empty outside a repository
	top    bool   // the estate is the repository's root
	branch string // full name
	head   string
	reason string // why nothing is committed
	next   string // suggested command
}

// openCheckout finds the repository. It is read-only.
func openCheckout(ctx context.Context, tree Tree) *checkout {
	top := tree.repository()
	if top == "" {
		return &checkout{}
	}
	c := &checkout{dir: tree.Dir, top: top == tree.Dir}
	if _, err := exec.LookPath("git"); err != nil {
		c.refuse("git is not on PATH", "")
		return c
	}
	for name, doing := range map[string]string{
		"rebase-merge": "a rebase", "rebase-apply": "a rebase", "MERGE_HEAD": "a merge", "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert",
	} {
		file, err := c.git(ctx, nil, nil, "rev-parse", "--git-path", name)
		if err != nil {
			c.refuse(err.Error(), "")
			return c
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(c.dir, file)
		}
		if _, err := os.Lstat(file); err == nil {
			c.refuse(doing+" is in progress", "git status")
			return c
		}
	}
	var err error
	if c.branch, err = c.git(ctx, nil, nil, "symbolic-ref", "--quiet", "HEAD"); err != nil {
		c.refuse("no branch is checked out", "git switch BRANCH")
		return c
	}
	if c.head, err = c.git(ctx, nil, nil, "rev-parse", "--quiet", "--verify", "HEAD^{commit}"); err != nil {
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

// git runs git in the estate's folder and returns its output without the final newline.
func (c *checkout) git(ctx context.Context, env []string, stdin []byte, args ...string) (string, error) {
	return gitcommand.Command{Dir: c.dir, Limit: time.Minute, Env: env, Stdin: bytes.NewReader(stdin), AsUser: true, Config: []string{"gc.auto=0", "maintenance.auto=false", "http.proxy="}}.Run(ctx, args...)
}

// dirty marks changes to files with uncommitted changes.
func (c *checkout) dirty(ctx context.Context, changes []change) error {
	if c.dir == "" || c.reason != "" {
		return nil
	}
	prefix, err := c.git(ctx, nil, nil, "rev-parse", "--show-prefix")
	if err != nil {
		return err
	}
	out, err := c.git(ctx, []string{"GIT_OPTIONAL_LOCKS=0"}, nil, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", ".")
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
func (c *checkout) commit(ctx context.Context, url string, p *pull) string {
	if c.dir == "" || c.reason != "" {
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
	commit, err := c.record(ctx, url, p, paths)
	if err != nil {
		c.refuse(err.Error(), "git commit")
	}
	return commit
}

func (c *checkout) record(ctx context.Context, url string, p *pull, paths []string) (string, error) {
	parents := []string{"-p", c.head}
	if c.top {
		if err := c.fetch(ctx, url, p.Head); err != nil {
			return "", err
		}
		if _, err := c.git(ctx, nil, nil, "merge-base", "--is-ancestor", p.Head, c.head); err == nil {
			return c.head, nil // committed by an interrupted run
		}
		parents = append(parents, "-p", p.Head)
	}
	dir, err := os.MkdirTemp("", "lab-pull-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	list := []byte(strings.Join(paths, "\x00") + "\x00")
	index := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	update := []string{"update-index", "--add", "--remove", "--replace", "-z", "--stdin"}
	if _, err := c.git(ctx, index, nil, "read-tree", c.head); err != nil {
		return "", err
	}
	if _, err := c.git(ctx, index, list, update...); err != nil {
		return "", err
	}
	tree, err := c.git(ctx, index, nil, "write-tree")
	if err != nil {
		return "", err
	}
	if was, err := c.git(ctx, nil, nil, "rev-parse", c.head+"^{tree}"); err != nil || was == tree {
		return c.head, err
	}
	author, message := signed(p.commits)
	commit, err := c.git(ctx, author, []byte(message), append([]string{"commit-tree", tree, "-F", "-"}, parents...)...)
	if err != nil {
		return "", err
	}
	// Update the index first: a run killed in between leaves what looks like a staged commit.
	if _, err := c.git(ctx, nil, list, update...); err != nil {
		return "", err
	}
	_, err = c.git(ctx, nil, nil, "update-ref", "-m", "lab git pull", c.branch, commit, c.head)
	return commit, err
}

// fetch fetches the forge's commit without a ref.
func (c *checkout) fetch(ctx context.Context, url, commit string) error {
	if _, err := c.git(ctx, nil, nil, "cat-file", "-e", commit+"^{commit}"); err == nil {
		return nil
	}
	_, err := c.git(ctx, nil, nil, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", url, string(branchRef))
	return err
}

// signed returns author and message: those of a single pulled commit, else lab's with a list of the commits.
func signed(commits []*object.Commit) (env []string, message string) {
	if len(commits) == 1 {
		by := commits[0].Author
		return []string{"GIT_AUTHOR_NAME=" + by.Name, "GIT_AUTHOR_EMAIL=" + by.Email, "GIT_AUTHOR_DATE=" + by.When.Format(time.RFC3339)}, commits[0].Message
	}
	var b strings.Builder
	fmt.Fprintf(&b, "pull %s from the forge\n\n", count(len(commits), "commit"))
	for _, c := range commits {
		fmt.Fprintf(&b, "%s: %s\n", c.Author.Name, subject(c.Message))
	}
	return nil, b.String()
}
