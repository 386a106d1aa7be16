package forge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"homelab/lab"
)

// Effects of a pull on a file.
const (
	Took     = "took"     // replaced by the forge's version
	Merged   = "merged"   // both sides' changes are merged
	Conflict = "conflict" // has conflict markers, or the forge's file is next to it
	Kept     = "kept"     // unchanged
)

// asideSuffix is the suffix of a forge file that cannot take its place.
const asideSuffix = ".forge"

// change is the effect of a pull on one file.
type change struct {
	Path   string `json:"path"`
	Did    string `json:"did"`
	Note   string `json:"note,omitempty"`
	Was    entry  `json:"was"`              // before, in the working tree
	Theirs entry  `json:"theirs"`           // in the forge
	Result entry  `json:"result"`           // afterwards, at the path
	Aside  string `json:"beside,omitempty"` // path of the forge's file, if not Path
	Dirty  bool   `json:"dirty,omitempty"`  // had uncommitted changes
	text   []byte // of a merged result
	done   bool   // by an earlier run
}

// incoming computes the effect of a pull, file by file.
type incoming struct {
	depot              *depot
	tree               Tree
	base, ours, theirs files
	head               string
	texts              map[string][]byte // of the forge's blobs
	removed            map[string]bool   // by this pull
}

// changes returns the changes for paths, in order.
func (in *incoming) changes(ctx context.Context, paths []string) ([]change, error) {
	in.removed = map[string]bool{}
	wanted := map[string]bool{}
	for _, p := range paths {
		if err := local(p); err != nil {
			return nil, err
		}
		if _, there := in.theirs[p]; !there && in.ours[p] == in.base[p] {
			in.removed[p] = true
		}
		for _, e := range []entry{in.base[p], in.theirs[p]} {
			if e.Hash != "" && e.Mode != modeModule {
				wanted[e.Hash] = true
			}
		}
	}
	var err error
	if in.texts, err = in.depot.blobs(ctx, wanted); err != nil {
		return nil, err
	}
	var list []change
	for _, p := range paths {
		c, err := in.change(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		list = append(list, c)
	}
	return list, nil
}

// local rejects paths outside the estate and inside .git.
func local(name string) error {
	ok := filepath.IsLocal(filepath.FromSlash(name)) && utf8.ValidString(name)
	for part := range strings.SplitSeq(name, "/") {
		ok = ok && part != "" && part != "." && !strings.EqualFold(part, ".git") && !strings.EqualFold(part, "git~1")
	}
	if ok {
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "unsafe_path", Message: fmt.Sprintf("the forge has a file whose name is not safe: %q", name),
		Cure: "remove it there by a commit",
	}
}

// change decides about a path that others changed and that differs in the working tree.
func (in *incoming) change(ctx context.Context, p string) (change, error) {
	base, ours, theirs := in.base[p], in.ours[p], in.theirs[p]
	c := change{Path: p, Was: ours, Theirs: theirs, Result: ours, Did: Kept}
	none := entry{}
	switch {
	case theirs.Mode == modeModule:
		c.Note = "submodules are not pulled"
		return c, nil
	case theirs == none && ours == base:
		c.Did, c.Result, c.Note = Took, none, "removed"
		return c, nil
	case theirs == none:
		c.Note = "changed here, removed in the forge"
		return c, nil
	case ours == none:
		at, why, err := in.blocked(p)
		if err == nil && at == "" { // the next push would delete an ignored file from the forge
			var ignored bool
			if ignored, err = in.tree.ignores(ctx, p); ignored {
				at, why = p, "it is ignored here"
			}
		}
		if err != nil {
			return c, err
		}
		if at != "" {
			return in.aside(c, at, why)
		}
		c.Did, c.Result = Took, theirs
		if base != none {
			c.Note = "removed here, changed in the forge"
		}
		return c, nil
	case ours == base:
		c.Did, c.Result = Took, theirs
		return c, nil
	}
	return in.merge(ctx, c)
}

// merge decides about a file that both sides changed.
func (in *incoming) merge(ctx context.Context, c change) (change, error) {
	base, ours, theirs := in.base[c.Path], c.Was, c.Theirs
	if !isFile(ours) || !isFile(theirs) {
		return in.aside(c, c.Path, "one is a symbolic link, the other is not")
	}
	c.Result.Mode = ours.Mode
	if ours.Mode == base.Mode {
		c.Result.Mode = theirs.Mode
	}
	if !isFile(base) {
		base = entry{}
	}
	c.Did = Merged
	switch {
	case ours.Hash == theirs.Hash || theirs.Hash == base.Hash:
		return c, nil
	case ours.Hash == base.Hash:
		c.Result.Hash = theirs.Hash
		return c, nil
	}
	mine, err := fs.ReadFile(in.tree.disk(), c.Path)
	if err == nil && blobHash(mine) != ours.Hash {
		err = changedMeanwhile(c.Path)
	}
	if err != nil {
		return c, err
	}
	texts := [3][]byte{mine, in.texts[base.Hash], in.texts[theirs.Hash]}
	if slices.ContainsFunc(texts[:], binary) {
		c.Result = ours
		return in.aside(c, c.Path, "not text, changed on both sides")
	}
	conflict := false
	if c.text, conflict, err = in.depot.merge(ctx, texts, labelTheirs+in.head[:7]); err != nil {
		return c, err
	}
	if conflict {
		c.Did = Conflict
	}
	c.Result.Hash = blobHash(c.text)
	return c, nil
}

// merge merges ours and theirs, line by line, and reports whether there are conflicts.
func (d *depot) merge(ctx context.Context, texts [3][]byte, label string) ([]byte, bool, error) {
	args := []string{"merge-file", "--quiet", "--stdout", "-L", labelOurs, "-L", "base", "-L", label}
	for i, text := range texts {
		file := filepath.Join(d.Dir, fmt.Sprintf("merge-%d", i))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, false, err
		}
		args = append(args, file)
	}
	var out bytes.Buffer
	err := d.Command().Pipe(ctx, &out, args...)
	const failed = 255 // other codes are the number of conflicts
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() < failed {
		return out.Bytes(), true, nil
	}
	return out.Bytes(), false, err
}

