package scenario_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"homelab/lab/scenario"
	"homelab/lab/scenario/verb"
	"homelab/lab/strict"
)

var update = flag.Bool("update", false, "update generated files")

var schemaFile = filepath.Join("..", "..", "scenarios", "schema.json")

func TestSchemaUpToDate(t *testing.T) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(scenario.Schema(verb.All())); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), b.String()); diff != "" {
		t.Errorf("%s is outdated (go test -update writes it):\n%s", schemaFile, diff)
	}
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance decodes a file for the validator.
func instance(t *testing.T, file string, data []byte) any {
	t.Helper()
	root, problems := strict.ParseOne(file, data)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	v, _ := strict.NewReader(file).Plain(root, "")
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every scenario refers to the schema and is valid.
func TestStoriesMatchSchema(t *testing.T) {
	s := schema(t)
	names, err := scenario.List(root())
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	for _, name := range names {
		file := "scenarios/" + name + "/scenario.yaml"
		data, err := fs.ReadFile(root(), file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(data, []byte("# yaml-language-server: $schema=../schema.json\n")) {
			t.Errorf("%s does not name its schema", file)
		}
		if err := s.Validate(instance(t, file, data)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestSchemaRejects(t *testing.T) {
	s := schema(t)
	const head = "apiVersion: lab/v1alpha1\nkind: Scenario\nmetadata: {name: x}\nspec:\n  title: t\n  teaches: t\n  steps:\n    - "
	if err := s.Validate(instance(t, "f", []byte(head+"{title: t, wait: {for: 1s}}\n"))); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{
		"{title: t}", "{wait: {for: 1s}}", "{title: t, wait: {for: 1s}, pause: {cluster: x}}", "{title: t, wait: {for: soon}}", "{title: t, wiat: {for: 1s}}",
		"{title: t, expect: {object: {cluster: x, kind: y, name: z}, has: {a: {is: 1, not: 2}}}}", "{title: t, expect: {application: {cluster: x, addon: y}, sync: Synced}}",
		"{title: t, patch: {cluster: x, kind: y, name: z, set: [a]}}",
	} {
		if s.Validate(instance(t, "f", []byte(head+step+"\n"))) == nil {
			t.Errorf("valid: %s", step)
		}
	}
}

// The document covers all verbs and keys, and its examples are valid.
func TestDocument(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "scenarios.md")
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- verbs -->\n", "<!-- /verbs -->\n"
	before, rest, ok := strings.Cut(string(doc), begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("no markers for the table of verbs")
	}
	want := verbTable(t)
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		have = want
	}
	if diff := cmp.Diff(have, want); diff != "" {
		t.Errorf("%s (go test -update writes it):\n%s", file, diff)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(apiVersion.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(examples) == 0 {
		t.Error("no example")
	}
	for _, e := range examples {
		if err := schema(t).Validate(instance(t, file, []byte(e[1]))); err != nil {
			t.Errorf("example: %v\n%s", err, e[1])
		}
	}
}

func verbTable(t *testing.T) string {
	t.Helper()
	defs, _ := scenario.Schema(verb.All())["$defs"].(map[string]any)
	step, _ := defs["step"].(map[string]any)
	steps, _ := step["properties"].(map[string]any)
	var b strings.Builder
	for _, v := range verb.All() {
		b.WriteString("### " + v.Name + "\n" + upper(v.Doc) + ".\n\n| key | |\n|---|---|\n")
		describe(&b, "", steps[v.Name].(map[string]any))
		b.WriteString("\n")
	}
	return b.String()
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// describe writes a line per key, nested ones included.
func describe(b *strings.Builder, prefix string, s map[string]any) {
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]string)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[key].(map[string]any)
		doc, _ := p["description"].(string)
		var notes []string
		for _, r := range required {
			if r == key {
				notes = append(notes, "required")
			}
		}
		if words, ok := p["enum"].([]string); ok {
			notes = append(notes, "one of "+strings.Join(words, ", "))
		}
		if items, ok := p["items"].(map[string]any); ok {
			if words, ok := items["enum"].([]string); ok {
				notes = append(notes, "of "+strings.Join(words, ", "))
			}
		}
		if doc != "" {
			notes = append(notes, doc)
		}
		b.WriteString("| `" + prefix + key + "` | " + strings.ReplaceAll(strings.Join(notes, "; "), "|", "\\|") + " |\n")
		if key == "that" || p["anyOf"] != nil {
			continue // its elements are the verb's own keys
		}
		describe(b, prefix+key+".", p)
	}
}
