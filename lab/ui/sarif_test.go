package ui

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/upstream"
)

// sarifModule has the schema of SARIF 2.1.0 in a constant of a package. It is not a dependency: only the text is read.
const sarifModule = "github.com/owenrumney/go-sarif/v3@v3.3.1"

// sarifSchema returns the schema.
func sarifSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(upstream.Dir(t, sarifModule), "pkg", "report", "v210", "sarif", "schema.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	value, _ := file.Scope.Lookup("schema").Decl.(*ast.ValueSpec).Values[0].(*ast.BasicLit)
	schema, err := strconv.Unquote(value.Value)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(schema)))
	if err != nil {
		t.Fatal(err)
	}
	const name = "sarif.json"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	of, err := compiler.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return of
}

func TestSarifSchema(t *testing.T) {
	of := sarifSchema(t)
	for name, findings := range map[string][]finding.Finding{
		"none": nil,
		"some": {
			{Rule: finding.FloatingImage, Severity: finding.Warning, Position: lab.Position{File: "addons/web/a b.yaml", Line: 3, Column: 7}, Message: "m", Cure: "c"},
			{Rule: finding.NotYAML, Severity: finding.Error, Position: lab.Position{File: "/elsewhere/x.yaml", Line: 1}, Message: "m", Subject: finding.Subject{Cluster: "dev", Application: "web", Object: "Pod web"}},
			{Rule: finding.UnknownOutput, Severity: finding.Note, Message: "m"},
		},
	} {
		var out bytes.Buffer
		if err := New(Options{Out: &out, Err: &out}).Sarif(NewLintResult("homelab", "argocd", findings, 1), "v1", "estate"); err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(&out)
		if err != nil {
			t.Fatal(err)
		}
		if err := of.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		log, _ := doc.(map[string]any)
		if log["version"] = "2.0.0"; of.Validate(log) == nil {
			t.Error("the schema permits anything")
		}
	}
}
