package render

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"strings"
	"text/template"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/sprig/v3"
	"github.com/gobwas/glob"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	sigsyaml "sigs.k8s.io/yaml"
)

// functions are Helm's template functions with limits: sprig's, except those that reveal the machine, and Helm's own.
// As in `helm template`, lookup finds nothing.
func (e *engine) functions(root *template.Template) template.FuncMap {
	funcs := sprig.TxtFuncMap()
	delete(funcs, "env")
	delete(funcs, "expandenv")
	maps.Copy(funcs, template.FuncMap{
		"toToml": func(v any) string {
			var b bytes.Buffer
			if err := toml.NewEncoder(&b).Encode(v); err != nil {
				return err.Error()
			}
			return b.String()
		},
		"fromToml": func(s string) map[string]any { return decoded(s, toml.Unmarshal) },
		"toYaml":   toYAML,
		"toYamlPretty": func(v any) string {
			var b bytes.Buffer
			encoder := yaml.NewEncoder(&b)
			encoder.SetIndent(2)
			if encoder.Encode(v) != nil {
				return ""
			}
			return strings.TrimSuffix(b.String(), "\n")
		},
		"fromYaml":      func(s string) map[string]any { return decoded(s, unmarshalYAML) },
		"fromYamlArray": func(s string) []any { return decodedList(s, unmarshalYAML) },
		"toJson": func(v any) string {
			data, err := json.Marshal(v)
			if err != nil {
				return ""
			}
			return string(data)
		},
		"fromJson":      func(s string) map[string]any { return decoded(s, json.Unmarshal) },
		"fromJsonArray": func(s string) []any { return decodedList(s, json.Unmarshal) },
		"getHostByName": func(string) string { return "" },
		"lookup":        func(string, string, string, string) map[string]any { return map[string]any{} },
		"print":         fmt.Sprint, // built-in, wrapped for the limits
		"printf":        fmt.Sprintf,
		"println":       fmt.Sprintln,
		"html":          template.HTMLEscaper,
		"js":            template.JSEscaper,
		"urlquery":      template.URLQueryEscaper,
		"fail":          func(message string) (string, error) { return "", errors.New(message) },
		"required": func(message string, v any) (any, error) {
			if s, ok := v.(string); v == nil || ok && s == "" {
				return v, errors.New(message)
			}
			return v, nil
		},
	})
	for name, f := range funcs {
		funcs[name] = e.bounded(name, f)
	}
	maps.Copy(funcs, e.calling(root))
	funcs["__step"] = func(n int) (string, error) { return "", e.evaluate(n, e.longest) }
	funcs["__enter"] = func(n int) (string, error) {
		if e.depth++; e.depth > maxNested {
			return "", errNested
		}
		return "", e.evaluate(1+n, e.longest)
	}
	funcs["__at"] = func(line int, text bool) string {
		if e.trace != nil {
			e.trace.line, e.trace.text = line, text
		}
		return ""
	}
	funcs["__leave"] = func() string { e.depth--; return "" }
	return funcs
}

// calling are the functions that execute templates of a set.
func (e *engine) calling(set *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, vals any) (string, error) {
			if e.names[name] > maxNested {
				return "", errNested
			}
			e.names[name]++
			defer func() { e.names[name]-- }()
			t := set.Lookup(name)
			if t == nil {
				return "", fmt.Errorf("template: no template %q associated with template %q", name, set.Name())
			}
			return e.execute(t, vals)
		},
		"tpl": func(text string, vals any) (string, error) {
			if err := errors.Join(nesting(text), e.step(len(set.Templates())+len(text)/4)); err != nil {
				return "", err
			}
			t, err := set.Clone()
			if err != nil {
				return "", err
			}
			t.Option("missingkey=zero") // clones lose it: https://github.com/golang/go/issues/43022
			t.Funcs(e.calling(t))
			if t, err = t.New(set.Name()).Parse(text); err != nil {
				return "", fmt.Errorf("cannot parse template %q: %w", oneLine(text), err)
			}
			guard(t)
			return e.execute(t, vals)
		},
	}
}

func unmarshalYAML(data []byte, into any) error { return sigsyaml.Unmarshal(data, into) }

// decoded decodes a map. Errors become a value, as templates expect.
func decoded(s string, unmarshal func([]byte, any) error) map[string]any {
	m := map[string]any{}
	if err := unmarshal([]byte(s), &m); err != nil {
		m["Error"] = err.Error()
	}
	return m
}

func decodedList(s string, unmarshal func([]byte, any) error) []any {
	a := []any{}
	if err := unmarshal([]byte(s), &a); err != nil {
		a = []any{err.Error()}
	}
	return a
}

func toYAML(v any) string {
	data, err := sigsyaml.Marshal(v)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(data), "\n")
}

// maxValue limits the bytes and values of a function's result.
const maxValue = 4 << 20

// maxTotal limits the total of all results, garbage included.
const maxTotal = 2 << 30

