package workspace

import (
	"cmp"
	"slices"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/estate"
)

// Load reads and checks the estate.
func (w *Workspace) Load(options ...estate.Option) (*lab.Estate, error) {
	est, _, err := w.Desired(options...)
	return est, err
}

// Desired is Load, and also returns what the engine will have.
func (w *Workspace) Desired(options ...estate.Option) (*lab.Estate, []desired.App, error) {
	m, err := w.Read(options...)
	return m.Estate, m.Apps, err
}

// Read is Desired, and keeps what explains it.
func (w *Workspace) Read(options ...estate.Option) (estate.Model, error) {
	options, err := w.fresh(options)
	if err != nil {
		return estate.Model{}, err
	}
	m, err := estate.Read(w.Estate.FS, w.Estate.Dir, w.Name, options...)
	if err := w.asRead(err); err != nil {
		return estate.Model{}, err
	}
	order := func(c lab.Cluster) int {
		if c.Role == lab.RoleHub {
			return -1
		}
		env, _ := m.Estate.Environment(c.Environment)
		return env.Order
	}
	// in display order: the hub, then the spokes in promotion order
	slices.SortStableFunc(m.Estate.Clusters, func(a, b lab.Cluster) int { return cmp.Compare(order(a), order(b)) })
	return m, nil
}

// Inspect is estate.Inspect.
func (w *Workspace) Inspect(options ...estate.Option) (*lab.Estate, []desired.App, lab.Problems, error) {
	options, err := w.fresh(options)
	if err != nil {
		return nil, nil, nil, err
	}
	est, apps, problems, err := estate.Inspect(w.Estate.FS, w.Estate.Dir, w.Name, options...)
	return est, apps, problems, w.asRead(err)
}

// fresh rereads the files of the estate, and adds the options of the lab.
func (w *Workspace) fresh(options []estate.Option) ([]estate.Option, error) {
	if w.drafting != nil {
		if w.drafting.Draft == nil {
			list, err := w.drafts(w.drafting.repository.FS)
			if err != nil {
				return nil, err
			}
			*w = *list[0]
		}
		options = append(slices.Clone(options), estate.WithRepositories(w.drafting.Repositories))
	} else if w.Estate.Dir == "" && !w.Dir.Exists() || w.Record.Estate != "" && w.Estate.Dir == "" && !w.builtin {
		if err := w.HasEstate(); err != nil {
			return nil, err
		}
	}
	if err := w.Estate.refresh(); err != nil {
		return nil, err
	}
	return append([]estate.Option{estate.WithEngine(w.Engine), estate.WithEngineVersion(w.Version), estate.WithRevisions(w.Estate.open)}, options...), nil
}
