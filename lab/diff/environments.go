package diff

import (
	"maps"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/desired"
)

// Pair are the clusters by which two environments are compared in an addon.
type Pair struct {
	Addon         string
	Before, After string // empty if no cluster of the environment has the addon
	Of            [2]int // clusters that have it
}

// Environments compares what addons are in two environments of an estate, but for the names of the clusters. Of each environment, it takes one cluster that has the
// addon: clusters whose names are the same but for those of the environments, or else the first one of each. An addon that only one has is not compared.
func Environments(est *lab.Estate, apps []desired.App, a, b string) (Result, []Pair) {
	in := map[string]map[string][]desired.App{} // by addon and cluster
	for _, app := range apps {
		if app.Addon == "" {
			continue
		}
		if in[app.Addon] == nil {
			in[app.Addon] = map[string][]desired.App{}
		}
		in[app.Addon][app.Cluster] = append(in[app.Addon][app.Cluster], app)
	}
	var res Result
	var pairs []Pair
	for _, addon := range slices.Sorted(maps.Keys(in)) {
		having := func(env string) (names []string) {
			for _, c := range est.Clusters {
				if c.Environment == env && len(in[addon][c.Name]) > 0 {
					names = append(names, c.Name)
				}
			}
			return names
		}
		x, y := having(a), having(b)
		if len(x)+len(y) == 0 {
			continue
		}
		p := Pair{Addon: addon, Of: [2]int{len(x), len(y)}}
		p.Before, p.After = representatives(x, y, a, b)
		pairs = append(pairs, p)
		if p.Before == "" || p.After == "" {
			continue
		}
		of := Compare(in[addon][p.Before], in[addon][p.After], map[string]string{p.Before: p.After})
		res.Changes, res.Unknown = append(res.Changes, of.Changes...), append(res.Unknown, of.Unknown...)
		res.Apps, res.Differ = res.Apps+of.Apps, res.Differ+of.Differ
	}
	return res, pairs
}

func representatives(before, after []string, a, b string) (x, y string) {
	for _, name := range before {
		if other := strings.ReplaceAll(name, a, b); slices.Contains(after, other) {
			return name, other
		}
	}
	if len(before) > 0 {
		x = before[0]
	}
	if len(after) > 0 {
		y = after[0]
	}
	return x, y
}
