package supply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/supply/chart"
	"homelab/lab/supply/registry"
)

// part is what versions of a component consist of: an image, a chart that installs it, or both.
type part struct{ image, chart, title string }

// parts are the components whose version can be chosen.
var parts = map[string]part{
	"argocd":      {"argocd", "argo-cd", "argo cd"},
	"flux":        {"", "flux2", "flux"},
	nodeComponent: {nodeComponent, "", "kubernetes"},
}

// known is a version that needs no request.
type known struct {
	version string
	image   string // component or variant
	chart   string // version of the chart, if that is all that the component has
}

// Release returns a version of a component, "argocd", "flux" or "node": the default for "", an exact version "3.5.7", or the newest of a minor "3.5". A registry
// is asked for what it has besides lab's pins. Pre-releases are none. A version that does not exist is an error with code no_version, which names those that do.
func (s *Supply) Release(ctx context.Context, component, want string) (lab.Release, error) {
	p, ok := parts[component]
	if !ok {
		return lab.Release{}, fmt.Errorf("supply: %s has no versions", component)
	}
	if want == "" {
		return s.standard(p), nil
	}
	want, valid := lab.WantedVersion(want)
	k, ok := chosen(s.known(p), want)
	if p.image == "" && !ok && !s.asks() {
		if err := s.learn(ctx, p.chart); err != nil {
			return lab.Release{}, err
		}
		k, ok = chosen(s.known(p), want)
	}
	r := lab.Release{Version: k.version, Chart: k.chart, Images: map[string]string{}}
	switch {
	case ok && p.image != "" && p.chart != "":
		if err := s.addChart(ctx, p, &r); err != nil {
			return lab.Release{}, err
		}
	case ok:
	case s.asks() && valid:
		found, err := s.ask(ctx, p, want)
		if err != nil {
			return lab.Release{}, err
		}
		k.image, r.Version, r.Chart = found.Image, found.Version, found.Chart.Version
		r.Note = note(fmt.Sprintf("lab pins no %s %s: it is compared with its first pull", p.title, r.Version), p.chart, r, found.Chart)
	default:
		return lab.Release{}, s.noVersion(p, want, nil)
	}
	if p.image == "" {
		err := s.addImages(ctx, p, &r)
		return r, err
	}
	if k.image != p.image {
		r.Images[p.image] = k.image
	}
	return r, nil
}

// standard returns the default of a component, whether or not all of it can be had.
func (s *Supply) standard(p part) lab.Release {
	r := lab.Release{Chart: s.ChartVersion(p.chart), Images: map[string]string{}}
	if i, ok := s.find(KindImage, p.image, ""); ok {
		r.Version = i.release()
	}
	charts := s.charts(p.chart)
	if i := slices.IndexFunc(charts, func(c registry.ChartPin) bool { return c.Version == r.Chart }); i >= 0 {
		r.Version = cmp.Or(r.Version, charts[i].App)
		r.Note = note("", p.chart, r, charts[i])
	}
	return r
}

