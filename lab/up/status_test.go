package up

import (
	"slices"
	"testing"

	"homelab/lab"
)

// An ApplicationSet that generates nothing leaves no trace among the Applications.
func TestStatusMissingApplications(t *testing.T) {
	generated := func(cluster, addon string) lab.Generated {
		return lab.Generated{Application: lab.Application{Name: cluster + "-" + addon, Addon: addon, Cluster: cluster}}
	}
	l := &Lab{Estate: &lab.Estate{Applications: []lab.Generated{generated("dev", "podinfo"), generated("prod", "identity"), generated("prod", "podinfo"), generated("away", "podinfo")}}}
	clusters := []lab.Cluster{{Name: "dev"}, {Name: "prod"}}
	have := []lab.Application{{Name: "prod-podinfo", Addon: "podinfo", Cluster: "prod", Sync: "Synced", Health: "Healthy"}}
	st := Status{Engine: lab.EngineArgoCD, Clusters: []lab.ClusterState{{Name: "hub", Ready: true}}, Applications: have}
	if !st.Well() {
		t.Fatal("Well = false for a healthy status")
	}
	st.Applications = withMissing(have, l.expected(clusters))
	var names []string
	for _, a := range st.Applications {
		names = append(names, a.Name+" "+a.Health)
	}
	if got := len(names); got != 3 || names[0] != "dev-podinfo Missing" || names[1] != "prod-identity Missing" || names[2] != "prod-podinfo Healthy" {
		t.Errorf("%v", names)
	}
	if st.Well() {
		t.Error("Well = true with missing applications")
	}
	unknown := withMissing(have, l.expected(clusters), "dev")
	if a := unknown[0]; a.Name != "dev-podinfo" || a.Health != "Unknown" || a.Message != "cluster dev does not answer" {
		t.Errorf("%+v, want Unknown", a)
	}
	if unknown[1].Health != "Missing" {
		t.Errorf("%+v, want Missing", unknown[1])
	}
	if got := withMissing(have, have); len(got) != 1 {
		t.Errorf("withMissing = %+v, want no change", got)
	}
}

func TestStatusUnreachableCluster(t *testing.T) {
	have := []lab.Application{
		{Name: "dev-podinfo", Cluster: "dev", Sync: "Synced", Health: "Healthy"},
		{Name: "prod-podinfo", Cluster: "prod", Sync: "Synced", Health: "Healthy"},
		{Name: "staging-podinfo", Cluster: "staging", Sync: "OutOfSync", Health: "Degraded", Message: "stale"},
		{Name: "mine", Cluster: "https://elsewhere", Sync: "Synced", Health: "Healthy"}, // a user's own, on an unknown cluster
	}
	got := markUnreachable(slices.Clone(have), []lab.ClusterState{{Name: "dev", Answers: true, Kubernetes: "v1.36.3"}, {Name: "prod", Exists: true, Running: true}, {Name: "staging"}})
	want := []lab.Application{
		have[0],
		{Name: "prod-podinfo", Cluster: "prod", Sync: "Unknown", Health: "Unknown", Message: "cluster prod does not answer; last seen Synced, Healthy"},
		{Name: "staging-podinfo", Cluster: "staging", Sync: "Unknown", Health: "Unknown", Message: "cluster staging does not answer; last seen OutOfSync, Degraded"},
		have[3],
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
