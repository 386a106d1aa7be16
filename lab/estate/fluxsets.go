package estate

import (
	"fmt"
	"io/fs"
	"strings"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
	"homelab/lab/fluxset/resourceset"
	"homelab/lab/provenance"
	"homelab/lab/render"
)

// resourceSets records what ResourceSets lead to. Flux Operator applies it, if an addon brings that.
func (l *loader) resourceSets(w fluxset.World, x fluxset.Expansion) {
	var names []string
	at := lab.Position{}
	for _, app := range x.Sets {
		if _, known := l.estate.Cluster(app.Cluster); !known {
			l.unassigned(app)
			continue
		}
		g := generatedOf(app)
		g.Needs = namesOf(x, app.Needs)
		g.LeftOut, g.State, g.Noted, g.Mounted = app.LeftOut, lab.Absent, true, app.Mounted()
		for _, r := range app.Releases {
			if r.URL != "" && r.Folder == "" {
				g.Charts = append(g.Charts, lab.ChartUse{Name: r.Chart, Version: r.Version, Repository: r.URL, At: r.At})
			}
		}
		l.wantFlux(&g, w, app)
		l.apps[len(l.apps)-1].Foreign = true
		l.estate.Applications = append(l.estate.Applications, g)
		if names = append(names, g.Name); at.File == "" {
			at = app.At
		}
	}
	if len(names) > 0 {
		message := fmt.Sprintf("of ResourceSets, left out, as Flux Operator is not part of Flux: %d (%s)", len(names), strings.Join(names, ", "))
		l.note(finding.LeftOut, at, message, "lab does not wait for them; lab render and lab explain show them")
	}
}

// resourceSet is what a ResourceSet is expanded from: inputs, its own and those of providers.
func resourceSet(set resourceset.Set) provenance.Subject {
	return provenance.Subject{
		Options: set.Options(), Name: func(_, file string) string { return file },
		At: func(path []string) []lab.Position {
			of, in := set.Of(path)
			return positions(of.Node, of.File, in)
		},
		Render: func(options map[string]any, _ func(string, fs.FS) fs.FS) ([]render.Document, error) {
			of := set
			if options != nil {
				of = set.With(options)
			}
			docs, _, err := of.Expand()
			return docs, err
		},
	}
}
