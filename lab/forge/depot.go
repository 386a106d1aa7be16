package forge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"homelab/lab/gitcommand"
)

const (
	// carryLimit bounds a transfer of any history.
	carryLimit = 10 * time.Minute
	// seenRefs is where a depot has the forge's references.
	seenRefs = "refs/forge/"
)

// history holds the commits of the forge; empty if missing.
type history struct {
	head string
	last string // last commit pushed or pulled by lab
}

// depot is lab's own repository during one call. It has what was fetched from the forge, and reads the objects of the estate's repository.
type depot struct {
	*gitcommand.Repository
	history

	remote Remote
	own    string // the commit that is checked out in the estate's repository; may be empty
	root   bool   // the estate is the root of that repository
	lent   bool   // its objects are here
}

// open returns a depot. With lend, it has the objects of the estate's repository, unless that is shallow.
func (r Remote) open(ctx context.Context, tree Tree, lend bool) (*depot, error) {
	clone, err := tree.repository(ctx)
	if err != nil {
		return nil, err
	}
	repo, err := gitcommand.New(ctx, clone)
	if err != nil {
		return nil, err
	}
	d := &depot{Repository: repo, remote: r}
	if clone == nil {
		return d, nil
	}
	d.own, d.root = clone.Head(ctx), resolved(clone.Top) == resolved(tree.Dir)
	if lend && !clone.Shallow() {
		d.lent, err = true, repo.Lend()
	}
	if err != nil {
		err = errors.Join(err, repo.Close())
	}
	return d, err
}

// to returns a run of git that reaches the forge.
func (d *depot) to() gitcommand.Command {
	c := d.Command()
	c.Limit, c.Remote = carryLimit, d.remote.remote()
	return c
}

// fetch fetches what the depot lacks; depth is the number of commits, 0 for all.
func (d *depot) fetch(ctx context.Context, depth int) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"}
	if depth > 0 {
		if head, err := d.remote.head(ctx); err != nil || head == "" { // an empty error if the repository is empty
			return err
		}
		args = append(args, "--depth="+strconv.Itoa(depth))
	}
	// Patterns: a plain name would be an error if lab never pushed.
	args = append(args, "--", d.remote.URL, "+"+d.remote.branch()+"*:"+seenRefs+"heads*", "+refs/lab/*:"+seenRefs+"lab/*")
	if _, err := d.to().Run(ctx, args...); err != nil {
		return fmt.Errorf("fetch from the forge: %w", err)
	}
	out, err := d.Run(ctx, "for-each-ref", "--format=%(refname) %(objectname)", seenRefs)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		name, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case seenRefs + "heads":
			d.head = hash
		case seenRefs + "lab/last":
			d.last = hash
		}
	}
	return nil
}

