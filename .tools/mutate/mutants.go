package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mutant is a change of the code that is enabled at run time by its number.
type mutant struct {
	file string
	line int
	what string
	text string // the line, for the report
}

// support is added to a package. It reports whether a mutant is enabled, and records which ones were queried.
const support = `package %s

import (
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantNow   = func() int { n, _ := strconv.Atoi(os.Getenv("MUTANT")); return n }()
	mutantFile  = os.Getenv("MUTANTS_SEEN")
	mutantsSeen [%d]atomic.Bool
)

func mutantOn(n int) bool {
	if mutantFile != "" && !mutantsSeen[n].Swap(true) {
		f, err := os.OpenFile(mutantFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		_, _ = f.WriteString(strconv.Itoa(n) + "\n")
		_ = f.Close()
	}
	return mutantNow == n
}

func mutantSum[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64](n int, op byte, a, b T) T {
	on := mutantOn(n)
	switch {
	case op == '+' != on && op != '*' && op != '/':
		return a + b
	case op == '+' || op == '-':
		return a - b
	case op == '*' != on:
		return a * b
	}
	return a / b
}
`

// edit replaces a part of a file. Edits at the same offset are ordered: ends first, innermost first, then beginnings, outermost first.
type edit struct {
	at, until int
	ends      bool
	depth     int
	text      string
}

// file is a file to mutate.
type file struct {
	name    string
	source  []byte
	tree    *ast.File
	fset    *token.FileSet
	info    *types.Info
	edits   []edit
	depth   int
	results []*types.Tuple // of the enclosing functions
	add     func(mutant) int
}

func (f *file) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *file) of(n ast.Node) string { return string(f.source[f.offset(n.Pos()):f.offset(n.End())]) }

func (f *file) mutant(n ast.Node, what string) int {
	at := f.fset.Position(n.Pos())
	return f.add(mutant{file: f.name, line: at.Line, what: what, text: strings.TrimSpace(strings.Split(string(f.source), "\n")[at.Line-1])})
}

func (f *file) around(n ast.Node, before, after string) {
	f.edits = append(f.edits, edit{at: f.offset(n.Pos()), until: f.offset(n.Pos()), depth: f.depth, text: before})
	f.edits = append(f.edits, edit{at: f.offset(n.End()), until: f.offset(n.End()), depth: f.depth, ends: true, text: after})
}

// mutated returns the file with all of its mutants. Lines keep their numbers.
func (f *file) mutated() []byte {
	f.visit(f.tree)
	slices.SortStableFunc(f.edits, func(a, b edit) int {
		if a.at != b.at || a.ends != b.ends {
			return cmp.Or(cmp.Compare(a.at, b.at), map[bool]int{true: -1, false: 1}[a.ends])
		}
		if a.ends {
			return cmp.Compare(b.depth, a.depth)
		}
		return cmp.Compare(a.depth, b.depth)
	})
	var out []byte
	at := 0
	for _, e := range f.edits {
		out = append(append(out, f.source[at:e.at]...), e.text...)
		at = e.until
	}
	return append(out, f.source[at:]...)
}

func (f *file) visit(n ast.Node) {
	f.depth++
	defer func() { f.depth-- }()
	switch n := n.(type) {
	case *ast.GenDecl:
		if n.Tok == token.CONST {
			return
		}
	case *ast.FuncDecl:
		f.enter(f.info.Defs[n.Name].Type())
		defer f.leave()
	case *ast.FuncLit:
		f.enter(f.info.TypeOf(n))
		defer f.leave()
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	case *ast.IfStmt:
		f.condition(n)
	case *ast.BinaryExpr:
		f.binary(n)
	}
	for c := range children(n) {
		f.visit(c)
	}
}

func (f *file) enter(t types.Type) { f.results = append(f.results, t.(*types.Signature).Results()) }
func (f *file) leave()             { f.results = f.results[:len(f.results)-1] }

// children returns the child nodes of a node.
func children(n ast.Node) func(func(ast.Node) bool) {
	return func(yield func(ast.Node) bool) {
		first, going := true, true
		ast.Inspect(n, func(c ast.Node) bool {
			if first {
				first = false
				return true
			}
			if c != nil && going {
				going = yield(c)
			}
			return false
		})
	}
}

var boundary = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

func comparison(op token.Token) bool { return op == token.EQL || op == token.NEQ || boundary[op] != "" }

