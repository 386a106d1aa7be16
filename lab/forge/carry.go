package forge

import (
	"context"
	"fmt"
	"strings"

	"homelab/lab/gitfiles"
)

// Carried compares a clone's branches and tags, except the checked-out branch, with its mirror's.
type Carried struct {
	Missing []string // to be pushed: refs/heads/NAME, refs/tags/NAME
	Kept    []string // moved by others, left as in the forge
}

// Carried compares the clone's branches and tags with the mirror's. Different tags, and branches with commits that the clone lacks, are kept.
func (r Remote) Carried(ctx context.Context, tree Tree) (Carried, error) {
	c, _, err := r.carried(ctx, tree)
	return c, err
}

func (r Remote) carried(ctx context.Context, tree Tree) (c Carried, specs []string, err error) {
	if tree.Dir == "" {
		return c, nil, nil
	}
	clone, err := gitfiles.Open(tree.Dir)
	if err != nil {
		return c, nil, nil //nolint:nilerr // the estate reports it when it reads a revision
	}
	refs, err := clone.References()
	if err != nil {
		return c, nil, fmt.Errorf("branches and tags of %s: %w", tree.Dir, err)
	}
	theirs, err := r.list(ctx)
	if err != nil {
		return c, nil, err
	}
	for _, ref := range refs {
		has, there := theirs[ref.Name]
		switch {
		case ref.Name == r.branch() || there && has == ref.Hash:
			continue
		case !there, strings.HasPrefix(ref.Name, "refs/heads/") && clone.Follows(ref.Hash, has):
			c.Missing = append(c.Missing, ref.Name)
			specs = append(specs, ref.Hash+":"+ref.Name)
		case strings.HasPrefix(ref.Name, "refs/heads/") && clone.Follows(has, ref.Hash): // others continued from there
		default:
			c.Kept = append(c.Kept, ref.Name)
		}
	}
	return c, specs, nil
}

// Carry pushes the missing branches and tags of Carried, without force: a concurrent change is an error.
func (r Remote) Carry(ctx context.Context, tree Tree) (Carried, error) {
	c, specs, err := r.carried(ctx, tree)
	if err != nil || len(specs) == 0 {
		return c, err
	}
	d, err := r.open(ctx, tree, true)
	if err != nil {
		return c, err
	}
	defer d.Close()
	err = d.unlocked(ctx, append([]string{"push", "--quiet", "--no-verify", "--no-signed", "--", r.URL}, specs...)...)
	if err != nil {
		return c, fmt.Errorf("push branches and tags of %s to the forge: %w", tree.Dir, err)
	}
	return c, nil
}