// files returns the files of a commit; "" has none.
func (d *depot) files(ctx context.Context, commit string) (files, error) {
	found := files{}
	if commit == "" {
		return found, nil
	}
	out, err := d.Run(ctx, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(out, "\x00") {
		meta, name, ok := strings.Cut(line, "\t")
		if fields := strings.Fields(meta); ok && len(fields) == 3 {
			found[name] = entry{Hash: fields[2], Mode: fields[0]}
		}
	}
	return found, nil
}

// blobs returns the content of blobs by their hashes.
func (d *depot) blobs(ctx context.Context, hashes map[string]bool) (map[string][]byte, error) {
	found := map[string][]byte{}
	if len(hashes) == 0 {
		return found, nil
	}
	var ask strings.Builder
	for hash := range hashes {
		ask.WriteString(hash + "\n")
	}
	c, out := d.Command(), bytes.Buffer{}
	c.Limit, c.Stdin = carryLimit, strings.NewReader(ask.String())
	if err := c.Pipe(ctx, &out, "cat-file", "--batch"); err != nil {
		return nil, err
	}
	for out.Len() > 0 {
		line, err := out.ReadString('\n')
		if err != nil {
			return nil, err
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("an object is missing in the forge: %s", strings.TrimSpace(line))
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size >= out.Len() {
			return nil, fmt.Errorf("object %s is truncated", fields[0])
		}
		found[fields[0]] = bytes.Clone(out.Next(size))
		out.Next(1)
	}
	return found, nil
}

// is reports whether a commit is an ancestor of another, or the same.
func (d *depot) is(ctx context.Context, ancestor, of string) bool {
	if ancestor == "" || of == "" {
		return false
	}
	_, err := d.Run(ctx, "merge-base", "--is-ancestor", ancestor, of)
	return err == nil
}

// stream is fast-import's input with the blobs of files, one at a time. It notes the hash of what it read.
type stream struct {
	from  fs.FS
	names []string
	into  files
	left  bytes.Reader
}

func (s *stream) Read(p []byte) (int, error) {
	for s.left.Len() == 0 {
		if len(s.names) == 0 {
			return 0, io.EOF
		}
		name := s.names[0]
		s.names = s.names[1:]
		info, err := fs.Lstat(s.from, name)
		if err != nil {
			return 0, err
		}
		mode, text, err := content(s.from, name, fs.FileInfoToDirEntry(info))
		if err != nil {
			return 0, err
		}
		s.into[name] = entry{blobHash(text), mode}
		s.left.Reset(bytes.Join([][]byte{fmt.Appendf(nil, "blob\ndata %d\n", len(text)), text, []byte("\n")}, nil))
	}
	return s.left.Read(p)
}

// store stores the files that the forge lacks, and the tree with all of them. It returns the tree's hash.
func (d *depot) store(ctx context.Context, from fs.FS, ours, theirs files) (string, error) {
	names := changed(theirs, ours)
	n := 0
	for _, name := range names {
		if _, there := ours[name]; there {
			names[n] = name
			n++
		}
	}
	s := &stream{from: from, names: names[:n], into: ours}
	c := d.Apart()
	c.Limit, c.Stdin = carryLimit, s
	if _, err := c.Run(ctx, "fast-import", "--quiet"); err != nil {
		return "", err
	}
	var list strings.Builder
	for _, name := range sorted(ours) {
		fmt.Fprintf(&list, "%s %s\t%s\x00", ours[name].Mode, ours[name].Hash, name)
	}
	index := d.Apart()
	index.Env = append(index.Env, "GIT_INDEX_FILE="+filepath.Join(d.Dir, "pushed"))
	index.Stdin = strings.NewReader(list.String())
	if _, err := index.Run(ctx, "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	index.Stdin = nil
	return index.Run(ctx, "write-tree", "--missing-ok")
}

// commit commits a tree on top of parents.
func (d *depot) commit(ctx context.Context, tree, message string, now time.Time, parents []string) (string, error) {
	c := d.Command()
	when := fmt.Sprintf("@%d +0000", now.Unix())
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		c.Env = append(c.Env, "GIT_"+who+"_NAME=lab", "GIT_"+who+"_EMAIL="+authorEmail, "GIT_"+who+"_DATE="+when)
	}
	c.Stdin = strings.NewReader(strings.TrimRight(message, "\n") + "\n")
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, parent := range parents {
		args = append(args, "-p", parent)
	}
	return c.Run(ctx, args...)
}

// update is a change of a reference; was is empty for a new one.
type update struct{ ref, was, now string }

// push updates references of the forge together, unless one moved since it was seen. It removes reference locks of a killed git.
func (d *depot) push(ctx context.Context, updates ...update) error {
	args := []string{"push", "--quiet", "--no-verify", "--no-signed", "--atomic"}
	for _, u := range updates {
		args = append(args, "--force-with-lease="+u.ref+":"+u.was)
	}
	args = append(args, "--", d.remote.URL)
	for _, u := range updates {
		args = append(args, u.now+":"+u.ref)
	}
	if err := d.unlocked(ctx, args...); err != nil {
		return fmt.Errorf("push to the forge: %w", err)
	}
	return nil
}

// unlocked runs git, again after locks of a killed one were removed.
func (d *depot) unlocked(ctx context.Context, args ...string) error {
	_, err := d.to().Run(ctx, args...)
	if locked(err) && d.remote.Unlock != nil {
		removed, unlockErr := d.remote.Unlock(ctx)
		if err = errors.Join(err, unlockErr); removed {
			_, err = d.to().Run(ctx, args...)
		}
	}
	return err
}

// locked reports whether the server may have failed to lock a reference. All transaction failures have the same message.
func locked(err error) bool {
	if err == nil {
		return false
	}
	for _, text := range []string{"atomic transaction failed", "cannot lock ref", "failed to update ref"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// remember updates lastRef to a commit of the forge that the working tree now has.
func (d *depot) remember(ctx context.Context, seen history, commit string) error {
	if seen.last == commit {
		return nil
	}
	return d.push(ctx, update{lastRef, seen.last, commit})
}
