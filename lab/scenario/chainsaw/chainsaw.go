// Package chainsaw makes a scenario of a test of Kyverno Chainsaw (https://kyverno.github.io/chainsaw/): of its steps apply, create, patch, delete, assert, error, wait and
// sleep. What a scenario cannot say is a problem: scripts and commands, which lab does not run, and expressions.
package chainsaw

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Options say where a test plays.
type Options struct {
	Name      string // of the scenario; if empty, Import sets the test's
	Cluster   string
	Namespace string // for what has none, as Chainsaw makes one for each test; if empty, the name
}

// Import returns the files of a scenario's folder. The test's own files are read from its folder. Notes are what is left out, as lab does it itself.
func Import(files fs.FS, file string, o *Options) (out map[string][]byte, notes lab.Problems, err error) {
	data, err := fs.ReadFile(files, file)
	if err != nil {
		return nil, nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: err.Error(), Cure: "lab scenario import takes the file of a test"}
	}
	i := &importer{Options: o, fsys: files, file: file, out: map[string][]byte{}}
	docs, problems := strict.Parse(file, data)
	if len(problems) > 0 {
		return nil, nil, invalid(file, problems)
	}
	tests := slices.DeleteFunc(docs, func(n *yaml.Node) bool {
		return strict.Text(n, "kind") != "Test" || !strings.HasPrefix(strict.Text(n, "apiVersion"), "chainsaw.kyverno.io/")
	})
	if len(tests) != 1 {
		return nil, nil, invalid(file, lab.Problems{{Code: finding.InvalidField, Position: lab.Position{File: file, Line: 1}, Message: fmt.Sprintf("%d tests of Chainsaw, want one", len(tests))}})
	}
	o.Name = cmp.Or(o.Name, strict.Text(tests[0], "metadata", "name"))
	if len(validation.IsDNS1123Label(o.Name)) > 0 {
		i.fail(strict.Get(tests[0], "metadata"), fmt.Sprintf("%q cannot be the name of a scenario", o.Name), "lab scenario import --as WORD")
	}
	i.test(tests[0])
	if len(i.problems) > 0 {
		return nil, nil, invalid(file, i.problems)
	}
	text, err := i.scenario(tests[0])
	if err != nil {
		return nil, nil, err
	}
	i.out["scenario.yaml"] = text
	return i.out, i.notes, nil
}

func invalid(file string, problems lab.Problems) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "invalid_test", Message: file + " cannot be imported, nothing was written", Problems: problems}
}

type importer struct {
	*Options
	fsys     fs.FS
	file     string
	spec     *yaml.Node
	steps    []any
	out      map[string][]byte
	problems lab.Problems
	notes    lab.Problems
}

func (i *importer) fail(n *yaml.Node, message, cure string) {
	if n == nil {
		n = &yaml.Node{Line: 1, Column: 1}
	}
	i.problems = append(i.problems, lab.Problem{Code: finding.InvalidField, Position: strict.Position(i.file, n), Message: message, Cure: cure})
}

func (i *importer) note(n *yaml.Node, message string) {
	i.notes = append(i.notes, lab.Problem{Code: finding.Other, Position: strict.Position(i.file, n), Message: message})
}

// The default timeouts of Chainsaw.
var timeouts = map[string]time.Duration{"assert": 30 * time.Second, "error": 30 * time.Second, "delete": 15 * time.Second}

