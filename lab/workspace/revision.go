package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/gitcommand"
	"homelab/lab/gitfiles"
)

// Revision is a folder of files that is read at a commit, or as it is on disk.
type Revision struct {
	Folder string // of a mounted repository, as in cluster.yaml; "." for the estate
	Name   string // "main", "merge-base of main and feature"; empty for the working tree
	Commit string // empty for the working tree
}

// String describes the revision: "main (1a2b3c4d5e)", "../apps as checked out".
func (r Revision) String() string {
	const short = 10
	text := "the working tree"
	if r.Commit != "" {
		text = r.Name + " (" + r.Commit[:min(short, len(r.Commit))] + ")"
	}
	if r.Folder == "." {
		return text
	}
	if r.Commit == "" {
		return r.Folder + " as checked out"
	}
	return r.Folder + " at " + text
}

// Revisions returns the revision of the estate, and those of the mounted repositories that Desired has read. Only At makes some.
func (w *Workspace) Revisions() []Revision {
	if w.read == nil {
		return nil
	}
	return *w.read
}

// At returns the lab with the files of a revision: REV of the estate's repository, as git names it, and of mounted repositories in the same one, or FOLDER=REV
// of a mounted repository. Everything else is read as it is on disk, and nothing is changed there.
func (w *Workspace) At(ctx context.Context, revs ...string) (*Workspace, error) {
	sides, err := w.sides(ctx, revs, false)
	if err != nil {
		return nil, err
	}
	return sides[1], nil
}

// Between returns the lab with the files before and after changes. Each is like a revision of At: REV is compared with the working tree, and A..B, or A...B,
// are what B has changed since it left A: from their merge base to B. An empty side is HEAD.
func (w *Workspace) Between(ctx context.Context, revs ...string) (before, after *Workspace, err error) {
	sides, err := w.sides(ctx, revs, true)
	if err != nil {
		return nil, nil, err
	}
	return sides[0], sides[1], nil
}

// checkout is a commit of a clone.
type checkout struct {
	*gitcommand.Clone
	files *gitfiles.Clone
	Revision
}

func (w *Workspace) sides(ctx context.Context, revs []string, ranges bool) (sides [2]*Workspace, err error) {
	if w.Estate.Dir == "" {
		return sides, badRevision("the built-in estate has no revisions", "lab init DIR writes it out")
	}
	if err := w.HasEstate(); err != nil {
		return sides, err
	}
	var at [2]map[string]checkout // by folder
	at[0], at[1] = map[string]checkout{}, map[string]checkout{}
	seen := map[string]bool{}
	for _, rev := range revs {
		folder, where := ".", w.Estate.Dir
		if name, rest, ok := strings.Cut(rev, "="); ok {
			dir := filepath.FromSlash(name)
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(w.Estate.Dir, dir)
			}
			if info, err := os.Stat(dir); err == nil && info.IsDir() && w.drafting == nil {
				folder, where, rev = filepath.ToSlash(filepath.Clean(name)), dir, rest
			} else if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/") {
				return sides, badRevision("no folder "+name, "--rev FOLDER=REV, with the folder as in spec.repositories of the hub")
			}
		}
		if seen[folder] {
			return sides, badRevision("two revisions of "+folder, "--rev REV is for the estate, --rev FOLDER=REV for a mounted repository")
		}
		seen[folder] = true
		of, err := resolve(ctx, where, rev, ranges)
		if err != nil {
			return sides, err
		}
		for i, c := range of {
			if c.Commit != "" {
				c.Folder = folder
				at[i][folder] = c
			}
		}
	}
	if w.drafting != nil {
		return w.draftsAt(at, !ranges)
	}
	for i := range sides {
		if sides[i], err = w.with(at[i]); err != nil {
			return sides, err
		}
	}
	return sides, nil
}

// resolve returns both sides of a revision. Without ranges, that is the second one alone.
func resolve(ctx context.Context, dir, rev string, ranges bool) (of [2]checkout, err error) {
	clone, err := gitcommand.Find(ctx, dir)
	if err != nil {
		return of, err
	}
	if clone == nil {
		return of, badRevision(dir+" is in no Git repository, so that it has no revisions", "git init, and commit the files there")
	}
	files, err := gitfiles.Open(clone.Top)
	if err != nil {
		return of, badRevision(clone.Top+" cannot be read: "+err.Error(), "")
	}
	a, b, isRange := strings.Cut(rev, "..")
	if isRange && !ranges {
		return of, badRevision(fmt.Sprintf("--rev takes one revision, not %q", rev), "lab diff --rev "+lab.Quote(rev)+" compares two")
	}
	if !isRange {
		c, err := commit(ctx, clone, rev)
		if err != nil {
			return of, err
		}
		side := 1
		if ranges {
			side = 0 // the working tree is after it
		}
		of[side] = checkout{clone, files, c}
		return of, nil
	}
	from, err := commit(ctx, clone, cmp.Or(a, "HEAD"))
	if err != nil {
		return of, err
	}
	to, err := commit(ctx, clone, cmp.Or(strings.TrimPrefix(b, "."), "HEAD"))
	if err != nil {
		return of, err
	}
	base, err := mergeBase(ctx, clone, from, to)
	if err != nil {
		return of, err
	}
	return [2]checkout{{clone, files, base}, {clone, files, to}}, nil
}

