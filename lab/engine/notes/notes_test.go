package notes

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"homelab/lab"
)

func TestEmbedded(t *testing.T) {
	list, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range list {
		key := r.Engine + " " + r.Minor
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if !slices.Contains(lab.EngineTypes(), lab.EngineType(r.Engine)) {
			t.Errorf("%s: no engine is called %s", key, r.Engine)
		}
		if _, ok := minor(r.Minor); !ok || strings.Count(r.Minor, ".") != 1 {
			t.Errorf("%s: not a minor", key)
		}
		if !strings.HasPrefix(r.URL, "https://") || len(r.Notes) == 0 {
			t.Errorf("%s lacks a page or notes", key)
		}
		for _, text := range r.Notes {
			if n := utf8.RuneCountInString(text); n == 0 || n > 100 || strings.HasSuffix(text, ".") || strings.Contains(text, "\n") {
				t.Errorf("%s: a note is one line of at most 100 characters without a full stop: %q", key, text)
			}
		}
	}
	for _, key := range []string{"argocd 3.3", "argocd 3.4", "argocd 3.5", "argocd 3.6", "flux 2.8", "flux 2.9", "flux 2.10"} {
		if !seen[key] {
			t.Errorf("%s is missing", key)
		}
	}
}

func TestBetween(t *testing.T) {
	for _, c := range []struct {
		engine, from, to string
		want             []string // minors
	}{
		{"argocd", "3.4.13", "3.6", []string{"3.5", "3.6"}},
		{"argocd", "v3.2.11", "v3.6.1", []string{"3.3", "3.4", "3.5", "3.6"}},
		{"argocd", "3.6.0", "3.6.1", nil}, // a patch
		{"argocd", "3.6.1", "3.4.13", nil},
		{"argocd", "2.14", "3.3", []string{"3.3"}},
		{"argocd", "3.5", "3.9", []string{"3.6"}},
		{"flux", "2.8.8", "2.10.0", []string{"2.9", "2.10"}}, // by number, not by text
		{"flux", "2.9.5", "2.10", []string{"2.10"}},
		{"argocd", "latest", "3.6", nil},
		{"argocd", "3.4", "", nil},
		{"other", "3.4", "3.6", nil},
	} {
		var got []string
		for _, n := range Between(c.engine, c.from, c.to) {
			if !slices.Contains(got, n.Minor) {
				got = append(got, n.Minor)
			}
			if n.Text == "" || n.URL == "" {
				t.Errorf("%+v", n)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s from %q to %q: %v, want %v", c.engine, c.from, c.to, got, c.want)
		}
	}
}

func TestKnown(t *testing.T) {
	if !Known("flux", "v2.10.2") || Known("flux", "2.11.0") || Known("argocd", "2.10") || Known("argocd", "latest") {
		t.Error("a minor is known by its engine and numbers")
	}
}
