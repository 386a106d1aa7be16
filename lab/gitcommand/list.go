package gitcommand

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"homelab/lab"
)

// List returns the files of a folder that Git lists, tracked or not ignored, as slash-separated paths: also those of the index that do not exist. Nested repositories
// are left out. A folder that Git ignores altogether, and one in no repository, are listed like the root of a repository without commits.
func List(ctx context.Context, dir string) ([]string, error) {
	clone, err := Find(ctx, dir)
	if err != nil {
		return nil, err
	}
	names, err := list(ctx, clone, dir)
	if err != nil || len(names) > 0 || clone == nil || sameFile(clone.Top, dir) || !clone.ignores(ctx, dir) {
		return names, err
	}
	return list(ctx, nil, dir)
}

func list(ctx context.Context, clone *Clone, dir string) ([]string, error) {
	r, err := New(ctx, clone)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	index := filepath.Join(r.Dir, "index")
	if clone != nil {
		index = clone.Index()
	}
	c := r.In(dir, index)
	c.Strict = true
	out, err := c.Run(ctx, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil { // ignored files may be keys
		return nil, &lab.Error{Exit: lab.ExitFailed, Code: "unreadable", Message: "cannot list the files of " + dir, Details: []string{err.Error()}, Cure: "make them readable; git status there shows details", Err: err}
	}
	names := slices.DeleteFunc(strings.Split(out, "\x00"), func(name string) bool { return name == "" || strings.HasSuffix(name, "/") })
	slices.Sort(names)
	return slices.Compact(names), nil
}

// ignores reports whether a folder in the work tree is ignored.
func (c *Clone) ignores(ctx context.Context, dir string) bool {
	r, err := New(ctx, c)
	if err != nil {
		return false
	}
	defer r.Close()
	_, err = r.In(dir, c.Index()).Run(ctx, "check-ignore", "--quiet", "--", ".")
	return err == nil
}

// Unmerged returns the files of a folder that are unmerged in the index of its repository.
func Unmerged(ctx context.Context, dir string) ([]string, error) {
	clone, err := Find(ctx, dir)
	if err != nil || clone == nil {
		return nil, err
	}
	r, err := New(ctx, clone)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out, err := r.In(dir, clone.Index()).Run(ctx, "ls-files", "-z", "--unmerged")
	if err != nil {
		return nil, err
	}
	var names []string
	for e := range strings.SplitSeq(out, "\x00") {
		if _, name, ok := strings.Cut(e, "\t"); ok {
			names = append(names, name)
		}
	}
	return slices.Compact(names), nil // sorted, one entry for each side
}

// Ignored reports whether Git would ignore a file of a folder, which need not exist.
func Ignored(ctx context.Context, dir, name string) (bool, error) {
	clone, err := Find(ctx, dir)
	if err != nil {
		return false, err
	}
	r, err := New(ctx, clone)
	if err != nil {
		return false, err
	}
	defer r.Close()
	index := filepath.Join(r.Dir, "index")
	if clone != nil {
		index = clone.Index()
	}
	c := r.In(dir, index)
	c.Stdin = strings.NewReader(name + "\x00")
	out, err := c.Run(ctx, "check-ignore", "-z", "--stdin")
	return err == nil && out != "", nil //nolint:nilerr // exit 1 is no
}
