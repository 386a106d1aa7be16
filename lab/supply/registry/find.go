package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"homelab/lab"
)

// foundContent is what is in foundFile.
const foundContent = "versions that were found"

// Wanted is a version of a component, which has an image, a chart that installs it, or both.
type Wanted struct {
	Image   string // component; "" for a chart that runs several images
	Chart   string // "" if none installs it
	Version string // "3.5.7", or a minor "3.5" for its newest
}

// Found is what a registry serves for a Wanted.
type Found struct {
	Version string   `json:"version"`
	Image   string   `json:"image,omitempty"` // variant
	Chart   ChartPin `json:"chart,omitzero"`
}

// NotServed is the error of a version that does not exist.
type NotServed struct {
	Versions []string // those that do, the last of each minor, newest first; may be empty
}

func (e *NotServed) Error() string { return "it is not served" }

// Find asks a registry and a chart repository for a version that the pins lack. What was found is remembered, so that it is asked for once: a minor as long as
// the image, or else the chart, is here. A mirror with pins of its own has nothing else.
func (r *Registry) Find(ctx context.Context, w Wanted) (Found, error) {
	pins, err := r.Pins(ctx)
	if err != nil {
		return Found{}, err
	}
	if pins.closed {
		return Found{}, &NotServed{}
	}
	_, all, err := read[Found](r, foundFile, foundContent)
	if err != nil {
		return Found{}, err
	}
	known, remembered := all[r.wanted(w)]
	if remembered && (Minor(w.Version) != w.Version || r.here(pins, known)) {
		return known, nil
	}
	found, err := r.look(ctx, pins, w)
	var none *NotServed
	switch {
	case err != nil && remembered && !errors.As(err, &none) && ctx.Err() == nil:
		return known, nil
	case errors.As(err, &none):
		return Found{}, err
	case err != nil:
		return Found{}, failed(ctx, "versions of "+cmp.Or(w.Image, w.Chart)+" could not be listed", err)
	}
	return found, update(ctx, r, foundFile, foundContent, func(all map[string]Found) error {
		all[r.wanted(w)] = found
		w.Version = found.Version
		all[r.wanted(w)] = found
		return nil
	})
}

// Found returns what was found before, newest first. It makes no requests.
func (r *Registry) Found() ([]Found, error) {
	_, all, err := read[Found](r, foundFile, foundContent)
	maps.DeleteFunc(all, func(of string, _ Found) bool { return !strings.HasPrefix(of, r.source()+" ") })
	list := slices.Collect(maps.Values(all))
	slices.SortFunc(list, func(a, b Found) int { return Compare(b.Version, a.Version) })
	return list, err
}

func (r *Registry) source() string {
	if r.mirror == "" {
		return "upstream"
	}
	return r.mirror
}

func (r *Registry) wanted(w Wanted) string {
	return fmt.Sprintf("%s %s %s", r.source(), w.Image+"/"+w.Chart, w.Version)
}

// here reports whether what was found is here.
func (r *Registry) here(pins Pins, f Found) bool {
	if f.Image == "" {
		_, ok := r.HasChart(f.Chart)
		return ok
	}
	pin, ok := pins.image(f.Image)
	if ok {
		_, ok = r.HasImage(pin)
	}
	return ok
}

func (r *Registry) look(ctx context.Context, pins Pins, w Wanted) (Found, error) {
	if w.Chart == "" {
		return r.lookImage(ctx, pins, w)
	}
	charts, err := r.charts(ctx, pins, w.Chart)
	if err != nil {
		return Found{}, err
	}
	var apps []string
	for _, c := range charts {
		apps = append(apps, c.App)
	}
	none := &NotServed{Lasts(apps)}
	f := Found{Version: w.Version}
	if Minor(w.Version) == w.Version {
		if f.Version = Newest(apps, w.Version); f.Version == "" {
			return Found{}, none
		}
	}
	var ok bool
	if f.Chart, ok = Nearest(charts, f.Version); !ok || w.Image == "" && f.Chart.App != f.Version {
		return Found{}, none
	}
	if w.Image != "" {
		f.Image = w.Image + "-" + f.Version
		ok, err = r.serves(ctx, pins, f.Image)
	}
	if err == nil && !ok {
		err = none
	}
	return f, err
}

