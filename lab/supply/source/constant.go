package source

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
)

// constant returns a string constant of a Go file, with other values for some of the constants in it.
func constant(file, name string, with map[string]string) (string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	values := map[string]ast.Expr{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
			for i, n := range spec.Names {
				values[n.Name] = spec.Values[i]
			}
		}
		return true
	})
	used := map[string]bool{}
	var text func(e ast.Expr) (string, error)
	text = func(e ast.Expr) (string, error) {
		switch e := e.(type) {
		case *ast.BasicLit:
			return strconv.Unquote(e.Value)
		case *ast.BinaryExpr:
			left, err := text(e.X)
			if err != nil {
				return "", err
			}
			right, err := text(e.Y)
			return left + right, err
		case *ast.Ident:
			if value, ok := with[e.Name]; ok {
				used[e.Name] = true
				return value, nil
			}
			if value, ok := values[e.Name]; ok {
				return text(value)
			}
		}
		return "", fmt.Errorf("%s: no string constant %s", file, name)
	}
	s, err := text(ast.NewIdent(name))
	for other := range with {
		if err == nil && !used[other] {
			err = fmt.Errorf("%s: %s does not use %s", file, name, other)
		}
	}
	return s, err
}
