package render

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// noSubstitution is the label or annotation that disables substitution in an object.
const noSubstitution = "kustomize.toolkit.fluxcd.io/substitute"

// Literal reports whether an object is exempt from substitution.
func Literal(doc Document) bool {
	return slices.ContainsFunc([]string{"labels", "annotations"}, func(of string) bool { return strict.Text(doc.Node, "metadata", of, noSubstitution) == "disabled" })
}

// substitute replaces the variables of an object, and returns the unset ones. The files that r read are its possible sources.
func (k Kustomization) substitute(doc *Document, r *repository) ([]Unset, error) {
	if Literal(*doc) {
		return nil, nil
	}
	text, err := written(doc.Node)
	if err != nil {
		return nil, failed(doc.File, err)
	}
	if err := r.budget.expansion(text, k.Variables); err != nil {
		return nil, failed(doc.File, err)
	}
	value := func(name string) (string, bool) { return k.Variables[name], true }
	after, err := envsubst.Eval(text, value)
	if err != nil {
		return nil, malformed(*doc, r.read, err)
	}
	missing := k.unset(*doc, r.read)
	if after == text {
		return missing, nil
	}
	if err := values([]byte(after)); err != nil {
		return nil, failed(doc.File, err)
	}
	object, err := sigsyaml.YAMLToJSON([]byte(after))
	if err != nil {
		return nil, broken(*doc, r.read, value, err)
	}
	docs, problems := strict.Parse(doc.File, object)
	if len(problems) > 0 || len(docs) != 1 {
		return nil, failed(doc.File, fmt.Errorf("%s is not a manifest after substitution: %s", strict.Title(doc.Node), problems.Error()))
	}
	Place(docs[0], doc.Node)
	doc.Before, doc.Node = doc.Node, docs[0]
	return missing, nil
}

const quoteVariable = `quote it with a variable: ${quote}${NAME}${quote}, where quote is "`

// written returns an object as kustomize writes it.
func written(n *yaml.Node) (string, error) {
	text, err := strict.JSON(n)
	if err == nil {
		text, err = sigsyaml.JSONToYAML(text)
	}
	return string(text), err
}

// broken returns the error for the first value of an object that is not YAML after substitution.
func broken(doc Document, files map[string][]byte, value func(string) (string, bool), whole error) error {
	var culprit *yaml.Node
	var becomes string
	for _, n := range expressions(doc) {
		text, err := sigsyaml.Marshal(map[string]string{"v": n.Value})
		if err == nil {
			becomes, err = envsubst.Eval(string(text), value)
		}
		if err == nil {
			if _, err = sigsyaml.YAMLToJSON([]byte(becomes)); err != nil {
				culprit = n
				break
			}
		}
	}
	message := strings.TrimPrefix(whole.Error(), "yaml: ")
	if culprit == nil {
		return failed(doc.File, fmt.Errorf("%s is not valid YAML after substitution: %s", strict.Title(doc.Node), message))
	}
	_, name, _ := strings.Cut(culprit.Value, "${")
	name, _, _ = strings.Cut(name, "}")
	after := strings.TrimPrefix(strings.TrimSuffix(becomes, "\n"), "v: ")
	return ruled(finding.InvalidSubstitution, position(doc, culprit, name, files), fmt.Sprintf("%s is not valid YAML after substitution: %q becomes %q", strict.Title(doc.Node), culprit.Value, after), quoteVariable)
}

// malformed returns the error for the expressions of an object that cannot be parsed, with their lines in the file.
func malformed(doc Document, files map[string][]byte, whole error) error {
	var at lab.Position
	var texts []string
	for _, n := range expressions(doc) {
		for rest := n.Value; strings.Contains(rest, "${"); {
			i := strings.Index(rest, "${")
			literal := i > 0 && rest[i-1] == '$'
			text := expression(rest[i:])
			rest = rest[i+len(text):]
			_, err := envsubst.Eval(text, func(string) (string, bool) { return "x", true })
			if literal || err == nil {
				continue
			}
			found := position(doc, n, text[len("${"):], files)
			if len(texts) == 0 {
				at = found
			}
			texts = append(texts, fmt.Sprintf("%s in line %d: %v", text, found.Line, err))
		}
	}
	if len(texts) == 0 { // in a key, or only as a whole
		return failed(doc.File, fmt.Errorf("substitution: %w", whole))
	}
	return ruled(finding.InvalidSubstitution, at, fmt.Sprintf("%s: substitution cannot read %s", strict.Title(doc.Node), strings.Join(texts, "; ")),
		"write $${...} for a literal ${...}, or annotate the object with "+noSubstitution+": disabled")
}

// expressions returns the scalars of an object with variables, each with the keys that lead to it.
func expressions(doc Document) iter.Seq2[[]string, *yaml.Node] {
	return func(yield func([]string, *yaml.Node) bool) {
		for keys, n := range strict.Scalars(doc.Node) {
			if strings.Contains(n.Value, "${") && !yield(keys, n) {
				return
			}
		}
	}
}

