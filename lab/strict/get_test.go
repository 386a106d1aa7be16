package strict

import (
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
