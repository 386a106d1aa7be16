package supply

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"homelab/lab"
	"homelab/lab/supply/chart"
	"homelab/lab/supply/gosum"
	"homelab/lab/supply/registry"
	"homelab/lab/supply/sbom"
	"homelab/lab/supply/source"
)

// Module is a Go module that a recipe names, with the sum that it is checked against.
type Module struct{ Path, Version, Sum string }

func modulesOf(list []string) []Module {
	sums := gosum.Recorded()
	modules := make([]Module, 0, len(list))
	for _, at := range list {
		path, version, _ := strings.Cut(at, "@")
		modules = append(modules, Module{path, version, sums.Of(at)})
	}
	return modules
}

// Debian returns the Debian packages in an image that lab built, here or elsewhere, NAME=VERSION. It is empty if the
// image is not present.
func (s *Supply) Debian(ctx context.Context, i Item) ([]string, error) {
	if i.Kind != KindImage || !i.Present {
		return nil, nil
	}
	if i.builds() {
		items, err := s.built.builder.Items()
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(items, func(m source.Item) bool { return m.Component.Name == i.Name })
		if at < 0 {
			return nil, nil
		}
		return s.built.builder.Installed(items[at])
	}
	img, err := s.Image(ctx, i.Name, nil)
	if err != nil {
		return nil, err
	}
	return source.Labelled(img.Archive)
}

// SBOM describes the images and charts with the given names, or all that are present, as a CycloneDX document.
func (s *Supply) SBOM(ctx context.Context, names []string, w io.Writer) error {
	items, err := s.Choose(ctx, names)
	if err != nil {
		return err
	}
	var images []sbom.Image
	var charts []lab.Chart
	for _, i := range items {
		if !i.Present && len(names) > 0 {
			return &lab.Error{Exit: lab.ExitFailed, Code: "not_present", Message: i.Title() + " is not here, so its parts are unknown", Cure: "lab bundle build " + lab.Quote(i.Name)}
		}
		if !i.Present {
			continue
		}
		if i.Kind == KindChart {
			c, err := s.Chart(ctx, i.Name, i.Version, nil)
			if err != nil {
				return err
			}
			charts = append(charts, c)
			continue
		}
		img, err := s.Image(ctx, i.Name, nil)
		if err != nil {
			return err
		}
		list, err := s.Debian(ctx, i)
		if err != nil {
			return err
		}
		images = append(images, sbom.Image{Image: img, Version: i.Version, Debian: list})
	}
	bom, err := sbom.Make(ctx, sbom.Maker{Version: s.options.Lab, At: time.Now()}, images, charts)
	if err != nil {
		return err
	}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// Catalog returns what lab knows of all images and charts without looking at this machine: versions, pins, and the
// modules of recipes. Origin is registry for what is pinned, and source for recipes.
func Catalog() ([]Item, error) {
	recipes, err := source.Builtin()
	if err != nil {
		return nil, err
	}
	pins, err := registry.Embedded()
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, p := range pins.Images {
		items = append(items, Item{
			Kind: KindImage, Name: p.Name, Version: tag(p.Ref), Ref: p.Ref, Digest: p.For(Options{}.platform()), Origin: lab.OriginRegistry,
			Verdict: pins.Expected(p, Options{}.platform()),
		})
	}
	for _, c := range recipes.Images() {
		key, err := recipes.Key(c.Name)
		if err != nil {
			return nil, err
		}
		ref, err := recipes.Ref(c)
		if err != nil {
			return nil, err
		}
		items = append(items, Item{
			Kind: KindImage, Name: c.Name, Version: c.Version, Ref: ref, Key: key, Origin: lab.OriginSource, Verdict: builtHere, Modules: modulesOf(recipes.Modules(c.Name)),
		})
	}
	for _, p := range pins.Charts {
		items = append(items, Item{
			Kind: KindChart, Name: p.Name, Version: p.Version, Ref: p.Name + "-" + p.Version, Digest: p.Digest, Origin: lab.OriginRegistry, Verdict: pins.ExpectedChart(p),
		})
	}
	charts, err := chart.Recipes()
	if err != nil {
		return nil, err
	}
	for _, r := range charts {
		items = append(items, Item{
			Kind: KindChart, Name: r.Name, Version: r.Version, Ref: r.Name + "-" + r.Version, Key: chartKey(r), Origin: lab.OriginSource, Verdict: builtHere, Modules: modulesOf(r.Modules()),
		})
	}
	return items, nil
}

var builtHere = registry.Verdict{Check: registry.CheckRecipe}
