package source

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
	"homelab/lab/supply/store"
)

// archiveFile is the docker-archive in an image's folder.
const archiveFile = "image.tar"

// defaultPath is the default PATH of an image.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// image assembles an image from built components.
func (b *Builder) image(ctx context.Context, c *Component, made map[string]store.Entry, dir string, say func(string)) (store.Meta, error) {
	say("packing " + c.Name)
	work, err := store.WorkDir(dir)
	if err != nil {
		return store.Meta{}, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	a := &assembly{builder: b, component: c, made: made, work: work, layer: layer{}}
	layers, err := a.build(ctx)
	if err != nil {
		return store.Meta{}, err
	}
	key, err := b.recipes.key(c)
	if err != nil {
		return store.Meta{}, err
	}
	labels := map[string]string{lab.LabelInputs: key}
	installed, err := b.installed(c, made)
	if err != nil {
		return store.Meta{}, err
	}
	if len(installed) > 0 {
		labels[lab.LabelDebian] = strings.Join(installed, " ")
	}
	return writeImage(c, b.recipes.arch, labels, layers, filepath.Join(dir, archiveFile))
}

func writeImage(c *Component, arch string, labels map[string]string, layers []v1.Layer, file string) (store.Meta, error) {
	tag, err := name.NewTag(c.Ref)
	if err != nil {
		return store.Meta{}, err
	}
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return store.Meta{}, err
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return store.Meta{}, err
	}
	cfg = cfg.DeepCopy()
	cfg.Created = v1.Time{Time: fixedTime}
	cfg.OS, cfg.Architecture = "linux", arch
	cfg.Config = c.config()
	maps.Copy(cfg.Config.Labels, labels)
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		return store.Meta{}, err
	}
	digest, err := img.ConfigName()
	if err != nil {
		return store.Meta{}, err
	}
	if err := tarball.WriteToFile(file, tag, img); err != nil {
		return store.Meta{}, err
	}
	return store.Meta{Version: c.Version, Ref: c.Ref, Digest: digest.String()}, nil
}

func (c *Component) config() v1.Config {
	cfg := v1.Config{
		Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: append([]string{defaultPath}, c.Env...), User: c.User, WorkingDir: c.WorkDir, StopSignal: c.StopSignal,
		Labels: map[string]string{"org.opencontainers.image.version": c.Version, "org.opencontainers.image.ref.name": c.Ref},
	}
	for _, p := range c.Ports {
		if cfg.ExposedPorts == nil {
			cfg.ExposedPorts = map[string]struct{}{}
		}
		cfg.ExposedPorts[p] = struct{}{}
	}
	for _, v := range c.Volumes {
		if cfg.Volumes == nil {
			cfg.Volumes = map[string]struct{}{}
		}
		cfg.Volumes[v] = struct{}{}
	}
	return cfg
}

// assembly is an image being assembled.
type assembly struct {
	builder   *Builder
	component *Component
	made      map[string]store.Entry // built dependencies
	work      string
	base      *index // nil for an image from scratch
	layer     layer
}

func (a *assembly) build(ctx context.Context) ([]v1.Layer, error) {
	var layers []v1.Layer
	if a.component.Base != "" {
		base := a.made[a.component.Base]
		digest, err := v1.NewHash(base.Digest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.component.Base, err)
		}
		l, err := openLayer(base.Path(layerFile), digest)
		if err != nil {
			return nil, err
		}
		if a.base, err = openIndex(base.Path(layerFile)); err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	for i, content := range a.component.Contents {
		if err := a.add(ctx, content); err != nil {
			return nil, fmt.Errorf("contents[%d]: %w", i, err)
		}
	}
	if a.component.Kind == KindNode {
		if err := a.node(ctx); err != nil {
			return nil, err
		}
	}
	a.layer.parents(a.inBase)
	top, err := a.layer.writeFile(filepath.Join(a.work, layerFile))
	if err != nil {
		return nil, err
	}
	return append(layers, top), nil
}

func (a *assembly) inBase(name string) bool {
	if a.base == nil {
		return false
	}
	_, ok := a.base.entries[name]
	return ok
}

// path resolves a path in the image: the base may have symlinks (in Debian, /sbin is usr/sbin) that a layer must not
// replace.
func (a *assembly) path(to string) string {
	to = strings.Trim(path.Clean("/"+to), "/")
	if a.base == nil {
		return to
	}
	return path.Join(a.base.resolve(path.Dir(to)), path.Base(to))
}

