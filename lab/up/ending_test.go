package up_test

import (
	"slices"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/up"
)

func TestEnding(t *testing.T) {
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	s := &up.Seen{}
	s.Clusters = map[string]lab.ClusterState{
		"hub": {Name: "hub", CertificatesEnd: now.AddDate(0, 0, -1)}, "dev": {Name: "dev", CertificatesEnd: now.AddDate(0, 0, 20)},
		"prod": {CertificatesEnd: now.AddDate(1, 0, 0)}, "edge": {}, "old": {Name: "old", CertificatesEnd: now, Renew: "a step of the plan says so"},
	}
	want := []string{
		"cluster dev: its certificates expire on 2026-12-17; lab up --recreate dev issues new ones, and loses its contents",
		"cluster hub: its certificates expired on 2026-11-26; lab up --recreate hub issues new ones, and loses its contents",
	}
	if got := s.Ending(now); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
