package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/supply/gosum"
	"homelab/lab/supply/store"
)

// Builder builds components into a store. It is safe for concurrent use: shared dependencies are built once,
// compilations are serialized in the order of the recipes, and run concurrently with downloads and the installation of
// a root file system.
type Builder struct {
	recipes *Recipes
	store   *store.Store
	engine  *docker.Docker // may be nil
	sums    gosum.Sums     // of Go modules
	keyring string         // of Debian

	builds, downloads, roots *turn
	board                    *board

	learnt sync.Once // guards learn
	mu     sync.Mutex
	making map[string]*turn // builds in progress by key: within a process, no file lock is needed
}

// Option configures a builder.
type Option func(*Builder)

// WithEngine lets the builder take images from a container engine if they were built from the same recipe.
func WithEngine(d *docker.Docker) Option {
	return func(b *Builder) { b.engine = d }
}

// WithSums replaces the recorded sums of Go modules.
func WithSums(s gosum.Sums) Option {
	return func(b *Builder) { b.sums = s }
}

// New returns a builder.
func New(r *Recipes, s *store.Store, options ...Option) *Builder {
	b := &Builder{recipes: r, store: s, sums: gosum.Recorded(), keyring: keyring, builds: newTurn(), downloads: newTurn(), roots: newTurn(), board: newBoard(), making: map[string]*turn{}}
	for _, o := range options {
		o(b)
	}
	return b
}

// Ref returns the name of a component's image. Below lab/, it includes the start of the key: such images have no
// upstream tag, and a new one must not be taken for an old one.
func (r *Recipes) Ref(c *Component) (string, error) {
	if !strings.HasPrefix(c.Ref, "lab/") {
		return c.Ref, nil
	}
	key, err := r.key(c)
	return c.Ref + "-" + key[:min(12, len(key))], err
}

// Image returns a component's image and builds it if missing.
func (b *Builder) Image(ctx context.Context, name string, p lab.Progress) (lab.Image, error) {
	c, ok := b.recipes.Get(name)
	if !ok || (c.Kind != KindImage && c.Kind != KindNode) {
		return lab.Image{}, fmt.Errorf("no recipe for an image %q", name)
	}
	e, err := b.ensure(ctx, c, p)
	if err != nil {
		return lab.Image{}, err
	}
	return image(e)
}

// Program returns the path of a program and builds it if missing.
func (b *Builder) Program(ctx context.Context, component, program string, p lab.Progress) (string, error) {
	c, ok := b.recipes.Get(component)
	if !ok || c.Kind != KindPrograms {
		return "", fmt.Errorf("no recipe for programs %q", component)
	}
	e, err := b.ensure(ctx, c, p)
	return e.Path(program), err
}

func image(e store.Entry) (lab.Image, error) {
	info, err := fileSize(e.Path(archiveFile))
	if err != nil {
		return lab.Image{}, err
	}
	return lab.Image{Name: e.Name, Ref: e.Ref, Digest: e.Digest, Archive: e.Path(archiveFile), Size: info, Origin: cmp.Or(e.Origin, lab.OriginSource), Key: e.Key}, nil
}

func (b *Builder) ensure(ctx context.Context, c *Component, p lab.Progress) (store.Entry, error) {
	key, err := b.recipes.key(c)
	if err != nil {
		return store.Entry{}, err
	}
	if e, ok, err := b.store.Lookup(c.Name, key); ok || err != nil {
		return e, err
	}
	missing := map[string]*Component{}
	if err := b.missing(c, missing); err != nil {
		return store.Entry{}, err
	}
	if e, ok, err := b.fromEngine(ctx, c, key); ok || err != nil {
		b.board.forget(missing)
		return e, err
	}
	if err := b.possible(c); err != nil {
		return store.Entry{}, err
	}
	b.learn()
	b.board.expect(missing)
	if p != nil {
		defer b.board.watch(p).stop()
	}
	return b.make(ctx, c)
}

// Expect announces images, so that progress covers them all. Unknown and present ones are ignored.
func (b *Builder) Expect(names ...string) error {
	missing := map[string]*Component{}
	for _, name := range names {
		if c, ok := b.recipes.Get(name); ok {
			if err := b.missing(c, missing); err != nil {
				return err
			}
		}
	}
	b.learn()
	b.board.expect(missing)
	return nil
}

