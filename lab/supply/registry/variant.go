package registry

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/mod/semver"
)

var (
	variantForm = regexp.MustCompile(`^(.+)-([0-9]+\.[0-9]+\.[0-9]+)$`)
	releaseForm = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+$`) // no pre-release
	appForm     = regexp.MustCompile(`^[0-9]+\.[0-9]+(\.[0-9]+)?$`)
)

// Variant splits the name of another version of a component, "argocd-3.2.11".
func Variant(component string) (base, version string, ok bool) {
	m := variantForm.FindStringSubmatch(component)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// Minor returns "3.6" of "v3.6.1" and of "3.6", and "" for anything else.
func Minor(version string) string {
	return strings.TrimPrefix(semver.MajorMinor("v"+strings.TrimPrefix(version, "v")), "v")
}

// Compare compares versions, with or without v.
func Compare(a, b string) int {
	return semver.Compare("v"+strings.TrimPrefix(a, "v"), "v"+strings.TrimPrefix(b, "v"))
}

// Newest returns the newest version of a minor, or "".
func Newest(versions []string, minor string) string {
	found := ""
	for _, v := range versions {
		if Minor(v) == minor && (found == "" || Compare(v, found) > 0) {
			found = v
		}
	}
	return found
}

// Nearest returns the chart that installs a version: the newest that was made for it, else for the version of the same minor that is next below, else above.
// Not every version has a chart of its own: Argo CD's are made for the newest minor alone.
func Nearest(charts []ChartPin, version string) (ChartPin, bool) {
	var best ChartPin
	better := func(c ChartPin) bool {
		below, was := Compare(c.App, version) <= 0, Compare(best.App, version) <= 0
		switch order := Compare(c.App, best.App); {
		case best.Name == "":
			return true
		case below != was:
			return below
		case order == 0:
			return Compare(c.Version, best.Version) > 0
		default:
			return (order > 0) == below
		}
	}
	for _, c := range charts {
		if c.App != "" && Minor(c.App) == Minor(version) && better(c) {
			best = c
		}
	}
	return best, best.Name != ""
}

// installs reports whether a chart's appVersion is an application's version, or of that minor.
func installs(appVersion, app string) bool {
	return Compare(appVersion, app) == 0 && Minor(appVersion) != "" || Minor(app) == app && Minor(appVersion) == app
}

// variant returns the pin of another version of a component, unless only what is listed can be had.
func (p Pins) variant(component string) (ImagePin, bool) {
	base, version, ok := Variant(component)
	if !ok || p.closed {
		return ImagePin{}, false
	}
	i := slices.IndexFunc(p.Images, func(x ImagePin) bool { return x.Name == base })
	if i < 0 {
		return ImagePin{}, false
	}
	of := p.Images[i]
	tag, err := name.NewTag(of.Ref)
	if err != nil || !releaseForm.MatchString(tag.TagStr()) {
		return ImagePin{}, false
	}
	if strings.HasPrefix(tag.TagStr(), "v") {
		version = "v" + version
	}
	ref := strings.TrimSuffix(of.Ref, tag.TagStr()) + version
	return ImagePin{Name: component, Ref: ref, Unknown: "lab pins no " + ref}, true
}

// checkVariant requires that a variant's name is that of its tag; what lab built has a key in it.
func (p ImagePin) checkVariant(tag string) error {
	_, version, ok := Variant(p.Name)
	if built := strings.HasPrefix(p.Ref, "lab/"); ok && version != strings.TrimPrefix(tag, "v") && !(built && strings.HasPrefix(tag, "v"+version+"-")) {
		return fmt.Errorf("its tag is %s", tag)
	}
	return nil
}

// releases returns the releases among tags, without v, newest first.
func releases(tags []string) []string {
	var list []string
	for _, tag := range tags {
		if releaseForm.MatchString(tag) {
			list = append(list, strings.TrimPrefix(tag, "v"))
		}
	}
	slices.SortFunc(list, func(a, b string) int { return Compare(b, a) })
	return slices.Compact(list)
}

// Lasts returns the last version of each minor, newest first.
func Lasts(versions []string) []string {
	sorted := slices.SortedFunc(slices.Values(versions), func(a, b string) int { return cmp.Or(Compare(b, a), cmp.Compare(a, b)) })
	return slices.CompactFunc(sorted, func(a, b string) bool { return Minor(a) == Minor(b) })
}
