package supply

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"homelab/lab"
	"homelab/lab/supply/archive"
	"homelab/lab/supply/registry"
	"homelab/lab/supply/store"
)

// Names of loaded bundles and their metadata in the store.
const (
	bundleEntry = "bundle"
	bundleIndex = "bundle.json"

	keepBundles = 2 // the current and the previous one
)

// fromBundle supplies images and charts from an archive, which is unpacked into the store on first use.
type fromBundle struct {
	options  Options
	store    *store.Store
	file     string // empty if already in the store
	id       string // digest of the archive's index
	contents archive.Contents
}

// loaded is bundle.json; paths are relative to it.
type loaded struct {
	Contents archive.Contents `json:"contents"`
	Images   []lab.Image      `json:"images"`
	Charts   []lab.Chart      `json:"charts"`
}

func openBundle(s *store.Store, o Options, file string) (*fromBundle, error) {
	contents, err := archive.Inspect(file)
	if err != nil {
		return nil, err
	}
	id, err := bundleID(contents)
	return &fromBundle{options: o, store: s, file: file, id: id, contents: contents}, err
}

// loadedBundle returns a bundle of the store, or false.
func loadedBundle(s *store.Store, o Options, id string) (*fromBundle, bool, error) {
	b := &fromBundle{options: o, store: s, id: id}
	l, ok, err := b.loaded()
	b.contents = l.Contents
	return b, ok, err
}

func (b *fromBundle) loaded() (loaded, bool, error) {
	e, ok, err := b.store.Lookup(bundleEntry, b.id)
	if err != nil || !ok {
		return loaded{}, false, err
	}
	l, err := readLoaded(e)
	return l, err == nil, err
}

func readLoaded(e store.Entry) (loaded, error) {
	var l loaded
	data, err := os.ReadFile(e.Path(bundleIndex))
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return loaded{}, fmt.Errorf("bundle: %w", err)
	}
	for i := range l.Images {
		l.Images[i].Archive = e.Path(l.Images[i].Archive)
	}
	for i := range l.Charts {
		l.Charts[i].Archive = e.Path(l.Charts[i].Archive)
	}
	return l, nil
}

// image returns an image of the archive, without its files.
func (b *fromBundle) image(i archive.Image) lab.Image {
	return lab.Image{Name: i.Name, Ref: i.Ref, Digest: i.Digest, Key: i.Key, Manifests: i.Manifests}
}

func (b *fromBundle) chart(c archive.Chart) lab.Chart {
	return lab.Chart{Name: c.Name, Version: c.Version, Digest: c.Digest, Key: c.Key}
}

// check compares the content with lab's pins. The archive's index has all digests, which loading verifies.
func (b *fromBundle) check() error {
	pins, err := registry.Embedded()
	if err != nil {
		return err
	}
	for _, i := range b.contents.Images {
		if _, err := pins.Image(b.image(i), b.options.platform()); err != nil {
			return err
		}
	}
	for _, c := range b.contents.Charts {
		if _, err := pins.Chart(b.chart(c)); err != nil {
			return err
		}
	}
	return nil
}

// load unpacks the archive once, if a person has accepted it.
func (b *fromBundle) load(ctx context.Context, p lab.Progress) (loaded, error) {
	if l, ok, err := b.loaded(); ok || err != nil {
		return l, err
	}
	record, err := b.options.trusted()
	if err != nil {
		return loaded{}, err
	}
	if _, ok := record[b.id]; !ok {
		return loaded{}, Bundle{File: b.file}.untrusted(Terms{})
	}
	if err := b.check(); err != nil {
		return loaded{}, err
	}
	waiting := func() {
		if p != nil {
			p("waiting for another lab to load the bundle")
		}
	}
	e, err := b.store.Make(ctx, bundleEntry, b.id, waiting, func(ctx context.Context, dir string) (store.Meta, error) {
		images, charts, err := archive.Load(ctx, b.file, dir, p)
		if err != nil {
			return store.Meta{}, err
		}
		for i := range images {
			images[i].Archive = filepath.Base(images[i].Archive)
		}
		for i := range charts {
			charts[i].Archive = filepath.Base(charts[i].Archive)
		}
		data, err := json.Marshal(loaded{Contents: b.contents, Images: images, Charts: charts})
		if err != nil {
			return store.Meta{}, err
		}
		return store.Meta{}, os.WriteFile(filepath.Join(dir, bundleIndex), data, 0o644)
	})
	if err != nil {
		return loaded{}, err
	}
	if err := b.store.Prune(bundleEntry, keepBundles); err != nil {
		return loaded{}, err
	}
	return readLoaded(e)
}

func (b *fromBundle) Image(ctx context.Context, name string, p lab.Progress) (lab.Image, error) {
	if !slices.ContainsFunc(b.contents.Images, func(i archive.Image) bool { return i.Name == name }) {
		return lab.Image{}, b.missing("image " + name)
	}
	l, err := b.load(ctx, p)
	if err != nil {
		return lab.Image{}, err
	}
	i := slices.IndexFunc(l.Images, func(i lab.Image) bool { return i.Name == name })
	if i < 0 {
		return lab.Image{}, b.missing("image " + name)
	}
	return l.Images[i], nil
}

func (b *fromBundle) Chart(ctx context.Context, name, version string, p lab.Progress) (lab.Chart, error) {
	is := func(n, v string) bool { return n == name && (version == "" || v == version) }
	if !slices.ContainsFunc(b.contents.Charts, func(c archive.Chart) bool { return is(c.Name, c.Version) }) {
		return lab.Chart{}, b.missing("chart " + name + " " + version)
	}
	l, err := b.load(ctx, p)
	if err != nil {
		return lab.Chart{}, err
	}
	i := slices.IndexFunc(l.Charts, func(c lab.Chart) bool { return is(c.Name, c.Version) })
	if i < 0 {
		return lab.Chart{}, b.missing("chart " + name + " " + version)
	}
	return l.Charts[i], nil
}

func (b *fromBundle) missing(what string) error {
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "not_in_bundle", Message: "the bundle lacks " + what,
		Cure: "create one with `lab bundle save`, or use --images registry or source",
	}
}

func (b *fromBundle) Items(context.Context) ([]Item, error) {
	_, ok, err := b.loaded()
	if err != nil {
		return nil, err
	}
	pins, err := registry.Embedded()
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, i := range b.contents.Images {
		v, _ := pins.Image(b.image(i), b.options.platform()) // an error prevents loading
		items = append(items, Item{
			Kind: KindImage, Name: i.Name, Version: tag(i.Ref), Ref: i.Ref, Key: i.Digest, Digest: i.Digest, Size: i.Size(), Origin: lab.OriginBundle, Present: ok,
			Verdict: v,
		})
	}
	for _, c := range b.contents.Charts {
		v, _ := pins.Chart(b.chart(c))
		items = append(items, Item{
			Kind: KindChart, Name: c.Name, Version: c.Version, Ref: c.Name + "-" + c.Version, Key: c.Digest, Digest: c.Digest, Size: c.Size,
			Origin: lab.OriginBundle, Present: ok, Verdict: v, App: pins.App(c.Name, c.Version),
		})
	}
	return items, nil
}