// Left returns the estimated time left; 0 while idle.
func (b *Builder) Left() time.Duration {
	b.board.mu.Lock()
	defer b.board.mu.Unlock()
	return b.board.due(time.Now())
}

// learn gives the board the build times in the store. Errors are ignored.
func (b *Builder) learn() {
	b.learnt.Do(func() {
		items, _ := b.Items()
		for _, i := range items {
			if i.Present && i.Entry.Origin == "" {
				b.board.learn(i.Component, i.Entry.Seconds)
			}
		}
	})
}

// missing collects c and its dependencies that are not in the store.
func (b *Builder) missing(c *Component, into map[string]*Component) error {
	if _, ok := into[c.Name]; ok {
		return nil
	}
	key, err := b.recipes.key(c)
	if err != nil {
		return err
	}
	if _, ok, err := b.store.Lookup(c.Name, key); ok || err != nil {
		return err
	}
	into[c.Name] = c
	for _, need := range c.Needs() {
		if n, ok := b.recipes.Get(need); ok {
			if err := b.missing(n, into); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepVersions is how many versions of a component stay in the store.
const keepVersions = 2

// make builds the dependencies of c concurrently, then c.
func (b *Builder) make(ctx context.Context, c *Component) (store.Entry, error) {
	key, err := b.recipes.key(c)
	if err != nil {
		return store.Entry{}, err
	}
	if e, ok, err := b.store.Lookup(c.Name, key); ok || err != nil {
		b.board.done(c)
		return e, err
	}
	var mu sync.Mutex
	made := map[string]store.Entry{}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, need := range c.Needs() {
		component, ok := b.recipes.Get(need)
		if !ok {
			return store.Entry{}, fmt.Errorf("no recipe for %q", need)
		}
		group.Go(func() error {
			e, err := b.make(groupCtx, component)
			mu.Lock()
			defer mu.Unlock()
			made[need] = e
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return store.Entry{}, err
	}
	var e store.Entry
	built := false
	waiting := func() { b.board.say(c, "waiting for another lab to build "+c.Name) }
	err = b.alone(key).do(ctx, 0, func() (err error) {
		e, err = b.store.Make(ctx, c.Name, key, waiting, func(ctx context.Context, dir string) (store.Meta, error) {
			built = true
			return b.build(ctx, c, made, dir, func(what string) { b.board.say(c, what) })
		})
		return err
	})
	if built && err == nil {
		b.board.made(c, e.Seconds)
	} else {
		b.board.done(c)
	}
	if err != nil && ctx.Err() == nil {
		return e, fmt.Errorf("build %s: %w", c.Name, err)
	}
	if err != nil || !built {
		return e, err
	}
	return e, b.store.Prune(c.Name, keepVersions)
}

func (b *Builder) alone(key string) *turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.making[key]
	if !ok {
		t = newTurn()
		b.making[key] = t
	}
	return t
}

func (b *Builder) build(ctx context.Context, c *Component, made map[string]store.Entry, dir string, say func(string)) (store.Meta, error) {
	switch c.Kind {
	case KindPrograms:
		return b.programs(ctx, c, dir, say)
	case KindRootFS:
		return b.rootfs(ctx, c, dir, say)
	case KindImage, KindNode:
		ref, err := b.recipes.Ref(c)
		if err != nil {
			return store.Meta{}, err
		}
		named := *c
		named.Ref = ref
		return b.image(ctx, &named, made, dir, say)
	}
	return store.Meta{}, errors.ErrUnsupported
}

// Item is a line of `lab bundle ls`.
type Item struct {
	Component *Component
	Key       string
	Ref       string
	Entry     store.Entry // the stored result
	Present   bool
}

// Items returns all components in the order of the recipes.
func (b *Builder) Items() ([]Item, error) {
	var items []Item
	for _, c := range b.recipes.Components {
		key, err := b.recipes.key(c)
		if err != nil {
			return nil, err
		}
		ref, err := b.recipes.Ref(c)
		if err != nil {
			return nil, err
		}
		e, ok, err := b.store.Lookup(c.Name, key)
		if err != nil {
			return nil, err
		}
		items = append(items, Item{Component: c, Key: key, Ref: ref, Entry: e, Present: ok})
	}
	return items, nil
}
