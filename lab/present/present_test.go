package present

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
		Definition: engine.Definition{Type: "argocd", Title: "argo cd", UI: true}, Ports: state.Ports{Engine: 8080, Forge: 3000},
		Creds: state.Credentials{EngineUser: "admin", EnginePassword: "p", ForgeUser: "lab", ForgePassword: "q"}, Estate: &lab.Estate{Addons: []lab.Addon{{Name: "podinfo"}}},
	}
	ws := &workspace.Workspace{Name: "demo"}
	got := Status(l, ws, up.Status{Engine: "argocd", Off: []string{"the forge is stopped"}})
	same(t, got.Endpoints, ui.List[ui.Endpoint]{
		{Name: "argocd", URL: "http://127.0.0.1:8080", User: "admin", PasswordBy: "lab creds argocd --name demo"},
		{Name: "forge", URL: "http://127.0.0.1:3000", User: "lab", PasswordBy: "lab creds forge --name demo"},
	})
	if got.Starts != "lab up --name demo" || Status(l, ws, up.Status{}).Starts != "" {
		t.Errorf("%q", got.Starts)
	}
	out := up.Outcome{Steps: []lab.Step{{ID: "forge", Kind: "forge"}}, Result: apply.Result{Steps: []lab.StepResult{{Name: "forge", Seconds: 2}}}}
	last := Summary(l, ws, out, up.Status{}, nil)
	same(t, last.Endpoints, []ui.Entry{
		{Name: "argo cd", Text: "http://127.0.0.1:8080", Note: "user admin, password: lab creds argocd --name demo"},
		{Name: "forge", Text: "http://127.0.0.1:3000", Note: "user lab, password: lab creds forge --name demo"},
		{Name: "kubectl", Text: "export KUBECONFIG=$(lab kubeconfig --name demo)"},
	})
	same(t, last.Addons, []string{"podinfo"})
}

func TestResults(t *testing.T) {
	taken := time.Date(2026, 11, 22, 16, 14, 41, 5, time.UTC)
	same(t, Report(doctor.Report{Checks: []doctor.Check{{Title: "docker", Status: doctor.StatusWarn, Found: "old", Cure: "update it"}}}),
		[]ui.Row{{Symbol: ui.SymbolWarning, Title: "docker", Text: "old", Cure: "update it"}})
	same(t, Bundle([]supply.Item{{Kind: supply.KindImage, Name: "node", Size: 7, Origin: lab.OriginSource, Present: true}}),
		ui.BundleResult{Items: []ui.BundleItem{{Kind: "image", Name: "node", Bytes: 7, Origin: "source", AtHand: true}}})
	same(t, Snapshots("demo", []snapshot.Snapshot{{Name: "ready", Taken: taken, Contents: snapshot.Contents{Clusters: map[string][]string{"hub": nil, "dev": nil}}}}),
		ui.SnapshotListResult{Lab: "demo", Snapshots: []ui.Snapshot{{Name: "ready", Taken: "2026-11-22T16:14:41Z", Clusters: []string{"dev", "hub"}}}})
	same(t, Kubeconfigs("demo", []cluster.Kubeconfig{{Cluster: "dev", Path: "/a", Context: "kind-demo-dev"}, {Cluster: "hub", Path: "/b", Context: "kind-demo-hub"}}).Kubeconfig, "/a:/b")
	same(t, Pull(forge.PullResult{Commits: []forge.Commit{{Hash: "h", When: taken}}, Files: []forge.PulledFile{{Path: "a", Did: forge.Conflict, Lines: []int{3}}}}, true),
		ui.PullResult{
			DryRun: true, Commits: []ui.LogCommit{{Commit: "h", Time: taken.Truncate(time.Second)}}, Files: []ui.PullFile{{Path: "a", Did: "conflict", Lines: []int{3}}},
		})
}

func TestSteps(t *testing.T) {
	unmet := &scenario.Unmet{Expected: "Synced", LastSeen: "OutOfSync", Unchanged: 3 * time.Second, Notes: []string{"n"}}
	seen := []ui.Entry{{Name: "expected", Text: "Synced"}, {Name: "last seen", Text: "OutOfSync, unchanged for 3.0s"}, {Name: "note", Text: "n"}}
	for name, c := range map[string]struct {
		step   scenario.StepResult
		symbol ui.Symbol
		detail []ui.Entry
	}{
		"begins":      {scenario.StepResult{}, "", nil},
		"passed":      {scenario.StepResult{Verdict: scenario.Passed}, ui.SymbolOK, nil},
		"unmet":       {scenario.StepResult{Verdict: scenario.Failed, Unmet: unmet}, ui.SymbolFailed, seen},
		"broken":      {scenario.StepResult{Verdict: scenario.Broken, Error: "e"}, ui.SymbolFailed, []ui.Entry{{Name: "error", Text: "e"}}},
		"interrupted": {scenario.StepResult{Verdict: scenario.Interrupted}, ui.SymbolWarning, []ui.Entry{{Text: "interrupted; restoring the lab"}}},
		"left":        {scenario.StepResult{Verdict: scenario.Interrupted, Verb: leave, Unmet: unmet}, ui.SymbolWarning, seen},
	} {
		t.Run(name, func(t *testing.T) {
			got := Step(c.step, time.Second)
			if got.Symbol != c.symbol || got.Since != time.Second {
				t.Errorf("%+v", got)
			}
			same(t, got.Detail, c.detail)
		})
	}
	same(t, ToPutBack(scenario.StepResult{Number: 4, Back: []string{"git main"}}, 0),
		ui.StoryLine{Number: 4, Title: "ctrl-c again skips the remaining restores", Symbol: ui.SymbolWaiting, Detail: []ui.Entry{{Name: "to do", Text: "git main"}}})
	same(t, Verdict(&scenario.Result{Verdict: scenario.Skipped, Reason: "no spoke"}, ""), "skipped: no spoke")
	r := &scenario.Result{Scenario: "drift", Verdict: scenario.Failed, Took: 2 * time.Second, Reason: "r"}
	same(t, Verdict(r, "/p"), "failed in "+ui.Duration(r.Took)+": r   timeline: /p")
	run := Run("demo", series.Outcome{Results: []*scenario.Result{r}, Pages: []string{"/p"}, Took: 3 * time.Second})
	if run.Lab != "demo" || run.Seconds != 3 || len(run.Scenarios) != 1 || run.Scenarios[0].Timeline != "/p" {
		t.Errorf("%+v", run)
	}
}
