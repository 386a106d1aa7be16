package ui

import (
	"strings"
	"testing"

	"homelab/lab"
)

// Applications that only generate others have no column; one that is unhealthy gets a line.
func TestStatusRoot(t *testing.T) {
	s := Status{Lab: "homelab", Clusters: []StatusCluster{{Name: "hub", Role: "hub", Ready: true}}}
	s.Applications = []lab.Application{
		{Name: "podinfo", Addon: "podinfo", Cluster: "hub", Version: "1.0.0", Sync: "Synced", Health: "Healthy"},
		{Name: "platform", Addon: "platform", Cluster: "hub", Sync: "Synced", Health: "Healthy", Leads: true},
	}
	if text := statusText(s, 80, paint(false)); !strings.Contains(text, "PODINFO") || strings.Contains(strings.ToLower(text), "platform") {
		t.Errorf("%s", text)
	}
	s.Applications[1].Sync = "OutOfSync"
	if text := statusText(s, 80, paint(false)); strings.Contains(text, "PLATFORM") || !strings.Contains(text, "platform   OutOfSync") {
		t.Errorf("%s", text)
	}
}
