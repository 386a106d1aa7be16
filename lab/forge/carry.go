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
		case ref.Name == r.branch().String() || there && has == ref.Hash:
			continue
		case !there, strings.HasPrefix(ref.Name, "refs/heads/") && clone.Follows(ref.Hash, has):
			c.Missing = append(c.Missing, ref.Name)
			specs = append(specs, ref.From+":"+ref.Name)
		case strings.HasPrefix(ref.Name, "refs/heads/") && clone.Follows(has, ref.Hash): // others continued from there
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

// Carry pushes the missing branches and tags of Carried, without force: a concurrent change is an error. It runs git, which sends any history with little
// memory, and skips the user's hooks.
func (r Remote) Carry(ctx context.Context, tree Tree) (Carried, error) {
	c, specs, err := r.carried(ctx, tree)
	if err != nil || len(specs) == 0 {
		return c, err
	}
	push := gitcommand.Command{
		Dir: tree.Dir, Limit: carryLimit, AsUser: true, Env: r.credentials(),
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

// credentials returns git configuration with the password, passed in the environment, which other users cannot read.
func (r Remote) credentials() []string {
	basic, ok := r.Auth.(*githttp.BasicAuth)
	if !ok {
		return nil
	}
	header := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(basic.Username+":"+basic.Password))
	return []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0=" + header}
}
