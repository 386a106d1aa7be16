package fluxroot

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"homelab/lab/render"
)

// components is the file that `flux bootstrap` writes, with Flux's manifests.
const components = "gotk-components.yaml"

// deepest limits how many kustomizations a root hides one after another.
const deepest = 5

// withoutRemote hides the kustomizations of a root that include remote bases, or Flux's manifests without having them, so that Flux applies the files of their folders
// instead. It changes nothing if that cannot be built either.
func (r *Root) withoutRemote() {
	h := render.Overlay{FS: r.Tree.FS, Files: map[string][]byte{}}
	var left []Left
	var hidden []string
	hide := func(file string) { hidden, h.Files[file] = append(hidden, file), nil }
	for range deepest {
		_, _, err := render.Kustomization{FS: h, Path: r.Dir}.Build()
		var invalid *render.Error
		switch {
		case err == nil:
			r.hidden, r.Left = hidden, left
			return
		case errors.As(err, &invalid) && (invalid.Remote != "" || path.Base(invalid.Missing) == components) && !slices.Contains(hidden, invalid.Problem.File):
			hide(invalid.Problem.File)
			at := invalid.Problem.Position
			at.File = path.Join(r.Tree.Dir, at.File)
			left = append(left, Left{At: at, Why: invalid.Problem.Message + ": the files of its folder are applied instead"})
		case len(hidden) == 0:
			return
		default: // the folder's kustomization may require those that are hidden
			before := len(hidden)
			for _, name := range render.Kustomizations {
				if _, err := fs.Stat(h, path.Join(r.Dir, name)); err == nil {
					hide(path.Join(r.Dir, name))
				}
			}
			if len(hidden) == before {
				return
			}
		}
	}
}