// commit resolves a revision. A branch may be one of origin alone, as in a fresh clone.
func commit(ctx context.Context, clone *gitcommand.Clone, rev string) (Revision, error) {
	for _, name := range []string{rev, "origin/" + rev} {
		out, err := clone.References(ctx, "rev-parse", "--quiet", "--verify", "--end-of-options", name+"^{commit}")
		if err == nil {
			return Revision{Name: name, Commit: out}, nil
		}
	}
	return Revision{}, badRevision(fmt.Sprintf("no revision %q in %s", rev, clone.Top), "git branch --all and git tag list some; git fetch brings those of the remote")
}

func mergeBase(ctx context.Context, clone *gitcommand.Clone, a, b Revision) (Revision, error) {
	r, err := gitcommand.New(ctx, clone)
	if err != nil {
		return Revision{}, err
	}
	defer r.Close()
	if err := r.Lend(); err != nil {
		return Revision{}, err
	}
	base, err := r.Run(ctx, "merge-base", a.Commit, b.Commit)
	if err != nil || base == "" {
		return Revision{}, badRevision(a.Name+" and "+b.Name+" have no common history in "+clone.Top, "git fetch brings what is missing")
	}
	if base == a.Commit {
		return a, nil
	}
	return Revision{Name: "merge base of " + a.Name + " and " + b.Name, Commit: base}, nil
}

// with returns the lab with files at commits.
func (w *Workspace) with(at map[string]checkout) (*Workspace, error) {
	other := *w
	other.revised = slices.Sorted(maps.Keys(at))
	own, is := at["."]
	other.read = &[]Revision{{Folder: "."}}
	if is {
		*other.read = []Revision{own.Revision}
		files, err := own.in(w.Estate.Dir)
		if err != nil {
			return nil, badRevision(own.String()+" has no estate: "+err.Error(), "")
		}
		other.Estate.FS = files
	}
	other.Estate.open = func(dir, where string) (fs.FS, error) {
		c, named := at[dir]
		if top, err := gitcommand.Top(where); !named && is && err == nil && top == own.Top {
			c, named = own, true // a part of the estate's repository
		}
		read := Revision{Folder: dir, Name: c.Name, Commit: c.Commit}
		if !slices.Contains(*other.read, read) {
			*other.read = append(*other.read, read)
		}
		if !named {
			return nil, nil
		}
		return c.in(where)
	}
	return &other, nil
}

// Having returns the lab with other files: those of the estate, and of mounted repositories by their folders; nil leaves one as it is on disk.
func (w *Workspace) Having(estate fs.FS, mounts func(dir string) (fs.FS, error)) *Workspace {
	other := *w
	other.Estate.FS = estate
	other.Estate.open = func(dir, _ string) (fs.FS, error) { return mounts(dir) }
	return &other
}

// ReadingAs returns the lab with files as its estate, which are those of a revision.
func (w *Workspace) ReadingAs(files fs.FS, r Revision) *Workspace {
	other := w.WithFiles(files)
	other.read = &[]Revision{r}
	other.Estate.open = func(dir, _ string) (fs.FS, error) {
		return nil, errors.New("only the estate's own repository is read here, not " + dir)
	}
	return other
}

// asRead checks what Desired has read at revisions, or names the revision in its error.
func (w *Workspace) asRead(err error) error {
	if w.read == nil {
		return err
	}
	if known := new(lab.Error); errors.As(err, &known) {
		e := *known
		e.Message = "at " + (*w.read)[0].String() + ": " + e.Message
		return &e
	}
	for _, folder := range w.revised {
		if err == nil && !slices.ContainsFunc(*w.read, func(r Revision) bool { return r.Folder == folder }) {
			return badRevision("no repository is mounted from "+folder, "spec.repositories of the hub lists the folders")
		}
	}
	return err
}

// in returns the files of a folder of the clone.
func (c checkout) in(dir string) (fs.FS, error) {
	rel, err := filepath.Rel(c.Top, dir)
	if err == nil && !filepath.IsLocal(rel) {
		err = errors.New(dir + " is not in " + c.Top)
	}
	if err != nil {
		return nil, err
	}
	return c.files.FilesIn(c.Commit, filepath.ToSlash(rel))
}

func badRevision(message, cure string) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "revision", Message: message, Cure: cure}
}
