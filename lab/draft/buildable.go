package draft

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/strict"
)

// buildable returns the roots that Flux can build, without those that are part of another one. What cannot be built is left out; it is an error if nothing remains.
func (d *drafting) buildable(roots []fluxRoot) ([]fluxRoot, error) {
	var problems lab.Problems
	reaches := map[string][]string{} // folders of roots -> Kustomizations
	at := func(p lab.Position) string { return fmt.Sprintf("%s:%d", p.File, p.Line) }
	roots = slices.DeleteFunc(slices.Clone(roots), func(r fluxRoot) bool {
		r.spec = withoutField(r.spec, "postBuild") // its variables are not known yet
		x := d.expand(r, &lacks{})
		for _, p := range x.Problems {
			d.unbuilt = append(d.unbuilt, Left{At: r.at, Why: fmt.Sprintf("cannot be built: %s: %s", p.Position, p.Message)})
		}
		for _, app := range x.Applications {
			reaches[at(r.at)] = append(reaches[at(r.at)], at(app.At))
		}
		problems = append(problems, x.Problems...)
		return len(x.Problems) > 0
	})
	all := slices.Clone(roots)
	roots = slices.DeleteFunc(roots, func(r fluxRoot) bool {
		return slices.ContainsFunc(all, func(o fluxRoot) bool {
			return slices.Contains(reaches[at(o.at)], at(r.at)) && !slices.Contains(reaches[at(r.at)], at(o.at))
		})
	})
	if len(roots) == 0 {
		return nil, &lab.Error{
			Exit: lab.ExitInvalid, Code: "unbuildable", Message: "no folder that Flux syncs to a cluster can be built, nothing was written", Problems: problems,
			Cure: "fix them, or copy what they include by address into the repository",
		}
	}
	return roots, nil
}

// withoutField returns a mapping without a key.
func withoutField(n *yaml.Node, key string) *yaml.Node {
	if strict.Get(n, key) == nil {
		return n
	}
	kept := *n
	kept.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != key {
			kept.Content = append(kept.Content, n.Content[i], n.Content[i+1])
		}
	}
	return &kept
}
