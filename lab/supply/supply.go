// Package supply supplies a lab with images and charts: from a bundle archive, from registries, or built from source. It decides which, and says why.
package supply

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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

// Mode says where images and charts come from: auto, registry, source, or bundle=FILE.
type Mode string

// The modes.
const (
	ModeAuto     Mode = "auto"
	ModeRegistry Mode = "registry"
	ModeSource   Mode = "source"

	bundlePrefix = "bundle="
)

// Options of a supply.
type Options struct {
	Mode     Mode           // empty for auto
	Mirror   string         // host:port of a registry that holds everything under upstream's names; empty for upstream's own
	CacheDir string         // lab's folder for what can be made again
	Patience time.Duration  // how long a registry may take to say what it holds; 0 for the usual
	Docker   *docker.Docker // the container engine, which may hold an image already; nil for none
}

// Kind says what an item is.
type Kind string

// The kinds of items.
const (
	KindImage Kind = "image"
	KindChart Kind = "chart"
)

// Item is one image or chart that a supply can bring to hand.
type Item struct {
	Kind    Kind
	Name    string // component or chart
	Version string
	Ref     string // image: repository:tag as manifests name it; chart: NAME-VERSION
	Key     string // what it is made from; the same key is the same content
	Digest  string // when at hand, or pinned
	Size    int64  // bytes, when at hand
	Origin  lab.Origin
	AtHand  bool
	Seconds float64 // source: what building takes, or took, in all; 0 elsewhere
}

// Title is how a user reads the item.
func (i Item) Title() string {
	if i.Kind == KindChart {
		return i.Name + " " + i.Version
	}
	return i.Name
}

// supplier is one way to come by images and charts. Its methods may be called at the same time.
type supplier interface {
	Image(ctx context.Context, name string, p lab.Progress) (lab.Image, error)
	Chart(ctx context.Context, name, version string, p lab.Progress) (lab.Chart, error)
	Items(ctx context.Context) ([]Item, error)
}

// Supply brings images and charts to hand. Its methods may be called at the same time.
type Supply struct {
	options Options
	store   *store.Store
	recipes *source.Recipes
	built   *fromSource // what is made on this machine
	from    supplier
	origin  lab.Origin
	why     string

	mu    sync.Mutex // guards items
	items []Item     // as listed last, with what was brought to hand after that
}

// Open decides where images and charts come from, and lists what is to be had there: a registry that cannot be asked is an error, and not one that has nothing.
// In mode auto they come from the bundle that was loaded last; or else from where auto took them the last time, while its node image is at hand; or else from
// registries where they answer; or else from source. Nothing is fetched and nothing is built.
func Open(ctx context.Context, o Options) (*Supply, error) {
	s, err := newSupply(o)
	if err != nil {
		return nil, err
	}
	switch file, isBundle := strings.CutPrefix(string(o.Mode), bundlePrefix); {
	case isBundle && file != "":
		err = s.useFile(file)
	case o.Mode == ModeAuto || o.Mode == "":
		err = s.auto(ctx, source.Possible)
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
	st, err := store.Open(filepath.Join(o.CacheDir, "store"))
	if err != nil {
		return nil, err
	}
	recipes, err := source.Builtin()
	if err != nil {
		return nil, err
	}
	return &Supply{options: o, store: st, recipes: recipes, built: newFromSource(recipes, st, o.Docker)}, nil
}

func (s *Supply) useSource() {
	s.from = s.built
	s.origin, s.why = lab.OriginSource, "images built from source"
}

func (s *Supply) useRegistry() (*registry.Registry, error) {
	r, err := registry.New(registry.Options{Dir: filepath.Join(s.options.CacheDir, "registry"), Mirror: s.options.Mirror, Patience: s.options.Patience})
	if err != nil {
		return nil, err
	}
	s.from, s.origin, s.why = &withOwn{&fromRegistry{registry: r}, s.built}, lab.OriginRegistry, "images from the registry"
	if s.options.Mirror != "" {
		s.why = "images from " + s.options.Mirror
	}
	return r, nil
}

func (s *Supply) useFile(file string) error {
	b, err := openBundle(s.store, file)
	if err != nil {
		return err
	}
	s.from, s.origin, s.why = &withOwn{b, s.built}, lab.OriginBundle, "images from bundle "+filepath.Base(file)
	return nil
}

// Why says in a few words where images come from, and why.
func (s *Supply) Why() string { return s.why }

// Origin is where what is not at hand will come from.
func (s *Supply) Origin() lab.Origin { return s.origin }

// Builds reports whether something will have to be compiled on this machine, for which Go alone does not do.
func (s *Supply) Builds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.origin == lab.OriginSource && slices.ContainsFunc(s.items, func(i Item) bool { return !i.AtHand && !s.recipes.Own(i.Name) })
}