// Versions returns the versions of a component that are known without a request, newest first.
func (s *Supply) Versions(component string) []string {
	p := parts[component]
	var list []string
	for _, k := range s.known(p) {
		list = append(list, k.version)
	}
	if s.asks() {
		found, _ := s.pulled.registry.Found() // an error prevents listing
		for _, f := range found {
			if f.Chart.Name == p.chart && (p.image == "" || strings.HasPrefix(f.Image, p.image+"-")) {
				list = append(list, f.Version)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b string) int { return registry.Compare(b, a) })
	return slices.Compact(list)
}

// ChartVersion returns the default version of a chart: of an engine's, the one that installs the default image, or that of lab's own pin or recipe.
func (s *Supply) ChartVersion(name string) string {
	for _, p := range parts {
		if p.chart != name {
			continue
		}
		charts := s.charts(name)
		if base, ok := s.find(KindImage, p.image, ""); ok {
			if pin, ok := registry.Nearest(charts, base.release()); ok {
				return pin.Version
			}
		}
		own, _ := registry.Embedded() // an error prevents opening
		recipe, _ := chart.Find(name, "")
		for _, c := range charts {
			if c.Version == own.First(name) || c.Version == recipe.Version {
				return c.Version
			}
		}
	}
	i, _ := s.find(KindChart, name, "")
	return i.Version
}

// base returns the component of an image that it is a version of.
func (i Item) base() string {
	if base, _, ok := registry.Variant(i.Name); ok && i.Kind == KindImage {
		return base
	}
	return i.Name
}

// variant reports whether an image is another version of a component.
func (i Item) variant() bool { return i.base() != i.Name }

// release returns the version of an image without v, and without the key that lab adds to names of its own.
func (i Item) release() string {
	version := strings.TrimPrefix(i.Version, "v")
	if strings.HasPrefix(i.Ref, "lab/") {
		version, _, _ = strings.Cut(version, "-")
	}
	return version
}

// known returns the listed versions of a component.
func (s *Supply) known(p part) []known {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []known
	for _, i := range s.items {
		switch {
		case i.found:
		case p.image != "" && i.Kind == KindImage && i.base() == p.image:
			list = append(list, known{version: i.release(), image: i.Name})
		case p.image == "" && i.Kind == KindChart && i.Name == p.chart && i.App != "":
			list = append(list, known{version: i.App, chart: i.Version})
		}
	}
	return list
}

// chosen returns the version that is wanted, if it is known.
func chosen(list []known, want string) (known, bool) {
	var versions []string
	for _, k := range list {
		if k.version == want {
			return k, true
		}
		versions = append(versions, k.version)
	}
	if want == registry.Minor(want) {
		want = registry.Newest(versions, want)
	}
	i := slices.Index(versions, want)
	if i < 0 {
		return known{}, false
	}
	return list[i], true
}

// asks reports whether a registry may have more than is listed.
func (s *Supply) asks() bool { return s.pulled != nil && !s.pulled.registry.Closed() }

// ask asks the registry for a version.
func (s *Supply) ask(ctx context.Context, p part, want string) (registry.Found, error) {
	found, err := s.pulled.registry.Find(ctx, registry.Wanted{Image: p.image, Chart: p.chart, Version: want})
	var none *registry.NotServed
	var e *lab.Error
	switch {
	case err == nil:
		err = s.list(ctx) // it is listed from now on
	case errors.As(err, &none):
		err = s.noVersion(p, want, none.Versions)
	case errors.As(err, &e) && e.Code == "registry":
		e.Cure = "try again, or " + s.cure(p, nil)
	}
	return found, err
}

// noVersion is the error of a version that does not exist.
func (s *Supply) noVersion(p part, want string, served []string) error {
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "no_version", Message: fmt.Sprintf("%s has no %s %s", s.place(), p.title, want), Cure: s.cure(p, served),
	}
}

// cure names the versions that there are: the listed ones, and the last of each minor that is served.
func (s *Supply) cure(p part, served []string) string {
	var versions []string
	for _, k := range s.known(p) {
		versions = append(versions, k.version)
	}
	for _, v := range registry.Lasts(served) {
		if !slices.ContainsFunc(versions, func(k string) bool { return registry.Minor(k) == registry.Minor(v) }) {
			versions = append(versions, v)
		}
	}
	const most = 10
	slices.SortFunc(versions, func(a, b string) int { return registry.Compare(b, a) })
	cure := "choose " + strings.Join(versions[:min(len(versions), most)], ", ")
	switch {
	case len(versions) == 0:
		return "use --images registry"
	case s.origin == lab.OriginSource:
		cure += ", or use --images registry"
	}
	return cure
}

// place is where images come from, in errors.
func (s *Supply) place() string {
	switch {
	case s.origin == lab.OriginBundle:
		return "the bundle"
	case s.origin == lab.OriginSource:
		return "lab's source"
	case s.options.Mirror != "":
		return s.options.Mirror
	}
	return "the registry"
}