// expression returns the expression at the start of a text: up to its closing brace, or else the line.
func expression(text string) string {
	depth := 0
	for i, r := range text {
		switch {
		case r == '{':
			depth++
		case r == '}' && depth == 1:
			return text[:i+1]
		case r == '}':
			depth--
		case r == '\n':
			return text[:i]
		}
	}
	return text
}

// refused returns the error for the first field that the API server rejects because it is not a string after substitution.
func refused(doc Document) error {
	fields := [][]any{{"metadata", "annotations"}}
	switch kind, version := strict.Text(doc.Node, "kind"), strict.Text(doc.Node, "apiVersion"); {
	case version == "v1" && kind == "ConfigMap":
		fields = append(fields, []any{"data"}, []any{"binaryData"})
	case version == "v1" && kind == "Secret":
		fields = append(fields, []any{"data"}, []any{"stringData"})
	}
	for _, field := range fields {
		of := strict.Get(doc.Node, field...)
		if key, value := notText(of); key != "" {
			name := strings.ReplaceAll(strings.Trim(fmt.Sprint(field), "[]"), " ", ".")
			return ruled(finding.InvalidSubstitution, lab.Position{File: doc.File, Line: strict.Get(of, key).Line}, fmt.Sprintf("%s: %s.%s is %s after substitution, not a string", strict.Title(doc.Node), name, key, value), quoteVariable)
		}
	}
	return nil
}

// notText returns the first key of a mapping whose value is not a string, and the value.
func notText(m *yaml.Node) (key, value string) {
	for key, v := range strict.Pairs(m) {
		if v.Tag != "!!str" && !strict.IsNull(v) {
			return key.Value, cmp.Or(v.Value, strict.KindOf(v))
		}
	}
	return "", ""
}

// Unset is a variable without a value or a default.
type Unset struct {
	Name             string
	At               lab.Position
	APIVersion, Kind string   // of the object
	Field            []string // that contains it: the keys that lead to it, without the indexes of lists
	Text             string   // containing text
}

// Problem returns the variable as a problem of an estate.
func (u Unset) Problem() lab.Problem {
	return lab.Problem{
		Code: finding.VariableUnset, Position: u.At, Message: fmt.Sprintf("variable %s is not set", u.Name),
		Cure: "set it in spec.metadata of the cluster or its environment, or give a default: ${" + u.Name + ":=value}",
	}
}

func (k Kustomization) unset(doc Document, files map[string][]byte) []Unset {
	var list []Unset
	for keys, n := range expressions(doc) {
		for _, name := range Variables(n.Value) {
			u := Unset{
				Name: name, At: position(doc, n, name, files), APIVersion: strict.Text(doc.Node, "apiVersion"), Kind: strict.Text(doc.Node, "kind"), Field: keys, Text: n.Value,
			}
			if _, set := k.Variables[name]; !set && !slices.ContainsFunc(list, func(o Unset) bool { return o.Name == u.Name && o.At == u.At }) {
				list = append(list, u)
			}
		}
	}
	return list
}

// position returns the position of a variable: in the object's file, in a generator's input, or in a patch.
func position(doc Document, n *yaml.Node, variable string, files map[string][]byte) lab.Position {
	at := lab.Position{File: doc.File, Line: n.Line}
	in := func(file string, from, lines int) (lab.Position, bool) {
		all := strings.Split(string(files[file]), "\n")
		for i := max(from-1, 0); i < min(from-1+lines, len(all)); i++ {
			if strings.Contains(all[i], "${"+variable) {
				return lab.Position{File: file, Line: i + 1}, true
			}
		}
		return lab.Position{}, false
	}
	before, _, _ := strings.Cut(n.Value, "${"+variable)
	if found, ok := in(doc.File, n.Line, 2+strings.Count(before, "\n")); ok { // a block begins below its key
		return found
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if strings.Contains(n.Value, "\n") && string(files[file]) == n.Value {
			return lab.Position{File: file, Line: 1 + strings.Count(before, "\n")}
		}
	}
	line := strings.Split(n.Value, "\n")[strings.Count(before, "\n")]
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if head, _, ok := strings.Cut(string(files[file]), line); ok {
			return lab.Position{File: file, Line: 1 + strings.Count(head, "\n")}
		}
	}
	return at
}

// Variables returns the names of variables without a default, as in ${name}.
func Variables(text string) []string {
	var names []string
	for range strings.Count(text, "${") {
		last := ""
		_, err := envsubst.Eval(text, func(name string) (string, bool) {
			last = name
			return "x", slices.Contains(names, name)
		})
		if err == nil || last == "" || slices.Contains(names, last) {
			break
		}
		names = append(names, last) // evaluation stopped here
	}
	return names
}
