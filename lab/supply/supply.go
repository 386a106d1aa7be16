// Package supply provides a lab with images and charts, from a bundle, from registries, or built from source. It picks
// the origin and explains why.
package supply

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/supply/registry"
	"homelab/lab/supply/source"
	"homelab/lab/supply/store"
)

// Mode selects the origin of images and charts: auto, registry, source, or bundle=FILE.
type Mode string

const (
	ModeAuto     Mode = "auto"
	ModeRegistry Mode = "registry"
	ModeSource   Mode = "source"

	bundlePrefix = "bundle="
)

// Bundle returns the file of mode bundle=FILE.
func (m Mode) Bundle() (file string, ok bool) { return strings.CutPrefix(string(m), bundlePrefix) }

// Options configure a supply.
type Options struct {
	Mode     Mode           // empty for auto
	Mirror   string         // host:port of a registry with upstream's names; empty for upstream
	CacheDir string         // lab's cache folder
	StateDir string         // lab's state folder, which has the record of trusted bundles
	Lab      string         // lab's own version, for what it makes
	Arch     string         // of the container engine, "amd64"; empty for this machine's
	Patience time.Duration  // timeout for a registry's pins; 0 for the default
	Docker   *docker.Docker // container engine that may have images; may be nil
	Engine   lab.EngineType // whose images and charts a bundle holds; empty for Argo CD
}

// Kind is the kind of an item.
type Kind string

const (
	KindImage Kind = "image"
	KindChart Kind = "chart"
)

// Item is an image or chart.
type Item struct {
	Kind    Kind
	Name    string // component or chart
	Version string
	Ref     string // image: repository:tag as in manifests; chart: NAME-VERSION
	Key     string // digest of its inputs; the same key is the same content
	Digest  string // if present or pinned
	Size    int64  // bytes, if present
	Origin  lab.Origin
	Present bool
	Verdict registry.Verdict // what its content was or will be compared with
	Modules []Module         // of its recipe, if it is or was built here
	Seconds float64          // source: total build time, measured or estimated; else 0
	App     string           // chart: version of the application that it installs, or its minor; empty if unknown

	found bool // by asking a registry: no pin has it
}

// Title formats the item for users.
func (i Item) Title() string {
	if i.Kind == KindChart {
		return i.Name + " " + i.Version
	}
	return i.Name
}

// platform is what images are for.
func (o Options) platform() string { return "linux/" + cmp.Or(o.Arch, runtime.GOARCH) }

// supplier is an origin of images and charts. It must be safe for concurrent use.
type supplier interface {
	Image(ctx context.Context, name string, p lab.Progress) (lab.Image, error)
	Chart(ctx context.Context, name, version string, p lab.Progress) (lab.Chart, error)
	Items(ctx context.Context) ([]Item, error)
}

// Supply fetches images and charts. It is safe for concurrent use.
type Supply struct {
	options Options
	store   *store.Store
	recipes *source.Recipes
	built   *fromSource   // builds on this machine
	pulled  *fromRegistry // nil unless images are from registries
	from    supplier
	origin  lab.Origin
	why     string

	mu    sync.Mutex // guards items
	items []Item     // the last listing, kept up to date
}

