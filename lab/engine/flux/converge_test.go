package flux

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/enginetest"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

// Times of reconciliation's requests, to an outdated source and to a failed object.
const fetchAgain, againAfter = 2 * time.Second, 15 * time.Second

const requestedKey = "reconcile.fluxcd.io/requestedAt"

// waiting runs WaitConverged and returns a function that expects exactly these requests since its last call.
func waiting(t *testing.T, f *Flux, hub *kubetest.Cluster, want engine.Want) (step func(...string), done chan error) {
	t.Helper()
	hub.ClearActions()
	done = make(chan error, 1)
	go func() {
		_, err := f.WaitConverged(t.Context(), want, func(string) {})
		done <- err
	}()
	return func(requests ...string) {
		t.Helper()
		time.Sleep(1200 * time.Millisecond)
		if w := hub.Writes(); !slices.Equal(w, requests) {
			t.Fatalf("requests %q, want %q", w, requests)
		}
	}, done
}

func TestWaitConverged(t *testing.T) {
	f, hub, _ := newFake(t, standing())
	hub.ClearActions()
	apps, err := f.WaitConverged(t.Context(), engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}}, func(s string) { t.Errorf("progress %q", s) })
	if err != nil || len(apps) != 1 || !apps[0].Converged() {
		t.Errorf("%+v, %v", apps, err)
	}
	if w := hub.Writes(); len(w) != 0 {
		t.Errorf("wrote %q", w)
	}
}

// Right after a change everything looks converged: each object is requested once those it depends on have answered.
func TestWaitConvergedChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		charts := "\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts, namespace: flux-system, uid: charts}\n---"
		below := strings.Replace(app("prod", "podinfo", newCommit), "fluxcd.io/name: flux-system", "fluxcd.io/name: prod", 1)
		f, hub, _ := newFake(t, source(newCommit)+layer("flux-system", "", newCommit)+layer("prod", "flux-system", newCommit)+below+releaseOf("prod", "podinfo")+charts)
		step, done := waiting(t, f, hub, engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}, Changed: true})
		step("patch helmrepositories charts", "patch gitrepositories flux-system")
		answer(t, hub, gitRepositories, flux.Namespace, "flux-system")
		step("patch kustomizations flux-system")
		step()
		answer(t, hub, kustomizations, flux.Namespace, "flux-system")
		step("patch kustomizations prod")
		answer(t, hub, kustomizations, flux.Namespace, "prod")
		step("patch kustomizations podinfo")
		answer(t, hub, kustomizations, "cluster-prod", "podinfo")
		step("patch helmreleases podinfo")
		if o := hub.Get(t, helmReleases, "cluster-prod", "podinfo").GetAnnotations(); o["reconcile.fluxcd.io/resetAt"] != o[requestedKey] || o[requestedKey] == "" {
			t.Errorf("%v", o)
		}
		// Another client's later request is answered, too.
		hub.Patch(t, helmReleases, "cluster-prod", "podinfo", map[string]any{"metadata": map[string]any{"annotations": map[string]any{requestedKey: "theirs"}}})
		step()
		answer(t, hub, helmReleases, "cluster-prod", "podinfo")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// An answer of a busy object may predate the change.
func TestWaitConvergedBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, _ := newFake(t, source(newCommit)+layer("flux-system", "", newCommit)+app("prod", "podinfo", newCommit))
		busy := conditions("Ready True ReconciliationSucceeded: x", "Reconciling True Progressing: x")
		hub.Patch(t, kustomizations, "cluster-prod", "podinfo", busy)
		step, done := waiting(t, f, hub, engine.Want{Changed: true})
		step("patch gitrepositories flux-system")
		answer(t, hub, gitRepositories, flux.Namespace, "flux-system")
		step("patch kustomizations flux-system")
		answer(t, hub, kustomizations, flux.Namespace, "flux-system")
		step("patch kustomizations podinfo")
		first := hub.Get(t, kustomizations, "cluster-prod", "podinfo").GetAnnotations()[requestedKey]
		step()
		answer(t, hub, kustomizations, "cluster-prod", "podinfo")
		step("patch kustomizations podinfo")
		if second := hub.Get(t, kustomizations, "cluster-prod", "podinfo").GetAnnotations()[requestedKey]; second <= first {
			t.Errorf("%s after %s", second, first)
		}
		answer(t, hub, kustomizations, "cluster-prod", "podinfo")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// An outdated source and failed objects are requested again; a busy release is left alone.
func TestWaitConvergedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, _ := newFake(t, source(oldCommit)+layer("flux-system", "", oldCommit)+app("prod", "podinfo", oldCommit)+releaseOf("prod", "podinfo"))
		step, done := waiting(t, f, hub, engine.Want{Revision: newCommit})
		step("patch gitrepositories flux-system")
		answer(t, hub, gitRepositories, flux.Namespace, "flux-system")
		time.Sleep(fetchAgain)
		hub.ClearActions()
		if asked := hub.Get(t, gitRepositories, flux.Namespace, "flux-system").GetAnnotations()[requestedKey]; asked == "" {
			t.Fatal("no second request")
		}
		at := func(r schema.GroupVersionResource, ns, name string, failure string) {
			patch := conditions("Ready True ok: ok")
			if failure != "" {
				patch = conditions("Ready False " + failure)
			}
			patch["status"].(map[string]any)["lastAppliedRevision"] = "main@sha1:" + newCommit
			patch["status"].(map[string]any)["lastAttemptedRevision"] = "main@sha1:" + newCommit
			hub.Patch(t, r, ns, name, patch)
			if asked := hub.Get(t, r, ns, name).GetAnnotations()[requestedKey]; asked != "" {
				answer(t, hub, r, ns, name)
			}
		}
		hub.Patch(t, gitRepositories, flux.Namespace, "flux-system", map[string]any{"status": map[string]any{"artifact": map[string]any{"revision": "main@sha1:" + newCommit}}})
		answer(t, hub, gitRepositories, flux.Namespace, "flux-system")
		step("patch kustomizations flux-system")
		at(kustomizations, flux.Namespace, "flux-system", "")
		hub.Patch(t, helmReleases, "cluster-prod", "podinfo", conditions("Ready Unknown Progressing: x", "Reconciling True Progressing: x"))
		step("patch kustomizations podinfo")
		at(kustomizations, "cluster-prod", "podinfo", "BuildFailed: x")
		step()
		time.Sleep(againAfter)
		step("patch kustomizations podinfo")
		at(kustomizations, "cluster-prod", "podinfo", "")
		step()
		hub.Patch(t, helmReleases, "cluster-prod", "podinfo", conditions("Ready False UpgradeFailed: x", "Stalled True RetriesExceeded: x"))
		step("patch helmreleases podinfo")
		answer(t, hub, helmReleases, "cluster-prod", "podinfo")
		step()
		time.Sleep(againAfter)
		step("patch helmreleases podinfo")
		hub.Patch(t, helmReleases, "cluster-prod", "podinfo", conditions("Ready True ok: ok"))
		answer(t, hub, helmReleases, "cluster-prod", "podinfo")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// timesOut returns the error and progress of a wait that ends by its deadline.
func timesOut(t *testing.T, f *Flux, want engine.Want) (*lab.Error, []string) {
	t.Helper()
	var progress []string
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := f.WaitConverged(ctx, want, func(s string) { progress = append(progress, s) })
	var e *lab.Error
	if !errors.As(err, &e) || e.Exit != lab.ExitTimeout || e.Code != "not_converged" || e.Cure == "" {
		t.Fatalf("%v", err)
	}
	for _, line := range append(progress, e.Details...) {
		if len([]rune(line)) > 78 || strings.Contains(line, "\n") {
			t.Errorf("%q", line)
		}
	}
	return e, progress
}

// A slow rollout extends the wait for as long as it moves; retries of the same failure do not.
func TestWaitConvergedMoves(t *testing.T) {
	for name, c := range map[string]struct {
		states []string
		ends   time.Duration
	}{
		"slow":     {[]string{"Ready Unknown Progressing: 1 of 3", "Ready Unknown Progressing: 2 of 3", "Ready Unknown Progressing: 3 of 3"}, 3 * time.Minute},
		"circling": {[]string{"Ready Unknown Progressing: 1 of 3", "Ready False InstallFailed: x", "Ready Unknown Progressing: 1 of 3", "Ready False InstallFailed: x"}, 140 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, hub, _ := newFake(t, standing())
				hub.Patch(t, helmReleases, "cluster-prod", "podinfo", conditions("Ready Unknown Progressing: begins"))
				began := time.Now()
				ctx, moved, cancel := lab.Patient(t.Context(), time.Minute)
				defer cancel()
				go func() {
					for _, state := range c.states {
						time.Sleep(40 * time.Second)
						if ctx.Err() == nil {
							hub.Patch(t, helmReleases, "cluster-prod", "podinfo", conditions(state))
						}
					}
				}()
				_, err := f.WaitConverged(ctx, engine.Want{Moved: moved}, func(string) {})
				if took := time.Since(began).Round(5 * time.Second); took != c.ends || err == nil {
					t.Errorf("ended after %s with %v, want %s", took, err, c.ends)
				}
				synctest.Wait()
				time.Sleep(5 * time.Minute) // the states that are left
			})
		})
	}
}

