package supply

import (
	"context"
	"path"
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
	var items []Item
	for _, pin := range pins.Images {
		i := Item{Kind: KindImage, Name: pin.Name, Version: tag(pin.Ref), Ref: pin.Ref, Key: pin.Ref + " " + pin.Digest, Digest: pin.Digest, Origin: lab.OriginRegistry, Verdict: f.registry.Expected(pin)}
		if img, ok := f.registry.HasImage(pin); ok {
			i.Digest, i.Size, i.Present = img.Digest, img.Size, true
		}
		items = append(items, i)
	}
	for _, pin := range pins.Charts {
		ref := pin.Name + "-" + pin.Version
		i := Item{Kind: KindChart, Name: pin.Name, Version: pin.Version, Ref: ref, Key: ref + " " + pin.Digest, Digest: pin.Digest, Origin: lab.OriginRegistry, Verdict: f.registry.ExpectedChart(pin)}
		if c, ok := f.registry.HasChart(pin); ok {
			i.Digest, i.Size, i.Present = c.Digest, fileSize(c.Archive), true
		}
		items = append(items, i)
	}
	return items, nil
}

func tag(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	_, tag, _ := strings.Cut(path.Base(ref), ":")
	return tag
}
