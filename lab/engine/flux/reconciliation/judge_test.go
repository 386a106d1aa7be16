package reconciliation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

// verdict describes the pending objects, one per line: "prod-podinfo Degraded lags: reason".
func verdict(v View, want engine.Want, registrations ...engine.Registered) []string {
	var lines []string
	for _, p := range v.Judge(want, nil, registrations) {
		line := p.Application + " " + p.State()
		if p.Lags {
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
		c.Patch(t, Kustomizations, "cluster-prod", "podinfo", patch)
	}
	release := func(c *kubetest.Cluster, t *testing.T, patch map[string]any) {
		c.Patch(t, HelmReleases, "cluster-prod", "podinfo", patch)
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
				c.Patch(t, GitRepositories, flux.Namespace, "flux-system", conditions("Ready False GitOperationFailed: connection refused"))
			},
			pending: []string{"flux-system OutOfSync lags: repository flux-system: connection refused", "prod-podinfo OutOfSync: is not at the fetched commit"},
		},
		"root fails": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				c.Patch(t, Kustomizations, flux.Namespace, "flux-system", conditions("Ready False BuildFailed: no such file"))
			},
			pending: []string{"flux-system Degraded: no such file"},
		},
		"root left out": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				c.Patch(t, Kustomizations, flux.Namespace, "flux-system", conditions("Ready False BuildFailed: no such file"))
			},
			want: func(w *engine.Want) { w.LeftOut = []string{lab.ApplicationName("", "flux-system")} },
		},
		"root waits for health": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				c.Patch(t, Kustomizations, flux.Namespace, "flux-system", conditions("Ready False HealthCheckFailed: podinfo"))
			},
		},
		"root is reconciled": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				c.Patch(t, Kustomizations, flux.Namespace, "flux-system", conditions("Ready Unknown Progressing: x", "Reconciling True Progressing: Running health checks for revision x"))
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
			hub := newHub(t, tc.objects)
			if tc.change != nil {
				tc.change(t, hub)
			}
			want := want
			if tc.want != nil {
				tc.want(&want)
			}
			v, err := read(t, hub)
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
			_, settled := v.Settled()
			if converged := len(tc.pending) == 0 && len(want.LeftOut) == 0 && want.Clusters == nil; converged && !settled && !strings.HasPrefix(name, "root waits") {
				t.Error("not settled")
			}
		})
	}
}

// applicationsOf returns the applications of a cluster's Flux.
func applicationsOf(t *testing.T, hub *kubetest.Cluster) ([]lab.Application, error) {
	t.Helper()
	v, err := read(t, hub)
	return v.Applications(), err
}

func TestApplications(t *testing.T) {
	hub := newHub(t, standing()+app("hub", "plain", newCommit))
	hub.Patch(t, Kustomizations, "cluster-hub", "plain", map[string]any{"spec": map[string]any{"targetNamespace": "ns"}})
	apps, err := applicationsOf(t, hub)
	want := []lab.Application{
		{Name: "hub-plain", Addon: "plain", Cluster: "hub", Version: "bbbbbbb", Sync: "Synced", Health: "Healthy", Revision: newCommit, Namespace: "ns"},
		{Name: "prod-podinfo", Addon: "podinfo", Cluster: "prod", Version: "1.2.3", Sync: "Synced", Health: "Healthy", Revision: newCommit, Namespace: "podinfo"},
	}
	if err != nil || !slices.Equal(apps, want) {
		t.Errorf("%+v, %v", apps, err)
	}
	hub.Patch(t, HelmReleases, "cluster-prod", "podinfo", conditions("Ready False UpgradeFailed: "+strings.Repeat("long ", 200)))
	if apps, err = applicationsOf(t, hub); err != nil || len([]rune(apps[1].Message)) > messageLimit || strings.Contains(apps[1].Message, "\n") {
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
	hub := newHub(t, standing())
	hub.Patch(t, Kustomizations, flux.Namespace, "flux-system", conditions("Ready Unknown Progressing: x", "Reconciling True Progressing: Running health checks for revision x"))
	for wait, want := range map[bool]int{true: 0, false: 1} {
		hub.Patch(t, Kustomizations, flux.Namespace, "flux-system", map[string]any{"spec": map[string]any{"wait": wait}})
		v, err := read(t, hub)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Judge(engine.Want{Revision: newCommit}, nil, nil); len(got) != want {
			t.Errorf("wait %t: %+v, want %d pending", wait, got, want)
		}
	}
}
