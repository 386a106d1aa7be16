package render

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/strict"
)

// Kustomization is a folder with the options of a Kustomization of Flux.
type Kustomization struct {
	FS   fs.FS          // the whole repository
	Path string         // a folder in FS
	Spec map[string]any // of the Kustomization; its build options are honoured

	// Variables are those of spec.postBuild; nil disables substitution.
	Variables map[string]string

	Budget *Budget // of all renderings, or nil
}

// Build builds a folder like Flux's kustomize-controller: without a kustomization, all manifests in it; files outside the
// folder may be included. It also returns unset variables without a default, which the controller replaces by "". Its
// errors are *Error.
func (k Kustomization) Build() ([]Document, []Unset, error) {
	dir := k.folder("")
	r := newRepository(k.FS, k.Budget)
	file := kustomizationIn(k.FS, dir)
	if file == "" {
		if info, err := fs.Stat(k.FS, dir); err != nil || !info.IsDir() {
			return nil, nil, failed(dir, errors.New("no such folder"))
		}
		file = path.Join(dir, Kustomizations[0])
		resources, err := manifestsIn(k.FS, dir)
		if err != nil {
			return nil, nil, failed(dir, err)
		}
		text, err := sigsyaml.Marshal(map[string]any{"apiVersion": types.KustomizationVersion, "kind": types.KustomizationKind, "resources": resources})
		if err != nil {
			return nil, nil, failed(dir, err)
		}
		r.edited[file] = text
	} else if err := r.rewrite(file); err != nil {
		return nil, nil, failed(file, err)
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	s := Source{FS: r.FS, Source: appset.Source{Path: dir}}
	docs, err := s.build(&scanner{repository: r, loose: true}, file, k.edit, options)
	if invalid := new(Error); errors.As(err, &invalid) && invalid.File == file && !isFile(k.FS, file) {
		invalid.File = dir // the kustomization is generated
	}
	if err != nil || k.Variables == nil {
		return docs, nil, err
	}
	var unset []Unset
	for i := range docs {
		missing, err := k.substitute(&docs[i], r)
		if err != nil {
			return nil, nil, err
		}
		unset = append(unset, missing...)
	}
	return docs, unset, nil
}

// rewrite overlays a kustomization like the controller: without unknown fields, and with the last of duplicate ones.
func (r *repository) rewrite(file string) error {
	data, err := r.ReadFile(file)
	if err != nil {
		return err
	}
	var known types.Kustomization
	if err := sigsyaml.Unmarshal(data, &known); err != nil {
		return err
	}
	r.edited[file], err = sigsyaml.Marshal(known)
	return err
}

// manifestsIn lists the manifests of a folder without a kustomization, and its folders with one, relative to it.
func manifestsIn(fsys fs.FS, dir string) ([]string, error) {
	var names []string
	err := fs.WalkDir(fsys, dir, func(name string, e fs.DirEntry, err error) error {
		rel := name
		if dir != "." {
			rel = strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
		}
		switch ext := path.Ext(name); {
		case err != nil:
			return err
		case name == dir:
		case e.IsDir() && kustomizationIn(fsys, name) != "":
			names = append(names, rel)
			return fs.SkipDir
		case !e.IsDir() && (ext == ".yaml" || ext == ".yml"):
			names = append(names, rel)
		}
		if len(names) > maxFiles {
			return errTooMuch
		}
		return nil
	})
	return names, err
}

// edit applies the build options of the spec, as the controller does.
func (k Kustomization) edit(to map[string]any) error {
	for from, field := range map[string]string{"targetNamespace": "namespace", "namePrefix": "namePrefix", "nameSuffix": "nameSuffix"} {
		if v, _ := k.Spec[from].(string); v != "" {
			to[field] = v
		}
	}
	for field, more := range map[string][]any{"patches": list(k.Spec["patches"]), "components": k.components()} {
		if len(more) > 0 {
			to[field] = append(list(to[field]), more...)
		}
	}
	for _, image := range list(k.Spec["images"]) {
		to["images"] = withImage(list(to["images"]), image)
	}
	if common, _ := k.Spec["commonMetadata"].(map[string]any); common != nil {
		if labels, _ := common["labels"].(map[string]any); len(labels) > 0 {
			to["labels"] = append(list(to["labels"]), map[string]any{"pairs": labels})
		}
		if more, _ := common["annotations"].(map[string]any); len(more) > 0 {
			annotations, _ := to["commonAnnotations"].(map[string]any)
			annotations = maps.Clone(annotations)
			if annotations == nil {
				annotations = map[string]any{}
			}
			maps.Copy(annotations, more)
			to["commonAnnotations"] = annotations
		}
	}
	return nil
}

// withImage returns images with another one, whose fields replace those of the one with its name. A tag and a digest replace each other.
func withImage(images []any, image any) []any {
	is, _ := image.(map[string]any)
	i := slices.IndexFunc(images, func(i any) bool { have, _ := i.(map[string]any); return have["name"] == is["name"] })
	if i < 0 {
		return append(images, image)
	}
	have, _ := images[i].(map[string]any)
	if is["newTag"] != nil || is["digest"] != nil {
		delete(have, "newTag")
		delete(have, "digest")
	}
	maps.Copy(have, is)
	return images
}

// components returns spec.components, without missing ones if those are to be ignored.
func (k Kustomization) components() []any {
	all := list(k.Spec["components"])
	if ignore, _ := k.Spec["ignoreMissingComponents"].(bool); !ignore {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(c any) bool {
		name, _ := c.(string)
		_, err := fs.Stat(k.FS, k.folder(name))
		return err != nil
	})
}

// folder returns a folder relative to the built one; the repository itself if it is outside.
func (k Kustomization) folder(name string) string {
	dir := path.Clean(strings.TrimPrefix(path.Join("/", k.Path, name), "/"))
	if !fs.ValidPath(dir) {
		return "."
	}
	return dir
}

// noSubstitution is the label or annotation that disables substitution in an object.
const noSubstitution = "kustomize.toolkit.fluxcd.io/substitute"

// substitute replaces the variables of an object, and returns the unset ones. The files that r read are its possible sources.
func (k Kustomization) substitute(doc *Document, r *repository) ([]Unset, error) {
	for _, of := range []string{"labels", "annotations"} {
		if strict.Text(doc.Node, "metadata", of, noSubstitution) == "disabled" {
			return nil, nil
		}
	}
	text, err := yaml.Marshal(doc.Node)
	if err != nil {
		return nil, failed(doc.File, err)
	}
	if err := r.budget.expansion(string(text), k.Variables); err != nil {
		return nil, failed(doc.File, err)
	}
	after, err := envsubst.Eval(string(text), func(name string) (string, bool) { return k.Variables[name], true })
	if err != nil {
		return nil, malformed(*doc, r.read, err)
	}
	missing := k.unset(*doc, r.read)
	if after == string(text) {
		return missing, nil
	}
	if err := values([]byte(after)); err != nil {
		return nil, failed(doc.File, err)
	}
	docs, problems := strict.Parse(doc.File, []byte(after))
	if len(problems) > 0 || len(docs) != 1 {
		return nil, failed(doc.File, fmt.Errorf("%s %s is not a manifest after substitution: %s", strict.Text(doc.Node, "kind"), strict.Text(doc.Node, "metadata", "name"), problems.Error()))
	}
	if field, value := notText(docs[0]); field != "" {
		return nil, &Error{Problem: lab.Problem{
			Position: lab.Position{File: doc.File, Line: doc.Line},
			Message:  fmt.Sprintf("%s %s: %s is %s after substitution, not a string", strict.Text(doc.Node, "kind"), strict.Text(doc.Node, "metadata", "name"), field, value),
			Cure:     `quote it with a variable: ${quote}${NAME}${quote}, where quote is "`,
		}}
	}
	place(docs[0], doc.Node)
	doc.Node = docs[0]
	return missing, nil
}

// malformed returns the error for the expressions of an object that cannot be parsed, with their lines in the file.
func malformed(doc Document, files map[string][]byte, whole error) error {
	var at lab.Position
	var texts []string
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		for rest := n.Value; n.Kind == yaml.ScalarNode && strings.Contains(rest, "${"); {
			i := strings.Index(rest, "${")
			literal := i > 0 && rest[i-1] == '$'
			text := expression(rest[i:])
			rest = rest[i+len(text):]
			_, err := envsubst.Eval(text, func(string) (string, bool) { return "x", true })
			if literal || err == nil {
				continue
			}
			found := written(doc, n, text[len("${"):], files)
			if len(texts) == 0 {
				at = found
			}
			texts = append(texts, fmt.Sprintf("%s in line %d: %v", text, found.Line, err))
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	visit(doc.Node)
	if len(texts) == 0 { // in a key, or only as a whole
		return failed(doc.File, fmt.Errorf("substitution: %w", whole))
	}
	return &Error{Problem: lab.Problem{
		Position: at,
		Message:  fmt.Sprintf("%s %s: substitution cannot read %s", strict.Text(doc.Node, "kind"), strict.Text(doc.Node, "metadata", "name"), strings.Join(texts, "; ")),
		Cure:     "write $${...} for a literal ${...}, or annotate the object with " + noSubstitution + ": disabled",
	}}
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

// notText returns the first field that the API server rejects because it is not a string, and its value.
func notText(n *yaml.Node) (field, value string) {
	fields := []string{"metadata.labels", "metadata.annotations"}
	switch kind, version := strict.Text(n, "kind"), strict.Text(n, "apiVersion"); {
	case version == "v1" && (kind == "ConfigMap" || kind == "Secret"):
		fields = append(fields, "data", "binaryData", "stringData")
	case kind == "Kustomization" && strings.HasPrefix(version, "kustomize.toolkit.fluxcd.io/"):
		fields = append(fields, "spec.postBuild.substitute")
	}
	for _, field := range fields {
		m := n
		for key := range strings.SplitSeq(field, ".") {
			m = strict.Get(m, key)
		}
		for i := 0; m != nil && m.Kind == yaml.MappingNode && i+1 < len(m.Content); i += 2 {
			if v := m.Content[i+1]; v.Kind == yaml.ScalarNode && v.Tag != "!!str" && !strict.IsNull(v) {
				return field + "." + m.Content[i].Value, v.Value
			}
		}
	}
	return "", ""
}

// Unset is a variable without a value or a default.
type Unset struct {
	Name        string
	At          lab.Position
	Kind, Field string // of the object, and the containing key
	Text        string // containing text
}

// Problem returns the variable as a problem of an estate.
func (u Unset) Problem() lab.Problem {
	return lab.Problem{
		Position: u.At, Message: fmt.Sprintf("variable %s is not set", u.Name),
		Cure: "set it in spec.metadata of the cluster or its environment, or give a default: ${" + u.Name + ":=value}",
	}
}

func (k Kustomization) unset(doc Document, files map[string][]byte) []Unset {
	var list []Unset
	var visit func(n *yaml.Node, field string)
	visit = func(n *yaml.Node, field string) {
		if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "${") {
			for _, name := range Variables(n.Value) {
				u := Unset{Name: name, At: written(doc, n, name, files), Kind: strict.Text(doc.Node, "kind"), Field: field, Text: n.Value}
				if _, set := k.Variables[name]; !set && !slices.ContainsFunc(list, func(o Unset) bool { return o.Name == u.Name && o.At == u.At }) {
					list = append(list, u)
				}
			}
		}
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode {
				field = n.Content[i-i%2].Value
			}
			visit(c, field)
		}
	}
	visit(doc.Node, "")
	return list
}

// written returns the position of a variable: in the object's file, in a generator's input, or in a patch.
func written(doc Document, n *yaml.Node, variable string, files map[string][]byte) lab.Position {
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