// binary is Git's heuristic.
func binary(text []byte) bool {
	const looked = 8000
	return bytes.IndexByte(text[:min(len(text), looked)], 0) >= 0
}

func isFile(e entry) bool {
	return e.Mode == modeFile || e.Mode == modeExecutable || e.Mode == modeOld
}

// blocked returns the path that prevents the creation of a file (it or a parent) and the reason, or empty strings.
func (in *incoming) blocked(p string) (at, why string, err error) {
	parts := strings.Split(p, "/")
	for i := range parts {
		at = path.Join(parts[:i+1]...)
		info, err := fs.Lstat(in.tree.disk(), at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", "", nil
		case err != nil:
			return "", "", err
		case at == p && !info.IsDir(), at != p && !info.IsDir() && !in.removed[at]:
			return at, "another file has its path", nil
		case at == p:
			rest, err := in.remains(at)
			if err != nil || rest == "" {
				return "", "", err
			}
			return at, "a folder has its path", nil
		case !info.IsDir():
			return "", "", nil
		}
		if _, err := fs.Lstat(in.tree.disk(), at+"/.git"); err == nil {
			return at, "a nested repository has its path", nil
		}
	}
	return "", "", nil
}

// remains returns a file that the folder still contains after the pull.
func (in *incoming) remains(dir string) (string, error) {
	rest := ""
	err := fs.WalkDir(in.tree.disk(), dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || in.removed[p] {
			return err
		}
		rest = p
		return fs.SkipAll
	})
	return rest, err
}

// aside writes the forge's file next to the existing one.
func (in *incoming) aside(c change, at, why string) (change, error) {
	c.Did, c.Note = Conflict, why
	for n := 1; ; n++ {
		end := asideSuffix
		if n > 1 {
			end = fmt.Sprintf("%s-%d", asideSuffix, n)
		}
		c.Aside = at + end + strings.TrimPrefix(c.Path, at)
		free, err := in.free(c.Aside, c.Theirs)
		if err != nil || free {
			return c, err
		}
	}
}

// free reports whether a file can be written at a path, or is already there.
func (in *incoming) free(p string, want entry) (bool, error) {
	if _, taken := in.theirs[p]; taken {
		return false, nil
	}
	now, err := entryOn(in.tree.disk(), p)
	if err != nil || now == want {
		return err == nil, err
	}
	at, _, err := in.blocked(p)
	return at == "", err
}

// entryOn returns the entry on disk: the zero entry if missing, and one that never matches for special files.
func entryOn(fsys fs.FS, p string) (entry, error) {
	info, err := fs.Lstat(fsys, p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) {
		return entry{}, nil
	}
	if err != nil {
		return entry{}, err
	}
	mode, text, err := content(fsys, p, fs.FileInfoToDirEntry(info))
	if err != nil || mode == "" {
		return entry{Mode: modeFolder}, err
	}
	return entry{blobHash(text), mode}, nil
}