// Open picks the origin of images and charts and lists them. An unreachable registry is an error. Mode auto uses, in
// this order: the bundle loaded last; the origin of the last decision, while its node image is present; registries if
// they answer; source. Nothing is fetched or built.
func Open(ctx context.Context, o Options) (*Supply, error) {
	s, err := newSupply(o)
	if err != nil {
		return nil, err
	}
	switch file, isBundle := o.Mode.Bundle(); {
	case isBundle && file != "":
		err = s.useFile(file)
	case o.Mode == ModeAuto || o.Mode == "":
		err = s.auto(ctx, s.recipes.Possible)
	case o.Mode == ModeRegistry:
		_, err = s.useRegistry()
	case o.Mode == ModeSource:
		s.useSource()
	default:
		err = &lab.Error{
			Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("images cannot come from %q", string(o.Mode)),
			Cure: "use --images auto, registry, source or bundle=FILE",
		}
	}
	if err == nil {
		err = s.list(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func newSupply(o Options) (*Supply, error) {
	st := store.Open(filepath.Join(o.CacheDir, "store"))
	recipes, err := source.For(cmp.Or(o.Arch, runtime.GOARCH))
	if err != nil {
		return nil, err
	}
	return &Supply{options: o, store: st, recipes: recipes, built: newFromSource(recipes, st, o.Docker)}, nil
}

func (s *Supply) useSource() {
	s.from, s.pulled = s.built, nil
	s.origin, s.why = lab.OriginSource, "images built from source"
}

func (s *Supply) useRegistry() (*registry.Registry, error) {
	r, err := registry.New(registry.Options{Dir: filepath.Join(s.options.CacheDir, "registry"), Mirror: s.options.Mirror, Platform: s.options.platform(), Patience: s.options.Patience})
	if err != nil {
		return nil, err
	}
	s.pulled = &fromRegistry{registry: r}
	s.from, s.origin, s.why = &withOwn{s.pulled, s.built}, lab.OriginRegistry, "images from the registry"
	if s.options.Mirror != "" {
		s.why = "images from " + s.options.Mirror
	}
	return r, nil
}

func (s *Supply) useFile(file string) error {
	b, err := openBundle(s.store, s.options, file)
	if err != nil {
		return err
	}
	s.from, s.pulled = &withOwn{b, s.built}, nil
	s.origin, s.why = lab.OriginBundle, "images from bundle "+filepath.Base(file)
	return nil
}

// Why explains the origin in a few words.
func (s *Supply) Why() string { return s.why }

// Origin returns the origin of what is not present.
func (s *Supply) Origin() lab.Origin { return s.origin }

// Builds reports whether images that a lab needs must be built here, with more than Go. chosen are the components of versions that it selects.
func (s *Supply) Builds(chosen ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.origin == lab.OriginSource && slices.ContainsFunc(s.items, func(i Item) bool {
		return i.Kind == KindImage && !i.Present && !s.recipes.Own(i.Name) && (slices.Contains(chosen, i.Name) || len(s.needed([]Item{i})) > 0)
	})
}

// Image fetches or builds a component's image. Builds that `lab up` needs earlier go first.
func (s *Supply) Image(ctx context.Context, name string, p lab.Progress) (lab.Image, error) {
	if p == nil {
		p = func(string) {}
	}
	img, err := s.from.Image(ctx, name, p)
	if err == nil {
		s.brought(KindImage, name, "", func(i *Item) { i.Digest, i.Size, i.Origin = img.Digest, img.Size, img.Origin })
	}
	return img, err
}

// Chart fetches a chart; an empty version selects ChartVersion.
func (s *Supply) Chart(ctx context.Context, name, version string, p lab.Progress) (lab.Chart, error) {
	if p == nil {
		p = func(string) {}
	}
	version = cmp.Or(version, s.ChartVersion(name))
	c, err := s.from.Chart(ctx, name, version, p)
	if err == nil {
		s.brought(KindChart, name, version, func(i *Item) { i.Digest, i.Size, i.Origin = c.Digest, fileSize(c.Archive), c.Origin })
	}
	return c, err
}

// brought updates the listing. A bundle is unpacked as a whole, so its first item brings all.
func (s *Supply) brought(kind Kind, name, version string, note func(*Item)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.index(kind, name, version)
	if at < 0 {
		return
	}
	for i := range s.items {
		if s.items[at].Origin == lab.OriginBundle && s.items[i].Origin == lab.OriginBundle {
			s.items[i].Present = true
		}
	}
	s.items[at].Present = true
	note(&s.items[at])
}

// Expect announces images, so that progress covers them all.
func (s *Supply) Expect(names ...string) error {
	return s.built.builder.Expect(slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		i, ok := s.find(KindImage, name, "")
		return !ok || !i.builds()
	})...)
}

// Left returns the estimated build time left; 0 while idle.
func (s *Supply) Left() time.Duration {
	return s.built.builder.Left()
}

// List returns all images, then all charts, in the order in which `lab up` needs them.
func (s *Supply) List(ctx context.Context) ([]Item, error) {
	if err := s.list(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.items), nil
}

// list updates the listing for the queries below, which make no requests. A mirror is asked once, the disk every time.
func (s *Supply) list(ctx context.Context) error {
	items, err := s.from.Items(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = items
	return nil
}

// index returns the index of an item, or -1. s.mu is held.
func (s *Supply) index(kind Kind, name, version string) int {
	return slices.IndexFunc(s.items, func(i Item) bool { return i.Kind == kind && i.Name == name && (version == "" || i.Version == version) })
}

func (s *Supply) find(kind Kind, name, version string) (Item, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(kind, name, version)
	switch {
	case i >= 0:
		return s.items[i], true
	case kind == KindImage && s.pulled != nil:
		return s.pulled.variant(name)
	}
	return Item{}, false
}

// Present reports whether an image, or else a chart, needs neither network nor build.
func (s *Supply) Present(image, chart, version string) bool {
	if image != "" {
		i, ok := s.find(KindImage, image, "")
		return ok && i.Present
	}
	i, ok := s.find(KindChart, chart, version)
	return ok && i.Present
}

// Ref returns the name of a component's image, or "".
func (s *Supply) Ref(name string) string {
	i, _ := s.find(KindImage, name, "")
	return i.Ref
}

// Key returns the key of a component's image.
func (s *Supply) Key(name string) string {
	i, _ := s.find(KindImage, name, "")
	return i.Key
}

// Version returns the version of a component's image.
func (s *Supply) Version(name string) string {
	i, _ := s.find(KindImage, name, "")
	return i.Version
}

// HasChart reports whether a chart is available; an empty version matches any.
func (s *Supply) HasChart(chart, version string) bool {
	_, ok := s.find(KindChart, chart, version)
	return ok
}

// ImagesOf returns the components whose images a chart's pods run.
func (s *Supply) ImagesOf(chart, version string) []string { return s.recipes.ImagesOf(chart, version) }

// ByRef returns the component of an image reference in manifests, or "".
func (s *Supply) ByRef(ref string) string { return s.recipes.ByRef(ref) }

// Load unpacks an accepted archive and returns a supply from it. From now on, mode auto uses it. It makes no requests.
func Load(ctx context.Context, o Options, file string, p lab.Progress) (*Supply, error) {
	s, err := newSupply(o)
	if err != nil {
		return nil, err
	}
	b, err := openBundle(s.store, s.options, file)
	if err != nil {
		return nil, err
	}
	if _, err := b.load(ctx, p); err != nil {
		return nil, err
	}
	if err := s.remember(decision{Origin: lab.OriginBundle, Bundle: b.id, Why: "images from bundle " + filepath.Base(file)}); err != nil {
		return nil, err
	}
	if err := s.useFile(file); err != nil {
		return nil, err
	}
	return s, s.list(ctx)
}

// fileSize returns 0 for a missing file.
func fileSize(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}
