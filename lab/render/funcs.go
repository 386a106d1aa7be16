package render

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"text/template"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/sprig/v3"
	"github.com/gobwas/glob"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/sandbox"
)

// functions are Helm's template functions with limits: sprig's, except those that reveal the machine, and Helm's own.
// As in `helm template`, lookup finds nothing.
func (e *engine) functions(root *template.Template) template.FuncMap {
	funcs := sprig.TxtFuncMap()
	delete(funcs, "env")
	delete(funcs, "expandenv")
	maps.Copy(funcs, template.FuncMap{
		"toToml": func(v any) string {
			text, err := encodeTOML(v)
			if err != nil {
				return err.Error()
			}
			return text
		},
		"fromToml": func(s string) map[string]any { return decoded(s, toml.Unmarshal) },
		"toYaml":   func(v any) string { return quiet(encodeYAML(v)) },
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
		"toJson":        func(v any) string { return quiet(encodeJSON(v)) },
		"fromJson":      func(s string) map[string]any { return decoded(s, json.Unmarshal) },
		"fromJsonArray": func(s string) []any { return decodedList(s, json.Unmarshal) },
		"getHostByName": func(string) string { return "" },
		"lookup":        func(string, string, string, string) map[string]any { return map[string]any{} },
		"fail":          func(message string) (string, error) { return "", errors.New(message) },
		"required": func(message string, v any) (any, error) {
			if s, ok := v.(string); v == nil || ok && s == "" {
				return v, errors.New(message)
			}
			return v, nil
		},
	})
	maps.Copy(funcs, helm4(e.minor))
	funcs = e.box.Functions(funcs)
	maps.Copy(funcs, e.calling(root))
	funcs["__at"] = func(line int, text bool) string {
		if e.trace != nil {
			e.trace.line, e.trace.text = line, text
		}
		return ""
	}
	return funcs
}

// calling are the functions that execute templates of a set.
func (e *engine) calling(set *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, vals any) (string, error) {
			if e.names[name] > sandbox.MaxNested {
				return "", sandbox.ErrNested
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
			if err := errors.Join(sandbox.Nesting(text), e.step(len(set.Templates())+len(text)/4)); err != nil {
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
			sandbox.Guard(t)
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

func encodeTOML(v any) (string, error) {
	var b bytes.Buffer
	err := toml.NewEncoder(&b).Encode(v)
	return b.String(), err
}

func encodeYAML(v any) (string, error) {
	data, err := sigsyaml.Marshal(v)
	return strings.TrimSuffix(string(data), "\n"), err
}

func encodeJSON(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}

// quiet returns nothing in place of an error.
func quiet(text string, err error) string {
	if err != nil {
		return ""
	}
	return text
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
	return quiet(encodeYAML(m))
}

// Lines returns the lines of a file.
func (f files) Lines(name string) []string {
	if len(f[name]) == 0 {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(string(f[name]), "\n"), "\n")
}
