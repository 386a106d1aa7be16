package workspace

import (
	"cmp"

	"homelab/lab/state"
	"homelab/lab/trust"
)

// Agreed returns what the user has agreed to for the lab's estate.
func (w *Workspace) Agreed() (trust.Set, error) {
	dir := cmp.Or(w.Estate.Dir, w.Record.Estate)
	if dir == "" {
		return nil, nil
	}
	agreed, err := state.Agreed(dir)
	return trust.Set(agreed), err
}

// Agree records what a person agrees to for the estate in a folder.
func Agree(dir string, things []trust.Thing) error {
	texts := map[string]string{}
	for _, t := range things {
		texts[t.Digest()] = t.String()
	}
	return state.Agree(dir, texts)
}