func (a *assembly) add(ctx context.Context, c Content) error {
	uid, gid, err := parseOwner(c.Owner)
	if err != nil {
		return err
	}
	fileMode, err := parseMode(c.Mode, 0o644)
	if err != nil {
		return err
	}
	dirMode, err := parseMode(c.Mode, 0o755)
	if err != nil {
		return err
	}
	to := a.path(c.To)
	switch {
	case c.Dir:
		a.layer.dir(to, dirMode, uid, gid)
	case c.Link != "":
		a.layer.link(to, c.Link)
	case c.Text != "":
		return a.text(to, []byte(c.Text), fileMode, c)
	case c.File != "":
		data, err := embedded.ReadFile(path.Join("files", c.File))
		if err != nil {
			return err
		}
		return a.text(to, data, fileMode, c)
	case c.Module != "":
		src, err := a.builder.sums.Download(ctx, c.Module)
		if err != nil {
			return err
		}
		file := filepath.Join(src, filepath.FromSlash(c.Path))
		if c.Const != "" {
			text, err := constant(file, c.Const, c.With)
			if err != nil {
				return err
			}
			return a.text(to, []byte(text), fileMode, c)
		}
		return a.copyTree(file, to, c)
	default:
		return a.from(to, dirMode, c)
	}
	return nil
}

func (a *assembly) text(to string, data []byte, mode int64, c Content) error {
	uid, gid, err := parseOwner(c.Owner)
	if err != nil {
		return err
	}
	if c.Append {
		before, h, err := a.before(to)
		if err != nil {
			return err
		}
		data = append(before, data...)
		mode, uid, gid = h.Mode, h.Uid, h.Gid
	}
	a.layer.bytes(to, data, mode, uid, gid)
	return nil
}

// before returns the file at a path of the image so far.
func (a *assembly) before(to string) ([]byte, fileHeader, error) {
	if e, ok := a.layer[to]; ok && e.open != nil {
		var buf strings.Builder
		if err := copyFrom(&buf, e.open); err != nil {
			return nil, fileHeader{}, err
		}
		return []byte(buf.String()), fileHeader{e.header.Mode, e.header.Uid, e.header.Gid}, nil
	}
	if a.base != nil {
		data, ok, err := a.base.read(to)
		if err != nil {
			return nil, fileHeader{}, err
		}
		if ok {
			e, _ := a.base.regular(to)
			return data, fileHeader{e.header.Mode, e.header.Uid, e.header.Gid}, nil
		}
	}
	return nil, fileHeader{}, fmt.Errorf("/%s: nothing there to append to", to)
}

type fileHeader struct {
	Mode     int64
	Uid, Gid int
}

// copyTree adds a file or folder of the module cache, which is read-only and has no execute bits.
func (a *assembly) copyTree(src, to string, c Content) error {
	uid, gid, err := parseOwner(c.Owner)
	if err != nil {
		return err
	}
	mode, err := parseMode(c.Mode, 0o644)
	if err != nil {
		return err
	}
	return filepath.WalkDir(src, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, file)
		if err != nil {
			return err
		}
		name := a.path(path.Join(to, filepath.ToSlash(rel)))
		if d.IsDir() {
			if !a.inBase(name) {
				a.layer.dir(name, 0o755, uid, gid)
			}
			return nil
		}
		return a.layer.file(name, file, mode, uid, gid)
	})
}

// from adds programs, or files of a root file system with their shared libraries.
func (a *assembly) from(to string, mode int64, c Content) error {
	entry := a.made[c.From]
	component, ok := a.builder.recipes.Get(c.From)
	if !ok {
		return fmt.Errorf("no recipe for %q", c.From)
	}
	if component.Kind == KindRootFS {
		x, err := openIndex(entry.Path(layerFile))
		if err != nil {
			return err
		}
		for _, glob := range c.Paths {
			if err := x.take(a.layer, glob); err != nil {
				return err
			}
		}
		return nil
	}
	uid, gid, err := parseOwner(c.Owner)
	if err != nil {
		return err
	}
	for _, p := range c.Paths {
		name := to
		if strings.HasSuffix(c.To, "/") {
			name = a.path(path.Join(c.To, path.Base(p)))
		}
		if err := a.layer.file(name, entry.Path(filepath.FromSlash(p)), mode, uid, gid); err != nil {
			return err
		}
	}
	return nil
}
