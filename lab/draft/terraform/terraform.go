// Package terraform reads the texts that Terraform's files give to names, as data: the defaults of variables, their values in *.tfvars, and what refers to them. Nothing is
// run, and no function is called.
package terraform

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Is reports whether a file is one of Terraform's.
func Is(file string) bool { return path.Ext(file) == ".tf" || path.Ext(file) == ".tfvars" }

// Texts returns the texts of each name in the files of one folder: of variables, locals, arguments of modules and keys of objects. Invalid files, and what depends on more
// than such texts, are ignored, also variables that several *.tfvars set: each is for another workspace.
func Texts(fsys fs.FS, files []string) map[string][]string {
	m := module{vars: map[string]cty.Value{}, locals: map[string]cty.Value{}, texts: map[string][]string{}}
	var bodies []*hclsyntax.Body
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(path.Ext(a), path.Ext(b)) }) // *.tfvars last
	for _, file := range files {
		info, err := fs.Stat(fsys, file)
		if err != nil || info.Size() > largest {
			continue
		}
		data, err := fs.ReadFile(fsys, file)
		if err != nil || deep(data) {
			continue
		}
		parsed, problems := hclsyntax.ParseConfig(data, file, hcl.InitialPos)
		body, ok := parsed.Body.(*hclsyntax.Body)
		if problems.HasErrors() || !ok {
			continue
		}
		if path.Ext(file) == ".tfvars" {
			for name, a := range body.Attributes {
				if v, ok := m.text(a.Expr); ok {
					m.add(name, v)
				}
			}
			continue
		}
		bodies = append(bodies, body)
		for _, b := range body.Blocks {
			if a := b.Body.Attributes["default"]; b.Type == "variable" && len(b.Labels) == 1 && a != nil {
				m.set(m.vars, b.Labels[0], a.Expr)
			}
		}
	}
	for name, texts := range m.texts { // of *.tfvars
		if delete(m.vars, name); len(texts) == 1 {
			m.vars[name] = cty.StringVal(texts[0])
		}
	}
	const rounds = 5 // locals that refer to others
	for range rounds {
		for _, body := range bodies {
			for _, b := range body.Blocks {
				for _, name := range slices.Sorted(maps.Keys(b.Body.Attributes)) {
					if b.Type == "locals" {
						m.set(m.locals, name, b.Body.Attributes[name].Expr)
					}
				}
			}
		}
	}
	for _, values := range []map[string]cty.Value{m.vars, m.locals} {
		for name, v := range values {
			m.add(name, v)
		}
	}
	for _, body := range bodies {
		for _, b := range body.Blocks {
			for name, a := range b.Body.Attributes {
				if v, ok := m.text(a.Expr); ok && b.Type == "module" {
					m.add(name, v)
				}
			}
		}
		_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
			if object, ok := n.(*hclsyntax.ObjectConsExpr); ok {
				for _, item := range object.Items {
					if key, _ := item.KeyExpr.Value(nil); isText(key) {
						if value, ok := m.text(item.ValueExpr); ok {
							m.add(key.AsString(), value)
						}
					}
				}
			}
			return nil
		})
	}
	return m.texts
}

// Limits of a file and of a text.
const (
	largest = 64 << 10
	longest = 4 << 10
	deepest = 500 // brackets and signs, one in another: the parser calls itself
)

// deep reports whether a file is nested deeper than the parser's stack should be.
func deep(data []byte) bool {
	brackets, signs := 0, 0
	for _, c := range data {
		switch {
		case c == '(' || c == '[' || c == '{':
			brackets++
		case brackets > 0 && (c == ')' || c == ']' || c == '}'):
			brackets--
		}
		if c == '-' || c == '!' {
			signs++
		} else if c != ' ' && c != '\t' && c != '\n' {
			signs = 0
		}
		if brackets > deepest || signs > deepest {
			return true
		}
	}
	return false
}

type module struct {
	vars, locals map[string]cty.Value
	texts        map[string][]string
}

func (m module) context() *hcl.EvalContext {
	return &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(m.vars), "local": cty.ObjectVal(m.locals)}}
}

// set evaluates a name, which stays unset unless it is a string.
func (m module) set(in map[string]cty.Value, name string, e hclsyntax.Expression) {
	if v, ok := m.text(e); ok {
		in[name] = v
	}
}

// text evaluates an expression that is a text or refers to texts. Others, which may cost any time, are not evaluated.
func (m module) text(e hclsyntax.Expression) (cty.Value, bool) {
	plain := true
	_ = hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n.(type) {
		case *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr, *hclsyntax.LiteralValueExpr, *hclsyntax.ScopeTraversalExpr, *hclsyntax.ParenthesesExpr:
		default:
			plain = false
		}
		return nil
	})
	if !plain {
		return cty.NilVal, false
	}
	v, problems := e.Value(m.context())
	return v, !problems.HasErrors() && isText(v) && len(v.AsString()) <= longest
}

func (m module) add(name string, v cty.Value) {
	if !slices.Contains(m.texts[name], v.AsString()) {
		m.texts[name] = append(m.texts[name], v.AsString())
	}
}

func isText(v cty.Value) bool { return v.Type() == cty.String && v.IsKnown() && !v.IsNull() }
