package fluxroot

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"homelab/lab/render"
)

// hidden is a file system without some files.
type hidden struct {
	fs.FS
	names []string
}

func (h hidden) Open(name string) (fs.File, error) {
	if slices.Contains(h.names, name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return h.FS.Open(name)
}

func (h hidden) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(h.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(h.names, path.Join(name, e.Name())) }), err
}

// components is the file that `flux bootstrap` writes, with Flux's manifests.
const components = "gotk-components.yaml"

// deepest limits how many kustomizations a root hides one after another.
const deepest = 5

// withoutRemote hides the kustomizations of a root that include remote bases, or Flux's manifests without having them, so that Flux applies the files of their folders
// instead. It changes nothing if that cannot be built either.
func (r *Root) withoutRemote() {
	h := hidden{FS: r.Tree.FS}
	var left []Left
	for range deepest {
		_, _, err := render.Kustomization{FS: h, Path: r.Dir}.Build()
		var invalid *render.Error
		switch {
		case err == nil:
			r.hidden, r.Left = h.names, left
			return
		case errors.As(err, &invalid) && (invalid.Remote != "" || path.Base(invalid.Missing) == components) && !slices.Contains(h.names, invalid.Problem.File):
			h.names = append(h.names, invalid.Problem.File)
			at := invalid.Problem.Position
			at.File = path.Join(r.Tree.Dir, at.File)
			left = append(left, Left{At: at, Why: invalid.Problem.Message + ": the files of its folder are applied instead"})
		case len(h.names) == 0:
			return
		default: // the folder's kustomization may require those that are hidden
			more := false
			for _, name := range render.Kustomizations {
				file := path.Join(r.Dir, name)
				if _, err := fs.Stat(h, file); err == nil {
					h.names, more = append(h.names, file), true
				}
			}
			if !more {
				return
			}
		}
	}
}
