package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// touched holds the story's changes to one branch.
type touched struct {
	existed bool
	before  map[string]*File // path -> original file; nil if it did not exist
	after   map[string]*File // path -> file as the story left it
}

// Commit commits to the forge, registers the restoring of the branch, and sets ${commit}.
func (c *Call) Commit(ctx context.Context, change Change) (string, error) {
	return c.CommitBy(ctx, c.Forge, change)
}

// CommitBy is like Commit for another account of the forge.
func (c *Call) CommitBy(ctx context.Context, by Forge, change Change) (string, error) {
	for name := range change.Files {
		if err := InEstate(name); err != nil {
			return "", err
		}
	}
	t, err := c.touch(ctx, change)
	if err != nil {
		return "", err
	}
	maps.Copy(t.after, change.Files)
	commit, err := by.Commit(ctx, change)
	if err != nil {
		return "", err
	}
	c.Vars["commit"] = commit
	c.Note(Lane{Name: "git " + change.Branch}, change.Author+": "+change.Message)
	return commit, nil
}

// Merging saves what a merge of a branch into another will change there, and registers the restoring of the branch.
func (c *Call) Merging(ctx context.Context, head, base string) error {
	from, err := c.Forge.Tree(ctx, head)
	if err != nil {
		return err
	}
	into, err := c.Forge.Tree(ctx, base)
	if err != nil {
		return err
	}
	change := Change{Branch: base, Files: map[string]*File{}}
	for _, one := range []Tree{from, into} {
		err := fs.WalkDir(one.FS, ".", func(name string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			theirs, err := fileAt(from.FS, name)
			if err != nil {
				return err
			}
			ours, err := fileAt(into.FS, name)
			if err == nil && !same(theirs, ours) {
				change.Files[name] = theirs
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	t, err := c.touch(ctx, change)
	if err != nil {
		return err
	}
	maps.Copy(t.after, change.Files)
	return nil
}

// Found returns a file as it was before the story changed it; nil if it did not exist.
func (c *Call) Found(branch, name string) (*File, error) {
	if t := c.playing.touched[branch]; t != nil && t.existed {
		if file, known := t.before[name]; known {
			return file, nil
		}
	}
	return nil, fmt.Errorf("no step has changed %s on %s", name, branch)
}

// touch saves the original files of a change.
func (c *Call) touch(ctx context.Context, change Change) (*touched, error) {
	t := c.playing.touched[change.Branch]
	if t == nil {
		branches, err := c.Branches.Branches(ctx)
		if err != nil {
			return nil, err
		}
		_, existed := branches[change.Branch]
		t = &touched{existed: existed, before: map[string]*File{}, after: map[string]*File{}}
		c.playing.touched[change.Branch] = t
		c.Undo("git "+change.Branch, func(ctx context.Context) error { return c.playing.restore(ctx, change.Branch) })
		c.playing.undos[len(c.playing.undos)-1].branch = true
	}
	if !t.existed {
		return t, nil
	}
	tree, err := c.Forge.Tree(ctx, change.Branch)
	if err != nil {
		return nil, err
	}
	for name := range change.Files {
		if _, known := t.before[name]; known {
			continue
		}
		if t.before[name], err = fileAt(tree.FS, name); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// fileAt returns nil if the file does not exist.
func fileAt(fsys fs.FS, name string) (*File, error) {
	info, err := fs.Lstat(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file in the forge", name)
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	return &File{Content: data, Executable: info.Mode()&0o111 != 0}, nil
}

// restore restores a branch with a commit. Files that others changed meanwhile are kept.
func (p *playing) restore(ctx context.Context, branch string) error {
	t := p.touched[branch]
	if !t.existed {
		return p.world.Branches.RemoveBranch(ctx, branch)
	}
	tree, err := p.world.Forge.Tree(ctx, branch)
	if err != nil {
		return err
	}
	back := map[string]*File{}
	var theirs []string
	for _, name := range slices.Sorted(maps.Keys(t.before)) {
		now, err := fileAt(tree.FS, name)
		switch {
		case err != nil:
			return err
		case same(now, t.before[name]):
		case same(now, t.after[name]):
			back[name] = t.before[name]
		default:
			theirs = append(theirs, name)
		}
	}
	if len(back) > 0 {
		commit, err := p.world.Forge.Commit(ctx, Change{Branch: branch, Author: "lab", Message: "put back what scenario " + p.scenario.Name + " changed", Files: back})
		if err != nil {
			return err
		}
		p.vars["commit"] = commit
		p.recorder.note(Lane{Name: "git " + branch}, "lab: put back")
	}
	if len(theirs) > 0 {
		return fmt.Errorf("others changed %s meanwhile; their version is kept", strings.Join(theirs, ", "))
	}
	return nil
}

func same(a, b *File) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Executable == b.Executable && bytes.Equal(a.Content, b.Content)
}
