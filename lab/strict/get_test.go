package strict

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestGet(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte("a: {b: [x, {c: 1}], none: null, empty: }\ns: text"), &doc); err != nil {
		t.Fatal(err)
	}
	root := doc.Content[0]
	for _, tc := range []struct {
		path  []any
		found bool
		text  string
	}{
		{nil, true, ""},
		{[]any{"s"}, true, "text"},
		{[]any{"a", "b", 0}, true, "x"},
		{[]any{"a", "b", 1, "c"}, true, "1"},
		{[]any{"a", "b", 2}, false, ""},
		{[]any{"a", 0}, false, ""},
		{[]any{"a", "b", "c"}, false, ""},
		{[]any{"s", "a"}, false, ""},
		{[]any{"a", "none"}, true, ""},
		{[]any{"a", "empty"}, true, ""},
		{[]any{"b", "c", "d"}, false, ""},
	} {
		if got := Get(root, tc.path...) != nil; got != tc.found {
			t.Errorf("Get %v: found %t, want %t", tc.path, got, tc.found)
		}
		if got := Text(root, tc.path...); got != tc.text {
			t.Errorf("Text %v: %q, want %q", tc.path, got, tc.text)
		}
	}
	if Get(nil, "a") != nil || Text(nil) != "" {
		t.Error("nil has a value")
	}
}

func TestWalk(t *testing.T) {
	n, problems := ParseOne("f", []byte("spec:\n  list: [a, {b: c}]\n  map: {x: 1, y: {z: two}}\n  none:\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var pairs, scalars []string
	for key, value := range Pairs(n, "spec", "map") {
		pairs = append(pairs, key.Value+"="+value.Value)
	}
	for keys, scalar := range Scalars(Get(n, "spec", "map")) {
		scalars = append(scalars, strings.Join(keys, ".")+":"+scalar.Value)
	}
	for _, tc := range []struct{ got, want string }{
		{strings.Join(pairs, " "), "x=1 y="},
		{strings.Join(scalars, " "), "x:x x:1 y:y y.z:z y.z:two"},
		{fmt.Sprint(len(List(n, "spec", "list")), len(List(n, "spec", "map")), len(List(n, "spec", "none")), len(List(nil))), "2 0 0 0"},
		{fmt.Sprint(Texts(n, "spec", "map"), Texts(n, "spec", "list")), "map[x:1] map[]"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}

func TestSetOfCopy(t *testing.T) {
	n, _ := ParseOne("f", []byte("a: 1\nb: 2\n"))
	c := Copy(n)
	Set(c, "a", nil)
	Set(c, "b", &yaml.Node{Kind: yaml.ScalarNode, Value: "3"})
	Set(c, "c", &yaml.Node{Kind: yaml.ScalarNode, Value: "4"})
	Set(c, "d", nil)
	if got := fmt.Sprint(Texts(n), Texts(c)); got != "map[a:1 b:2] map[b:3 c:4]" {
		t.Error(got)
	}
}

// Numbers are texts where a Go type has a text, and YAML 1.1's booleans are booleans in JSON.
func TestInto(t *testing.T) {
	n, _ := ParseOne("f", []byte("name: 1\nup: yes\n"))
	var of struct {
		Name string `json:"name"`
	}
	text, err := JSON(n)
	if err = errors.Join(err, Into(n, &of)); err != nil || of.Name != "1" || string(text) != `{"name":1,"up":true}` {
		t.Errorf("%v, %q, %s", err, of.Name, text)
	}
}
