package supply

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/supply/chart"
	"homelab/lab/supply/source"
	"homelab/lab/supply/store"
)

// fromSource builds images and charts from Go modules and Debian packages.
type fromSource struct {
	builder *source.Builder
	recipes *source.Recipes
	store   *store.Store
}

func newFromSource(r *source.Recipes, s *store.Store, d *docker.Docker) *fromSource {
	return &fromSource{builder: source.New(r, s, source.WithEngine(d)), recipes: r, store: s}
}

func (f *fromSource) Image(ctx context.Context, name string, p lab.Progress) (lab.Image, error) {
	return f.builder.Image(ctx, name, p)
}

// chartKey changes with the recipe and the code that builds charts.
func chartKey(r chart.Recipe) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", fmt.Sprint(r), chart.Code()))
	return hex.EncodeToString(sum[:])
}

// chartEntry is the name of a chart in the store.
func chartEntry(r chart.Recipe) string { return "chart-" + r.Name + "-" + r.Version }

// keepCharts is the number of versions of a chart kept in the store.
const keepCharts = 4

func (f *fromSource) Chart(ctx context.Context, name, version string, p lab.Progress) (lab.Chart, error) {
	r, err := chart.Find(name, version)
	if err != nil {
		return lab.Chart{}, err
	}
	entry, key := chartEntry(r), chartKey(r)
	made := false
	e, err := f.store.Make(ctx, entry, key, nil, func(ctx context.Context, dir string) (store.Meta, error) {
		made = true
		p("building chart " + r.Name + " " + r.Version)
		src, err := chart.Download(ctx, r)
		if err != nil {
			return store.Meta{}, err
		}
		c, err := chart.Build(ctx, r, src, dir)
		if err != nil {
			return store.Meta{}, err
		}
		return store.Meta{Version: c.Version, Digest: c.Digest, Ref: filepath.Base(c.Archive)}, nil
	})
	if err != nil {
		return lab.Chart{}, err
	}
	if made {
		if err := f.store.Prune(entry, keepCharts); err != nil {
			return lab.Chart{}, err
		}
	}
	return lab.Chart{Name: r.Name, Version: r.Version, Digest: e.Digest, Archive: e.Path(e.Ref), Origin: lab.OriginSource, Key: key}, nil
}

func (f *fromSource) Items(context.Context) ([]Item, error) {
	made, err := f.builder.Items()
	if err != nil {
		return nil, err
	}
	byName := map[string]source.Item{}
	for _, m := range made {
		byName[m.Component.Name] = m
	}
	var items []Item
	for _, c := range f.recipes.Images() {
		m := byName[c.Name]
		i := Item{
			Kind: KindImage, Name: c.Name, Version: c.Version, Ref: m.Ref, Key: m.Key, Digest: m.Entry.Digest, Size: m.Entry.Size,
			Origin: cmp.Or(m.Entry.Origin, lab.OriginSource), Present: m.Present,
			Verdict: builtHere, Modules: modulesOf(f.recipes.Modules(c.Name)),
		}
		i.Seconds = seconds(byName, c, map[string]bool{})
		items = append(items, i)
	}
	charts, err := chart.Recipes()
	if err != nil {
		return nil, err
	}
	for _, r := range charts {
		name, key := chartEntry(r), chartKey(r)
		e, ok, err := f.store.Lookup(name, key)
		if err != nil {
			return nil, err
		}
		items = append(items, Item{
			Kind: KindChart, Name: r.Name, Version: r.Version, Ref: r.Name + "-" + r.Version, Key: key, Digest: e.Digest, Size: e.Size,
			Origin: lab.OriginSource, Present: ok, Seconds: e.Seconds, Verdict: builtHere,
			Modules: modulesOf(r.Modules()), App: r.App(),
		})
	}
	return items, nil
}

// seconds sums the (estimated) build time of a component and its dependencies.
func seconds(all map[string]source.Item, c *source.Component, counted map[string]bool) float64 {
	if counted[c.Name] {
		return 0
	}
	counted[c.Name] = true
	took := float64(c.Seconds)
	if m := all[c.Name]; m.Present {
		took = m.Entry.Seconds
	}
	for _, need := range c.Needs() {
		if m, ok := all[need]; ok {
			took += seconds(all, m.Component, counted)
		}
	}
	return took
}
