package strict

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type inner struct {
	Word string `yaml:"word" enum:"one,two"`
}

type thing struct {
	Name   string            `yaml:"name" need:"true" doc:"its name"`
	Count  int               `yaml:"count" max:"10"`
	On     *bool             `yaml:"on"`
	Within time.Duration     `yaml:"within" max:"10m"`
	Any    any               `yaml:"any"`
	Texts  map[string]string `yaml:"texts"`
	List   []inner           `yaml:"list"`
	inner  `yaml:",inline"`
}

func read(t *testing.T, text string) (thing, *Reader) {
	t.Helper()
	root, problems := ParseOne("f.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r := NewReader("f.yaml")
	var v thing
	r.Decode(root, &v, "")
	return v, r
}

func TestDecode(t *testing.T) {
	v, r := read(t, "name: a\ncount: 3\non: true\nwithin: 1m30s\nany: {b: [1, 2.5, x, null, 2024-01-02]}\ntexts: {k: v}\nlist: [{word: two}]\nword: one\n")
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	yes := true
	want := thing{
		Name: "a", Count: 3, On: &yes, Within: 90 * time.Second, Texts: map[string]string{"k": "v"}, List: []inner{{"two"}}, inner: inner{"one"},
		Any: map[string]any{"b": []any{int64(1), 2.5, "x", nil, "2024-01-02"}},
	}
	if !reflect.DeepEqual(v, want) {
		t.Errorf("got %+v", v)
	}
	if at := r.Position("list[0].word").String(); at != "f.yaml:7:15" {
		t.Errorf("list[0].word is at %s", at)
	}
	if at := r.Position("texts.none.at.all").String(); at != "f.yaml:6:8" {
		t.Errorf("nearest position is %s", at)
	}
}

func TestDecodeProblems(t *testing.T) {
	_, r := read(t, `nam: a
count: 11
on: maybe
within: 11m
texts: [a]
list:
  - word: three
  - wrod: one
word: 5
`)
	got := r.Problems
	got.Sort()
	want := `f.yaml:1:1: name is missing
f.yaml:1:1: unknown key "nam": did you mean "name"?
f.yaml:2:8: count cannot be 11: at most 10
f.yaml:3:5: on must be true or false, not text
f.yaml:4:9: within cannot be 11m: at most 10m
f.yaml:5:8: texts must be a mapping, not a list
f.yaml:7:11: list[0].word cannot be "three": did you mean "one"?
f.yaml:8:5: unknown key "wrod": did you mean "word"?
f.yaml:9:7: word must be text, not a number: write it in quotes: "5"`
	sorted := strings.Split(got.Error(), "\n")
	if sorted[0] > sorted[1] {
		sorted[0], sorted[1] = sorted[1], sorted[0] // same position
	}
	want = strings.Replace(want, `did you mean "one"?`, "one or two", 1)
	if diff := cmp.Diff(want, strings.Join(sorted, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseLimits(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 10) + "]\n"
	}
	for name, text := range map[string]string{
		"alias bomb": bomb,
		"deep":       strings.Repeat("[", 200) + strings.Repeat("]", 200),
		"huge":       strings.Repeat("#", MaxFile+1),
		"itself":     "a: &a [*a]",
		"documents":  strings.Repeat("---\na: 1\n", MaxDocs+1),
	} {
		began := time.Now()
		if _, problems := Parse("f.yaml", []byte(text)); len(problems) != 1 {
			t.Errorf("%s: %d problems", name, len(problems))
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s took %s", name, took)
		}
	}
}

func TestSchema(t *testing.T) {
	got, err := json.MarshalIndent(Schema(reflect.TypeFor[thing]()), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"required": [`, `"its name"`, `"additionalProperties": false`, `"one",`, `"word"`} {
		if !strings.Contains(string(got), part) {
			t.Errorf("no %s in %s", part, got)
		}
	}
}
