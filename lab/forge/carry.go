package forge

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/memory"

	"homelab/lab/gitcommand"
	"homelab/lab/gitfiles"
)

// carryLimit bounds the push of a clone's other branches and tags.
const carryLimit = 10 * time.Minute

// Carried is what a mirror has of a clone's branches and tags beside the one that is checked out.
type Carried struct {
	Missing []string // to be pushed: refs/heads/NAME, refs/tags/NAME
	Kept    []string // as the forge has them, which others moved
}

// Carried compares the clone's branches and tags with the mirror's. A tag that differs, and a branch with commits that the clone lacks, stay as the forge has them.
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
		return c, nil, nil //nolint:nilerr // the estate reads none of its revisions either, and says so
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
		case ref.Name == r.branch().String() || there && has == ref.Hash:
			continue
		case !there, strings.HasPrefix(ref.Name, "refs/heads/") && clone.Follows(ref.Hash, has):
			c.Missing = append(c.Missing, ref.Name)
			specs = append(specs, ref.From+":"+ref.Name)
		case strings.HasPrefix(ref.Name, "refs/heads/") && clone.Follows(has, ref.Hash): // others went on from there
		default:
			c.Kept = append(c.Kept, ref.Name)
		}
	}
	return c, specs, nil
}

// list returns the forge's references.
func (r Remote) list(ctx context.Context) (map[string]string, error) {
	refs, err := r.at(memory.NewStorage()).ListContext(ctx, &git.ListOptions{Auth: r.Auth})
	if err != nil && !errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return nil, fmt.Errorf("branches and tags of the forge: %w", err)
	}
	found := map[string]string{}
	for _, ref := range refs {
		if ref.Type() == plumbing.HashReference {
			found[ref.Name().String()] = ref.Hash().String()
		}
	}
	return found, nil
}

// Carry pushes what Carried says is missing. It never forces: what somebody else moves meanwhile is an error. The git command does it, as it sends any history
// in little memory; without hooks, which are for pushes of the user's own.
func (r Remote) Carry(ctx context.Context, tree Tree) (Carried, error) {
	c, specs, err := r.carried(ctx, tree)
	if err != nil || len(specs) == 0 {
		return c, err
	}
	push := gitcommand.Command{
		Dir: tree.Dir, Limit: carryLimit, Env: r.credentials(),
		Config: []string{"http.proxy=", "credential.helper=", "push.recurseSubmodules=no", "push.followTags=false", "gc.auto=0", "safe.directory=" + tree.Dir},
	}
	args := append([]string{"push", "--quiet", "--no-verify", "--no-signed", r.URL}, specs...)
	_, err = push.Run(ctx, args...)
	if locked(err) && r.Unlock != nil {
		removed, unlockErr := r.Unlock(ctx)
		if err = errors.Join(err, unlockErr); removed {
			_, err = push.Run(ctx, args...)
		}
	}
	if err != nil {
		return c, fmt.Errorf("push branches and tags of %s to the forge: %w", tree.Dir, err)
	}
	return c, nil
}

// credentials passes the password to git by the environment, which is its user's alone.
func (r Remote) credentials() []string {
	basic, ok := r.Auth.(*githttp.BasicAuth)
	if !ok {
		return nil
	}
	header := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(basic.Username+":"+basic.Password))
	return []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0=" + header}
}
