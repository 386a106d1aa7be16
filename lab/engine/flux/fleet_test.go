package flux

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

// newFleet returns an in-memory hub and spoke prod, each with its own Flux.
func newFleet(t *testing.T, hubHas, prodHas string) (fleet *Fleet, hub, spoke *kubetest.Cluster) {
	t.Helper()
	hub, spoke = kubetest.New(t, kinds(), hubHas), kubetest.New(t, kinds(), prodHas)
	of := func(c *kubetest.Cluster, home string) *Flux {
		return &Flux{
			lab: "homelab", namespace: flux.Namespace, home: home, hub: c.Clients(), release: &fakeRelease{},
			connect: func(*rest.Config) (kube.Clients, error) { return c.Clients(), nil },
		}
	}
	return &Fleet{
		hub: of(hub, "hub"), links: map[string]link{},
		reach: func(cluster string) (*rest.Config, error) { return &rest.Config{Host: "https://" + cluster}, nil },
		join: func(cluster string, _ *rest.Config) (*Flux, error) {
			f := of(spoke, cluster)
			f.attached = true
			return f, nil
		},
	}, hub, spoke
}

// pair returns the objects of a converged lab of two clusters.
func pair() (hub, prod string) {
	hub = source(newCommit) + layer("flux-system", "", newCommit) + app("hub", "metrics", newCommit) + registered("hub", "homelab", "") + registered("prod", "homelab", "")
	return hub, standing() + "\n" + registered("prod", "homelab", "")
}

var bothApps = engine.Want{Revision: newCommit, Expected: []string{"hub-metrics", "prod-podinfo"}}

func names(list []lab.Application) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.Name)
	}
	return out
}

func TestFleetConverged(t *testing.T) {
	fleet, hub, spoke := newFleet(t, first(pair()), second(pair()))
	apps, err := fleet.WaitConverged(t.Context(), bothApps, func(s string) { t.Errorf("progress %q", s) })
	if err != nil || !slices.Equal(names(apps), bothApps.Expected) {
		t.Errorf("%+v, %v", apps, err)
	}
	if w := slices.Concat(hub.Writes(), spoke.Writes()); len(w) != 0 {
		t.Errorf("wrote %q", w)
	}
	st, err := fleet.Snapshot(t.Context())
	if err != nil || !st.Root || !st.Settled || st.Revision != newCommit || len(st.Silent) != 0 || !slices.Equal(names(st.Applications), bothApps.Expected) {
		t.Errorf("%+v, %v", st, err)
	}
	if behind := st.Behind(bothApps, nil); len(behind) != 0 {
		t.Errorf("behind %q", behind)
	}
}

func first(a, _ string) string  { return a }
func second(_, b string) string { return b }

