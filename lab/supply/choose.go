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
		if slices.ContainsFunc(items, func(i Item) bool { return s.called(i, name) }) {
			continue
		}
		i, ok := s.find(KindImage, name, "")
		if !ok {
			return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no image or chart %q", name), Cure: "lab bundle ls"}
		}
		items = append(items, i)
	}
	return slices.DeleteFunc(items, func(i Item) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return s.called(i, name) })
	}), nil
}

// called reports whether a name selects an item. A chart of another version of an engine is selected by NAME-VERSION alone, like its image.
func (s *Supply) called(i Item, name string) bool {
	if i.Kind == KindChart && engineCharts[i.Name] != "" && i.Version != s.ChartVersion(i.Name) {
		return i.Ref == name
	}
	return i.Name == name || i.Kind == KindChart && i.Ref == name
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
