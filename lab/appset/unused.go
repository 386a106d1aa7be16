package appset

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// fieldsOf are the fields of an ApplicationSet's parts, apart from the spec of its template: those that lab reads, and the others that Argo CD knows. Generators that
// ask services are not among them, but for plugin.
var fieldsOf = map[string][]string{
	"spec":       keysOf[SetSpec]("strategy", "preservedFields", "applyNestedSelectors", "ignoreApplicationDifferences"),
	"template":   keysOf[Template](),
	"metadata":   keysOf[Metadata]("name", "namespace", "labels", "annotations", "finalizers"),
	"generators": keysOf[Generator](),
	"list":       keysOf[List](),
	"clusters":   keysOf[Clusters](),
	"git":        keysOf[Git]("requeueAfterSeconds"),
	"oci":        keysOf[Git]("requeueAfterSeconds"),
	"plugin":     {"configMapRef", "input", "requeueAfterSeconds", "template", "values"},
	"matrix":     keysOf[Matrix](),
	"merge":      keysOf[Merge](),
}

// keysOf returns the keys of a type's fields in JSON, and more.
func keysOf[T any](more ...string) []string {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && key != "-" && !slices.Contains(more, key) {
			more = append(more, key)
		}
	}
	return more
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
			for _, part := range []string{"list", "clusters", "git", "oci", "plugin", "matrix", "merge"} {
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