func (r *Registry) lookImage(ctx context.Context, pins Pins, w Wanted) (Found, error) {
	f := Found{Version: w.Version, Image: w.Image + "-" + w.Version}
	if Minor(w.Version) != w.Version {
		if ok, err := r.serves(ctx, pins, f.Image); ok || err != nil {
			return f, err
		}
	}
	base, _ := pins.image(w.Image)
	tag, _, err := r.place(base)
	if err != nil {
		return Found{}, err
	}
	tags, err := remote.List(tag.Context(), r.options(ctx)...)
	if err != nil {
		return Found{}, err
	}
	served := releases(tags)
	if f.Version = Newest(served, w.Version); f.Version == "" {
		return Found{}, &NotServed{Lasts(served)}
	}
	f.Image = w.Image + "-" + f.Version
	return f, nil
}

// serves reports whether a registry has a variant's image.
func (r *Registry) serves(ctx context.Context, pins Pins, variant string) (bool, error) {
	pin, ok := pins.image(variant)
	if !ok {
		return false, nil
	}
	tag, _, err := r.place(pin)
	if err != nil {
		return false, err
	}
	_, err = remote.Head(tag, r.options(ctx)...)
	var said *transport.Error
	if errors.As(err, &said) && said.StatusCode == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// maxCharts is how many charts of a registry are read to find one: each costs a request, and most registries list hundreds.
const maxCharts = 30

// charts returns the releases of a chart that its repository serves, with the application versions that they install.
func (r *Registry) charts(ctx context.Context, pins Pins, chart string) ([]ChartPin, error) {
	pin, ok := pins.chart(chart, "")
	if !ok {
		return nil, &NotServed{}
	}
	from, _, _ := r.chartPlace(pin)
	var list []ChartPin
	add := func(version, app string) {
		if app = strings.TrimPrefix(app, "v"); releaseForm.MatchString(version) && releaseForm.MatchString(app) {
			list = append(list, ChartPin{Name: chart, Version: version, App: app, From: pin.From, Unknown: fmt.Sprintf("lab pins no chart %s %s", chart, version)})
		}
	}
	host, oci := strings.CutPrefix(from, "oci://")
	if !oci {
		base, err := url.Parse(from)
		if err != nil {
			return nil, err
		}
		index, err := r.index(ctx, base)
		for _, v := range index.Entries[chart] {
			if v != nil && v.Metadata != nil {
				add(v.Version, v.AppVersion)
			}
		}
		return list, err
	}
	repository, err := name.NewRepository(host + "/" + chart)
	if err != nil {
		return nil, err
	}
	tags, err := remote.List(repository, r.options(ctx)...)
	if err != nil {
		return nil, err
	}
	versions := releases(tags)
	for _, version := range versions[:min(len(versions), maxCharts)] {
		tag, err := chartTag(host, chart, version)
		if err != nil {
			return nil, err
		}
		img, err := remote.Image(tag, r.options(ctx)...)
		if err != nil {
			return nil, err
		}
		config, err := img.RawConfigFile()
		if err != nil {
			return nil, err
		}
		var metadata struct{ AppVersion string }
		if err := json.Unmarshal(config, &metadata); err != nil {
			return nil, fmt.Errorf("chart %s %s: %w", chart, version, err)
		}
		add(version, metadata.AppVersion)
	}
	return list, nil
}

// chartPin returns the pin of a chart, or of one that was found.
func (r *Registry) chartPin(pins Pins, chart, version string) (ChartPin, error) {
	pin, ok := pins.chart(chart, version)
	if !ok && !pins.closed {
		found, err := r.Found()
		i := slices.IndexFunc(found, func(f Found) bool { return f.Chart.Name == chart && f.Chart.Version == version })
		if err != nil {
			return ChartPin{}, err
		}
		if i >= 0 {
			return found[i].Chart, nil
		}
	}
	if !ok {
		return ChartPin{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "no_chart", Message: fmt.Sprintf("no known repository has chart %s %s", chart, version), Cure: "use --images source",
		}
	}
	return pin, nil
}
