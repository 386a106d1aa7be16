package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// labCommand matches a lab command line within a cure: "lab git pull", "lab up --recreate ".
var labCommand = regexp.MustCompile(`\blab ((?:[a-z]+ ?)+)((?:--[a-z-]+(?:[ =][A-Z][A-Z:,.]*)? ?)*)`)

// prose are words that may follow "lab" in text that is not a command.
var prose = []string{"a", "as", "does", "reads"}

// TestCures checks that every command in a cure exists, with its flags.
func TestCures(t *testing.T) {
	app := (&program{env: Env{Getenv: os.Getenv, Out: os.Stdout, Err: os.Stderr}}).app()
	found := 0
	for where, text := range cures(t) {
		for _, m := range labCommand.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1])
			command := find(app.Commands, words[0])
			if command == nil && slices.Contains(prose, words[0]) {
				continue
			}
			if command == nil {
				t.Errorf("%s: unknown command lab %s in %q", where, words[0], text)
				continue
			}
			found++
			if len(words) > 1 && len(command.Subcommands) > 0 {
				if command = find(command.Subcommands, words[1]); command == nil {
					t.Errorf("%s: unknown command lab %s %s in %q", where, words[0], words[1], text)
					continue
				}
			}
			for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(m[2], -1) {
				if !hasFlag(command, strings.TrimPrefix(flag, "--")) {
					t.Errorf("%s: lab %s has no flag %s, in %q", where, command.Name, flag, text)
				}
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d commands in cures", found)
	}
}

func find(commands []*cli.Command, name string) *cli.Command {
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(name) })
	if i < 0 {
		return nil
	}
	return commands[i]
}

func hasFlag(c *cli.Command, name string) bool {
	return name == "help" || slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// cures returns, by file and line, the texts of Cure fields, of constants called cure..., of arguments for parameters called cure or next, and of Command
// and OnEstate calls.
func cures(t *testing.T) map[string]string {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(set, path, nil, 0)
		files = append(files, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	takes := map[string][]int{"Command": {0}, "OnEstate": {0}} // functions, by name -> arguments
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				takes[n.Name.Name] = append(takes[n.Name.Name], curing(n.Type)...)
			case *ast.AssignStmt:
				name, ok := n.Lhs[0].(*ast.Ident)
				if f, is := n.Rhs[0].(*ast.FuncLit); ok && is {
					takes[name.Name] = append(takes[name.Name], curing(f.Type)...)
				}
			}
			return true
		})
	}
	texts := map[string]string{}
	add := func(e ast.Expr) {
		if text := literals(e); text != "" {
			texts[set.Position(e.Pos()).String()] = text
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if nameOf(n.Key) == "Cure" {
					add(n.Value)
				}
			case *ast.AssignStmt:
				if nameOf(n.Lhs[0]) == "Cure" {
					add(n.Rhs[0])
				}
			case *ast.ValueSpec:
				if len(n.Values) > 0 && strings.HasPrefix(n.Names[0].Name, "cure") {
					add(n.Values[0])
				}
			case *ast.CallExpr:
				for _, i := range takes[nameOf(n.Fun)] {
					if i < len(n.Args) {
						add(n.Args[i])
					}
				}
			}
			return true
		})
	}
	return texts
}

// nameOf returns the last part of a name, or "".
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// curing returns the positions of the parameters that are cures.
func curing(f *ast.FuncType) []int {
	var at []int
	i := 0
	for _, field := range f.Params.List {
		for _, name := range field.Names {
			if name.Name == "cure" || name.Name == "next" {
				at = append(at, i)
			}
			i++
		}
	}
	return at
}

// literals concatenates the string literals of an expression, with X for computed parts.
func literals(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			return ""
		}
		return text
	case *ast.BinaryExpr:
		return literals(e.X) + literals(e.Y)
	case *ast.CallExpr:
		if len(e.Args) > 0 {
			return literals(e.Args[0])
		}
	}
	return "X"
}
