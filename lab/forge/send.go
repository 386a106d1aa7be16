package forge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
)

// maxSend limits the bytes of objects in a push, which are held in memory.
const maxSend = 256 << 20

// send updates branch and lastRef, unless they moved since they were seen. go-git's Push is not used: it reads the
// whole history each time, and hangs if an object is unreadable while it sends.
func (r Remote) send(ctx context.Context, store storer.EncodedObjectStorer, seen history, commit plumbing.Hash) error {
	pack, err := packed(ctx, store, seen, commit)
	if err != nil {
		return err
	}
	update := func(name plumbing.ReferenceName, was *object.Commit) *packp.Command {
		c := &packp.Command{Name: name, New: commit}
		if was != nil {
			c.Old = was.Hash
		}
		return c
	}
	commands := []*packp.Command{update(r.branch(), seen.head)}
	if seen.last == nil || seen.last.Hash != commit {
		commands = append(commands, update(lastRef, seen.last))
	}
	return r.update(ctx, pack, commands...)
}

// remember updates lastRef to a commit of the forge that the working tree now has.
func (r Remote) remember(ctx context.Context, seen history, commit plumbing.Hash) error {
	c := &packp.Command{Name: lastRef, New: commit}
	if seen.last != nil {
		if seen.last.Hash == commit {
			return nil
		}
		c.Old = seen.last.Hash
	}
	pack, err := encode(nil, nil)
	if err != nil {
		return err
	}
	return r.update(ctx, pack, c)
}

// update updates references atomically. It removes reference locks of a killed git.
func (r Remote) update(ctx context.Context, pack []byte, commands ...*packp.Command) error {
	err := r.tryUpdate(ctx, pack, commands)
	if locked(err) && r.Unlock != nil {
		removed, unlockErr := r.Unlock(ctx)
		if err = errors.Join(err, unlockErr); removed {
			err = r.tryUpdate(ctx, pack, commands)
		}
	}
	if err != nil {
		return fmt.Errorf("push to the forge: %w", err)
	}
	return nil
}

// locked reports whether the server may have failed to lock a reference. All transaction failures have the same message.
func locked(err error) bool {
	return err != nil && slices.ContainsFunc([]string{"atomic transaction failed", "cannot lock ref", "failed to update ref"}, func(text string) bool {
		return strings.Contains(err.Error(), text)
	})
}

func (r Remote) tryUpdate(ctx context.Context, pack []byte, commands []*packp.Command) (err error) {
	endpoint, err := transport.NewEndpoint(r.URL)
	if err != nil {
		return err
	}
	c, err := client.NewClient(endpoint)
	if err != nil {
		return err
	}
	session, err := c.NewReceivePackSession(endpoint, r.Auth)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return err
	}
	req := packp.NewReferenceUpdateRequestFromCapabilities(refs.Capabilities)
	if refs.Capabilities.Supports(capability.Atomic) {
		if err := req.Capabilities.Set(capability.Atomic); err != nil {
			return err
		}
	}
	req.Commands, req.Packfile = commands, io.NopCloser(bytes.NewReader(pack))
	report, err := session.ReceivePack(ctx, req)
	if err != nil || report == nil {
		return err
	}
	return report.Error()
}

// packed returns a packfile of the commit's objects that the forge lacks.
func packed(ctx context.Context, store storer.EncodedObjectStorer, seen history, commit plumbing.Hash) ([]byte, error) {
	there := map[plumbing.Hash]bool{}
	for _, c := range []*object.Commit{seen.head, seen.last} {
		if c == nil || there[c.Hash] {
			continue
		}
		known := object.NewCommitPreorderIter(c, there, nil)
		if err := known.ForEach(func(c *object.Commit) error { there[c.Hash] = true; return ctx.Err() }); err != nil {
			return nil, err
		}
	}
	p := &packing{store: store, there: there}
	for _, c := range []*object.Commit{seen.head, seen.last} {
		if c == nil {
			continue
		}
		if err := p.tree(c.TreeHash, false); err != nil {
			return nil, err
		}
	}
	tip, err := object.GetCommit(store, commit)
	if err != nil {
		return nil, err
	}
	if !there[commit] {
		err = object.NewCommitPreorderIter(tip, there, nil).ForEach(func(c *object.Commit) error {
			if err := p.add(c.Hash); err != nil {
				return err
			}
			return errors.Join(p.tree(c.TreeHash, true), ctx.Err())
		})
	}
	if err != nil {
		return nil, err
	}
	return encode(store, p.list)
}

func encode(store storer.EncodedObjectStorer, list []plumbing.Hash) ([]byte, error) {
	if store == nil {
		store = newStore(nil)
	}
	var b bytes.Buffer
	_, err := packfile.NewEncoder(&b, store, false).Encode(list, 0) // no deltas: the network is local
	return b.Bytes(), err
}

// packing collects the objects to send.
type packing struct {
	store storer.EncodedObjectStorer
	there map[plumbing.Hash]bool // in the forge, or in list
	list  []plumbing.Hash
	size  int64
}

func (p *packing) add(h plumbing.Hash) error {
	size, err := p.store.EncodedObjectSize(h)
	if err != nil {
		return err
	}
	if p.size += size; p.size > maxSend {
		return errors.New("too much to send in one push")
	}
	p.there[h] = true
	p.list = append(p.list, h)
	return nil
}

// tree adds a tree recursively; without send, it is only marked as known to the forge.
func (p *packing) tree(h plumbing.Hash, send bool) error {
	if p.there[h] {
		return nil
	}
	t, err := object.GetTree(p.store, h)
	if err != nil {
		return err
	}
	p.there[h] = true
	if send {
		if err := p.add(h); err != nil {
			return err
		}
	}
	for _, e := range t.Entries {
		switch {
		case e.Mode == filemode.Submodule || p.there[e.Hash]:
		case e.Mode == filemode.Dir:
			if err := p.tree(e.Hash, send); err != nil {
				return err
			}
		case send:
			if err := p.add(e.Hash); err != nil {
				return err
			}
		default:
			p.there[e.Hash] = true
		}
	}
	return nil
}
