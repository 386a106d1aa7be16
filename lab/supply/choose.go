package supply

import (
	"context"
	"fmt"
	"slices"

	"homelab/lab"
)

// Choose returns the items with the given names, or all without names.
func (s *Supply) Choose(ctx context.Context, names []string) ([]Item, error) {
	items, err := s.List(ctx)
	if err != nil || len(names) == 0 {
		return s.needed(items), err
	}
	for _, name := range names {
		if !slices.ContainsFunc(items, func(i Item) bool { return i.Name == name }) {
			return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no image or chart %q", name), Cure: "lab bundle ls"}
		}
	}
	return slices.DeleteFunc(items, func(i Item) bool { return !slices.Contains(names, i.Name) }), nil
}

// Bring fetches an item.
func (s *Supply) Bring(ctx context.Context, i Item, p lab.Progress) (err error) {
	if i.Kind == KindChart {
		_, err = s.Chart(ctx, i.Name, i.Version, p)
	} else {
		_, err = s.Image(ctx, i.Name, p)
	}
	return err
}
