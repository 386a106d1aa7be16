package estate

import (
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

func inRepository(p string) bool {
	p = path.Clean(p)
	return p != ".." && !strings.HasPrefix(p, "../")
}

// outside reports whether a source's path leaves its repository. It is relative to folder or, with $REF/, to the root
// of the repository with that ref.
func outside(p, folder string) bool {
	if strings.Contains(p, "://") {
		return false
	}
	if strings.HasPrefix(p, "$") {
		_, p, _ = strings.Cut(p, "/")
		folder = ""
	}
	return inRepository(folder) && !inRepository(path.Join(folder, strings.TrimPrefix(p, "/")))
}

func leaves(at lab.Position, p string) lab.Problem {
	return lab.Problem{Code: finding.LeavesRepository, Position: at, Message: fmt.Sprintf("path %s leaves the repository", p), Cure: "a path starts at the root of the repository"}
}

// escapes reports paths in a manifest that leave the repository.
func escapes(file string, doc *yaml.Node) lab.Problems {
	var ps lab.Problems
	check := func(n *yaml.Node, folder string) {
		if n != nil && outside(n.Value, folder) {
			ps = append(ps, leaves(strict.Position(file, n), n.Value))
		}
	}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if n.Kind == yaml.MappingNode && strict.Get(n, "repoURL") != nil {
			check(strict.Get(n, "path"), "")
			if files := strict.Get(n, "helm", "valueFiles"); files != nil {
				for _, f := range files.Content {
					check(f, strict.Text(n, "path"))
				}
			}
		}
		for _, c := range n.Content {
			walk(c)
		}
	}
	walk(doc)
	return ps
}

// checkPaths reports paths in a generated Application of the estate's own that leave the repository. Others cannot be rendered.
func (l *loader) checkPaths(app *appset.Application) {
	check := func(p, folder string, field ...string) {
		if at := app.Origins(field...); len(at) > 0 && l.isOwn(at[0].Position.File) && outside(p, folder) {
			l.addProblem(leaves(at[0].Position, p))
		}
	}
	for i, source := range app.Spec.All() {
		check(source.Path, "", sourceField(&app.Template, i, "path")...)
		if source.Helm == nil {
			continue
		}
		for j, f := range source.Helm.ValueFiles {
			check(f, source.Path, sourceField(&app.Template, i, "helm", "valueFiles", fmt.Sprint(j))...)
		}
	}
}

// sourceField returns the path of a field of an Application's source.
func sourceField(app *appset.Template, i int, field ...string) []string {
	if len(app.Spec.Sources) > 0 {
		return append([]string{"spec", "sources", fmt.Sprint(i)}, field...)
	}
	return append([]string{"spec", "source"}, field...)
}
