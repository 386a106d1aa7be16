package resourceset

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"text/template"

	sprig "github.com/go-task/slim-sprig/v3"
	"github.com/gosimple/slug"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/sandbox"
)

const (
	maxSteps = 5_000_000 // of all templates of a set
	maxText  = 16 << 20  // bytes of all that they write
)

// unknowable are the functions of the operator whose results differ.
var unknowable = []string{"ago", "randInt"}

// unknownFunction is the error of a template that calls one of them.
type unknownFunction struct{ name string }

func (e *unknownFunction) Error() string { return "template function " + e.name }

// engine executes the templates of a set.
type engine struct {
	box     *sandbox.Sandbox
	funcs   template.FuncMap
	inputs  map[string]any // those of the moment
	written int
}

func newEngine(step func(int) error) *engine {
	e := &engine{}
	spent := 0
	e.box = sandbox.New(func(n int) error {
		if spent += n; spent > maxSteps || spent < 0 {
			return sandbox.Over("its templates take more than %d steps: is there an endless loop?", maxSteps)
		}
		if step == nil {
			return nil
		}
		return step(n)
	})
	funcs := sprig.HermeticTxtFuncMap()
	for _, name := range unknowable {
		funcs[name] = func(...any) (string, error) { return "", &unknownFunction{name} }
	}
	funcs["slugify"] = slug.Make
	funcs["toYaml"] = func(v any) (string, error) {
		text, err := sigsyaml.Marshal(v)
		return string(text), err
	}
	funcs["inputs"] = func() map[string]any { return e.inputs }
	e.funcs = e.box.Functions(funcs)
	return e
}

// parse parses a template. Its name is that of errors.
func (e *engine) parse(name, text string) (*template.Template, error) {
	if err := sandbox.Nesting(strings.ReplaceAll(text, "<<", "{{")); err != nil {
		return nil, err
	}
	t, err := template.New(name).Delims("<<", ">>").Option("missingkey=error").Funcs(e.funcs).Parse(text)
	if err != nil {
		return nil, err
	}
	sandbox.Guard(t)
	return t, nil
}

// execute returns what a template writes for inputs.
func (e *engine) execute(t *template.Template, inputs map[string]any) (string, error) {
	e.box.Reset()
	e.inputs, e.box.Longest = inputs, max(e.box.Longest, sandbox.Longest(reflect.ValueOf(inputs)))
	var b strings.Builder
	err := t.Execute(e.box.Writer(&b), nil)
	if e.written += b.Len(); err == nil && e.written > maxText {
		err = sandbox.ErrHuge
	}
	return b.String(), err
}

// located matches the start of an error of a template: its name and line.
var located = regexp.MustCompile(`^template: [^:]*:(\d+)(?::\d+)?: `)

// explain returns an error of a template without its name, and its line; 0 if it has none.
func explain(err error) (message string, line int) {
	message = err.Error()
	m := located.FindStringSubmatch(message)
	if m == nil {
		return message, 0
	}
	_, _ = fmt.Sscan(m[1], &line)
	message = strings.TrimPrefix(message, m[0])
	if _, after, ok := strings.Cut(message, `executing "`); ok {
		if _, at, ok := strings.Cut(after, `" `); ok {
			message = at // "at <inputs.x>: ..."
		}
	}
	return message, line
}
