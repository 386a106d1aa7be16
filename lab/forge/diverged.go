package forge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"homelab/lab"
)

// Addresses of a story's commits and of their undo, as in lab/scenario/live.
const (
	storyHost = "@scenario.invalid"
	storyLab  = "lab" + storyHost
)

// commit is a commit of the forge.
type commit struct {
	Commit
	email   string
	changed files // what differs from all parents; the zero entry for a removed file
}

// ahead holds the forge's changes that the working tree lacks.
type ahead struct {
	base    string   // newest forge commit that the working tree had; may be empty
	files   files    // of base
	paths   []string // changed by others after base and different in the working tree, sorted
	commits []commit // that changed these paths, newest first
}

// ahead compares the working tree with the forge. Changes of others are those after lab's last push or pull, or after a
// later commit pulled with git, as own, what is checked out, shows.
func (d *depot) ahead(ctx context.Context, h history, own string, ours, theirs files) (ahead, error) {
	if h.head == "" || h.last == h.head {
		return ahead{base: h.head, files: theirs}, nil
	}
	others, err := d.others(ctx, h)
	if err != nil {
		return ahead{}, err
	}
	a := ahead{}
	if a.base, err = d.base(ctx, h, own, others); err != nil {
		return a, err
	}
	if a.files, err = d.files(ctx, a.base); err != nil {
		return a, err
	}
	for _, path := range changed(a.files, theirs) {
		if ours[path] != theirs[path] {
			a.paths = append(a.paths, path)
		}
	}
	a.commits = a.authors(others)
	return a, nil
}

// base returns the newest forge commit that the working tree had.
func (d *depot) base(ctx context.Context, h history, own string, others []commit) (string, error) {
	if own == "" {
		return h.last, nil
	}
	if _, err := d.Run(ctx, "cat-file", "-e", own+"^{commit}"); err != nil { // not pulled, or the clone lacks what is before it
		return h.last, nil
	}
	list := func(args ...string) (map[string]bool, error) {
		out, err := d.Run(ctx, append([]string{"rev-list"}, args...)...)
		found := map[string]bool{}
		for _, hash := range strings.Fields(out) {
			found[hash] = true
		}
		return found, err
	}
	missing, err := list(h.head, "--not", own)
	if err != nil {
		return "", err
	}
	follows := map[string]bool{}
	rewritten := h.last == "" || !d.is(ctx, h.last, h.head) // the branch may have been
	if !rewritten {
		if follows, err = list("--ancestry-path", h.head, "^"+h.last); err != nil {
			return "", err
		}
	}
	for _, c := range others {
		if !missing[c.Hash] && (rewritten || follows[c.Hash]) {
			return c.Hash, nil
		}
	}
	return h.last, nil
}

// authors returns the commits, newest first, that produced the current content of the paths. Reverted ones are left
// out.
func (a ahead) authors(commits []commit) []commit {
	if i := slices.IndexFunc(commits, func(c commit) bool { return c.Hash == a.base }); i >= 0 {
		commits = commits[:i]
	}
	counts := map[string]bool{}
	for _, path := range a.paths {
		for _, c := range left(path, a.files[path], commits) {
			counts[c.Hash] = true
		}
	}
	list := slices.DeleteFunc(slices.Clone(commits), func(c commit) bool { return !counts[c.Hash] })
	if len(list) == 0 && len(a.paths) > 0 {
		return commits
	}
	return list
}

// left returns the commits of a path's history, newest first, without those that led back to its previous content.
func left(path string, before entry, commits []commit) []commit {
	type version struct {
		entry
		by commit
	}
	versions := []version{{entry: before}}
	for _, c := range slices.Backward(commits) {
		now, changed := c.changed[path]
		if !changed {
			continue
		}
		if i := slices.IndexFunc(versions, func(v version) bool { return v.entry == now }); i >= 0 {
			versions = versions[:i+1]
			continue
		}
		versions = append(versions, version{now, c})
	}
	var list []commit
	for _, v := range versions[1:] {
		list = append(list, v.by)
	}
	return withoutStories(list)
}

// withoutStories drops the changes of a story and their undo, even if a file was changed in between and never had its
// old content again.
func withoutStories(commits []commit) []commit {
	back := -1
	for i, c := range commits {
		if c.email == storyLab {
			back = i
		}
	}
	i := 0
	rest := slices.DeleteFunc(slices.Clone(commits), func(c commit) bool {
		i++
		return i-1 <= back && strings.HasSuffix(c.email, storyHost)
	})
	if len(rest) == 0 {
		return commits
	}
	return rest
}

// others returns the forge's commits since lab's last push or pull, newest first.
func (d *depot) others(ctx context.Context, h history) ([]commit, error) {
	var known []string
	if h.last != "" {
		known = append(known, h.last)
	}
	return d.log(ctx, "-c", h.head, known)
}

