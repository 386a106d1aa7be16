package draft

import (
	"fmt"
	"slices"

	"homelab/lab"
	"homelab/lab/draft/fluxroot"
)

// buildable returns the roots that Flux can build, without those that are part of another one. What cannot be built is left out; it is an error if nothing remains.
func (d *drafting) buildable(roots []fluxroot.Root) ([]fluxroot.Root, error) {
	var problems lab.Problems
	reaches := map[string][]string{} // folders of roots -> Kustomizations
	at := func(p lab.Position) string { return fmt.Sprintf("%s:%d", p.File, p.Line) }
	roots = slices.DeleteFunc(slices.Clone(roots), func(r fluxroot.Root) bool {
		r.WithoutVariables()
		x := d.expandRoot(r, &lacks{})
		for _, p := range x.Problems {
			d.unbuilt = append(d.unbuilt, Left{At: r.At, Why: fmt.Sprintf("cannot be built: %s: %s", p.Position, p.Message)})
		}
		for _, app := range x.Applications {
			reaches[at(r.At)] = append(reaches[at(r.At)], at(app.At))
		}
		problems = append(problems, x.Problems...)
		return len(x.Problems) > 0
	})
	all := slices.Clone(roots)
	roots = slices.DeleteFunc(roots, func(r fluxroot.Root) bool {
		return slices.ContainsFunc(all, func(o fluxroot.Root) bool {
			return slices.Contains(reaches[at(o.At)], at(r.At)) && !slices.Contains(reaches[at(r.At)], at(o.At))
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
