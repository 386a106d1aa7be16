package argocd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/enginetest"
)

const (
	oldCommit = "aaaaaaaaaa"
	newCommit = "bbbbbbbbbb"
)

// object returns an Application of the estate, compared at a commit.
func object(name, commit, sync, health, more string) string {
	part := ""
	if name == "addons" {
		part = ", lab.homelab/part: root"
	}
	source := fmt.Sprintf("{repoURL: http://forge/estate.git, targetRevision: main, path: %s}", name)
	return fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s, labels: {app.kubernetes.io/instance: addons%s}}
spec:
  source: %s
  destination: {name: prod, namespace: podinfo}
  syncPolicy: {automated: {prune: true}, syncOptions: [CreateNamespace=true]}
status:
  sync: {status: %s, revision: %s, comparedTo: {source: %s, destination: {name: prod, namespace: podinfo}}}
  health: {status: %s}
%s`, name, part, source, sync, commit, source, health, more)
}

func set(more string) string {
	return "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: podinfo}\n" + more
}

func converged() string {
	return object("addons", newCommit, "Synced", "Healthy", "") + "---" + object("prod-podinfo", newCommit, "Synced", "Healthy", "") + "---\n" + set("")
}

func (c *cluster) patch(t *testing.T, r schema.GroupVersionResource, name string, patch map[string]any) {
	t.Helper()
	c.Patch(t, r, Namespace, name, patch)
}

func unannotate(key string) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: nil}}}
}

func comparedAt(commit string) map[string]any {
	p := unannotate(refreshApplication)
	p["status"] = map[string]any{"sync": map[string]any{"revision": commit}}
	return p
}

func TestWaitConverged(t *testing.T) {
	a, hub, _ := newFake(t, converged())
	apps, err := a.WaitConverged(t.Context(), engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}}, func(s string) { t.Errorf("progress %q", s) })
	if err != nil || len(apps) != 1 || !apps[0].Converged() {
		t.Errorf("%+v, %v", apps, err)
	}
	for _, act := range hub.Actions() {
		if act.GetVerb() != "list" {
			t.Errorf("%s %s", act.GetVerb(), act.GetResource().Resource)
		}
	}
}

// Right after a change everything looks converged: the wait must send requests in this order, and await each answer.
func TestWaitConvergedChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, _ := newFake(t, converged())
		done := make(chan error, 1)
		go func() {
			_, err := a.WaitConverged(t.Context(), engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}, Changed: true}, func(string) {})
			done <- err
		}()
		step := func(want ...string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			select {
			case err := <-done:
				t.Fatalf("wait ended before %v: %v", want, err)
			default:
			}
			if w := hub.Writes(); !slices.Equal(w, want) {
				t.Fatalf("requests %v, want %v", w, want)
			}
		}
		step("patch applications addons")
		hub.patch(t, applications, "addons", comparedAt(newCommit))
		for range 2 { // the first answer may come from a round that began before
			step("patch applicationsets podinfo")
			hub.patch(t, applicationSets, "podinfo", unannotate(refreshApplicationSet))
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if w := hub.Writes(); len(w) != 0 {
			t.Errorf("requests at the end: %v", w)
		}
	})
}

func TestWaitConvergedRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, _ := newFake(t, object("addons", oldCommit, "Synced", "Healthy", "")+"---"+object("prod-podinfo", oldCommit, "Synced", "Healthy", ""))
		var progress []string
		done := make(chan error, 1)
		go func() {
			_, err := a.WaitConverged(t.Context(), engine.Want{Revision: newCommit}, func(s string) { progress = append(progress, s) })
			done <- err
		}()
		for _, name := range []string{"addons", "prod-podinfo"} {
			time.Sleep(5 * time.Second)
			if w := hub.Writes(); !slices.Equal(w, []string{"patch applications " + name}) {
				t.Fatalf("requests %v, want only a refresh of %s", w, name)
			}
			hub.patch(t, applications, name, comparedAt(newCommit))
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want := []string{
			"0 of 1 in sync and healthy, addons: is at aaaaaaa, wanted bbbbbbb", "0 of 1 in sync and healthy, addons: is being compared",
			"0 of 1 in sync and healthy, prod-podinfo: is at aaaaaaa, wanted bbbbbbb", "0 of 1 in sync and healthy, prod-podinfo: is being compared",
		}
		if !slices.Equal(progress, want) {
			t.Errorf("progress %q", progress)
		}
	})
}

// A Git fetch that began before the push answers with the previous commit, and Argo CD would not fetch again for minutes.
func TestWaitConvergedRefreshAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, _ := newFake(t, object("addons", oldCommit, "Synced", "Healthy", ""))
		done := make(chan error, 1)
		go func() {
			_, err := a.WaitConverged(t.Context(), engine.Want{Revision: newCommit}, func(string) {})
			done <- err
		}()
		for _, commit := range []string{oldCommit, oldCommit, newCommit} {
			time.Sleep(5 * time.Second)
			if w := hub.Writes(); !slices.Equal(w, []string{"patch applications addons"}) {
				t.Fatalf("requests %v, want one refresh", w)
			}
			hub.patch(t, applications, "addons", comparedAt(commit))
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// A comparison from before the cluster was recreated or restarted is refreshed. The same applies to the root, whose cluster is the hub.
func TestWaitConvergedOutdated(t *testing.T) {
	for _, tc := range []struct{ name, what string }{{"prod-podinfo", "registered"}, {"addons", "registered"}, {"prod-podinfo", "started"}} {
		name := tc.name
		t.Run(name+" "+tc.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now().UTC()
				reconciled := func(after time.Duration) string { return began.Add(after).Format(time.RFC3339) }
				objects := fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata:
  name: cluster-prod
  namespace: argocd
  labels: {argocd.argoproj.io/secret-type: cluster, lab.homelab/name: homelab}
  annotations: {lab.homelab/credentials-since: %q}
data: {name: cHJvZA==}
`, reconciled(0))
				want := engine.Want{Revision: newCommit}
				if tc.what == "started" {
					objects = strings.ReplaceAll(objects, reconciled(0), reconciled(-time.Hour))
					want.Since = map[string]time.Time{"prod": began}
				}
				for _, app := range []string{"prod-podinfo", "addons"} {
					at := time.Minute
					if app == name {
						at = -time.Minute
					}
					objects += "---" + object(app, newCommit, "Synced", "Healthy", "  reconciledAt: "+reconciled(at)+"\n")
				}
				a, hub, _ := newFake(t, objects)
				s, err := a.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				registrations, err := a.registrations(t.Context())
				if behind := s.Behind(want, registrations); err != nil || !slices.Equal(behind, []string{name}) {
					t.Errorf("%v, %v", behind, err)
				}
				done := make(chan error, 1)
				go func() {
					_, err := a.WaitConverged(t.Context(), want, func(string) {})
					done <- err
				}()
				for _, at := range []time.Duration{0, time.Second} { // the first comparison was in the same second as the credentials
					time.Sleep(5 * time.Second)
					if w := hub.Writes(); !slices.Equal(w, []string{"patch applications " + name}) {
						t.Fatalf("requests %v, want one refresh", w)
					}
					answer := unannotate(refreshApplication)
					answer["status"] = map[string]any{"reconciledAt": reconciled(at)}
					hub.patch(t, applications, name, answer)
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// Times in the future predate a change of the clock.
func TestSincesFuture(t *testing.T) {
	now := time.Now()
	list := []engine.Registered{{Cluster: "a", Since: now.Add(-time.Hour)}, {Cluster: "b", Since: now.Add(time.Hour)}, {Cluster: "c", Since: now.Add(-time.Hour)}}
	got := validSince(list, engine.Want{Since: map[string]time.Time{"a": now.Add(-time.Minute), "b": now.Add(time.Minute), "c": now.Add(time.Minute), "d": now}})
	if want := map[string]time.Time{"a": now.Add(-time.Minute), "b": {}, "c": now.Add(-time.Hour)}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Argo CD's cache may hold deleted objects of a cluster, until the next resync minutes later.
func TestWaitConvergedRereadCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, _ := newFake(t, converged(), clusterSecret("prod", "homelab"))
		hub.patch(t, applications, "prod-podinfo", map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z"}})
		done := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() {
			_, err := a.WaitConverged(ctx, engine.Want{Revision: newCommit, Gone: []string{"prod-podinfo"}}, func(string) {})
			done <- err
		}()
		for range 4 { // resets the timer each time
			time.Sleep(unmoved - 5*time.Second)
			hub.patch(t, applications, "prod-podinfo", map[string]any{"status": map[string]any{"health": map[string]any{"message": time.Now().String()}}})
		}
		if w := hub.Writes(); len(w) > 0 {
			t.Fatalf("requests %v during changes", w)
		}
		time.Sleep(unmoved + 2*time.Second)
		asked := hub.Get(t, secrets, Namespace, "cluster-prod").GetAnnotations()[refreshCluster]
		if age := time.Since(timeOf(asked)); age < 0 || age > 5*time.Second {
			t.Errorf("refreshCluster is %q", asked)
		}
		if w := hub.Writes(); !slices.Equal(w, []string{"patch secrets cluster-prod"}) {
			t.Fatalf("requests %v", w)
		}
		time.Sleep(askAgain + 2*time.Second)
		if w := hub.Writes(); !slices.Equal(w, []string{"patch applications prod-podinfo"}) {
			t.Fatalf("requests %v", w)
		}
		hub.patch(t, applications, "prod-podinfo", unannotate(refreshApplication))
		time.Sleep(3 * unmoved)
		if w := hub.Writes(); len(w) > 0 {
			t.Errorf("requests again: %v", w)
		}
		if err := hub.Resource(applications).Namespace(Namespace).Delete(t.Context(), "prod-podinfo", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Argo CD may lose a refresh: the annotation stays, and setting the same value again sends no event.
func TestWaitConvergedRefreshLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, _ := newFake(t, object("addons", newCommit, "Synced", "Healthy", "")+"---"+object("prod-podinfo", oldCommit, "Synced", "Healthy", ""),
			clusterSecret("prod", "homelab"))
		hub.patch(t, applications, "prod-podinfo", map[string]any{"metadata": map[string]any{"annotations": map[string]any{refreshApplication: "normal"}}})
		done := make(chan error, 1)
		go func() {
			_, err := a.WaitConverged(t.Context(), engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}}, func(string) {})
			done <- err
		}()
		word := func() string {
			return hub.Get(t, applications, Namespace, "prod-podinfo").GetAnnotations()[refreshApplication]
		}
		for _, want := range []string{"hard", "normal", "hard"} {
			time.Sleep(unmoved + askAgain + 3*time.Second)
			if got := word(); got != want {
				t.Fatalf("refresh = %q, want %q", got, want)
			}
		}
		answer := unannotate(refreshApplication)
		answer["status"] = map[string]any{"sync": map[string]any{"revision": newCommit}}
		hub.patch(t, applications, "prod-podinfo", answer)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A container that keeps failing ends the wait, with its last log lines.
func TestWaitConvergedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, spoke := newFake(t, converged())
		a.reach = func(string) (*rest.Config, error) { return &rest.Config{}, nil }
		hub.patch(t, applications, "prod-podinfo", map[string]any{"status": map[string]any{
			"health":    map[string]any{"status": "Progressing"},
			"resources": []any{map[string]any{"group": "apps", "kind": "Deployment", "namespace": "podinfo", "name": "podinfo"}},
		}})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		enginetest.FailEvery10s(ctx, t, spoke.Typed, "podinfo", "podinfo", nil)
		began := time.Now()
		_, err := a.WaitConverged(ctx, engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}}, func(string) {})
		var failed *lab.Error
		if !errors.As(err, &failed) || time.Since(began) > 2*time.Minute || !strings.Contains(strings.Join(failed.Details, "\n"), "web: fake logs") {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func TestWaitConvergedCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newFake(t, object("addons", newCommit, "Synced", "Healthy", ""))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		if _, err := a.WaitConverged(ctx, engine.Want{Expected: []string{"never"}}, func(string) {}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func TestWaitConvergedLateAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, _ := newFake(t, converged())
		refused := errors.New("connection refused")
		hub.Refuse("list applications", refused)
		time.AfterFunc(20*time.Second, func() { hub.Refuse("list applications", nil) })
		var progress []string
		if _, err := a.WaitConverged(t.Context(), engine.Want{Revision: newCommit}, func(s string) { progress = append(progress, s) }); err != nil {
			t.Error(err)
		}
		if len(progress) == 0 || progress[0] != "the hub does not answer: connection refused" {
			t.Errorf("progress %q", progress)
		}
		hub.Refuse("list applications", refused)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := a.WaitConverged(ctx, engine.Want{Revision: newCommit}, func(string) {}); !errors.Is(err, refused) {
			t.Errorf("error without cause: %v", err)
		}
	})
}
