package forge

import (
	"context"
	"errors"
	"fmt"

	"homelab/lab"
)

// Mirror is a repository beside the estate, as the forge should hold it.
type Mirror struct {
	Name   string
	Branch string // that is checked out, and that the mirror's default branch is
	Of     string // its address elsewhere, for who looks at the mirror
	Tree   Tree
}

// Mirrored is what the forge holds of a repository.
type Mirrored struct {
	Commit  string   // head of the branch; empty where there is none
	Differs []string // from the working tree and the wanted webhook, in words
}

// of is the forge as it is for another repository than the estate's. Cures name Git's own commands: the repository is its owner's, and lab writes nothing there.
func (g *Gitea) of(m Mirror, s State) *Gitea {
	other := *g
	other.repository, other.branch, other.describes, other.notes = m.Name, m.Branch, "mirror of "+m.Of, nil
	other.say.Pull = fmt.Sprintf("git -C %s pull %s %s", m.Tree.Dir, other.hostURL(s), m.Branch)
	return &other
}

// Mirror makes the repository where it is not there yet, has url told of its pushes, and pushes the working tree; see Push.
func (g *Gitea) Mirror(ctx context.Context, m Mirror, url, secret string) (PushResult, error) {
	s, err := g.running(ctx)
	if err == nil {
		_, err = g.head(ctx, s) // a forge without the estate is not prepared
	}
	if err != nil {
		return PushResult{}, err
	}
	other := g.of(m, s)
	if err := other.prepare(ctx, s); err != nil {
		return PushResult{}, err
	}
	hooked, err := other.EnsureWebhook(ctx, url, secret)
	if err != nil {
		return PushResult{}, err
	}
	res, err := other.Push(ctx, m.Tree, m.Name+": lab up")
	if hooked {
		res.Changed = append(res.Changed, "webhook")
	}
	return res, err
}

// Mirrored looks at what Mirror would change.
func (g *Gitea) Mirrored(ctx context.Context, m Mirror, url, secret string) (Mirrored, error) {
	s, err := g.running(ctx)
	if err != nil {
		return Mirrored{}, err
	}
	other := g.of(m, s)
	head, same, err := other.same(ctx, s, m.Tree)
	if errors.Is(err, errUnprepared) { // the forge, or this repository of it?
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
	has, err := other.HasWebhook(ctx, url, secret)
	if err == nil && !has {
		res.Differs = append(res.Differs, "the webhook of repository "+m.Name+" is gone")
	}
	return res, err
}

// MirrorOf is a mounted repository as the forge should hold it.
func MirrorOf(r lab.Repository) Mirror {
	return Mirror{Name: r.Name, Branch: r.Branch, Of: r.URL, Tree: Tree{FS: r.FS, Dir: r.Path}}
}
