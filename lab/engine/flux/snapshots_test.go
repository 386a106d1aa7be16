package flux

import (
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab/engine"
)

func TestStanding(t *testing.T) {
	for name, tc := range map[string]struct {
		objects       string
		root, settled bool
		revision      string
	}{
		"nothing":      {"---", false, false, ""},
		"converged":    {standing(), true, true, newCommit},
		"lags":         {source(newCommit) + layer("flux-system", "", oldCommit), true, false, oldCommit},
		"layer lags":   {standing() + layer("prod", "flux-system", oldCommit), true, false, newCommit},
		"foreign root": {source(newCommit) + strings.ReplaceAll(layer("flux-system", "", newCommit), "homelab/name: homelab", "homelab/name: other"), false, false, ""},
	} {
		f, _, _ := newFake(t, tc.objects)
		s, err := f.Snapshot(t.Context())
		if err != nil || s.Root != tc.root || s.Settled != tc.settled || s.Revision != tc.revision {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// What was compared with another commit or before its cluster came back is behind, not what only fails.
func TestBehind(t *testing.T) {
	for name, tc := range map[string]struct {
		objects string
		since   time.Time // registration of prod
		want    []string
	}{
		"nothing":                     {"---", time.Time{}, []string{"root kustomization"}},
		"converged":                   {standing(), time.Time{}, []string{}},
		"root lags":                   {source(newCommit) + layer("flux-system", "", oldCommit) + app("prod", "podinfo", newCommit), time.Time{}, []string{"flux-system"}},
		"application lags":            {source(newCommit) + layer("flux-system", "", newCommit) + app("prod", "podinfo", oldCommit), time.Time{}, []string{"prod-podinfo"}},
		"missing application":         {source(newCommit) + layer("flux-system", "", newCommit), time.Time{}, []string{}},
		"compared before its cluster": {standing(), time.Now().Add(-time.Minute), []string{"prod-podinfo"}},
	} {
		f, _, _ := newFake(t, tc.objects)
		s, err := f.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := s.Behind(engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}}, []engine.Registered{{Cluster: "prod", Since: tc.since}})
		if got == nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