func (i *importer) test(n *yaml.Node) {
	i.spec = strict.Get(n, "spec")
	if ns := strict.Text(i.spec, "namespace"); ns != "" {
		i.Namespace = ns
	}
	i.Namespace = cmp.Or(i.Namespace, i.Name)
	i.out["namespace.yaml"] = fmt.Appendf(nil, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", i.Namespace)
	i.add("a namespace for the test", "apply", map[string]any{"cluster": i.Cluster, "file": "namespace.yaml"})
	for _, field := range []string{"bindings", "clusters", "cluster", "scenarios"} {
		if at := strict.Get(i.spec, field); at != nil {
			i.fail(at, "spec."+field+" is not imported", "write what it stands for")
		}
	}
	for _, field := range []string{"catch", "cleanup", "concurrent", "skip", "skipDelete", "error"} {
		if at := strict.Get(i.spec, field); at != nil {
			i.note(at, "spec."+field+" is left out: lab reports what it last saw, and restores what a scenario has changed")
		}
	}
	steps := strict.Get(i.spec, "steps")
	if steps == nil || len(steps.Content) == 0 {
		i.fail(n, "a test without steps", "")
		return
	}
	for number, step := range steps.Content {
		i.step(number+1, step)
	}
}

func (i *importer) step(number int, n *yaml.Node) {
	title := cmp.Or(strict.Text(n, "description"), strict.Text(n, "name"), fmt.Sprintf("step %d", number))
	for key, value := range strict.Pairs(n) {
		switch key.Value {
		case "name", "description", "try":
		case "catch", "finally", "cleanup", "skipDelete":
			i.note(key, key.Value+" of "+title+" is left out: lab reports what it last saw, and restores what a scenario has changed")
		default:
			i.fail(value, key.Value+" of "+title+" is not imported", "write what it stands for")
		}
	}
	try := strict.Get(n, "try")
	if try == nil {
		return
	}
	for _, op := range try.Content {
		i.operation(title, op)
	}
}

// operation imports an operation: a mapping of its kind to what it does, and a description.
func (i *importer) operation(title string, n *yaml.Node) {
	if text := strict.Text(n, "description"); text != "" {
		title = text
	}
	for key, op := range strict.Pairs(n) {
		switch key.Value {
		case "description":
		case "apply", "create":
			i.apply(title, op)
		case "patch":
			i.patch(title, op)
		case "delete":
			i.remove(title, op)
		case "assert", "error":
			i.expect(title, key.Value, op)
		case "wait":
			i.wait(title, op)
		case "sleep":
			i.add(title+": sleep", "wait", map[string]any{"for": strict.Text(op, "duration")})
		case "script", "command":
			what := cmp.Or(strict.Text(op, "content"), strings.TrimSpace(strict.Text(op, "entrypoint")))
			line, _, _ := strings.Cut(strings.TrimSpace(what), "\n")
			i.fail(key, fmt.Sprintf("%s %q is not imported: a scenario runs no programs", key.Value, line), "write what it does as steps, or leave it out")
		case "podLogs", "events", "describe", "get":
			i.note(key, key.Value+" is left out: lab reports what it last saw")
		default:
			i.fail(key, key.Value+" is not imported", "apply, create, patch, delete, assert, error, wait and sleep are")
		}
	}
}

func (i *importer) add(title, verb string, action map[string]any) {
	i.steps = append(i.steps, step{title, map[string]any{verb: action}})
}

// step is a step of a scenario.
type step struct {
	Title string         `yaml:"title"`
	Verb  map[string]any `yaml:",inline"`
}

// resources returns the objects of an operation: inline, or of files.
func (i *importer) resources(op *yaml.Node) []*yaml.Node {
	for _, field := range []string{"bindings", "expect", "template", "cluster", "outputs"} {
		if at := strict.Get(op, field); at != nil && !(field == "template" && at.Value == "false") {
			i.fail(at, field+" is not imported", "write what it stands for")
		}
	}
	if inline := strict.Get(op, "resource"); inline != nil {
		return i.checked(inline)
	}
	file := strict.Get(op, "file")
	if file == nil {
		i.fail(op, "neither a file nor a resource", "")
		return nil
	}
	name := path.Join(path.Dir(i.file), file.Value)
	data, err := fs.ReadFile(i.fsys, name)
	if err != nil {
		i.fail(file, err.Error(), "name a file in the test's folder")
		return nil
	}
	docs, problems := strict.Parse(name, data)
	i.problems = append(i.problems, problems...)
	of := *i
	of.file, of.problems = name, nil
	var list []*yaml.Node
	for _, doc := range docs {
		list = append(list, of.checked(doc)...)
	}
	i.problems = append(i.problems, of.problems...)
	return list
}

// checked returns an object in its namespace, or nothing if it has expressions.
func (i *importer) checked(n *yaml.Node) []*yaml.Node {
	before := len(i.problems)
	i.expressions(n)
	if strict.Text(n, "kind") == "" || strict.Text(n, "metadata", "name") == "" {
		i.fail(n, "an object without kind or metadata.name: a scenario does not look for objects by their labels", "name the object")
	}
	if len(i.problems) > before {
		return nil
	}
	if namespaced, known := render.Namespaced(render.Document{Node: n}); (namespaced || !known) && strict.Text(n, "metadata", "namespace") == "" {
		metadata := strict.Get(n, "metadata")
		metadata.Content = append(metadata.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "namespace"}, &yaml.Node{Kind: yaml.ScalarNode, Value: i.Namespace})
	}
	return []*yaml.Node{n}
}

// expressions replaces the test's namespace, and reports others.
func (i *importer) expressions(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		switch text := strings.ReplaceAll(n.Value, " ", ""); {
		case text == "($namespace)":
			n.Value = i.Namespace
		case strings.HasPrefix(text, "(") && strings.HasSuffix(text, ")"), strings.HasPrefix(text, "~."):
			i.fail(n, fmt.Sprintf("expression %s is not imported", n.Value), "write the value, or an operator of has: docs/scenarios.md")
		}
		return
	}
	for _, c := range n.Content {
		i.expressions(c)
	}
}

// scenario returns the document.
func (i *importer) scenario(test *yaml.Node) ([]byte, error) {
	title := cmp.Or(strict.Text(i.spec, "description"), strict.Text(test, "metadata", "name"), i.Name)
	var b bytes.Buffer
	b.WriteString("# yaml-language-server: $schema=../schema.json\n# made by lab scenario import from " + path.Base(i.file) + "\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(struct {
		APIVersion string         `yaml:"apiVersion"`
		Kind       string         `yaml:"kind"`
		Metadata   map[string]any `yaml:"metadata"`
		Spec       any            `yaml:"spec"`
	}{"lab/v1alpha1", "Scenario", map[string]any{"name": i.Name}, struct {
		Title    string         `yaml:"title"`
		Teaches  string         `yaml:"teaches"`
		Requires map[string]any `yaml:"requires"`
		Timeout  string         `yaml:"timeout"`
		Steps    []any          `yaml:"steps"`
	}{title, "What " + path.Base(i.file) + " tests.", map[string]any{"clusters": []string{i.Cluster}}, "10m", i.steps}})
	return b.Bytes(), err
}