// Image brings a component's image to hand. It returns when that is so; where it is built, what others asked for goes first if `lab up` needs it earlier.
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

// Chart brings a chart to hand; an empty version is the one that ChartVersion names.
func (s *Supply) Chart(ctx context.Context, name, version string, p lab.Progress) (lab.Chart, error) {
	if p == nil {
		p = func(string) {}
	}
	c, err := s.from.Chart(ctx, name, version, p)
	if err == nil {
		s.brought(KindChart, name, version, func(i *Item) { i.Digest, i.Size, i.Origin = c.Digest, fileSize(c.Archive), c.Origin })
	}
	return c, err
}

// brought notes what came to hand. A bundle is unpacked whole, and brings everything with the first thing that is asked of it.
func (s *Supply) brought(kind Kind, name, version string, note func(*Item)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.index(kind, name, version)
	if at < 0 {
		return
	}
	for i := range s.items {
		if s.items[at].Origin == lab.OriginBundle && s.items[i].Origin == lab.OriginBundle {
			s.items[i].AtHand = true
		}
	}
	s.items[at].AtHand = true
	note(&s.items[at])
}

// Expect names images that will be asked for one after another, so that progress can be told of all of them.
func (s *Supply) Expect(names ...string) error {
	return s.built.builder.Expect(slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		i, ok := s.find(KindImage, name, "")
		return !ok || !i.builds()
	})...)
}

// Left is how long building what is expected will take; 0 while nothing is being built.
func (s *Supply) Left() time.Duration {
	return s.built.builder.Left()
}

// List returns every image and chart, images first, in the order in which `lab up` needs them.
func (s *Supply) List(ctx context.Context) ([]Item, error) {
	if err := s.list(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.items), nil
}

// list finds out what is to be had, for the questions below, which ask nobody. A mirror is asked once, the disk each time.
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

// index finds an item, or returns -1; the caller holds the lock.
func (s *Supply) index(kind Kind, name, version string) int {
	return slices.IndexFunc(s.items, func(i Item) bool { return i.Kind == kind && i.Name == name && (version == "" || i.Version == version) })
}

func (s *Supply) find(kind Kind, name, version string) (Item, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(kind, name, version)
	if i < 0 {
		return Item{}, false
	}
	return s.items[i], true
}

// AtHand reports whether an image, or else a chart, needs neither network nor compiler any more.
func (s *Supply) AtHand(image, chart, version string) bool {
	if image != "" {
		i, ok := s.find(KindImage, image, "")
		return ok && i.AtHand
	}
	i, ok := s.find(KindChart, chart, version)
	return ok && i.AtHand
}

// Ref is the name under which a component's image is known; empty for a component that there is none of.
func (s *Supply) Ref(name string) string {
	i, _ := s.find(KindImage, name, "")
	return i.Ref
}

// Key stands for what a component's image is made from.
func (s *Supply) Key(name string) string {
	i, _ := s.find(KindImage, name, "")
	return i.Key
}

// Version of a component's image.
func (s *Supply) Version(name string) string {
	i, _ := s.find(KindImage, name, "")
	return i.Version
}

// ChartVersion is the version of a chart that lab takes where nothing names one.
func (s *Supply) ChartVersion(chart string) string {
	i, _ := s.find(KindChart, chart, "")
	return i.Version
}

// HasChart reports whether a chart can be brought to hand; an empty version is any.
func (s *Supply) HasChart(chart, version string) bool {
	_, ok := s.find(KindChart, chart, version)
	return ok
}

// ImagesOf names the components whose images a chart's pods run.
func (s *Supply) ImagesOf(chart, version string) []string { return s.recipes.ImagesOf(chart, version) }

// Load brings an archive's images and charts to hand and returns the supply of them. Mode auto takes them from now on. Nobody is asked for anything.
func Load(ctx context.Context, o Options, file string, p lab.Progress) (*Supply, error) {
	s, err := newSupply(o)
	if err != nil {
		return nil, err
	}
	b, err := openBundle(s.store, file)
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

// fileSize is 0 for a file that is not there.
func fileSize(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}
