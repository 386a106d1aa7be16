// Package registry pulls images and charts from upstream's registries, or from a mirror with upstream's names. Versions
// and digests are pinned in pins.yaml.
package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
	"homelab/lab/supply/disk"
	"homelab/lab/supply/meter"
)

// Options configure a Registry.
type Options struct {
	Dir      string // of archives; created if missing
	Mirror   string // host:port[/path] of a registry with upstream's names; empty for upstream
	Platform string // "linux/amd64"; empty for the machine's

	Patience time.Duration // timeout for a mirror's pins; 0 for askTimeout
}

// askTimeout is generous for a few hundred bytes: a mirror may have to wake up.
const askTimeout = 10 * time.Second

// Registry pulls pinned images and charts. It is safe for concurrent use.
type Registry struct {
	dir      string
	mirror   string
	platform v1.Platform
	client   *http.Client
	patience time.Duration

	lab   Pins       // lab's own
	mu    sync.Mutex // guards asked and pins
	asked bool       // the mirror's pins were requested
	pins  Pins       // in effect: the mirror's, if it has any
}

// New returns a Registry with lab's pins, or those of the mirror.
func New(o Options) (*Registry, error) {
	pins, err := Embedded()
	if err != nil {
		return nil, err
	}
	return newRegistry(o, pins)
}

func newRegistry(o Options, pins Pins) (*Registry, error) {
	if o.Platform == "" {
		o.Platform = "linux/" + runtime.GOARCH
	}
	platform, err := v1.ParsePlatform(o.Platform)
	if err != nil {
		return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("platform %q is not like linux/amd64", o.Platform)}
	}
	if err := checkMirror(o.Mirror); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, disk.Explain(err, o.Dir, disk.CacheCure)
	}
	return &Registry{
		dir: o.Dir, mirror: o.Mirror, platform: *platform, lab: pins, pins: pins, client: &http.Client{Transport: remote.DefaultTransport},
		patience: cmp.Or(o.Patience, askTimeout),
	}, nil
}

func checkMirror(mirror string) error {
	if mirror == "" {
		return nil
	}
	if _, err := name.NewRepository(mirror + "/x"); err != nil || strings.Contains(mirror, "://") {
		return &lab.Error{
			Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("registry mirror %q is not a registry", mirror), Cure: "use host:port or host:port/path",
		}
	}
	return nil
}

// Pins returns the pins in effect: the mirror's, if it has any.
func (r *Registry) Pins(ctx context.Context) (Pins, error) {
	if r.mirror == "" {
		return r.pins, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked {
		held, err := r.mirrorPins(ctx)
		if err != nil {
			return Pins{}, err
		}
		if held != nil {
			r.pins = *held
		}
		r.asked = true
	}
	return r.pins, nil
}

// Variant returns the pin of another version of a component, in the pins in effect. It makes no requests.
func (r *Registry) Variant(component string) (ImagePin, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pins.variant(component)
}

// Closed reports whether nothing but the pins in effect can be had: they are those of a mirror. It makes no requests.
func (r *Registry) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pins.closed
}

// Mirrored returns the mirror's name for ref: the host becomes part of the path.
func Mirrored(mirror, ref string) (name.Tag, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return name.Tag{}, err
	}
	host := tag.RegistryStr()
	if host == name.DefaultRegistry {
		host = "docker.io" // its usual name
	}
	return name.NewTag(mirror + "/" + strings.ReplaceAll(host, ":", "-") + "/" + tag.RepositoryStr() + ":" + tag.TagStr())
}

func (r *Registry) options(ctx context.Context) []remote.Option {
	return append(options(ctx), remote.WithPlatform(r.platform))
}

func options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		// The default backoff sleeps for seconds and ignores the context.
		remote.WithRetryBackoff(remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Steps: 3}),
	}
}

// Image pulls a component's image as a docker-archive, unless it was pulled before with the same pin.
func (r *Registry) Image(ctx context.Context, component string, p lab.Progress) (lab.Image, error) {
	pins, err := r.Pins(ctx)
	if err != nil {
		return lab.Image{}, err
	}
	pin, ok := pins.image(component)
	if !ok {
		return lab.Image{}, &lab.Error{Exit: lab.ExitFailed, Code: "no_image", Message: "no known registry has an image of " + component, Cure: "use --images source"}
	}
	if img, ok := r.HasImage(pin); ok {
		return img, nil
	}
	tag, key, err := r.place(pin)
	if err != nil {
		return lab.Image{}, err
	}
	img, out, err := r.resolve(ctx, tag, pin)
	if err != nil {
		return lab.Image{}, failed(ctx, "image "+tag.String()+" was not pulled", err)
	}
	if v, err := r.lab.Image(out, r.platform.String()); err != nil {
		return lab.Image{}, err
	} else if v.Check == CheckFirstUse && p != nil {
		p("no digest of " + pin.Ref + " is known: it is compared with the first one pulled")
	}
	out, err = r.download(ctx, key, out, img, p)
	if err != nil {
		return lab.Image{}, failed(ctx, "image "+tag.String()+" was not pulled", err)
	}
	return out, nil
}

