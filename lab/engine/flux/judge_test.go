package flux

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube/kubetest"
)

// verdict describes the pending objects, one per line: "prod-podinfo Degraded lags: reason".
func verdict(v view, want engine.Want, registrations ...engine.Registered) []string {
	var lines []string
	for _, p := range v.judge(want, nil, registrations) {
		line := p.Application + " " + p.State()
		if p.lags {
			line += " lags"
		}
		lines = append(lines, line+": "+p.Reason)
	}
	return lines
}

func TestJudge(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	ago := func(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }
	want := engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}}
	podinfo := func(c *kubetest.Cluster, t *testing.T, patch map[string]any) {
		c.Patch(t, kustomizations, "cluster-prod", "podinfo", patch)
	}
	release := func(c *kubetest.Cluster, t *testing.T, patch map[string]any) {
		c.Patch(t, helmReleases, "cluster-prod", "podinfo", patch)
	}
	for name, tc := range map[string]struct {
		objects string
		change  func(*testing.T, *kubetest.Cluster)
		want    func(*engine.Want)
		since   string
		pending []string
	}{
		"converged":    {},
		"nothing":      {objects: "---", pending: []string{"root kustomization Missing lags: does not exist yet"}},
		"any revision": {want: func(w *engine.Want) { w.Revision = "" }},
		"root lags": {
			objects: source(oldCommit) + layer("flux-system", "", oldCommit) + app("prod", "podinfo", newCommit),
			pending: []string{"flux-system OutOfSync lags: is at aaaaaaa, wanted bbbbbbb", "prod-podinfo OutOfSync: is not at the fetched commit"},
		},
		"root lags behind its source": {
			objects: source(newCommit) + layer("flux-system", "", oldCommit) + app("prod", "podinfo", newCommit),
			want:    func(w *engine.Want) { w.Revision = "" },
			pending: []string{"flux-system OutOfSync lags: is at aaaaaaa, wanted bbbbbbb"},
		},
		"source fails": {
			objects: source(oldCommit) + layer("flux-system", "", oldCommit) + app("prod", "podinfo", newCommit),
			change: func(t *testing.T, c *kubetest.Cluster) {
				c.Patch(t, gitRepositories, lab.FluxNamespace, "flux-system", conditions("Ready False GitOperationFailed: connection refused"))
			},
			pending: []string{"flux-system OutOfSync lags: repository flux-system: connection refused", "prod-podinfo OutOfSync: is not at the fetched commit"},
		},
		"root fails": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				c.Patch(t, kustomizations, lab.FluxNamespace, "flux-system", conditions("Ready False BuildFailed: no such file"))
			},
			pending: []string{"flux-system Degraded: no such file"},
		},
		"root waits for health": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				c.Patch(t, kustomizations, lab.FluxNamespace, "flux-system", conditions("Ready False HealthCheckFailed: podinfo"))
			},
		},
		"root is reconciled": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				c.Patch(t, kustomizations, lab.FluxNamespace, "flux-system", conditions("Ready Unknown Progressing: x", "Reconciling True Progressing: Running health checks for revision x"))
			},
			pending: []string{"flux-system Progressing: Running health checks for revision x"},
		},
		"layer below lags": {
			objects: standing() + layer("prod", "flux-system", oldCommit),
			pending: []string{"prod OutOfSync lags: is at aaaaaaa, wanted bbbbbbb"},
		},
		"foreign layer": {objects: standing() + kustomization("flux-system", "hers", "a: b", oldCommit)},
		"missing":       {objects: source(newCommit) + layer("flux-system", "", newCommit), pending: []string{"prod-podinfo Missing: is not generated yet"}},
		"lags": {
			objects: source(newCommit) + layer("flux-system", "", newCommit) + app("prod", "podinfo", oldCommit),
			pending: []string{"prod-podinfo OutOfSync lags: is at aaaaaaa, wanted bbbbbbb"},
		},
		"never applied": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, map[string]any{"status": nil})
			},
			pending: []string{"prod-podinfo Progressing lags: is not reconciled yet"},
		},
		"fails": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, conditions("Ready False ReconciliationFailed: denied"))
			},
			pending: []string{"prod-podinfo Degraded: denied"},
		},
		"health checks of the new commit": {
			objects: source(newCommit) + layer("flux-system", "", newCommit) + app("prod", "podinfo", oldCommit),
			change: func(t *testing.T, c *kubetest.Cluster) {
				p := conditions("Ready Unknown Progressing: in progress", "Reconciling True Progressing: Running health checks for revision x")
				p["status"].(map[string]any)["lastAttemptedRevision"] = "main@sha1:" + newCommit
				podinfo(c, t, p)
			},
			pending: []string{"prod-podinfo Progressing: Running health checks for revision x"},
		},
		"compared again": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				p := conditions("Ready Unknown Progressing: in progress", "Reconciling True Progressing: Fetching")
				p["status"].(map[string]any)["history"] = []any{map[string]any{"lastReconciledStatus": "ReconciliationSucceeded", "lastReconciled": ago(0)}}
				podinfo(c, t, p)
			},
		},
		"compared again after a failure": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				p := conditions("Ready Unknown Progressing: in progress", "Reconciling True Progressing: Fetching")
				p["status"].(map[string]any)["history"] = []any{map[string]any{"lastReconciledStatus": "HealthCheckFailed", "lastReconciled": ago(0)}}
				podinfo(c, t, p)
			},
			pending: []string{"prod-podinfo Progressing: Fetching"},
		},
		"new spec": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, map[string]any{"metadata": map[string]any{"generation": 2}})
			},
			pending: []string{"prod-podinfo Progressing: has a new spec"},
		},
		"suspended": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, map[string]any{"spec": map[string]any{"suspend": true}})
			},
			pending: []string{"prod-podinfo Suspended: is suspended"},
		},
		"removed": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, map[string]any{"metadata": map[string]any{"deletionTimestamp": ago(0)}})
			},
			pending: []string{"prod-podinfo Progressing: is being removed"},
		},
		"its release terminates later": {
			objects: source(newCommit) + layer("flux-system", "", newCommit) + releaseOf("prod", "podinfo"),
			pending: []string{"prod-podinfo Progressing: is being removed"},
		},
		"no longer wanted": {
			want:    func(w *engine.Want) { w.Expected, w.Gone = nil, []string{"prod-podinfo"} },
			pending: []string{"prod-podinfo OutOfSync: is no longer wanted but still exists"},
		},
		"left out": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, conditions("Ready False ReconciliationFailed: denied"))
			},
			want: func(w *engine.Want) { w.LeftOut = []string{"prod-podinfo"} },
		},
		"of another cluster": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, conditions("Ready False ReconciliationFailed: denied"))
			},
			want: func(w *engine.Want) { w.Clusters = []string{"hub"} },
		},
		"release fails": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, conditions("Ready False HealthCheckFailed: timeout"))
				release(c, t, conditions("Ready False UpgradeFailed: no such kind"))
			},
			pending: []string{"prod-podinfo Degraded: no such kind"},
		},
		"release waits": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				release(c, t, conditions("Ready False SourceNotReady: no chart yet"))
			},
			pending: []string{"prod-podinfo Progressing: no chart yet"},
		},
		"release works": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				release(c, t, conditions("Ready Unknown Progressing: Running upgrade"))
			},
			pending: []string{"prod-podinfo Progressing: Running upgrade"},
		},
		"release has a new spec": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				release(c, t, map[string]any{"metadata": map[string]any{"generation": 2}})
			},
			pending: []string{"prod-podinfo Progressing: release podinfo has a new spec"},
		},
		"compared before its cluster": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, map[string]any{"status": map[string]any{"lastHandledReconcileAt": ago(2 * time.Minute)}})
			},
			since:   ago(time.Minute),
			pending: []string{"prod-podinfo OutOfSync lags: is not compared since its cluster came back"},
		},
		"released before its cluster": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, map[string]any{"status": map[string]any{"lastHandledReconcileAt": ago(0)}})
				release(c, t, map[string]any{"status": map[string]any{"lastHandledReconcileAt": ago(2 * time.Minute)}})
			},
			since:   ago(time.Minute),
			pending: []string{"prod-podinfo OutOfSync lags: is not compared since its cluster came back"},
		},
		"compared since": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, map[string]any{"status": map[string]any{"history": []any{map[string]any{"lastReconciled": ago(10 * time.Second), "lastReconciledDuration": "20s"}}}})
				release(c, t, map[string]any{"status": map[string]any{"lastHandledReconcileAt": ago(0)}})
			},
			since: ago(time.Minute),
		},
		"compared since, started before": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				podinfo(c, t, map[string]any{"status": map[string]any{"history": []any{map[string]any{"lastReconciled": ago(10 * time.Second), "lastReconciledDuration": "2m0s"}}}})
				release(c, t, map[string]any{"status": map[string]any{"lastHandledReconcileAt": ago(0)}})
			},
			since:   ago(time.Minute),
			pending: []string{"prod-podinfo OutOfSync lags: is not compared since its cluster came back"},
		},
		"a clock ahead": {since: ago(-time.Hour)},
		"head of another repository": {
			objects: standing() + strings.NewReplacer("name: flux-system", "name: other", "http://forge/estate.git", "https://forge/Other/", "uid: source", "uid: other").Replace(source(oldCommit)) +
				strings.ReplaceAll(app("prod", "team", oldCommit), "name: flux-system, namespace: flux-system}}", "name: other, namespace: flux-system}}"),
			want: func(w *engine.Want) {
				w.Heads = []engine.Head{{Addresses: []string{"http://x", "https://forge/other.git"}, Branch: "main", Commit: newCommit}}
			},
			pending: []string{"prod-team OutOfSync lags: is at aaaaaaa, wanted bbbbbbb"},
		},
		"another branch of another repository": {
			objects: standing() + strings.NewReplacer("name: flux-system", "name: other", "http://forge/estate.git", "https://forge/other", "branch: main", "branch: v1").Replace(source(oldCommit)) +
				strings.ReplaceAll(app("prod", "team", oldCommit), "name: flux-system, namespace: flux-system}}", "name: other, namespace: flux-system}}"),
			want: func(w *engine.Want) {
				w.Heads = []engine.Head{{Addresses: []string{"https://forge/other.git"}, Branch: "main", Commit: newCommit}}
			},
		},
		"chart of an older commit": {
			objects: standing() + fmt.Sprintf(`
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmChart
metadata: {name: prod-podinfo, namespace: flux-system}
spec: {chart: x, interval: 1m, sourceRef: {kind: GitRepository, name: flux-system}}
status: {observedSourceArtifactRevision: 'main@sha1:%s'}
`, oldCommit),
			change: func(t *testing.T, c *kubetest.Cluster) {
				release(c, t, map[string]any{"status": map[string]any{"helmChart": "flux-system/prod-podinfo"}})
			},
			pending: []string{"prod-podinfo OutOfSync lags: has a chart of an older commit"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.objects == "" {
				tc.objects = standing()
			}
			f, hub, _ := newFake(t, tc.objects)
			if tc.change != nil {
				tc.change(t, hub)
			}
			want := want
			if tc.want != nil {
				tc.want(&want)
			}
			v, err := f.look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r := engine.Registered{Cluster: "prod"}
			r.Since, _ = time.Parse(time.RFC3339, tc.since)
			if got := verdict(v, want, r); !slices.Equal(got, tc.pending) {
				t.Errorf("%q\nwant %q", got, tc.pending)
			}
			want.Since = map[string]time.Time{"prod": r.Since}
			if got := verdict(v, want); !slices.Equal(got, tc.pending) {
				t.Errorf("since its start: %q\nwant %q", got, tc.pending)
			}
			behind := slices.DeleteFunc(v.judge(want, nil, nil), func(p pending) bool { return !p.lags })
			s, err := f.Standing(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Behind(want, nil); got == nil || len(got) != len(behind) {
				t.Errorf("behind %q, want %d", got, len(behind))
			}
			if converged := len(tc.pending) == 0 && len(want.LeftOut) == 0 && want.Clusters == nil; converged && !s.Settled && !strings.HasPrefix(name, "root waits") {
				t.Error("not settled")
			}
		})
	}
}

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
		s, err := f.Standing(t.Context())
		if err != nil || s.Root != tc.root || s.Settled != tc.settled || s.Revision != tc.revision {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func TestApplications(t *testing.T) {
	f, hub, _ := newFake(t, standing()+app("hub", "plain", newCommit))
	hub.Patch(t, kustomizations, "cluster-hub", "plain", map[string]any{"spec": map[string]any{"targetNamespace": "ns"}})
	apps, err := f.Applications(t.Context())
	want := []lab.Application{
		{Name: "hub-plain", Addon: "plain", Cluster: "hub", Version: "bbbbbbb", Sync: "Synced", Health: "Healthy", Revision: newCommit, Namespace: "ns"},
		{Name: "prod-podinfo", Addon: "podinfo", Cluster: "prod", Version: "1.2.3", Sync: "Synced", Health: "Healthy", Revision: newCommit, Namespace: "podinfo"},
	}
	if err != nil || !slices.Equal(apps, want) {
		t.Errorf("%+v, %v", apps, err)
	}
	hub.Patch(t, helmReleases, "cluster-prod", "podinfo", conditions("Ready False UpgradeFailed: "+strings.Repeat("long ", 200)))
	if apps, err = f.Applications(t.Context()); err != nil || len([]rune(apps[1].Message)) > messageLimit || strings.Contains(apps[1].Message, "\n") {
		t.Errorf("%+v, %v", apps, err)
	}
}

func TestCommit(t *testing.T) {
	for revision, want := range map[string]string{"main@sha1:abc": "abc", "sha1:abc": "abc", "refs/heads/a@b@sha1:abc": "abc", "v1@sha256:abc": "", "": ""} {
		if got := commit(revision); got != want {
			t.Errorf("%q: %q", revision, got)
		}
	}
}

// A layer waiting for its own objects is not waited for; the applications are.
func TestJudgeLayerWithHealthChecks(t *testing.T) {
	f, hub, _ := newFake(t, standing())
	hub.Patch(t, kustomizations, lab.FluxNamespace, "flux-system", conditions("Ready Unknown Progressing: x", "Reconciling True Progressing: Running health checks for revision x"))
	for wait, want := range map[bool]int{true: 0, false: 1} {
		hub.Patch(t, kustomizations, lab.FluxNamespace, "flux-system", map[string]any{"spec": map[string]any{"wait": wait}})
		v, err := f.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := v.judge(engine.Want{Revision: newCommit}, nil, nil); len(got) != want {
			t.Errorf("wait %t: %+v, want %d pending", wait, got, want)
		}
	}
}
