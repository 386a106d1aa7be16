package up_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab/up"
)

// Namespaces of cluster.yaml exist after a run, and again after they were removed.
func TestNamespaces(t *testing.T) {
	s := newStage(t)
	edit(s.files, "clusters/prod/cluster.yaml", "role: spoke", "role: spoke\n  namespaces: [web, api]")
	s.load()
	for i, want := range [][]string{{"bridge/prod: namespace web", "bridge/prod: namespace api"}, nil, {"bridge/prod: namespace web", "bridge/prod: namespace api"}} {
		out, err := (&process{stage: s}).lab().Follow(t.Context(), up.Options{Timeout: time.Second}, &audience{})
		must(t, err)
		made := slices.DeleteFunc(out.Result.Changes, func(c string) bool { return !strings.Contains(c, ": namespace ") })
		if !slices.Equal(made, want) {
			t.Errorf("run %d: %q, want %q", i, made, want)
		}
		if want == nil {
			s.clusters.RemoveNamespaces("prod")
		}
	}
}