func (f *file) binary(e *ast.BinaryExpr) {
	t := f.info.Types[e]
	switch {
	case t.Value != nil: // a constant
	case comparison(e.Op):
		before, after := "((", fmt.Sprintf(") != mutantOn(%d))", f.mutant(e, e.Op.String()+" negated"))
		if other := boundary[e.Op]; other != "" {
			n, x, y := f.mutant(e, e.Op.String()+" to "+other), f.of(e.X), f.of(e.Y)
			if len(other) == 2 {
				after = fmt.Sprintf(" || mutantOn(%d) && %s == %s", n, x, y) + after
			} else {
				after = fmt.Sprintf(" && !(mutantOn(%d) && %s == %s)", n, x, y) + after
			}
		}
		f.around(e, before, after)
	case slices.Contains([]token.Token{token.ADD, token.SUB, token.MUL, token.QUO}, e.Op):
		if basic, ok := t.Type.Underlying().(*types.Basic); !ok || basic.Info()&types.IsNumeric == 0 {
			return
		}
		f.around(e, fmt.Sprintf("mutantSum(%d, '%s', ", f.mutant(e, e.Op.String()+" to its opposite"), e.Op), ")")
		at := f.offset(e.OpPos)
		f.edits = append(f.edits, edit{at: at, until: at + 1, depth: f.depth, text: ","})
	}
}

// condition negates conditions other than comparisons, and ignores errors.
func (f *file) condition(s *ast.IfStmt) {
	if e, ok := ast.Unparen(s.Cond).(*ast.BinaryExpr); ok && comparison(e.Op) {
		if s.Else == nil && e.Op == token.NEQ && f.of(e.Y) == "nil" && isError(f.info.TypeOf(e.X)) {
			f.around(s.Cond, "(", fmt.Sprintf(") && !mutantOn(%d)", f.mutant(s, "error ignored")))
		}
		return
	}
	f.negate(s.Cond, "condition negated")
}

func (f *file) negate(e ast.Expr, what string) {
	f.around(e, "((", fmt.Sprintf(") != mutantOn(%d))", f.mutant(e, what)))
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }

func isBool(t types.Type) bool {
	return t != nil && types.Identical(types.Default(t), types.Typ[types.Bool])
}

func (f *file) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ReturnStmt:
			f.returned(s)
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt:
			f.removable(s)
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && f.of(s.Lhs[0]) != "_" {
				f.removable(s)
			}
		}
	}
}

// spared are calls whose removal tests cannot be expected to detect: locks, which would need a race, and releases of resources that also end with the
// process.
var spared = []string{"Lock", "Unlock", "RLock", "RUnlock", "Close", "cancel", "Stop", "panic", "Goexit", "Done"}

func (f *file) removable(s ast.Stmt) {
	var call ast.Expr
	switch s := s.(type) {
	case *ast.ExprStmt:
		call = s.X
	case *ast.DeferStmt:
		call = s.Call
	case *ast.BranchStmt:
		if s.Tok == token.GOTO || s.Tok == token.FALLTHROUGH {
			return
		}
	}
	if c, ok := call.(*ast.CallExpr); ok {
		name := f.of(c.Fun)
		if slices.Contains(spared, name[strings.LastIndex(name, ".")+1:]) {
			return
		}
	}
	f.around(s, fmt.Sprintf("if !mutantOn(%d) { ", f.mutant(s, "statement removed")), " }")
}

func (f *file) returned(s *ast.ReturnStmt) {
	results := f.results[len(f.results)-1]
	if len(s.Results) == 0 && results.Len() == 0 {
		f.around(s, fmt.Sprintf("if !mutantOn(%d) { ", f.mutant(s, "return removed")), " }")
		return
	}
	if len(s.Results) != results.Len() { // of a call, or named
		return
	}
	for _, e := range s.Results {
		if b, ok := ast.Unparen(e).(*ast.BinaryExpr); isBool(f.info.TypeOf(e)) && !(ok && comparison(b.Op)) {
			f.negate(e, "result negated")
		}
	}
	last := len(s.Results) - 1
	if !isError(results.At(last).Type()) || f.of(s.Results[last]) == "nil" {
		return
	}
	lost := "_ = " + oneLine(f.of(s.Results[last])) + "; return "
	for _, e := range s.Results[:last] {
		lost += oneLine(f.of(e)) + ", "
	}
	if strings.Contains(lost, "\x00") {
		return
	}
	f.around(s, fmt.Sprintf("if mutantOn(%d) { %snil }; ", f.mutant(s, "error not returned"), lost), "")
}

// oneLine returns an expression on one line, so that line numbers are kept, or text with a NUL if that is impossible.
func oneLine(text string) string {
	if strings.Contains(text, "//") && strings.Contains(text, "\n") || strings.Contains(text, "func(") && strings.Contains(text, "\n") {
		return "\x00"
	}
	return strings.NewReplacer("\n", " ", "\t", "").Replace(text)
}
