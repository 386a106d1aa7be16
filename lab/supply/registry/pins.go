package registry

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/defaults"
)

//go:embed pins.yaml
var pinsYAML []byte

// NodeImage is the name of the node image's pin.
const NodeImage = "node"

// Pins are the versions to pull from registries.
type Pins struct {
	Images []ImagePin `yaml:"images"`
	Charts []ChartPin `yaml:"charts"`

	closed bool // nothing else can be had: a mirror's own
}

// ImagePin pins an image.
type ImagePin struct {
	Name      string            `yaml:"name"`                // component, such as "argocd"
	Ref       string            `yaml:"ref"`                 // repository:tag
	Digest    string            `yaml:"digest,omitempty"`    // of the tag; empty if unknown
	Platforms map[string]string `yaml:"platforms,omitempty"` // "linux/amd64" -> digest of that platform's image
	Unknown   string            `yaml:"unknown,omitempty"`   // why there is no digest, or not for each platform

	// Of a mirror's own pins.
	Key       string `yaml:"key,omitempty"`       // of the recipe that it was built from, according to the mirror
	Manifests string `yaml:"manifests,omitempty"` // upstream's: lab.Image.Manifests
}

// For returns the expected digest for a platform, or "".
func (p ImagePin) For(platform string) string {
	if d := p.Platforms[platform]; d != "" {
		return d
	}
	return p.Digest
}

// ChartPin pins a chart.
type ChartPin struct {
	Name    string `yaml:"name"`
	Version string `yaml:"version"`
	App     string `yaml:"app,omitempty"` // version of the application that it installs, or its minor if no more is known: the chart's appVersion without v
	From    string `yaml:"from"`          // https://... of a Helm repository, or oci://host/path without the chart's name
	Digest  string `yaml:"digest,omitempty"`
	Unknown string `yaml:"unknown,omitempty"` // why there is no digest
	Key     string `yaml:"key,omitempty"`     // as an image's
}

// Embedded returns the built-in pins: Kind's node image, then those of pins.yaml.
func Embedded() (Pins, error) {
	pins, err := parsePins(pinsYAML)
	if err != nil {
		return Pins{}, err
	}
	ref, digest, _ := strings.Cut(defaults.Image, "@")
	pins.Images = slices.Insert(pins.Images, 0, ImagePin{Name: NodeImage, Ref: ref, Digest: digest})
	return pins, nil
}

func parsePins(data []byte) (Pins, error) {
	var pins Pins
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&pins); err != nil {
		return Pins{}, fmt.Errorf("pins: %w", err)
	}
	seen := map[string]bool{}
	once := func(id string) error {
		if seen[id] {
			return fmt.Errorf("pins: duplicate %s", id)
		}
		seen[id] = true
		return nil
	}
	for _, p := range pins.Images {
		if err := once("image " + p.Name); err != nil {
			return Pins{}, err
		}
		tag, err := name.NewTag(p.Ref)
		if err != nil || !strings.HasSuffix(p.Ref, ":"+tag.TagStr()) || p.Name == "" {
			return Pins{}, fmt.Errorf("pins: image %s: ref %q must be repository:tag", p.Name, p.Ref)
		}
		if err := p.checkVariant(tag.TagStr()); err != nil {
			return Pins{}, fmt.Errorf("pins: image %s: %w", p.Name, err)
		}
		digests := []string{p.Digest}
		for platform, d := range p.Platforms {
			if _, err := v1.ParsePlatform(platform); err != nil || !strings.Contains(platform, "/") {
				return Pins{}, fmt.Errorf("pins: image %s: platform %q must be like linux/amd64", p.Name, platform)
			}
			digests = append(digests, d)
		}
		if err := checkDigests(digests, p.Unknown); err != nil {
			return Pins{}, fmt.Errorf("pins: image %s: %w", p.Name, err)
		}
	}
	for _, c := range pins.Charts {
		if err := once("chart " + c.Name + " " + c.Version); err != nil {
			return Pins{}, err
		}
		if c.Name == "" || c.Version == "" || !strings.HasPrefix(c.From, "https://") && !strings.HasPrefix(c.From, "oci://") && !loopbackURL(c.From) {
			return Pins{}, fmt.Errorf("pins: chart %s %s: name, version and from (https:// or oci://) are required", c.Name, c.Version)
		}
		if c.App != "" && !appForm.MatchString(c.App) {
			return Pins{}, fmt.Errorf("pins: chart %s %s: app %q must be like 3.6.1 or 3.6", c.Name, c.Version, c.App)
		}
		if err := checkDigests([]string{c.Digest}, c.Unknown); err != nil {
			return Pins{}, fmt.Errorf("pins: chart %s %s: %w", c.Name, c.Version, err)
		}
	}
	return pins, nil
}

// checkDigests requires a digest, or the reason why there is none.
func checkDigests(digests []string, unknown string) error {
	digests = slices.DeleteFunc(digests, func(d string) bool { return d == "" })
	if len(digests) == 0 && unknown == "" {
		return errors.New("a digest is required, or unknown: REASON")
	}
	for _, d := range digests {
		if h, err := v1.NewHash(d); err != nil || h.Algorithm != "sha256" {
			return fmt.Errorf("%q is not a sha256 digest", d)
		}
	}
	return nil
}

// image returns the pin of a component or of a variant.
func (p Pins) image(component string) (ImagePin, bool) {
	i := slices.IndexFunc(p.Images, func(x ImagePin) bool { return x.Name == component })
	if i < 0 {
		return p.variant(component)
	}
	return p.Images[i], true
}

// App returns the version of the application that a pinned chart installs, or "".
func (p Pins) App(chart, version string) string {
	pin, _ := p.chart(chart, version)
	return pin.App
}

// chart returns the pin of a chart; an empty version selects the first.
func (p Pins) chart(chart, version string) (ChartPin, bool) {
	i := slices.IndexFunc(p.Charts, func(x ChartPin) bool { return x.Name == chart && (version == "" || x.Version == version) })
	if i < 0 {
		return ChartPin{}, false
	}
	return p.Charts[i], true
}

// First returns the default version of a chart, or "".
func (p Pins) First(chart string) string {
	pin, _ := p.chart(chart, "")
	return pin.Version
}