// HasImage returns a pinned image that was pulled before. It makes no requests.
func (r *Registry) HasImage(pin ImagePin) (lab.Image, bool) {
	_, key, err := r.place(pin)
	var out lab.Image
	if err != nil || !r.kept(key, &out) || out.Ref != pin.Ref {
		return lab.Image{}, false
	}
	// An earlier lab did not keep manifests, without which a bundle of it could not be checked.
	if out.Key != pin.Key || out.Manifests == "" {
		return lab.Image{}, false
	}
	info, err := os.Stat(out.Archive)
	return out, err == nil && info.Size() == out.Size
}

// place returns the source of an image and the name of its files.
func (r *Registry) place(pin ImagePin) (tag name.Tag, key string, err error) {
	if tag, err = name.NewTag(pin.Ref); err == nil && r.mirror != "" {
		tag, err = Mirrored(r.mirror, pin.Ref)
	}
	return tag, fileName(pin.Name, tag.String()+" "+pin.For(r.platform.String())+" "+r.platform.String()), err
}

// resolve finds the platform's image, by its pinned digest if there is one.
func (r *Registry) resolve(ctx context.Context, tag name.Tag, pin ImagePin) (v1.Image, lab.Image, error) {
	var ref name.Reference = tag
	want := pin.For(r.platform.String())
	if want != "" {
		// By digest, whatever the tag refers to now.
		ref = tag.Context().Digest(want)
	}
	out := lab.Image{Name: pin.Name, Ref: pin.Ref, Origin: lab.OriginRegistry, Key: pin.Key}
	desc, err := remote.Get(ref, r.options(ctx)...)
	if err != nil {
		return nil, out, err
	}
	if want == "" {
		if err := r.remember(ctx, "image "+tag.String(), desc.Digest.String()); err != nil {
			return nil, out, err
		}
	}
	img, err := desc.Image()
	if err != nil {
		return nil, out, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, out, err
	}
	manifest, err := img.RawManifest()
	if err != nil {
		return nil, out, err
	}
	digest, err := img.ConfigName()
	if err != nil {
		return nil, out, err
	}
	out.Digest = digest.String()
	if out.Manifests = cmp.Or(pin.Manifests, string(desc.Manifest)); pin.Manifests == "" && desc.MediaType.IsIndex() {
		out.Manifests += separator + string(manifest)
	}
	// A tag may refer to a single image instead of an index.
	if got := config.Platform(); got != nil && got.Architecture != "" && got.Architecture != r.platform.Architecture {
		return nil, out, fmt.Errorf("it is for %s/%s, not for %s", got.OS, got.Architecture, r.platform.String())
	}
	return img, out, claimed(pin.Key, config)
}

// download writes the image as an archive, and its metadata.
func (r *Registry) download(ctx context.Context, key string, out lab.Image, img v1.Image, p lab.Progress) (lab.Image, error) {
	tag, err := name.NewTag(out.Ref)
	if err != nil {
		return lab.Image{}, err
	}
	size, err := tarball.CalculateSize(map[name.Reference]v1.Image{tag: img})
	if err != nil {
		return lab.Image{}, err
	}
	tmp, err := os.CreateTemp(r.dir, ".pull-*")
	if err != nil {
		return lab.Image{}, err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	count := meter.New("pulling "+out.Ref, size, p)
	if err := tarball.Write(tag, img, count.Writer(tmp)); err != nil {
		return lab.Image{}, err
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return lab.Image{}, err
	}
	info, err := os.Stat(tmp.Name())
	if err != nil {
		return lab.Image{}, err
	}
	out.Archive, out.Size = filepath.Join(r.dir, key+".tar"), info.Size()
	if err := os.Rename(tmp.Name(), out.Archive); err != nil {
		return lab.Image{}, err
	}
	return out, r.keep(key, out)
}

// kept reads what keep wrote.
func (r *Registry) kept(key string, v any) bool {
	data, err := os.ReadFile(filepath.Join(r.dir, key+".json"))
	return err == nil && json.Unmarshal(data, v) == nil
}

func (r *Registry) keep(key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(r.dir, key+".json"), data)
}

// failed wraps the error of a pull. Cancellations and errors with a code are returned unchanged.
func failed(ctx context.Context, message string, err error) error {
	err = disk.Explain(err, os.TempDir(), disk.CacheCure)
	var labErr *lab.Error
	switch {
	case errors.As(err, &labErr):
		return labErr
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &lab.Error{Exit: lab.ExitFailed, Code: "registry", Message: message, Cure: "try again, or build it with --images source", Err: err}
}

func loopbackURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
