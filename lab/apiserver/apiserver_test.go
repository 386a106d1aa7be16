package apiserver

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// question is a case of testdata/cases.yaml.
type question struct {
	Name   string         `json:"name"`
	Before map[string]any `json:"before"` // nil if After is to be created
	After  map[string]any `json:"after"`
}

func questions(t *testing.T) (list []question) {
	t.Helper()
	read(t, "testdata/cases.yaml", &list)
	return list
}

// recorded returns the answers of a real API server, by case: errors, or none.
func recorded(t *testing.T) (answers map[string][]string) {
	t.Helper()
	read(t, "testdata/recorded.yaml", &answers)
	return answers
}

// TestRecorded compares each answer with that of a real API server: fields, types and messages.
func TestRecorded(t *testing.T) {
	answers := recorded(t)
	var definition map[string]any
	read(t, "testdata/definitions.yaml", &definition)
	widget, err := NewDefinition(definition, "v1")
	if err != nil {
		t.Fatal(err)
	}
	equal := 0
	list := questions(t)
	for _, q := range list {
		t.Run(q.Name, func(t *testing.T) {
			want, known := answers[q.Name]
			if !known {
				t.Fatal("not recorded: task record-apiserver")
			}
			errs, err := q.ask(widget)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, e := range errs {
				got = append(got, bare(e.Field, e.Type.String(), e.Detail))
			}
			slices.Sort(got)
			got = slices.Compact(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("-recorded +lab\n%s", d)
			}
			equal++
		})
	}
	t.Logf("%d of %d equal", equal, len(list))
	if len(answers) != len(list) {
		t.Errorf("%d recordings, %d cases", len(answers), len(list))
	}
}

func (q question) ask(widget *Definition) (errs field.ErrorList, err error) {
	switch own := q.After["kind"] != "Widget"; {
	case own && q.Before == nil:
		_, errs, err = create(q.After)
	case own:
		var stored map[string]any
		if stored, err = Applied(q.Before, q.After); err == nil {
			_, errs, err = update(q.Before, stored)
		}
	case q.Before == nil:
		_, errs = widget.create(q.After)
	default:
		errs = widget.update(q.Before, q.After)
	}
	return errs, err
}

// read reads a YAML file as an API server reads JSON.
func read(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		t.Fatal(err)
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		t.Fatal(err)
	}
}

// bare is an error without its value.
func bare(path, kind, detail string) string {
	return strings.TrimSuffix(path+": "+kind+": "+detail, ": ")
}

func TestDefaulted(t *testing.T) {
	for _, q := range questions(t) {
		o, err := Defaulted(q.After)
		if err != nil {
			t.Errorf("%s: %v", q.Name, err)
			continue
		}
		again, err := Defaulted(o)
		if d := cmp.Diff(o, again); d != "" || err != nil {
			t.Errorf("%s: defaults of defaults: %v\n%s", q.Name, err, d)
		}
	}
	own := map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "spec": map[string]any{"a": int64(1)}}
	if o, err := Defaulted(own); err != nil || fmt.Sprint(o) != fmt.Sprint(own) {
		t.Errorf("%v, %v", o, err)
	}
}
