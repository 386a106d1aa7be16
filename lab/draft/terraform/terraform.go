// Package terraform reads the texts that Terraform's files give to names, as data: the defaults of variables, their values in *.tfvars, and what refers to them. Nothing is
// run, and no function is called.
package terraform

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Is reports whether a file is one of Terraform's.
func Is(file string) bool { return path.Ext(file) == ".tf" || path.Ext(file) == ".tfvars" }

// Texts returns the texts of each name in the files of one folder: of variables, locals and keys of objects. Invalid files, and what depends on more than such texts,
// are ignored.
func Texts(fsys fs.FS, files []string) map[string][]string {
	m := module{vars: map[string]cty.Value{}, locals: map[string]cty.Value{}, texts: map[string][]string{}}
	var bodies []*hclsyntax.Body
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(path.Ext(a), path.Ext(b)) }) // *.tfvars last
	for _, file := range files {
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			continue
		}
		parsed, problems := hclsyntax.ParseConfig(data, file, hcl.InitialPos)
		body, ok := parsed.Body.(*hclsyntax.Body)
		if problems.HasErrors() || !ok {
			continue
		}
		if path.Ext(file) == ".tfvars" {
			for name, a := range body.Attributes {
				m.set(m.vars, name, a.Expr)
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
	const deepest = 5 // locals that refer to others
	for range deepest {
		for _, body := range bodies {
			for _, b := range body.Blocks {
				for name, a := range b.Body.Attributes {
					if b.Type == "locals" {
						m.set(m.locals, name, a.Expr)
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
		_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
			if object, ok := n.(*hclsyntax.ObjectConsExpr); ok {
				for _, item := range object.Items {
					key, _ := item.KeyExpr.Value(nil)
					value, problems := item.ValueExpr.Value(m.context())
					if isText(key) && !problems.HasErrors() {
						m.add(key.AsString(), value)
					}
				}
			}
			return nil
		})
	}
	return m.texts
}

type module struct {
	vars, locals map[string]cty.Value
	texts        map[string][]string
}

func (m module) context() *hcl.EvalContext {
	return &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(m.vars), "local": cty.ObjectVal(m.locals)}}
}

// set evaluates a name, which stays unset if that fails.
func (m module) set(in map[string]cty.Value, name string, e hcl.Expression) {
	if v, problems := e.Value(m.context()); !problems.HasErrors() {
		in[name] = v
	}
}

func (m module) add(name string, v cty.Value) {
	if isText(v) && !slices.Contains(m.texts[name], v.AsString()) {
		m.texts[name] = append(m.texts[name], v.AsString())
	}
}

func isText(v cty.Value) bool { return v.Type() == cty.String && v.IsKnown() && !v.IsNull() }
