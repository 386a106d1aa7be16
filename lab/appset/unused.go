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

// unusedField is a field of an ApplicationSet that has no effect.
type unusedField struct {
	path    string
	node    *yaml.Node
	ignored string // as Argo CD knows it, but not together with these; empty for what its API server drops
	cure    string
}

// note returns what is said of the field.
func (f unusedField) note(file string) lab.Problem {
	message := "Argo CD has no " + f.path + ", and drops it"
	if f.ignored != "" {
		message = fmt.Sprintf("Argo CD ignores %s, as there are %s", f.path, f.ignored)
	}
	return lab.Problem{Code: finding.FieldIgnored, Position: strict.Position(file, f.node), Message: message, Cure: f.cure}
}

// unused returns the fields of an ApplicationSet that have no effect: those that the API server drops, and the files of a Git generator with directories.
func unused(doc *yaml.Node) (list []unusedField) {
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
			list = append(list, unusedField{path: path + "." + name, node: key, cure: cure})
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
				list = append(list, unusedField{path: at + ".git.files", node: files, ignored: "directories", cure: "use two git generators"})
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
	return list
}
