package reconciliation

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab/engine"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

// An outdated source is requested again soon, a failing one later, a current one never.
func TestAskAgain(t *testing.T) {
	failing := conditions("Ready False GitOperationFailed: x")
	for name, tc := range map[string]struct {
		commit string
		change map[string]any
		again  time.Duration
	}{
		"current":         {newCommit, nil, 0},
		"outdated":        {oldCommit, nil, fetchAgain},
		"outdated, fails": {oldCommit, failing, againAfter},
		"current, fails":  {newCommit, failing, 0},
		"nothing fetched": {newCommit, map[string]any{"status": map[string]any{"artifact": nil}}, fetchAgain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := newHub(t, source(tc.commit))
				if tc.change != nil {
					hub.Patch(t, GitRepositories, flux.Namespace, "flux-system", tc.change)
				}
				v, err := read(t, hub)
				if err != nil {
					t.Fatal(err)
				}
				// Without a root, the head is what counts.
				a := NewAsker(hub.Clients().Dynamic, engine.Want{Heads: []engine.Head{{Addresses: []string{"http://forge/estate.git"}, Branch: "main", Commit: newCommit}}})
				requests := func() int {
					hub.ClearActions()
					if err := a.Look(t.Context(), v); err != nil {
						t.Fatal(err)
					}
					return len(hub.Writes())
				}
				if n := requests(); n != 1 {
					t.Errorf("%d requests at first", n)
				}
				if tc.again == 0 {
					time.Sleep(time.Hour)
					if n := requests(); n != 0 {
						t.Errorf("%d requests later", n)
					}
					return
				}
				time.Sleep(tc.again - time.Nanosecond)
				early := requests()
				time.Sleep(time.Nanosecond)
				if in := requests(); early != 0 || in != 1 {
					t.Errorf("%d requests before %s, %d then", early, tc.again, in)
				}
			})
		})
	}
}

// Only a Kustomization whose source, artifact and layer are ready is requested, and a release only if it is not busy.
func TestAskOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*testing.T, *kubetest.Cluster)
		want   []string // requests once everything before has answered
	}{
		"ready": {nil, []string{"patch kustomizations flux-system", "patch kustomizations podinfo", "patch helmreleases podinfo"}},
		"suspended": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, Kustomizations, "cluster-prod", "podinfo", spec(map[string]any{"suspend": true}))
		}, []string{"patch kustomizations flux-system"}},
		"being removed": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, Kustomizations, "cluster-prod", "podinfo", map[string]any{"metadata": map[string]any{"deletionTimestamp": longAgo}})
		}, []string{"patch kustomizations flux-system"}},
		"root fails": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, Kustomizations, flux.Namespace, "flux-system", conditions("Ready False BuildFailed: x"))
		}, []string{"patch kustomizations flux-system"}},
		"release busy": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, HelmReleases, "cluster-prod", "podinfo", conditions("Ready Unknown Progressing: x", "Reconciling True Progressing: x"))
		}, []string{"patch kustomizations flux-system", "patch kustomizations podinfo"}},
		"release waits for a retry": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, HelmReleases, "cluster-prod", "podinfo", conditions("Ready False InstallFailed: x", "Reconciling True ProgressingWithRetry: x"))
		}, []string{"patch helmreleases podinfo", "patch kustomizations flux-system", "patch kustomizations podinfo"}},
		"release fails": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, HelmReleases, "cluster-prod", "podinfo", conditions("Ready False InstallFailed: x"))
		}, []string{"patch helmreleases podinfo", "patch kustomizations flux-system", "patch kustomizations podinfo"}},
		"release suspended": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, HelmReleases, "cluster-prod", "podinfo", spec(map[string]any{"suspend": true}))
		}, []string{"patch kustomizations flux-system", "patch kustomizations podinfo"}},
		"release with a new spec": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, HelmReleases, "cluster-prod", "podinfo", map[string]any{"metadata": map[string]any{"generation": 2}})
		}, []string{"patch kustomizations flux-system", "patch kustomizations podinfo"}},
		"release being removed": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, HelmReleases, "cluster-prod", "podinfo", map[string]any{"metadata": map[string]any{"deletionTimestamp": longAgo}})
		}, []string{"patch kustomizations flux-system", "patch kustomizations podinfo"}},
	} {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, standing())
			if tc.change != nil {
				tc.change(t, hub)
			}
			a := NewAsker(hub.Clients().Dynamic, engine.Want{Revision: newCommit})
			var got []string
			for range 4 {
				v, err := read(t, hub)
				if err == nil {
					hub.ClearActions()
					err = a.Look(t.Context(), v)
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range hub.Writes() {
					got = append(got, w)
					parts := strings.Fields(w)
					switch parts[1] {
					case "gitrepositories":
						answer(t, hub, GitRepositories, flux.Namespace, parts[2])
					case "kustomizations":
						answer(t, hub, Kustomizations, map[string]string{"flux-system": flux.Namespace, "podinfo": "cluster-prod"}[parts[2]], parts[2])
					}
				}
			}
			if want := append([]string{"patch gitrepositories flux-system"}, tc.want...); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// Applications of clusters that are not waited for are not requested.
func TestAskOnlyWanted(t *testing.T) {
	hub := newHub(t, standing()+app("hub", "metrics", newCommit))
	a := NewAsker(hub.Clients().Dynamic, engine.Want{Revision: newCommit, Clusters: []string{"hub"}})
	var got []string
	for _, step := range []func(){
		func() { answer(t, hub, GitRepositories, flux.Namespace, "flux-system") },
		func() { answer(t, hub, Kustomizations, flux.Namespace, "flux-system") },
		func() {},
	} {
		v, err := read(t, hub)
		if err != nil {
			t.Fatal(err)
		}
		hub.ClearActions()
		if err := a.Look(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		got = append(got, hub.Writes()...)
		step()
	}
	if want := []string{"patch gitrepositories flux-system", "patch kustomizations flux-system", "patch kustomizations metrics"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Only failed generators are requested, and again after a while.
func TestAskGenerators(t *testing.T) {
	hub := newHub(t, generating(newCommit))
	for _, tc := range []struct {
		ready string
		want  []string
	}{{"Ready True Succeeded: made", nil}, {"Ready Unknown Progressing: making", nil}, {"Ready False BuildFailed: x", []string{"patch artifactgenerators parts"}}} {
		hub.Patch(t, artifactGenerators, flux.Namespace, "parts", conditions(tc.ready))
		v, err := read(t, hub)
		if err != nil {
			t.Fatal(err)
		}
		a := NewAsker(hub.Clients().Dynamic, engine.Want{})
		hub.ClearActions()
		for range 2 {
			if err := a.askGenerators(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		if got := hub.Writes(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q", tc.ready, got)
		}
	}
}
