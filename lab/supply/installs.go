package supply

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"

	"homelab/lab"
	"homelab/lab/supply/chart"
	"homelab/lab/supply/registry"
	"homelab/lab/supply/source"
)

// learn reads from charts of whose application nobody said the version, which it is.
func (s *Supply) learn(ctx context.Context, name string) error {
	for _, c := range s.charts(name) {
		if c.App != "" {
			continue
		}
		app, _, err := s.inChart(ctx, name, c.Version)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.items[s.index(KindChart, name, c.Version)].App = app
		s.mu.Unlock()
	}
	return nil
}

// charts returns the listed versions of a chart.
func (s *Supply) charts(name string) []registry.ChartPin {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []registry.ChartPin
	for _, i := range s.items {
		if i.Kind == KindChart && i.Name == name && !i.found {
			list = append(list, registry.ChartPin{Name: i.Name, Version: i.Version, App: i.App})
		}
	}
	return list
}

// addChart adds the chart that installs a listed image.
func (s *Supply) addChart(ctx context.Context, p part, r *lab.Release) error {
	pin, ok := registry.Nearest(s.charts(p.chart), r.Version)
	if !ok && s.asks() {
		found, err := s.ask(ctx, p, r.Version)
		if err != nil {
			return err
		}
		pin, ok = found.Chart, true
	}
	if !ok {
		if err := s.learn(ctx, p.chart); err != nil {
			return err
		}
		pin, ok = registry.Nearest(s.charts(p.chart), r.Version)
	}
	if !ok {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "no_chart", Message: fmt.Sprintf("%s has no chart that installs %s %s", s.place(), p.title, r.Version), Cure: s.cure(p, nil),
		}
	}
	r.Chart = pin.Version
	r.Note = note("", p.chart, *r, pin)
	return nil
}

// note adds to a note that a release's chart was made for another version.
func note(text, chart string, r lab.Release, pin registry.ChartPin) string {
	if pin.App == "" || registry.Compare(pin.App, r.Version) == 0 {
		return text
	}
	if text != "" {
		text += "; "
	}
	return text + fmt.Sprintf("its chart %s %s was made for %s", chart, r.Chart, pin.App)
}

// addImages adds the images that a release's chart runs. Those of the default chart are the components themselves.
func (s *Supply) addImages(ctx context.Context, p part, r *lab.Release) error {
	if r.Chart == s.ChartVersion(p.chart) {
		return nil
	}
	images, err := s.imagesIn(ctx, p.chart, r.Chart)
	if err != nil {
		return err
	}
	for name, version := range images {
		base, ok := s.find(KindImage, name, "")
		if !ok || strings.TrimPrefix(version, "v") == base.release() {
			continue
		}
		r.Images[name] = source.VariantName(name, version)
		if _, ok := s.find(KindImage, r.Images[name], ""); !ok && !s.optional(base) {
			return &lab.Error{
				Exit: lab.ExitInvalid, Code: "no_version", Message: fmt.Sprintf("%s has no %s of %s %s", s.place(), r.Images[name], p.title, r.Version), Cure: s.cure(p, nil),
			}
		}
	}
	return nil
}

// imagesIn returns the versions of the components' images that a chart runs: of its recipe's modules, or in its values.
func (s *Supply) imagesIn(ctx context.Context, name, version string) (map[string]string, error) {
	images := map[string]string{}
	if s.origin == lab.OriginSource {
		r, err := chart.Find(name, version)
		for _, module := range r.Parts {
			of, at, _ := strings.Cut(module, "@")
			images[path.Base(majorPath.ReplaceAllString(of, ""))] = at
		}
		return images, err
	}
	_, values, err := s.inChart(ctx, name, version)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		of, _ := v.(map[string]any)
		repository, _ := of["image"].(string)
		tag, _ := of["tag"].(string)
		for _, i := range s.items {
			if i.Kind == KindImage && !i.variant() && tag != "" && i.Ref == repository+":"+i.Version {
				images[i.Name] = tag
			}
		}
	}
	return images, nil
}

var majorPath = regexp.MustCompile(`/v[0-9]+$`)

// inChart fetches a chart and returns the version of the application that it installs, and its values.
func (s *Supply) inChart(ctx context.Context, name, version string) (app string, values map[string]any, err error) {
	c, err := s.Chart(ctx, name, version, nil)
	if err != nil {
		return "", nil, err
	}
	loaded, err := loader.LoadFile(c.Archive)
	if err != nil {
		return "", nil, fmt.Errorf("chart %s %s: %w", name, version, err)
	}
	return strings.TrimPrefix(loaded.Metadata.AppVersion, "v"), loaded.Values, nil
}
