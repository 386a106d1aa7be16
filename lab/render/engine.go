package render

import (
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// engine executes a chart's templates like helm.sh/helm/v3/pkg/engine, which cannot be interrupted: a recursive tpl
// overflows the stack, and a range over a large number never ends. Here, every template entered, every iteration and
// every function result counts against a limit.
type engine struct {
	deadline time.Time
	depth    int // current nesting of templates
	written  int // bytes of all output, included templates too
	made     int // bytes and values of all function results
	names    map[string]int
	trace    *trace // of the current file; nil within includes
}

// maxNested is the maximum nesting of templates. Helm applies it per name.
const maxNested = 1000

var (
	errEndless = errors.New("templates take too long: is there an endless loop?")
	errHuge    = fmt.Errorf("templates write more than %d MiB", maxOutput>>20)
	errNested  = fmt.Errorf("templates nest more than %d deep", maxNested)
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
}

func (e *templateError) Error() string { return fmt.Sprintf("%s:%d: %s", e.file, e.line, e.message) }

// source is a template with its scope.
type source struct {
	text, base string
	vals       map[string]any
}

// render executes all templates of a chart and its subcharts in the order of their names.
func (e *engine) render(c *chart.Chart, top chartutil.Values) ([]output, error) {
	e.names = map[string]int{}
	sources := map[string]source{}
	collect(c, sources, top)
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

// counter aborts a template that writes too much or takes too long.
type counter struct {
	to    io.Writer
	e     *engine
	trace *trace // may be nil
}

func (c *counter) Write(p []byte) (int, error) {
	if c.e.written += len(p); c.e.written > 4*maxOutput { // included text counts once per level
		return 0, errHuge
	}
	if err := c.e.late(); err != nil {
		return 0, err
	}
	c.trace.wrote(p)
	return c.to.Write(p)
}

func (e *engine) late() error {
	if time.Now().After(e.deadline) {
		return errEndless
	}
	return nil
}

// guard makes all templates of a set call enter and leave, and write at every iteration of a range.
func guard(set *template.Template) {
	for _, t := range set.Templates() {
		if t.Tree == nil || t.Tree.Root == nil || guarded(t.Tree.Root) {
			continue
		}
		tick(t.Tree.Root)
		t.Tree.Root.Nodes = append(append([]parse.Node{call("__enter")}, t.Tree.Root.Nodes...), call("__leave"))
	}
}

// guarded reports whether a template already has guards: clones share their trees.
func guarded(l *parse.ListNode) bool { return len(l.Nodes) > 0 && l.Nodes[0].String() == "{{__enter}}" }

// tick prepends an empty text to the body of every range.
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
		branch(&n.BranchNode)
		n.List.Nodes = append([]parse.Node{&parse.TextNode{NodeType: parse.NodeText}}, n.List.Nodes...)
	}
}

// at is the prefix of text/template's messages: "template: chart/templates/x.yaml:3:14: ".
var at = regexp.MustCompile(`^(?:template|parse error at|execution error at): ?\(?([^:()]+):(\d+)(?::\d+)?\)?: `)

// calls is the prefix of errors from functions.
var calls = regexp.MustCompile(`^(?:executing ".*?" at <.*?>: )?(?:error calling [A-Za-z_]+: )?`)

// placed returns the innermost position in a template error, and its message.
func placed(name string, err error) error {
	for _, own := range []error{errEndless, errHuge, errNested} {
		if errors.Is(err, own) {
			return &templateError{file: name, message: own.Error()}
		}
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
