package supply

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/supply/registry"
)

// fromRegistry pulls pinned images and charts.
type fromRegistry struct {
	registry *registry.Registry
}

func (f *fromRegistry) Image(ctx context.Context, name string, p lab.Progress) (lab.Image, error) {
	return f.registry.Image(ctx, name, p)
}

func (f *fromRegistry) Chart(ctx context.Context, name, version string, p lab.Progress) (lab.Chart, error) {
	return f.registry.Chart(ctx, name, version, p)
}

func (f *fromRegistry) Items(ctx context.Context) ([]Item, error) {
	pins, err := f.registry.Pins(ctx)
	if err != nil {
		return nil, err
	}
	own, err := registry.Embedded()
	if err != nil {
		return nil, err
	}
	found, err := f.registry.Found()
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, pin := range pins.Images {
		items = append(items, f.image(pin))
	}
	for _, v := range found {
		pin, ok := f.registry.Variant(v.Image)
		if listed := func(i Item) bool { return i.Name == pin.Name }; ok && !slices.ContainsFunc(items, listed) {
			i := f.image(pin)
			i.found = true
			items = append(items, i)
		}
	}
	images := len(items)
	for _, pin := range pins.Charts {
		pin.App = cmp.Or(pin.App, own.App(pin.Name, pin.Version))
		items = append(items, f.chart(pin))
	}
	for _, v := range found {
		listed := func(i Item) bool { return i.Name == v.Chart.Name && i.Version == v.Chart.Version }
		if v.Chart.Name != "" && !f.registry.Closed() && !slices.ContainsFunc(items[images:], listed) {
			i := f.chart(v.Chart)
			i.found = true
			items = append(items, i)
		}
	}
	return items, nil
}

func (f *fromRegistry) image(pin registry.ImagePin) Item {
	i := Item{Kind: KindImage, Name: pin.Name, Version: tag(pin.Ref), Ref: pin.Ref, Key: pin.Ref + " " + pin.Digest, Digest: pin.Digest, Origin: lab.OriginRegistry, Verdict: f.registry.Expected(pin)}
	if img, ok := f.registry.HasImage(pin); ok {
		i.Digest, i.Size, i.Present = img.Digest, img.Size, true
	}
	return i
}

func (f *fromRegistry) chart(pin registry.ChartPin) Item {
	ref := pin.Name + "-" + pin.Version
	i := Item{Kind: KindChart, Name: pin.Name, Version: pin.Version, App: pin.App, Ref: ref, Key: ref + " " + pin.Digest, Digest: pin.Digest, Origin: lab.OriginRegistry, Verdict: f.registry.ExpectedChart(pin)}
	if c, ok := f.registry.HasChart(pin); ok {
		i.Digest, i.Size, i.Present = c.Digest, fileSize(c.Archive), true
	}
	return i
}

// variant returns an image that is not listed: another version of one that is.
func (f *fromRegistry) variant(name string) (Item, bool) {
	pin, ok := f.registry.Variant(name)
	if !ok {
		return Item{}, false
	}
	return f.image(pin), true
}

func tag(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	_, tag, _ := strings.Cut(path.Base(ref), ":")
	return tag
}