func TestWaitConvergedTimeout(t *testing.T) {
	failing := conditions("Ready False UpgradeFailed: " + strings.Repeat("no such kind ", 40))
	for name, tc := range map[string]struct {
		objects string
		change  func(*testing.T, *kubetest.Cluster)
		want    engine.Want
		message string
		detail  string
	}{
		"no root":  {"---", nil, engine.Want{}, "the root kustomization does not exist after 1m 0s", "root kustomization   Missing   does not exist yet"},
		"layer":    {source(newCommit) + layer("flux-system", "", oldCommit), nil, engine.Want{Revision: newCommit}, "kustomization flux-system is not in sync after 1m 0s", "flux-system   OutOfSync   is at aaaaaaa, wanted bbbbbbb"},
		"missing":  {source(newCommit) + layer("flux-system", "", newCommit), nil, engine.Want{Expected: []string{"a", "b"}}, "2 of 2 applications are not in sync after 1m 0s", "a   Missing   is not generated yet"},
		"unwanted": {standing(), nil, engine.Want{Gone: []string{"prod-podinfo"}}, "1 of 1 applications is not removed after 1m 0s", "prod-podinfo   OutOfSync   is no longer wanted but still exists"},
		"unhealthy": {
			standing() + app("prod", "other", newCommit), func(t *testing.T, c *kubetest.Cluster) { c.Patch(t, helmReleases, "cluster-prod", "podinfo", failing) },
			engine.Want{},
			"1 of 2 applications is not healthy after 1m 0s", "prod-podinfo   Degraded   no such kind no such kind no such kind no such kind",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, hub, _ := newFake(t, tc.objects)
				if tc.change != nil {
					tc.change(t, hub)
				}
				// All requests are answered immediately.
				f.hub.Dynamic = hub
				stop := make(chan struct{})
				go func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(2 * time.Second):
							for _, r := range []schema.GroupVersionResource{gitRepositories, kustomizations, helmReleases} {
								list, err := hub.Resource(r).List(t.Context(), metav1.ListOptions{})
								if err != nil {
									continue
								}
								for _, o := range list.Items {
									if token := o.GetAnnotations()[requestedKey]; token != "" {
										hub.Patch(t, r, o.GetNamespace(), o.GetName(), map[string]any{"status": map[string]any{"lastHandledReconcileAt": token}})
									}
								}
							}
						}
					}
				}()
				e, progress := timesOut(t, f, tc.want)
				close(stop)
				if e.Message != tc.message || len(e.Details) == 0 || e.Details[0] != tc.detail {
					t.Errorf("%q\n%q", e.Message, e.Details)
				}
				if len(progress) == 0 || !strings.Contains(progress[0], "in sync and healthy, ") {
					t.Errorf("%q", progress)
				}
			})
		})
	}
}

// Workloads and pods explain more than Flux, which waits for them.
func TestWaitConvergedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, spoke := newFake(t, standing())
		f.reach = func(cluster string) (*rest.Config, error) {
			if cluster != "prod" {
				t.Errorf("reached for %s", cluster)
			}
			return &rest.Config{}, nil
		}
		hub.Patch(t, helmReleases, "cluster-prod", "podinfo", conditions("Ready Unknown Progressing: Running upgrade"))
		hub.Patch(t, kustomizations, "cluster-prod", "podinfo", map[string]any{"status": map[string]any{"inventory": map[string]any{
			"entries": []any{map[string]any{"id": "other_plain_apps_Deployment", "v": "v1"}, map[string]any{"id": "_x__Namespace", "v": "v1"}},
		}}})
		mine := map[string]string{fromRelease: "podinfo", fromReleaseNamespace: "cluster-prod"}
		two := int32(2)
		for _, d := range []*appsv1.Deployment{
			{ObjectMeta: metav1.ObjectMeta{Name: "podinfo", Namespace: "podinfo", Labels: mine}, Spec: appsv1.DeploymentSpec{Replicas: &two}},
			{ObjectMeta: metav1.ObjectMeta{Name: "hers", Namespace: "podinfo"}, Spec: appsv1.DeploymentSpec{Replicas: &two}},
		} {
			if _, err := spoke.Typed.AppsV1().Deployments("podinfo").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		v, err := f.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := f.explain(t.Context(), v, v.Judge(engine.Want{}, nil, nil)[0])
		if want := []string{"deployment plain: is missing", "deployment podinfo: 0 of 2 ready"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		f.reach = func(string) (*rest.Config, error) { return nil, errors.New("gone") }
		if got := f.explain(t.Context(), v, v.Judge(engine.Want{}, nil, nil)[0]); !slices.Equal(got, []string{"Running upgrade"}) {
			t.Errorf("%q", got)
		}
	})
}