// bounded limits a function's result to maxValue, before it is computed if possible.
func (e *engine) bounded(name string, f any) any {
	fn := reflect.ValueOf(f)
	t := fn.Type()
	if t.NumOut() == 0 {
		return f
	}
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	fails := reflect.TypeFor[error]()
	wrapped := reflect.FuncOf(in, []reflect.Type{t.Out(0), fails}, t.IsVariadic())
	return reflect.MakeFunc(wrapped, func(args []reflect.Value) []reflect.Value {
		failed := func(err error) []reflect.Value {
			return []reflect.Value{reflect.Zero(t.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		cost, err := e.cost(name, args)
		if err == nil {
			err = e.step(cost)
		}
		if err == nil && estimate(name, args) > maxValue {
			err = errHuge
		}
		if err != nil {
			return failed(err)
		}
		var out []reflect.Value
		if t.IsVariadic() {
			out = fn.CallSlice(args)
		} else {
			out = fn.Call(args)
		}
		left := maxValue
		whole := fits(out[0], &left, 0)
		if e.made += maxValue - left; !whole || e.made > maxTotal {
			return failed(errHuge)
		}
		e.longest = max(e.longest, width(out[0]))
		if err := e.step((maxValue - left) / perStep); err != nil {
			return failed(err)
		}
		if len(out) == 1 {
			out = append(out, reflect.Zero(fails))
		}
		return out
	}).Interface()
}

// estimate predicts the size of amplifying functions' results; 0 for others. An overflow counts as too much.
func estimate(name string, args []reflect.Value) int {
	product := func(a, b int) int {
		if a > 0 && b > maxValue/a {
			return maxValue + 1
		}
		return a * b
	}
	switch name {
	case "repeat", "indent", "nindent": // a count and a text
		s := text(args[1])
		if name != "repeat" {
			return product(number(args[0]), strings.Count(s, "\n")+1)
		}
		return product(number(args[0]), len(s))
	case "until", "randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randBytes":
		return number(args[0])
	case "untilStep":
		return abs(number(args[1])-number(args[0])) / max(abs(number(args[2])), 1)
	case "seq":
		least, most := 0, 0
		for i := range args[0].Len() {
			least, most = min(least, number(args[0].Index(i))), max(most, number(args[0].Index(i)))
		}
		return product(most-least, 8)
	case "replace": // old, new, text
		return product(strings.Count(text(args[2]), text(args[0])), len(text(args[1])))
	case "regexReplaceAll", "regexReplaceAllLiteral", "mustRegexReplaceAll", "mustRegexReplaceAllLiteral": // expression, text, new
		return product(len(text(args[1]))+1, len(text(args[2])))
	case "join": // separator, list
		if list := concrete(args[1]); list.Kind() == reflect.Slice {
			return product(list.Len(), len(text(args[0])))
		}
	}
	return 0
}

func text(v reflect.Value) string {
	if v = concrete(v); v.Kind() == reflect.String {
		return v.String()
	}
	return ""
}

func number(v reflect.Value) int {
	if v = concrete(v); v.CanInt() {
		return int(max(min(v.Int(), 1<<40), -1<<40))
	}
	return 0
}

func abs(n int) int { return max(n, -n) }

func concrete(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// fits reports whether a value, written out, fits the limit: maps may share values.
func fits(v reflect.Value, left *int, depth int) bool {
	v = concrete(v)
	if *left--; *left < 0 || depth > maxNested { // a map may contain itself
		return false
	}
	switch v.Kind() {
	case reflect.String:
		*left -= v.Len()
		return *left >= 0
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if !fits(it.Key(), left, depth+1) || !fits(it.Value(), left, depth+1) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			*left -= v.Len()
			return *left >= 0
		}
		for i := range v.Len() {
			if !fits(v.Index(i), left, depth+1) {
				return false
			}
		}
	}
	return true
}

// files is .Files: a chart's files other than templates.
type files map[string][]byte

func filesOf(c *chart.Chart) files {
	f := files{}
	for _, file := range c.Files {
		f[file.Name] = file.Data
	}
	return f
}

// GetBytes returns a file's content; empty if missing.
func (f files) GetBytes(name string) []byte { return append([]byte{}, f[name]...) }

// Get returns a file as text.
func (f files) Get(name string) string { return string(f[name]) }

// Glob returns the matching files; all for an invalid pattern, like Helm.
func (f files) Glob(pattern string) files {
	g, err := glob.Compile(pattern, '/')
	if err != nil {
		g = glob.MustCompile("**")
	}
	found := files{}
	for name, data := range f {
		if g.Match(name) {
			found[name] = data
		}
	}
	return found
}

// AsConfig formats the files as the data of a ConfigMap.
func (f files) AsConfig() string {
	return f.as(func(data []byte) string { return string(data) })
}

// AsSecrets formats the files as the data of a Secret.
func (f files) AsSecrets() string { return f.as(base64.StdEncoding.EncodeToString) }

func (f files) as(text func([]byte) string) string {
	if f == nil {
		return ""
	}
	m := map[string]string{}
	for name, data := range f {
		m[path.Base(name)] = text(data)
	}
	return toYAML(m)
}

// Lines returns the lines of a file.
func (f files) Lines(name string) []string {
	if len(f[name]) == 0 {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(string(f[name]), "\n"), "\n")
}
