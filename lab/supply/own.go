package supply

import (
	"context"
	"slices"

	"homelab/lab"
)

// withOwn adds lab's own images to a supplier by building them locally: upstream registries lack them, and mirrors or
// bundles may have those of another version.
type withOwn struct {
	supplier
	own *fromSource
}

func (w *withOwn) Image(ctx context.Context, name string, p lab.Progress) (lab.Image, error) {
	if !w.own.recipes.Own(name) {
		return w.supplier.Image(ctx, name, p)
	}
	items, err := w.Items(ctx)
	if err != nil {
		return lab.Image{}, err
	}
	i := slices.IndexFunc(items, func(i Item) bool { return i.Kind == KindImage && i.Name == name })
	if i < 0 || items[i].builds() {
		return w.own.Image(ctx, name, p)
	}
	return w.supplier.Image(ctx, name, p)
}

// Items returns the supplier's items, without own images of other versions, and the local images.
func (w *withOwn) Items(ctx context.Context) ([]Item, error) {
	items, err := w.supplier.Items(ctx)
	if err != nil {
		return nil, err
	}
	built, err := w.own.Items(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range built {
		if b.Kind != KindImage || !w.own.recipes.Own(b.Name) {
			continue
		}
		same := func(i Item) bool { return i.Kind == KindImage && i.Name == b.Name }
		if i := slices.IndexFunc(items, same); i >= 0 && items[i].Ref == b.Ref {
			continue
		}
		items = slices.DeleteFunc(slices.Clone(items), same)
		charts := slices.IndexFunc(items, func(i Item) bool { return i.Kind == KindChart })
		if charts < 0 {
			charts = len(items)
		}
		items = slices.Insert(items, charts, b)
	}
	return items, nil
}

// builds reports whether an item is or was built on this machine.
func (i Item) builds() bool { return i.Origin == lab.OriginSource || i.Origin == lab.OriginEngine }
