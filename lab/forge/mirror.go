package forge

import (
	"cmp"
	"context"
	"errors"

	"homelab/lab"
)

// Mirror is a repository outside the estate, mirrored in the forge.
type Mirror struct {
	Name   string
	Branch string // checked-out branch, the mirror's default
	Of     string // upstream address, for its description
	Tree   Tree
}

// Mirrored is the observed state of a mirror.
type Mirrored struct {
	Commit  string   // head of the branch; may be empty
	Differs []string // differences to the working tree and the webhook, for users
}

// of returns the forge for a mirror. Cures name plain git commands: lab does not write to the user's repository.
func (g *Gitea) of(m Mirror) *Gitea {
	other := *g
	other.repository, other.branch, other.describes, other.notes = m.Name, m.Branch, "mirror of "+m.Of, nil
	url := cmp.Or(g.commands.URL, "lab git url --credentials") + " " + lab.Quote(m.Name)
	other.commands.Pull = lab.Quote("git", "-C", m.Tree.Dir, "pull") + ` "$(` + url + `)" ` + lab.Quote(m.Branch)
	return &other
}

// Mirror creates the repository if missing, ensures its webhook, and pushes the working tree, see Push, and the clone's other branches and tags, see Carry.
func (g *Gitea) Mirror(ctx context.Context, m Mirror, url, secret string, also ...string) (res PushResult, err error) {
	err = g.call(ctx, "the mirror of "+m.Name, gitLimit, func(ctx context.Context, s State) error {
		if _, err := g.head(ctx, s); err != nil { // without the estate, the forge is not prepared
			return err
		}
		res, err = g.of(m).mirror(ctx, s, m, secret, marked(secret, url, also))
		return err
	})
	return res, err
}

func (g *Gitea) mirror(ctx context.Context, s State, m Mirror, secret string, hooks []string) (PushResult, error) {
	if err := errors.Join(g.prepare(ctx, s), g.admit(ctx, s)); err != nil {
		return PushResult{}, err
	}
	head, err := g.head(ctx, s)
	if err != nil {
		return PushResult{}, err
	}
	// A new repository has no readers yet, and its webhook would be called for every tag.
	fresh, hooked := head.commit == "", false
	if !fresh {
		if hooked, err = g.ensureWebhook(ctx, s, secret, hooks); err != nil {
			return PushResult{}, err
		}
	}
	res, err := g.push(ctx, s, m.Tree, m.Name+": lab up")
	if err != nil {
		return res, err
	}
	if err := res.carry(ctx, g.remote(s), m.Tree); err != nil {
		return res, err
	}
	if fresh {
		if hooked, err = g.ensureWebhook(ctx, s, secret, hooks); err != nil {
			return res, err
		}
	}
	if hooked {
		res.Changed = append(res.Changed, "webhook")
	}
	return res, nil
}

// carry adds the branches and tags that are not checked out.
func (res *PushResult) carry(ctx context.Context, r Remote, tree Tree) error {
	carried, err := r.Carry(ctx, tree)
	res.Changed, res.Kept = append(res.Changed, carried.Missing...), carried.Kept
	return err
}

// Mirrored returns what Mirror would change.
func (g *Gitea) Mirrored(ctx context.Context, m Mirror, url, secret string, also ...string) (res Mirrored, err error) {
	err = g.call(ctx, "the state of mirror "+m.Name, gitLimit, func(ctx context.Context, s State) error {
		res, err = g.mirrored(ctx, s, m, marked(secret, url, also))
		return err
	})
	return res, err
}

func (g *Gitea) mirrored(ctx context.Context, s State, m Mirror, hooks []string) (Mirrored, error) {
	other := g.of(m)
	head, same, err := other.same(ctx, s, m.Tree)
	if errors.Is(err, errUnprepared) { // the forge, or only this repository?
		if _, err := g.head(ctx, s); err != nil {
			return Mirrored{}, err
		}
		return Mirrored{Differs: []string{"repository " + m.Name + " is not in the forge"}}, nil
	}
	res := Mirrored{Commit: head.commit}
	if err == nil && !same {
		var paths []string
		paths, err = other.remote(s).Diff(ctx, m.Tree)
		for _, p := range paths {
			res.Differs = append(res.Differs, m.Name+"/"+p)
		}
	}
	if err != nil {
		return res, err
	}
	carried, err := other.remote(s).Carried(ctx, m.Tree)
	if err != nil {
		return res, err
	}
	for _, ref := range carried.Missing {
		res.Differs = append(res.Differs, m.Name+"/"+ref)
	}
	has, err := other.hooked(ctx, s, hooks)
	if err == nil && !has {
		res.Differs = append(res.Differs, "the webhook of repository "+m.Name+" is gone")
	}
	admits := true
	if err == nil {
		admits, err = other.admits(ctx, s)
	}
	if !admits {
		res.Differs = append(res.Differs, "repository "+m.Name+" is not restricted to the engine")
	}
	return res, err
}

// MirrorOf returns the mirror of a mounted repository.
func MirrorOf(r lab.Repository) Mirror {
	return Mirror{Name: r.Name, Branch: r.Branch, Of: r.URL, Tree: Tree{FS: r.FS, Dir: r.Path}}
}