// log returns the commits of a reference that others do not have, newest first; merges is git's option for what a merge changed.
func (d *depot) log(ctx context.Context, merges, of string, known []string) ([]commit, error) {
	args := []string{"log", "-z", "--format=%H%n%an%n%ae%n%aI%n%B", of}
	for _, hash := range known {
		args = append(args, "^"+hash)
	}
	out, err := d.Run(ctx, append(args, "--")...)
	if err != nil {
		return nil, err
	}
	var list []commit
	var hashes strings.Builder
	for text := range strings.SplitSeq(out, "\x00") {
		fields := strings.SplitN(text, "\n", 5)
		if len(fields) < 5 {
			continue
		}
		when, err := time.Parse(time.RFC3339, fields[3])
		if err != nil {
			return nil, fmt.Errorf("commit %s: %w", fields[0], err)
		}
		list = append(list, commit{
			Commit: Commit{Hash: fields[0], Author: fields[1], When: when, Message: strings.TrimSpace(fields[4]), Lab: fields[2] == authorEmail}, email: fields[2], changed: files{},
		})
		hashes.WriteString(fields[0] + "\n")
	}
	return list, d.changes(ctx, merges, list, hashes.String())
}

// changes adds what the commits changed.
func (d *depot) changes(ctx context.Context, merges string, list []commit, hashes string) error {
	c := d.Command()
	c.Limit, c.Stdin = carryLimit, strings.NewReader(hashes)
	out, err := c.Run(ctx, "diff-tree", "--stdin", "-r", merges, "--root", "--raw", "-z", "--no-renames", "--no-abbrev")
	if err != nil {
		return err
	}
	at := 0
	tokens := strings.Split(out, "\x00")
	for i := 0; i < len(tokens); i++ {
		meta := strings.TrimLeft(tokens[i], ":")
		parents := len(tokens[i]) - len(meta)
		if parents == 0 { // a commit
			for at < len(list) && list[at].Hash != strings.TrimSpace(meta) {
				at++
			}
			continue
		}
		i++
		fields := strings.Fields(meta) // the modes in the parents, the mode, the hashes alike, the status
		if at == len(list) || i == len(tokens) || len(fields) < 2*parents+2 {
			return errors.New("git diff-tree: unknown output")
		}
		now := entry{Mode: fields[parents], Hash: fields[2*parents+1]}
		if now.Mode == "000000" {
			now = entry{}
		}
		list[at].changed[tokens[i]] = now
	}
	return nil
}

// safe rejects a push that would revert commits of others.
func (d *depot) safe(ctx context.Context, ours, theirs files) error {
	a, err := d.ahead(ctx, d.history, d.own, ours, theirs)
	if err != nil || len(a.paths) == 0 {
		return err
	}
	return d.remote.diverged(a.commits, a.paths)
}

func (r Remote) diverged(commits []commit, lost []string) error {
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "diverged", Cure: r.cure(),
		Message: fmt.Sprintf("the forge has %s that the working tree lacks", count(len(commits), "commit")),
	}
	const most = 10
	for i, c := range commits {
		if i == most {
			e.Details = append(e.Details, fmt.Sprintf("and %d more", len(commits)-most))
			break
		}
		e.Details = append(e.Details, fmt.Sprintf("%s %s (%s)", c.Hash[:7], subject(c.Message), c.Author))
	}
	for i, path := range lost {
		if i == most {
			e.Details = append(e.Details, fmt.Sprintf("and %s more", count(len(lost)-most, "file")))
			break
		}
		e.Details = append(e.Details, "  "+path)
	}
	return e
}

func subject(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	return line
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// Ahead returns the commits of others that the working tree lacks, newest first: a push would be rejected because of
// them. Without any, it takes one small request.
func (r Remote) Ahead(ctx context.Context, tree Tree) ([]Commit, error) {
	refs, err := r.list(ctx)
	if err != nil || refs[r.branch()] == refs[lastRef] {
		return nil, err
	}
	commits, lent, err := r.ahead(ctx, tree, true)
	if err != nil && lent && ctx.Err() == nil { // the clone may be incomplete
		commits, _, err = r.ahead(ctx, tree, false)
	}
	return commits, err
}

func (r Remote) ahead(ctx context.Context, tree Tree, lend bool) (list []Commit, lent bool, err error) {
	ours, err := tree.read()
	if err != nil {
		return nil, false, err
	}
	d, err := r.open(ctx, tree, lend)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	if err := d.fetch(ctx, 0); err != nil {
		return nil, d.lent, err
	}
	theirs, err := d.files(ctx, d.head)
	if err != nil {
		return nil, d.lent, err
	}
	a, err := d.ahead(ctx, d.history, d.own, ours, theirs)
	return summaries(a.commits), d.lent, err
}

func summaries(commits []commit) []Commit {
	var list []Commit
	for _, c := range commits {
		list = append(list, c.Commit)
	}
	return list
}