// Each Flux gets its own requests, and a lagging one is waited for.
func TestFleetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hubHas, prodHas := pair()
		fleet, _, spoke := newFleet(t, hubHas, strings.ReplaceAll(prodHas, newCommit, oldCommit))
		st, err := fleet.Snapshot(t.Context())
		if err != nil || st.Settled || st.Revision != newCommit || !slices.Contains(st.Behind(bothApps, nil), "prod-podinfo") {
			t.Errorf("%+v, %v", st, err)
		}
		only := bothApps
		for cluster, want := range map[string]bool{"hub": false, "prod": true} {
			only.Clusters = []string{cluster}
			if behind := st.Behind(only, nil); (len(behind) > 0) != want {
				t.Errorf("behind in %s: %q", cluster, behind)
			}
		}
		var progress []string
		done := make(chan error, 1)
		go func() {
			_, err := fleet.WaitConverged(t.Context(), bothApps, func(s string) { progress = append(progress, s) })
			done <- err
		}()
		hub := fleet.hub.hub.Dynamic.(*kubetest.Cluster)
		time.Sleep(1230 * time.Millisecond)
		answer(t, hub, gitRepositories, "flux-system", "flux-system")
		time.Sleep(1230 * time.Millisecond)
		answer(t, hub, kustomizations, "flux-system", "flux-system")
		time.Sleep(1230 * time.Millisecond)
		answer(t, hub, kustomizations, "cluster-hub", "metrics")
		time.Sleep(1230 * time.Millisecond)
		synctest.Wait()
		if last := progress[len(progress)-1]; last != "1 of 2 in sync and healthy, flux-system of prod: is at aaaaaaa, wanted bbbbbbb" {
			t.Errorf("%q", progress)
		}
		if w := slices.Compact(spoke.Writes()); !slices.Equal(w, []string{"patch gitrepositories flux-system"}) {
			t.Errorf("requests %q", w)
		}
		if len(progress) == 0 || progress[0] != "0 of 2 in sync and healthy, flux-system of hub: is being compared" {
			t.Errorf("%q", progress)
		}
		revision := map[string]any{"lastAppliedRevision": "main@sha1:" + newCommit, "lastAttemptedRevision": "main@sha1:" + newCommit}
		spoke.Patch(t, gitRepositories, "flux-system", "flux-system", map[string]any{"status": map[string]any{"artifact": map[string]any{"revision": "main@sha1:" + newCommit}}})
		answer(t, spoke, gitRepositories, "flux-system", "flux-system")
		time.Sleep(1230 * time.Millisecond)
		spoke.Patch(t, kustomizations, "flux-system", "flux-system", map[string]any{"status": revision})
		answer(t, spoke, kustomizations, "flux-system", "flux-system")
		time.Sleep(1230 * time.Millisecond)
		spoke.Patch(t, kustomizations, "cluster-prod", "podinfo", map[string]any{"status": revision})
		answer(t, spoke, kustomizations, "cluster-prod", "podinfo")
		time.Sleep(1230 * time.Millisecond)
		answer(t, spoke, helmReleases, "cluster-prod", "podinfo")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Applications of an unreachable cluster are unknown, not gone.
func TestFleetSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, _, spoke := newFleet(t, first(pair()), second(pair()))
		var seen []string
		ctx, stop := context.WithCancel(t.Context())
		ready := make(chan bool)
		go func() {
			_ = fleet.Watch(ctx, func(a lab.Application, o engine.Observed) {
				word := ""
				if o.Gone {
					word = " gone"
				}
				seen = append(seen, a.Name+word)
			}, func() { close(ready) })
		}()
		<-ready
		spoke.Refuse("list gitrepositories", errors.New("connection refused"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !slices.Equal(seen, bothApps.Expected) {
			t.Errorf("observed %q", seen)
		}
		stop()

		st, err := fleet.Snapshot(t.Context())
		if err != nil || !slices.Equal(st.Silent, []string{"prod"}) || st.Settled || !st.Root || !slices.Equal(names(st.Applications), []string{"hub-metrics"}) {
			t.Errorf("%+v, %v", st, err)
		}
		if r, err := fleet.Observe(t.Context()); err != nil || len(r.Registrations) != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { // the hub's Flux is fine
			hub := fleet.hub.hub.Dynamic.(*kubetest.Cluster)
			time.Sleep(1230 * time.Millisecond)
			answer(t, hub, gitRepositories, "flux-system", "flux-system")
			time.Sleep(1230 * time.Millisecond)
			answer(t, hub, kustomizations, "flux-system", "flux-system")
			time.Sleep(1230 * time.Millisecond)
			answer(t, hub, kustomizations, "cluster-hub", "metrics")
		}()
		_, err = fleet.WaitConverged(within, bothApps, func(string) {})
		var failed *lab.Error
		if !errors.As(err, &failed) || failed.Message != "cluster prod does not answer after 1m 0s" {
			t.Fatalf("%v", err)
		}
		text := strings.Join(failed.Details, "\n")
		for _, words := range []string{"connection refused", "cluster prod does not answer"} {
			if !strings.Contains(text, words) {
				t.Errorf("details lack %q:\n%s", words, text)
			}
		}
		only := engine.Want{Revision: newCommit, Expected: []string{"hub-metrics"}, Clusters: []string{"hub"}}
		if apps, err := fleet.WaitConverged(t.Context(), only, func(string) {}); err != nil || !slices.Equal(names(apps), only.Expected) {
			t.Errorf("unwanted cluster: %v, %v", apps, err)
		}
	})
}

