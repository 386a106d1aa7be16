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

// TestCures checks that every command in a cure exists, with its flags.
func TestCures(t *testing.T) {
	app := (&program{env: Env{Getenv: os.Getenv, Out: os.Stdout, Err: os.Stderr}}).app()
	found := 0
	for where, text := range cures(t) {
		for _, m := range labCommand.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1])
			command := find(app.Commands, words[0])
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

// cures returns the texts of Cure: fields and Command or OnEstate calls by file and line.
func cures(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		add := func(e ast.Expr) {
			if text := literals(e); text != "" {
				texts[set.Position(e.Pos()).String()] = text
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Cure" {
					add(n.Value)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "Command" || f.Sel.Name == "OnEstate") && len(n.Args) == 1 {
					add(n.Args[0])
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
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
