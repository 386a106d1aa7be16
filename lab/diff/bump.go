package diff

import (
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"homelab/lab/argo"
)

// Bump is a newer version of an image or a chart.
type Bump struct {
	What     string // "image", "chart" or "version", of a label
	Name     string // of the image or the chart; empty if the field does not say
	From, To string
}

// bumps returns the newer versions that fields consist of, or nil if there are others. An image is another tag of the same name, and a version is newer if both are
// semantic versions; labels that repeat a version count.
func bumps(object map[string]any, fields []Field) (list []Bump) {
	for _, f := range fields {
		from, was := f.Before.(string)
		to, is := f.After.(string)
		if f.Kind != Changed || !was || !is {
			return nil
		}
		b, ok := bump(object, f.Path, from, to)
		if !ok || !newer(b.From, b.To) {
			return nil
		}
		if !slices.Contains(list, b) {
			list = append(list, b)
		}
	}
	return list
}

func bump(object map[string]any, path Path, from, to string) (Bump, bool) {
	n := len(path) - 1
	switch key := path[n].Key; {
	case key == "image":
		name, tag := reference(from)
		other, next := reference(to)
		return Bump{"image", name, tag, next}, name == other
	case key == "helm.sh/chart":
		name, version := cutVersion(from)
		other, next := cutVersion(to)
		return Bump{"chart", name, version, next}, name == other
	case key == "app.kubernetes.io/version":
		return Bump{"version", "", from, to}, true
	case key == "targetRevision" && strings.HasPrefix(text(object, "apiVersion"), argo.Group):
		source, err := at(object, path[:n])
		name := text(source, "chart")
		return Bump{"chart", name, from, to}, err && name != ""
	case key == "version" && text(object, "kind") == "HelmRelease" && path.String() == "spec.chart.spec.version":
		spec, _ := at(object, path[:n])
		return Bump{"chart", text(spec, "chart"), from, to}, true
	}
	return Bump{}, false
}

// at returns the mapping at a path.
func at(v any, path Path) (map[string]any, bool) {
	for _, s := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[s.Key]
		case []any:
			if s.By != "" {
				i := slices.IndexFunc(x, func(e any) bool { return keyOf(e, s.By) == s.Value })
				if i < 0 {
					return nil, false
				}
				v = x[i]
			} else if s.Index < len(x) {
				v = x[s.Index]
			} else {
				return nil, false
			}
		default:
			return nil, false
		}
	}
	m, ok := v.(map[string]any)
	return m, ok
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// reference splits an image into its name and its tag. A digest belongs to the tag.
func reference(image string) (name, tag string) {
	whole, _, _ := strings.Cut(image, "@")
	i := strings.LastIndex(whole, ":")
	if i < strings.LastIndex(whole, "/") || i < 0 {
		return image, ""
	}
	return whole[:i], whole[i+1:]
}

// cutVersion splits NAME-VERSION as in the label helm.sh/chart.
func cutVersion(chart string) (name, version string) {
	for i := range len(chart) {
		if chart[i] != '-' {
			continue
		}
		if _, err := semver.StrictNewVersion(strings.TrimPrefix(strings.ReplaceAll(chart[i+1:], "_", "+"), "v")); err == nil {
			return chart[:i], chart[i+1:]
		}
	}
	return chart, ""
}

func newer(from, to string) bool {
	a, err := semver.NewVersion(from)
	b, other := semver.NewVersion(to)
	return err == nil && other == nil && b.GreaterThan(a)
}
