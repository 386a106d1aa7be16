package render

import (
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// engine executes a chart's templates like helm.sh/helm/v3/pkg/engine, which cannot be interrupted: a recursive tpl
// overflows the stack, and a range over a large number never ends. Here, every template entered, every iteration and
// every function and its result spend a budget.
type engine struct {
	*Budget
	depth    int // current nesting of templates
	written  int // bytes of all output, included templates too
	made     int // bytes and values of all function results
	names    map[string]int
	longest  int            // bytes of the longest text
	programs map[string]int // sizes of regular expressions
	trace    *trace         // of the current file; nil within includes
}

// maxNested is the maximum nesting of templates. Helm applies it per name.
const maxNested = 1000

var (
	errHuge   = over("templates write more than %d MiB", maxOutput>>20)
	errNested = over("templates nest more than %d deep", maxNested)
)

// tplName is the name of templates passed to tpl.
const tplName = "gotpl"

// output is the result of a template file.
type output struct {
	name, text string
	lines      []int // line in the file for each line of text; nil if identical
}

type templateError struct {
	file    string
	line    int
	message string
	limit   *limit // exceeded, or nil
}

func (e *templateError) Error() string { return fmt.Sprintf("%s:%d: %s", e.file, e.line, e.message) }

// source is a template with its scope.
type source struct {
	text, base string
	vals       map[string]any
}

// render executes all templates of a chart and its subcharts in the order of their names.
func (e *engine) render(c *chart.Chart, top chartutil.Values) ([]output, error) {
	e.names, e.programs = map[string]int{}, map[string]int{}
	sources := map[string]source{}
	collect(c, sources, top)
	e.longest = longest(reflect.ValueOf(map[string]any(top)))
	root := template.New(tplName).Option("missingkey=zero")
	root.Funcs(e.functions(root))
	var names []string
	for name := range sources {
		names = append(names, name)
	}
	// The last definition of a name wins: a chart overrides its subcharts.
	slices.SortFunc(names, func(a, b string) int {
		if x, y := strings.Count(a, "/"), strings.Count(b, "/"); x != y {
			return y - x
		}
		return strings.Compare(b, a)
	})
	for _, name := range names {
		if err := nesting(sources[name].text); err != nil {
			return nil, placed(name, err)
		}
		if _, err := root.New(name).Parse(sources[name].text); err != nil {
			return nil, placed(name, err)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if t := root.Lookup(name); t.Tree != nil && t.Tree.Root != nil {
			mark(t.Tree.Root, sources[name].text)
		}
	}
	guard(root)
	var list []output
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		s := sources[name]
		s.vals["Template"] = chartutil.Values{"Name": name, "BasePath": s.base}
		e.trace = &trace{line: 1}
		o := output{name: name}
		var b strings.Builder
		if err := root.Lookup(name).Execute(&counter{&b, e, e.trace}, s.vals); err != nil {
			return nil, placed(name, err)
		}
		o.text = plain(b.String())
		if strings.Contains(s.text, "{{") {
			o.lines = append([]int{}, e.trace.lines...)
		}
		list = append(list, o)
	}
	return list, nil
}

// collect finds the templates of a chart and its subcharts, with their values.
func collect(c *chart.Chart, into map[string]source, above map[string]any) map[string]any {
	subcharts := map[string]any{}
	scope := map[string]any{
		"Chart": struct {
			chart.Metadata
			IsRoot bool
		}{*c.Metadata, c.IsRoot()},
		"Files": filesOf(c), "Release": above["Release"], "Capabilities": above["Capabilities"], "Values": chartutil.Values{}, "Subcharts": subcharts,
	}
	if c.IsRoot() {
		scope["Values"] = above["Values"]
	} else if vals, err := chartutil.Values(above).Table("Values." + c.Name()); err == nil {
		scope["Values"] = vals
	}
	for _, sub := range c.Dependencies() {
		subcharts[sub.Name()] = collect(sub, into, scope)
	}
	for _, t := range c.Templates {
		if t == nil || strings.EqualFold(c.Metadata.Type, "library") && !strings.HasPrefix(path.Base(t.Name), "_") {
			continue
		}
		base := c.ChartFullPath()
		into[path.Join(base, t.Name)] = source{text: string(t.Data), base: path.Join(base, "templates"), vals: scope}
	}
	return scope
}

// execute runs a nested template within the limits.
func (e *engine) execute(t *template.Template, vals any) (string, error) {
	outer := e.trace
	defer func() { e.trace = outer }()
	e.trace = nil
	var b strings.Builder
	if err := t.Execute(&counter{&b, e, nil}, vals); err != nil {
		return "", err
	}
	return plain(b.String()), nil
}

// plain removes what missingkey=zero prints for untyped values.
func plain(text string) string { return strings.ReplaceAll(text, "<no value>", "") }

// counter aborts a template that writes too much or takes too many steps.
type counter struct {
	to    io.Writer
	e     *engine
	trace *trace // may be nil
}

func (c *counter) Write(p []byte) (int, error) {
	if c.e.written += len(p); c.e.written > 4*maxOutput { // included text counts once per level
		return 0, errHuge
	}
	if err := c.e.step(1 + len(p)/perStep); err != nil {
		return 0, err
	}
	c.trace.wrote(p)
	return c.to.Write(p)
}

// perStep is how many bytes are handled in a step.
const perStep = 256

// guard makes all templates of a set call enter and leave, and spend steps at every iteration of a range.
func guard(set *template.Template) {
	for _, t := range set.Templates() {
		if t.Tree == nil || t.Tree.Root == nil || guarded(t.Tree.Root) {
			continue
		}
		size := nodes(t.Tree.Root)
		tick(t.Tree.Root)
		t.Tree.Root.Nodes = append(append([]parse.Node{call(fmt.Sprintf("__enter %d", size))}, t.Tree.Root.Nodes...), call("__leave"))
	}
}

// guarded reports whether a template already has guards: clones share their trees.
func guarded(l *parse.ListNode) bool {
	return len(l.Nodes) > 0 && strings.HasPrefix(l.Nodes[0].String(), "{{__enter ")
}

// tick makes the body of every range spend steps.
func tick(n parse.Node) {
	branch := func(b *parse.BranchNode) {
		for _, l := range []*parse.ListNode{b.List, b.ElseList} {
			if l != nil {
				tick(l)
			}
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, c := range n.Nodes {
			tick(c)
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		size := 1 + nodes(n.List)
		branch(&n.BranchNode)
		n.List.Nodes = append([]parse.Node{call(fmt.Sprintf("__step %d", size))}, n.List.Nodes...)
	}
}

// at is the prefix of text/template's messages: "template: chart/templates/x.yaml:3:14: ".
var at = regexp.MustCompile(`^(?:template|parse error at|execution error at): ?\(?([^:()]+):(\d+)(?::\d+)?\)?: `)

// calls is the prefix of errors from functions.
var calls = regexp.MustCompile(`^(?:executing ".*?" at <.*?>: )?(?:error calling [A-Za-z_]+: )?`)

// placed returns the innermost position in a template error, and its message.
func placed(name string, err error) error {
	var own *limit
	if errors.As(err, &own) {
		return &templateError{file: name, limit: own}
	}
	f := &templateError{file: name, message: err.Error()}
	for {
		m := at.FindStringSubmatch(f.message)
		if m == nil {
			break
		}
		if m[1] != tplName {
			f.file = m[1]
			f.line, _ = strconv.Atoi(m[2])
		}
		f.message = f.message[len(m[0]):]
		f.message = f.message[len(calls.FindString(f.message)):]
	}
	return f
}

// opening matches what nests in a template, and what ends it.
var opening = regexp.MustCompile(`\{\{-?\s*(if|range|with|block|define|else\s+(?:if|with)|end)\b`)

// nesting bounds the nesting of a template's blocks: the parser is recursive.
func nesting(text string) error {
	depth, open := 0, []int{}
	for _, m := range opening.FindAllStringSubmatch(text, -1) {
		switch {
		case m[1] != "end":
			if depth++; strings.HasPrefix(m[1], "else") && len(open) > 0 {
				open[len(open)-1]++
			} else {
				open = append(open, 1)
			}
		case len(open) > 0:
			depth -= open[len(open)-1]
			open = open[:len(open)-1]
		}
		if depth > maxNested {
			return errNested
		}
	}
	return nil
}
