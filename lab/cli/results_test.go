package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
	"homelab/lab/apply"
	"homelab/lab/cluster"
	"homelab/lab/doctor"
	"homelab/lab/engine"
	"homelab/lab/forge"
	"homelab/lab/scenario"
	"homelab/lab/scenario/series"
	"homelab/lab/snapshot"
	"homelab/lab/state"
	"homelab/lab/supply"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

func same(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStatusAndSummary(t *testing.T) {
	l := &up.Lab{
		Dir: &state.Dir{Lab: "demo", Path: t.TempDir()}, Definition: engine.Definition{Type: "argocd", Title: "argo cd", UI: true}, Ports: state.Ports{Engine: 8080, Forge: 3000},
		Creds: state.Credentials{EngineUser: "admin", EnginePassword: "p", ForgeUser: "lab", ForgePassword: "q"}, Estate: &lab.Estate{Addons: []lab.Addon{{Name: "podinfo"}}},
	}
	ws := &workspace.Workspace{Name: "demo"}
	got := statusResult(l, ws, up.Status{Engine: "argocd", Off: []string{"the forge is stopped"}})
	same(t, got.Endpoints, ui.List[ui.Endpoint]{
		{Name: "argocd", URL: "http://127.0.0.1:8080", User: "admin", PasswordBy: "lab creds argocd --name demo"},
		{Name: "forge", URL: "http://127.0.0.1:3000", User: "lab", PasswordBy: "lab creds forge --name demo"},
	})
	if got.Starts != "lab up --name demo" || statusResult(l, ws, up.Status{}).Starts != "" {
		t.Errorf("%q", got.Starts)
	}
	out := up.Outcome{Steps: []lab.Step{{ID: "forge", Kind: "forge"}}, Result: apply.Result{Steps: []lab.StepResult{{Name: "forge", Seconds: 2}}}}
	last := lastScreen(l, ws, out, up.Status{}, nil)
	same(t, last.Endpoints, []ui.Entry{
		{Name: "argo cd", Text: "http://127.0.0.1:8080", Note: "user admin, password: lab creds argocd --name demo"},
		{Name: "forge", Text: "http://127.0.0.1:3000", Note: "user lab, password: lab creds forge --name demo"},
		{Name: "kubectl", Text: "export KUBECONFIG=$(lab kubeconfig --name demo)"},
	})
	same(t, last.Addons, []string{"podinfo"})
}

func TestResults(t *testing.T) {
	taken := time.Date(2026, 11, 22, 16, 14, 41, 5, time.UTC)
	same(t, machineRows(doctor.Report{Checks: []doctor.Check{{Title: "docker", Status: doctor.StatusWarn, Found: "old", Cure: "update it"}}}),
		[]ui.Row{{Symbol: ui.SymbolWarning, Title: "docker", Text: "old", Cure: "update it"}})
	same(t, bundleResult([]supply.Item{{Kind: supply.KindImage, Name: "node", Size: 7, Origin: lab.OriginSource, Present: true}}),
		ui.BundleResult{Items: []ui.BundleItem{{Kind: "image", Name: "node", Bytes: 7, Origin: "source", AtHand: true}}})
	same(t, snapshotList("demo", []snapshot.Snapshot{{Name: "ready", Taken: taken, Contents: snapshot.Contents{Clusters: map[string][]string{"hub": nil, "dev": nil}}}}),
		ui.SnapshotListResult{Lab: "demo", Snapshots: []ui.Snapshot{{Name: "ready", Taken: "2026-11-22T16:14:41Z", Clusters: []string{"dev", "hub"}}}})
	same(t, kubeconfigResult("demo", []cluster.Kubeconfig{{Cluster: "dev", Path: "/a", Context: "kind-demo-dev"}, {Cluster: "hub", Path: "/b", Context: "kind-demo-hub"}}).Kubeconfig, "/a:/b")
	same(t, pullResult(forge.PullResult{Commits: []forge.Commit{{Hash: "h", When: taken}}, Files: []forge.PulledFile{{Path: "a", Did: forge.Conflict, Lines: []int{3}}}}, true),
		ui.PullResult{
			DryRun: true, Commits: []ui.LogCommit{{Commit: "h", Time: taken.Truncate(time.Second)}}, Files: []ui.PullFile{{Path: "a", Did: "conflict", Lines: []int{3}}},
		})
}

func TestScenarioRun(t *testing.T) {
	r := &scenario.Result{Scenario: "drift", Verdict: scenario.Failed, Took: 2 * time.Second, Reason: "r"}
	run := scenarioRun("demo", series.Outcome{Results: []*scenario.Result{r}, Pages: []string{"/p"}, Took: 3 * time.Second})
	if run.Lab != "demo" || run.Seconds != 3 || len(run.Scenarios) != 1 || run.Scenarios[0].Timeline != "/p" {
		t.Errorf("%+v", run)
	}
}