func TestFleetRegister(t *testing.T) {
	fleet, hub, spoke := newFleet(t, "", "")
	cfg := &rest.Config{Host: "https://prod"}
	lines, err := fleet.Register(t.Context(), prod(nil), cfg)
	if err != nil || !slices.Equal(lines, []string{"registered as https://homelab-prod-control-plane:6443"}) {
		t.Fatalf("%q, %v", lines, err)
	}
	if got := hub.Names(t, kube.ConfigMaps, "cluster-prod"); len(got) != 0 {
		t.Errorf("hub has variables of prod: %q", got)
	}
	for name, c := range map[string]*kubetest.Cluster{"hub": hub, "prod": spoke} {
		o := c.Get(t, kube.Secrets, "cluster-prod", flux.ClusterKubeconfig)
		if kube.SecretField(o, "value") != "" {
			t.Errorf("%s has credentials of prod", name)
		}
	}
	if got := vars(t, spoke); !maps.Equal(got, map[string]string{"environment": "prod", "aws_region": "eu-west-1", "odd_key": "a b: c"}) {
		t.Errorf("%v", got)
	}
	if got := spoke.Names(t, kube.Namespaces, ""); !slices.Equal(got, []string{"cluster-prod", "lab-system"}) {
		t.Errorf("namespaces %q", got)
	}
	if again, err := fleet.Register(t.Context(), prod(nil), cfg); err != nil || len(again) != 0 {
		t.Errorf("second call: %q, %v", again, err)
	}
	moved := prod(func(_, a map[string]lab.Value) { a["aws_region"] = lab.Value{Value: "eu-north-1"} })
	if lines, err := fleet.Register(t.Context(), moved, cfg); err != nil || !slices.Equal(lines, []string{"annotation aws_region: eu-west-1 -> eu-north-1"}) {
		t.Errorf("%q, %v", lines, err)
	}
	if why, err := fleet.CheckCredentials(t.Context(), "prod", cfg); why != "" || err != nil {
		t.Errorf("%q, %v", why, err)
	}
	if why, err := fleet.CheckCredentials(t.Context(), "unknown", cfg); why != "" || err != nil {
		t.Errorf("%q, %v", why, err)
	}
	if err := spoke.Resource(kube.ConfigMaps).Namespace("cluster-prod").Delete(t.Context(), flux.ClusterVars, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if why, err := fleet.CheckCredentials(t.Context(), "prod", cfg); why != "its variables are missing" || err != nil {
		t.Errorf("%q, %v", why, err)
	}
	if lines, err := fleet.Register(t.Context(), moved, cfg); err != nil || !slices.Equal(lines, []string{"registration repaired"}) {
		t.Errorf("%q, %v", lines, err)
	}

	// A recreated cluster has no registration.
	if err := spoke.Resource(kube.Secrets).Namespace("cluster-prod").Delete(t.Context(), flux.ClusterKubeconfig, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if why, err := fleet.CheckCredentials(t.Context(), "prod", cfg); why != "it is not registered there" || err != nil {
		t.Errorf("%q, %v", why, err)
	}
	if lines, err := fleet.Register(t.Context(), moved, cfg); err != nil || !slices.Equal(lines, []string{"registered again"}) {
		t.Errorf("%q, %v", lines, err)
	}
}

// A mark is set in the cluster, for its Flux, and on the hub, which is read if the cluster does not answer.
func TestFleetMark(t *testing.T) {
	fleet, _, spoke := newFleet(t, "", "")
	cfg := &rest.Config{Host: "https://prod"}
	for _, r := range []struct {
		reg lab.Registration
		cfg *rest.Config
	}{{lab.Registration{Cluster: "hub", Server: InCluster}, nil}, {prod(nil), cfg}} {
		if _, err := fleet.Register(t.Context(), r.reg, r.cfg); err != nil {
			t.Fatal(err)
		}
	}
	value := "x"
	for _, cluster := range []string{"hub", "prod"} {
		if err := fleet.Mark(t.Context(), cluster, engine.Marks{Annotations: map[string]*string{"aws_region": &value}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := vars(t, spoke)["aws_region"]; got != "x" {
		t.Errorf("variable %q", got)
	}
	for range 2 {
		for _, cluster := range []string{"hub", "prod"} {
			if r, err := fleet.Registration(t.Context(), cluster); err != nil || r.Annotations["aws_region"] != "x" {
				t.Errorf("%s: %+v, %v", cluster, r, err)
			}
		}
		spoke.Refuse("get secrets", errors.New("connection refused"))
	}
	if _, err := fleet.Registration(t.Context(), "unknown"); err == nil {
		t.Error("registration of unknown cluster")
	}
}

// A spoke's own registration counts.
func TestFleetObserve(t *testing.T) {
	hubHas, prodHas := pair()
	fleet, _, _ := newFleet(t, hubHas, strings.ReplaceAll(prodHas, `credentials-since: ""`, `credentials-since: "2026-02-02T00:00:00Z"`))
	s, err := fleet.Observe(t.Context())
	if err != nil || len(s.Registrations) != 2 || s.Registrations[0].Cluster != "hub" || s.Registrations[1].Since.Month() != time.February {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestFleetRoots(t *testing.T) {
	fleet, hub, spoke := newFleet(t, registered("prod", "homelab", longAgo), "")
	root := theRoot()
	of := func(cluster string) []byte {
		return []byte(strings.ReplaceAll(string(root.Manifest), "clusters/hub", "clusters/"+cluster))
	}
	root.Own, root.Manifest = map[string][]byte{"hub": of("hub"), "prod": of("prod")}, nil
	repos := []engine.Repository{{Name: "estate", Type: "git", URL: "http://forge/estate.git", Username: "lab", Password: "hush"}}
	lines, err := fleet.ApplyRepositories(t.Context(), repos)
	if err != nil || !slices.Equal(lines, []string{"repository estate: http://forge/estate.git"}) {
		t.Errorf("%q, %v", lines, err)
	}
	for _, want := range []bool{true, false} {
		if changed, err := fleet.ApplyRoot(t.Context(), root); err != nil || changed != want {
			t.Errorf("%t, %v, want %t", changed, err, want)
		}
	}
	for cluster, c := range map[string]*kubetest.Cluster{"hub": hub, "prod": spoke} {
		if got := at(c.Get(t, kustomizations, flux.Namespace, "flux-system").Object, "spec", "path"); got != "./clusters/"+cluster {
			t.Errorf("%s starts from %v", cluster, got)
		}
		if got := c.Names(t, receivers, flux.Namespace); len(got) != 1 {
			t.Errorf("%s: receivers %q", cluster, got)
		}
	}
	if lines, err := fleet.Drift(t.Context(), root, repos); err != nil || len(lines) != 0 {
		t.Errorf("%q, %v", lines, err)
	}
	for _, c := range []struct {
		in   []*kubetest.Cluster
		want string
	}{{[]*kubetest.Cluster{spoke}, "cluster prod: repository estate is gone"}, {[]*kubetest.Cluster{hub}, "repository estate is gone"}} {
		for _, in := range c.in {
			if err := in.Resource(kube.Secrets).Namespace(flux.Namespace).Delete(t.Context(), "estate", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if lines, err := fleet.Drift(t.Context(), root, repos); err != nil || !slices.Equal(lines, []string{c.want}) {
			t.Errorf("%q, %v", lines, err)
		}
	}

	// An unreachable cluster, or one without Flux, does not delay others.
	spoke.Refuse("list gitrepositories", errors.New("connection refused"))
	if lines, err := fleet.ApplyRepositories(t.Context(), repos); err != nil || !slices.Equal(lines, []string{"repository estate: http://forge/estate.git"}) {
		t.Errorf("%q, %v", lines, err)
	}
	if err := fleet.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	hub.Refuse("patch secrets", errors.New("full"))
	repos[0].Password = "other"
	if _, err := fleet.ApplyRepositories(t.Context(), repos); err == nil || !strings.HasPrefix(err.Error(), "cluster hub: ") {
		t.Errorf("%v", err)
	}
}

// A cluster that stops answering between two requests does not block forever.
func TestFleetDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hubHas, prodHas := pair()
		fleet, _, _ := newFleet(t, hubHas, prodHas)
		_, err := fleet.forEach(t.Context(), answerWithin, func(ctx context.Context, m member) ([]string, error) {
			if m.cluster == "hub" {
				return nil, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		var late *lab.Error
		if !errors.As(err, &late) || late.Exit != lab.ExitTimeout || !strings.Contains(err.Error(), "cluster prod: it stopped answering") {
			t.Errorf("%v", err)
		}
	})
}
