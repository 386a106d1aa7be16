package estate

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/golden"
	"homelab/lab/needs"
)

// Each testdata/estates/NAME.txtar has an estate, which may mount its own folders, and in want what Load makes of it or its problems. Lines above the files say
// which repositories are unavailable and which images are components. UPDATE_GOLDEN=1 updates it.
func TestEstates(t *testing.T) {
	golden.Run(t, "testdata/estates/*.txtar", 15, func(t *testing.T, name string, comment []byte, files fstest.MapFS) string {
		var options struct{ Unavailable, Images map[string]string }
		if err := yaml.Unmarshal(comment, &options); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "flux-") {
			regenerate(t, files)
		}
		unavailable := map[string]error{}
		for url, why := range options.Unavailable {
			unavailable[url] = errors.New(why)
		}
		return outline(t, files, unavailable, WithImages(func(ref string) string { return options.Images[ref] }), EveryEngine())
	})
}

// outline returns an estate as YAML, without zero values.
func outline(t *testing.T, files fstest.MapFS, unavailable map[string]error, options ...Option) string {
	t.Helper()
	all := map[string]any{}
	e, err := Load(files, "", "homelab", options...)
	var failed *lab.Error
	switch {
	case errors.As(err, &failed):
		all["problems"] = failed.Problems
	case err != nil:
		t.Fatal(err)
	default:
		var repositories []string
		for _, r := range e.Repositories {
			repositories = append(repositories, strings.Join([]string{r.Name, r.URL, r.Dir, r.Branch}, " "))
		}
		before := slices.Clone(e.Applications)
		var selected, kinds, unknown []string
		for _, s := range e.UnknownSets {
			unknown = append(unknown, s.Name)
		}
		clusters := slices.Clone(e.Clusters)
		for i, c := range e.Clusters {
			kinds, clusters[i].Kind, clusters[i].Positions = append(kinds, c.Name+"\n"+string(c.Kind)), nil, nil
			for _, addon := range slices.Sorted(maps.Keys(c.Selected)) {
				selected = append(selected, strings.TrimSuffix(c.Name+" "+addon+": "+map[bool]string{true: "yes", false: "no"}[c.Selected[addon]], ": "))
			}
		}
		all = map[string]any{
			"addons": e.Addons, "applications": before, "possible": e.Possible, "unknown": unknown, "waves": e.Waves, "repositories": repositories, "selected": selected,
			"clusters": clusters, "kinds": kinds, "environments": e.Environments, "others": needs.Others(e),
		}
		all["unavailable"] = needs.Mark(e, unavailable)
		var left []string
		for _, a := range e.Applications {
			if a.LeftOut != "" {
				left = append(left, a.Name+": "+a.LeftOut)
			}
		}
		all["left out"], all["notes"] = left, e.Notes
	}
	return golden.YAML(t, all)
}
