package words

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClip(t *testing.T) {
	if got := Clip("a\n b   c", 10); got != "a b c" {
		t.Errorf("%q", got)
	}
	if got := Clip(strings.Repeat("é", 20)+strings.Repeat("ü", 20), 5); got != "é … ü" {
		t.Errorf("%q", got)
	}
	if got := Clip("failed to load live state: get https://prod:6443/version: certificate signed by unknown authority", 50); got != "failed to load live … by unknown authority" {
		t.Errorf("%q", got)
	}
}

func TestWrap(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"", []string{""}},
		{"one two three", []string{"one two", "three"}},
		{"muchtoolongforaline x", []string{"muchtoolongforaline", "x"}},
	} {
		if d := cmp.Diff(tc.want, Wrap(tc.text, 8)); d != "" {
			t.Errorf("%q: %s", tc.text, d)
		}
	}
}

func TestTable(t *testing.T) {
	got := Table([]Row{
		{"a", "Degraded", []string{strings.Repeat("word ", 14), "and a pod"}},
		{"longer", "Waiting", nil},
	})
	want := []string{
		"a        Degraded   word word word word word word word word word word word",
		"                    word word word",
		"         and a pod",
		"longer   Waiting",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
