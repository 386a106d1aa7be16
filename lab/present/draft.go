package present

import (
	"strings"

	"homelab/lab"
	"homelab/lab/draft"
	"homelab/lab/ui"
)

// Draft converts a draft, or nil to nothing.
func Draft(d *draft.Draft) ui.DraftInfo {
	if d == nil {
		return ui.DraftInfo{}
	}
	out := ui.DraftInfo{Clusters: d.Clusters, Namespace: d.Namespace}
	for _, r := range d.Repositories {
		out.Repositories = append(out.Repositories, ui.DraftRepository{URL: r.URL, Folder: r.Dir, Branch: r.Branch})
	}
	for _, k := range d.Keys {
		kind := "annotation"
		switch {
		case k.In != "":
			kind = k.In
		case k.Label:
			kind = "label"
		}
		out.Keys = append(out.Keys, ui.DraftKey{Kind: kind, Key: k.Name, Value: strings.TrimSpace(k.Value), How: k.How, At: k.At.String()})
	}
	for _, a := range d.Addons {
		out.Addons = append(out.Addons, ui.DraftAddon{Addon: a.Addon, On: a.On, Why: a.Why, At: a.At.String()})
	}
	for _, o := range d.Without {
		out.Without = append(out.Without, ui.DraftLeft{At: o.At.String(), Why: o.Why})
	}
	out.Roots, out.Beside = places(d.Roots), places(d.Beside)
	return out
}

func places(list []lab.Position) []string {
	var out []string
	for _, at := range list {
		out = append(out, at.String())
	}
	return out
}
