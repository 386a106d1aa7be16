package appset

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// fieldsOf are the fields of an ApplicationSet's parts, apart from the spec of its template. Generators that ask services are not among them.
var fieldsOf = map[string][]string{
	"spec": {
		"goTemplate", "generators", "template", "syncPolicy", "strategy", "preservedFields", "goTemplateOptions", "applyNestedSelectors", "ignoreApplicationDifferences", "templatePatch",
	},
	"template":   {"metadata", "spec"},
	"metadata":   {"name", "namespace", "labels", "annotations", "finalizers"},
	"generators": {"list", "clusters", "git", "scmProvider", "clusterDecisionResource", "pullRequest", "matrix", "merge", "selector", "plugin", "oci"},
	"list":       {"elements", "elementsYaml", "template"},
	"clusters":   {"selector", "template", "values", "flatList"},
	"git":        {"repoURL", "directories", "files", "revision", "requeueAfterSeconds", "template", "pathParamPrefix", "values"},
	"plugin":     {"configMapRef", "input", "requeueAfterSeconds", "template", "values"},
	"matrix":     {"generators", "template"},
	"merge":      {"generators", "mergeKeys", "template"},
}

// unused returns notes about the fields of an ApplicationSet that have no effect: those that the API server drops, and the files of a Git generator with directories.
func unused(file string, doc *yaml.Node) (ps lab.Problems) {
	say := func(at *yaml.Node, cure, format string, args ...any) {
		ps = append(ps, lab.Problem{Code: finding.InvalidApplication, Position: strict.Position(file, at), Message: fmt.Sprintf(format, args...), Cure: cure})
	}
	check := func(n *yaml.Node, path, part string) {
		for key := range strict.Pairs(n) {
			name := key.Value
			if slices.Contains(fieldsOf[part], name) || name == "<<" {
				continue
			}
			cure := "correct it, or remove it"
			if near := strict.Closest(name, fieldsOf[part]); near != "" {
				cure = "did you mean " + near + "?"
			} else if slices.Contains(fieldsOf["spec"], name) {
				cure = "did you mean spec." + name + "?"
			}
			say(key, cure, "Argo CD has no %s.%s, and drops it", path, name)
		}
	}
	var generators func(n *yaml.Node, path string)
	generators = func(n *yaml.Node, path string) {
		for i, g := range strict.List(n, "generators") {
			at := fmt.Sprintf("%s.generators[%d]", path, i)
			check(g, at, "generators")
			for _, part := range []string{"list", "clusters", "git", "plugin", "matrix", "merge"} {
				check(strict.Get(g, part), at+"."+part, part)
			}
			if files := strict.Get(g, "git", "files"); len(strict.List(g, "git", "files")) > 0 && len(strict.List(g, "git", "directories")) > 0 {
				say(files, "use two git generators", "Argo CD ignores %s.git.files, as there are directories", at)
			}
			generators(strict.Get(g, "matrix"), at+".matrix")
			generators(strict.Get(g, "merge"), at+".merge")
		}
	}
	spec := strict.Get(doc, "spec")
	check(spec, "spec", "spec")
	check(strict.Get(spec, "template"), "spec.template", "template")
	check(strict.Get(spec, "template", "metadata"), "spec.template.metadata", "metadata")
	generators(spec, "spec")
	return ps
}
