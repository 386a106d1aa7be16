package workspace

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
	"homelab/lab/regular"
)

// Generated lists the changed files.
type Generated struct{ Written, Removed []string }

// Generate writes the files that Flux needs to find each cluster's addons, and removes obsolete ones. It never replaces a file that lab did not write.
func (w *Workspace) Generate() (Generated, error) {
	var done Generated
	if w.Estate.Dir == "" {
		return done, &lab.Error{Exit: lab.ExitInvalid, Code: "no_estate", Message: "the built-in estate is read-only", Cure: "lab init DIR writes it out"}
	}
	est, err := w.Load(estate.WithEngine(lab.EngineFlux), estate.Ungenerated())
	if err != nil {
		return done, err
	}
	want, err := fluxset.Files(est.FS, est.Clusters)
	if err != nil {
		return done, err
	}
	root, err := os.OpenRoot(w.Estate.Dir) // has what Git ignores too, which is not overwritten either
	if err != nil {
		return done, err
	}
	defer root.Close()
	var ps lab.Problems
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch have, err := regular.In(root, filepath.FromSlash(name)); {
		case errors.Is(err, fs.ErrNotExist), err == nil && fluxset.Marked(have):
		case err != nil:
			ps = append(ps, lab.Problem{Code: finding.GeneratedStale, Position: lab.Position{File: name}, Message: err.Error()})
		default:
			ps = append(ps, lab.Problem{Code: finding.GeneratedStale, Position: lab.Position{File: name, Line: 1}, Message: "was not written by lab, but lab needs this path", Cure: "move it away"})
		}
	}
	if len(ps) > 0 {
		return done, &lab.Error{Exit: lab.ExitInvalid, Code: "invalid_estate", Message: "existing files conflict, nothing was written", Problems: ps}
	}
	left, err := fluxset.Left(est.FS, want)
	if err != nil {
		return done, err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if have, err := regular.In(root, filepath.FromSlash(name)); err == nil && string(have) == want[name] {
			continue
		}
		if err := root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o755); err != nil {
			return done, err
		}
		if err := root.WriteFile(filepath.FromSlash(name), []byte(want[name]), 0o644); err != nil {
			return done, err
		}
		done.Written = append(done.Written, name)
	}
	for _, name := range left {
		if err := root.Remove(filepath.FromSlash(name)); err != nil {
			return done, err
		}
		done.Removed = append(done.Removed, name)
	}
	return done, nil
}
