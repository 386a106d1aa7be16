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

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"homelab/lab/argo"
	"homelab/lab/sandbox"
)

// engine executes a chart's templates like helm.sh/helm/v3/pkg/engine, which cannot be interrupted: a recursive tpl
// overflows the stack, and a range over a large number never ends. Here, every template entered, every iteration and
// every function and its result spend a budget.
type engine struct {
	*Budget
	minor argo.Minor
	box   *sandbox.Sandbox
	set   *template.Template
	size  int            // bytes of the templates
	names map[string]int // includes that are being executed
	trace *trace         // of the current file; nil within includes
}

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

// render executes templates in Helm's order, as some change values of others. The result is in the order of their names.
func (e *engine) render(names []string, sources map[string]source, top chartutil.Values) ([]output, error) {
	e.names = map[string]int{}
	e.box.Reset()
	e.box.Longest = sandbox.Longest(reflect.ValueOf(map[string]any(top)))
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
		if err := e.set.Lookup(name).Execute(e.counter(&b, e.trace), s.vals); err != nil {
			return nil, placed(name, err)
		}
		o.text = plain(b.String())
		if strings.Contains(s.text, "{{") {
			o.lines = append([]int{}, e.trace.lines...)
		}
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b output) int { return strings.Compare(a.name, b.name) })
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
	if err := t.Execute(e.counter(&b, nil), vals); err != nil {
		return "", err
	}
	return plain(b.String()), nil
}

// plain removes what missingkey=zero prints for untyped values.
func plain(text string) string { return strings.ReplaceAll(text, "<no value>", "") }

// counter is the output of a template file or of one that is included.
type counter struct {
	to    io.Writer
	trace *trace // may be nil
}

func (e *engine) counter(b *strings.Builder, t *trace) io.Writer { return &counter{e.box.Writer(b), t} }

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	if err == nil {
		c.trace.wrote(p)
	}
	return n, err
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