// A container that keeps failing ends the wait, with its last log lines.
func TestWaitConvergedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, spoke := newFake(t, standing())
		f.reach = func(string) (*rest.Config, error) { return &rest.Config{}, nil }
		hub.Patch(t, helmReleases, "cluster-prod", "podinfo", conditions("Ready Unknown Progressing: Running upgrade"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		enginetest.FailEvery10s(ctx, t, spoke.Typed, "podinfo", "podinfo", map[string]string{fromRelease: "podinfo", fromReleaseNamespace: "cluster-prod"})
		began := time.Now()
		_, err := f.WaitConverged(ctx, engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}}, func(string) {})
		var failed *lab.Error
		if !errors.As(err, &failed) || time.Since(began) > 2*time.Minute || !strings.Contains(strings.Join(failed.Details, "\n"), "web: fake logs") {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func TestWaitConvergedCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := newFake(t, standing())
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		if _, err := f.WaitConverged(ctx, engine.Want{Expected: []string{"never"}}, func(string) {}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func TestWaitConvergedLateAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, _ := newFake(t, standing())
		refused := errors.New("connection refused")
		hub.Refuse("list kustomizations", refused)
		time.AfterFunc(20*time.Second, func() { hub.Refuse("list kustomizations", nil) })
		var progress []string
		go func() {
			time.Sleep(21 * time.Second)
			for range 5 {
				for _, r := range []schema.GroupVersionResource{gitRepositories, kustomizations, helmReleases} {
					list, err := hub.Resource(r).List(context.Background(), metav1.ListOptions{})
					if err != nil {
						return
					}
					for _, o := range list.Items {
						if token := o.GetAnnotations()[requestedKey]; token != "" {
							hub.Patch(t, r, o.GetNamespace(), o.GetName(), map[string]any{"status": map[string]any{"lastHandledReconcileAt": token}})
						}
					}
				}
				time.Sleep(time.Second)
			}
		}()
		if _, err := f.WaitConverged(t.Context(), engine.Want{Revision: newCommit}, func(s string) { progress = append(progress, s) }); err != nil {
			t.Error(err)
		}
		if len(progress) == 0 || progress[0] != "the hub does not answer: connection refused" {
			t.Errorf("progress %q", progress)
		}
		hub.Refuse("list kustomizations", refused)
		e, _ := timesOut(t, f, engine.Want{Revision: newCommit})
		if !errors.Is(e, refused) {
			t.Errorf("error without cause: %v", e)
		}
		// The error shows the last successful observation.
		hub.Refuse("list kustomizations", nil)
		time.AfterFunc(30*time.Second, func() { hub.Refuse("list kustomizations", refused) })
		if e, _ := timesOut(t, f, engine.Want{Expected: []string{"never"}}); strings.Contains(e.Message, "does not exist") {
			t.Errorf("%q", e.Message)
		}
	})
}

func TestRefresh(t *testing.T) {
	f, hub, _ := newFake(t, standing()+"\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts, namespace: flux-system, uid: charts}")
	hub.ClearActions()
	if err := f.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w := hub.Writes(); !slices.Equal(w, []string{"patch gitrepositories flux-system", "patch helmrepositories charts"}) {
		t.Errorf("%q", w)
	}
	broken := errors.New("broken")
	hub.Refuse("patch gitrepositories", broken)
	if err := f.Refresh(t.Context()); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// A release that was being deleted when its Kustomization applied it is applied again.
func TestWaitConvergedLostRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, _ := newFake(t, source(newCommit)+layer("flux-system", "", newCommit)+app("prod", "podinfo", newCommit))
		checking := conditions("Ready Unknown Progressing: x", "Reconciling True Progressing: x")
		checking["status"].(map[string]any)["inventory"] = map[string]any{"entries": []any{
			map[string]any{"id": "cluster-prod_podinfo-values__ConfigMap", "v": "v1"},
			map[string]any{"id": "cluster-prod_podinfo_helm.toolkit.fluxcd.io_HelmRelease", "v": "v2"},
		}}
		hub.Patch(t, kustomizations, "cluster-prod", "podinfo", checking)
		step, done := waiting(t, f, hub, engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}})
		step("patch gitrepositories flux-system")
		answer(t, hub, gitRepositories, flux.Namespace, "flux-system")
		step("patch kustomizations flux-system")
		answer(t, hub, kustomizations, flux.Namespace, "flux-system")
		step("patch kustomizations podinfo")
		step("patch kustomizations podinfo")
		hub.Create(t, "cluster-prod", releaseOf("prod", "podinfo"))
		hub.ClearActions()
		step()
		step()
		hub.Patch(t, kustomizations, "cluster-prod", "podinfo", conditions("Ready True ReconciliationSucceeded: x", "Reconciling False Succeeded: x"))
		answer(t, hub, kustomizations, "cluster-prod", "podinfo")
		step("patch helmreleases podinfo")
		answer(t, hub, helmReleases, "cluster-prod", "podinfo")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}
