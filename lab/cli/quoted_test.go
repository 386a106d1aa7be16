package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// commandEnd matches text that ends within a command line, before an argument.
var commandEnd = regexp.MustCompile(`(?:^|[ :;(&])(?:lab (?:up|down|status|kubeconfig|creds|init|promote|generate|doctor|diagnose|(?:git|snapshot|scenario|bundle|bridge) [a-z]+)|rm|git -C|git add|git push|` +
	`docker (?:rm|logs|start|stop|unpause|volume rm|network rm)|kubectl [a-z]+ [a-z]+)(?: --?[A-Za-z-]+)*[ =]$|(?:^|&& )cd $|^(?: -C| --[a-z-]+)[ =]$`)

// TestQuoted checks that paths and names in printed commands are quoted for a shell.
func TestQuoted(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		seen := map[ast.Expr]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok || seen[e] {
				return true
			}
			before := ""
			for _, part := range operands(e, seen) {
				if text, literal := literal(part); literal {
					before += text
					continue
				}
				if commandEnd.MatchString(before) {
					found++
					if call, ok := part.(*ast.CallExpr); !ok || nameOf(call.Fun) != "Quote" {
						t.Errorf("%s: not quoted for a shell, after %q", set.Position(part.Pos()), before)
					}
				}
				before = ""
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 15 {
		t.Errorf("only %d arguments in commands", found)
	}
}

// operands returns the operands of a concatenation, or the text and arguments of a format.
func operands(e ast.Expr, seen map[ast.Expr]bool) []ast.Expr {
	seen[e] = true
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return append(operands(e.X, seen), operands(e.Y, seen)...)
		}
	case *ast.CallExpr:
		if nameOf(e.Fun) != "Sprintf" || len(e.Args) == 0 {
			break
		}
		format, ok := literal(e.Args[0])
		if !ok {
			break
		}
		var list []ast.Expr
		texts := regexp.MustCompile(`%[^a-z]*[a-z]`).Split(format, -1)
		for i, text := range texts {
			list = append(list, &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(text)})
			if i+1 < len(e.Args) && i+1 < len(texts) {
				list = append(list, e.Args[i+1])
			}
		}
		return list
	}
	return []ast.Expr{e}
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
