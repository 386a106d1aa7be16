package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMergeArguments(t *testing.T) {
	under := map[string]any{"a": map[string]any{"b": 1}}
	over := map[string]any{"a": map[string]any{"c": 2}, "n": map[string]any{"x": nil, "y": 1}}
	got := Merge(under, over)
	want := map[string]any{"a": map[string]any{"b": 1, "c": 2}, "n": map[string]any{"y": 1}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(under["a"].(map[string]any)) != 1 || len(over["a"].(map[string]any)) != 1 {
		t.Errorf("arguments changed: %v %v", under, over)
	}
}

func TestSplitRef(t *testing.T) {
	for ref, want := range map[string][2]string{
		"quay.io/argoproj/argocd:v3": {"quay.io/argoproj/argocd", "v3"},
		"host:5000/redis":            {"host:5000/redis", ""},
		"host:5000/redis:8":          {"host:5000/redis", "8"},
		"redis":                      {"redis", ""},
		"":                           {"", ""},
	} {
		repository, tag := SplitRef(ref)
		if repository != want[0] || tag != want[1] {
			t.Errorf("%q: %q %q", ref, repository, tag)
		}
	}
}
