package finding_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/finding"
)

var update = flag.Bool("update", false, "rewrite the rules in docs/lint.md")

// TestRules checks that each code has a rule, whose texts are complete.
func TestRules(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "rules.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		value, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		code, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		codes++
		if _, known := finding.ByCode(code); !known {
			t.Errorf("%s has no rule", code)
		}
		return true
	})
	seen := map[string]bool{}
	for _, r := range finding.Rules() {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(r.Code) || seen[r.Code] {
			t.Errorf("code %q", r.Code)
		}
		seen[r.Code] = true
		if r.Title == "" || strings.HasSuffix(r.Title, ".") || !strings.HasSuffix(r.Why, ".") || !strings.HasSuffix(r.Cure, ".") {
			t.Errorf("%s: texts", r.Code)
		}
	}
	if codes != len(seen) {
		t.Errorf("%d codes, %d rules", codes, len(seen))
	}
}

func TestOf(t *testing.T) {
	list := finding.Of(lab.Problems{{Code: finding.NotYAML, Message: "a"}, {Message: "b"}}, finding.Error)
	if len(list) != 2 || list[0].Rule != finding.NotYAML || list[1].Rule != finding.Other || list[1].Severity != finding.Error {
		t.Errorf("%+v", list)
	}
}

// TestDocumented compares the rules with docs/lint.md.
func TestDocumented(t *testing.T) {
	const start = "<!-- rules: go test ./lab/finding -update -->\n"
	file := filepath.Join("..", "..", "docs", "lint.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(data), start)
	if !found {
		t.Fatalf("%s has no %s", file, start)
	}
	var b strings.Builder
	for _, r := range finding.Rules() {
		fmt.Fprintf(&b, "\n### %s\n%s: %s. %s\n\nCure: %s\n", r.Code, r.Severity, r.Title, r.Why, r.Cure)
	}
	if after == b.String() {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the rules: go test ./lab/finding -update", file)
	}
	if err := os.WriteFile(file, []byte(before+start+b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
