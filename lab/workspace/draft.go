package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"homelab/lab"
	"homelab/lab/draft"
	"homelab/lab/estate"
	"homelab/lab/estate/document"
	"homelab/lab/gitcommand"
	"homelab/lab/state"
)

// drafting is a repository without an estate, for which one is drafted in memory.
type drafting struct {
	repository lab.Repository // as it is on disk
	*draft.Draft
}

// Drafted returns the lab, or, in a repository that has no estate, the lab of the one that lab init --from would write for it. That is made in memory when it is read.
func (w *Workspace) Drafted(ctx context.Context) (*Workspace, error) {
	src, err := Find(w.asked.Estate, w.asked.Embedded)
	if err != nil || src.doubt == "" && (src.Dir == "" || !foreign(src.FS)) {
		return w, err
	}
	dir := cmp.Or(src.Dir, w.asked.Estate)
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return w, nil //nolint:nilerr // HasEstate reports it
	}
	if clone, err := gitcommand.Find(ctx, dir); err != nil {
		return nil, err
	} else if clone != nil {
		dir = clone.Top
	}
	r, err := draft.Repository(ctx, dir)
	if err != nil {
		return nil, err
	}
	other := &Workspace{Name: cmp.Or(w.asked.Name, estate.DefaultName(r.Path)), asked: w.asked, named: w.named, around: w.around, drafting: &drafting{repository: r}}
	other.here, other.Estate = other.Name, Files{Dir: r.Path, Name: other.Name}
	if other.Dir, err = state.Open(other.Name); err != nil {
		return nil, err
	}
	other.ask()
	return other, nil
}

// foreign reports whether the folders that an estate has are of another tool.
func foreign(files fs.FS) bool {
	names, err := fs.Glob(files, path.Join(lab.ClustersDir, "*", "*.y*ml"))
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		lost := err != nil || strings.HasPrefix(path.Base(name), "cluster.")
		if lost && !document.IsForeign(name, data) || strings.Contains(string(data), lab.APIVersion) {
			return false
		}
	}
	return err == nil
}

// drafts returns the lab with drafts of states of its repository, the newest last.
func (w *Workspace) drafts(states ...fs.FS) ([]*Workspace, error) {
	answers, err := draft.Answered(states[len(states)-1])
	if err != nil {
		return nil, err
	}
	drafts, err := draft.InMemory(w.Name, w.drafting.repository, answers, states...)
	var none *lab.Error
	if errors.As(err, &none) && none.Code == draft.CodeNothing {
		return nil, &lab.Error{
			Exit: lab.ExitInvalid, Code: "no_estate", Problems: none.Problems, Message: "no estate in " + w.Estate.Dir + ", and none can be drafted: " + none.Message,
			Cure: "lab init DIR creates one, -C DIR selects one",
		}
	}
	if err != nil {
		return nil, err
	}
	list := make([]*Workspace, len(drafts))
	for i, d := range drafts {
		other := *w
		other.Estate.FS, other.drafting = d.Files, &drafting{w.drafting.repository, d}
		list[i] = &other
	}
	return list, nil
}

// draftsAt returns the lab at two revisions of its repository, or at the second one alone.
func (w *Workspace) draftsAt(at [2]map[string]checkout, second bool) (sides [2]*Workspace, err error) {
	var states []fs.FS
	var read [2]Revision
	for i := range at {
		files := w.drafting.repository.FS
		if c, is := at[i]["."]; is {
			read[i] = c.Revision
			if files, err = c.files.Files(c.Commit); err != nil {
				return sides, badRevision(c.String()+" cannot be read: "+err.Error(), "")
			}
		}
		read[i].Folder = "."
		if i == 1 || !second {
			states = append(states, files)
		}
	}
	list, err := w.drafts(states...)
	if err != nil {
		return sides, err
	}
	for i := range list {
		side := len(sides) - len(list) + i
		list[i].read = &[]Revision{read[side]}
		sides[side] = list[i]
	}
	return sides, nil
}

// Drafts reports whether the lab has no estate, but a draft of one.
func (w *Workspace) Drafts() bool { return w.drafting != nil }

// Draft returns the draft that the lab was read from; nil if it has an estate.
func (w *Workspace) Draft() *draft.Draft {
	if w.drafting == nil {
		return nil
	}
	return w.drafting.Draft
}
