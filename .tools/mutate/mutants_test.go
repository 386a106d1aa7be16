package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

const sample = `package p

func f(a, b int, fails func() error) (int, error) {
	if err := fails(); err != nil {
		return 0, err
	}
	n := a
	if a < b && n != 0 {
		n = a + b
	}
	return n, nil
}

func ready(s string) bool { return len(s+"x") == 2 }
`

func TestMutants(t *testing.T) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, "p.go", sample, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	if _, err := (&types.Config{}).Check("p", fset, []*ast.File{tree}, info); err != nil {
		t.Fatal(err)
	}
	var got []string
	f := &file{name: "p.go", source: []byte(sample), tree: tree, fset: fset, info: info}
	f.add = func(m mutant) int { got = append(got, m.what); return len(got) }
	text := string(f.mutated())
	slices.Sort(got)
	want := []string{"!= negated", "!= negated", "+ to its opposite", "< negated", "< to <=", "== negated", "condition negated", "error ignored", "error not returned", "statement removed"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if strings.Count(text, "\n") != strings.Count(sample, "\n") {
		t.Errorf("line numbers changed:\n%s", text)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
}
