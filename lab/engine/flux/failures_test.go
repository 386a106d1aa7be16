package flux

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

// obliging answers all requests every second until ctx ends.
func obliging(ctx context.Context, t *testing.T, c *kubetest.Cluster) {
	for lab.Sleep(ctx, time.Second) == nil {
		for _, r := range []schema.GroupVersionResource{gitRepositories, kustomizations, helmReleases} {
			list, err := c.Resource(r).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for _, o := range list.Items {
				if o.GetAnnotations()[requestedKey] != "" {
					answer(t, c, r, o.GetNamespace(), o.GetName())
				}
			}
		}
	}
}

// The namespaces of a lab that has converged are noted, for their removal.
func TestWaitConvergedNotesNamespaces(t *testing.T) {
	for _, refusal := range []error{nil, errRefused} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			f, hub, _ := newFake(t, standing()+"\n"+registered("prod", "homelab", longAgo))
			hub.Refuse("patch namespaces", refusal)
			go obliging(ctx, t, hub)
			_, err := f.WaitConverged(ctx, engine.Want{Revision: newCommit, Changed: true}, func(string) {})
			if !errors.Is(err, refusal) {
				t.Errorf("%v, want %v", err, refusal)
			}
			if got := kube.NotedNamespaces(hub.Get(t, kube.Namespaces, "", "cluster-prod")); slices.Equal(got, []string{"podinfo"}) != (refusal == nil) {
				t.Errorf("noted %q", got)
			}
		})
	}
}

// An error of the last look is the cause, unless that was only interrupted.
func TestNotConvergedCause(t *testing.T) {
	for name, tc := range map[string]struct {
		see   func(context.Context, engine.Want) (snapshots, error)
		cause error
	}{
		"interrupted": {func(ctx context.Context, _ engine.Want) (snapshots, error) { <-ctx.Done(); return nil, ctx.Err() }, nil},
		"refused":     {func(context.Context, engine.Want) (snapshots, error) { return nil, errRefused }, errRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := converge(ctx, tc.see, engine.Want{}, func(string) {})
				var failed *lab.Error
				if !errors.As(err, &failed) || failed.Code != "not_converged" || !errors.Is(failed.Err, tc.cause) {
					t.Errorf("%v, caused by %v", err, failed.Err)
				}
			})
		})
	}
}

func TestHeadline(t *testing.T) {
	of := func(p engine.Pending) reconciliation.Pending { return reconciliation.Pending{Pending: p} }
	gone := kustomizev1.Kustomization{ObjectMeta: metav1.ObjectMeta{Name: "gone", Namespace: "cluster-prod", DeletionTimestamp: &metav1.Time{}}}
	s := snapshots{{flux: &Flux{}, View: reconciliation.View{Apps: map[string]kustomizev1.Kustomization{"prod-gone": gone, "prod-a": {}, "prod-b": {}}}}}
	sick, lagging := of(engine.Pending{Application: "prod-a", Health: reconciliation.Degraded}), of(engine.Pending{Application: "prod-b", Health: reconciliation.Healthy})
	for want, left := range map[string][]reconciliation.Pending{
		"flux has not converged after 5s":                        nil,
		"1 of 3 applications is not healthy after 5s":            {sick},
		"1 of 3 applications is not in sync after 5s":            {lagging},
		"2 of 3 applications are not in sync after 5s":           {sick, lagging},
		"1 of 3 applications is not removed after 5s":            {of(engine.Pending{Application: "prod-gone", Health: "Progressing"})},
		"kustomization apps is not in sync after 5s":             {sick, {Pending: engine.Pending{Application: "apps"}, Layer: true}},
		"cluster prod does not answer after 5s":                  {sick, {Pending: engine.Pending{Application: "cluster prod"}, Layer: true, Silent: true}},
		"the root kustomization of prod does not exist after 5s": {{Pending: engine.Pending{Application: reconciliation.NoRoot + " of prod"}, Layer: true}},
	} {
		if got := headline(s, engine.Want{}, left, 5*time.Second); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got, want := headline(s, engine.Want{Gone: []string{"prod-a"}}, []reconciliation.Pending{sick}, time.Minute), "1 of 3 applications is not removed after 1m 0s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A cancelled call of a fleet says so, although a cluster that does not answer is tolerated.
func TestFleetCancelled(t *testing.T) {
	hubHas, prodHas := pair()
	for name, call := range map[string]func(context.Context, *Fleet) error{
		"observe":      func(ctx context.Context, fleet *Fleet) error { _, err := fleet.Observe(ctx); return err },
		"registration": func(ctx context.Context, fleet *Fleet) error { _, err := fleet.Registration(ctx, "prod"); return err },
		"standing":     func(ctx context.Context, fleet *Fleet) error { _, err := fleet.Snapshot(ctx); return err },
		"applications": func(ctx context.Context, fleet *Fleet) error { _, err := fleet.Applications(ctx); return err },
		"refresh":      func(ctx context.Context, fleet *Fleet) error { return fleet.Refresh(ctx) },
		"repositories": func(ctx context.Context, fleet *Fleet) error { _, err := fleet.ApplyRepositories(ctx, nil); return err },
	} {
		fleet, _, spoke := newFleet(t, hubHas, prodHas)
		spoke.Refuse("get secrets", errRefused)
		if err := call(canceled(t), fleet); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if err := call(t.Context(), fleet); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A request that fails after the cluster has answered is an error.
func TestFleetErrors(t *testing.T) {
	root := theRoot()
	root.Own, root.Manifest = map[string][]byte{"hub": []byte(rootManifest), "prod": []byte(rootManifest)}, nil
	value := "x"
	for name, tc := range map[string]struct {
		hub, spoke string // refused requests
		call       func(context.Context, *Fleet) error
	}{
		"root, at first": {"", "get gitrepositories", func(ctx context.Context, fleet *Fleet) error { _, err := fleet.ApplyRoot(ctx, root); return err }},
		"root, at last":  {"", "patch receivers", func(ctx context.Context, fleet *Fleet) error { _, err := fleet.ApplyRoot(ctx, root); return err }},
		"drift":          {"", "get gitrepositories", func(ctx context.Context, fleet *Fleet) error { _, err := fleet.Drift(ctx, root, nil); return err }},
		"repositories": {"", "get secrets", func(ctx context.Context, fleet *Fleet) error {
			_, err := fleet.ApplyRepositories(ctx, repositories)
			return err
		}},
		"refresh": {"", "patch gitrepositories", func(ctx context.Context, fleet *Fleet) error { return fleet.Refresh(ctx) }},
		"members": {"list secrets", "", func(ctx context.Context, fleet *Fleet) error { return fleet.Refresh(ctx) }},
		"repositories, hub": {"list configmaps", "", func(ctx context.Context, fleet *Fleet) error {
			_, err := fleet.ApplyRepositories(ctx, repositories)
			return err
		}},
		"standing":     {"list kustomizations", "", func(ctx context.Context, fleet *Fleet) error { _, err := fleet.Snapshot(ctx); return err }},
		"applications": {"list helmreleases", "", func(ctx context.Context, fleet *Fleet) error { _, err := fleet.Applications(ctx); return err }},
		"observe":      {"list secrets", "", func(ctx context.Context, fleet *Fleet) error { _, err := fleet.Observe(ctx); return err }},
		"registration": {"get secrets", "", func(ctx context.Context, fleet *Fleet) error { _, err := fleet.Registration(ctx, "prod"); return err }},
		"mark": {"", "get secrets", func(ctx context.Context, fleet *Fleet) error {
			return fleet.Mark(ctx, "prod", engine.Marks{Labels: map[string]*string{"a": &value}})
		}},
	} {
		fleet, hub, spoke := newFleet(t, first(pair()), second(pair()))
		hub.Refuse(tc.hub, errRefused)
		spoke.Refuse(tc.spoke, errRefused)
		if err := tc.call(t.Context(), fleet); !errors.Is(err, errRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fleet, _, _ := newFleet(t, first(pair()), second(pair()))
	fleet.reach = func(string) (*rest.Config, error) { return nil, errRefused }
	if err := fleet.Mark(t.Context(), "prod", engine.Marks{}); !errors.Is(err, errRefused) || !strings.HasPrefix(err.Error(), "cluster prod: ") {
		t.Errorf("%v", err)
	}
	if r, err := fleet.Registration(t.Context(), "prod"); err != nil || r.Cluster != "prod" {
		t.Errorf("%+v, %v", r, err)
	}
	fleet.reach = nil
	if _, err := fleet.on("prod"); err == nil || err.Error() != "it is not reachable" {
		t.Errorf("%v", err)
	}
	if st, err := fleet.Snapshot(t.Context()); err != nil || !slices.Equal(st.Silent, []string{"prod"}) {
		t.Errorf("%+v, %v", st, err)
	}
}

// A connection is kept until the cluster's address or credentials change.
func TestFleetLinks(t *testing.T) {
	fleet, _, _ := newFleet(t, "", "")
	joined := 0
	join := fleet.join
	fleet.join = func(cluster string, cfg *rest.Config) (*Flux, error) {
		joined++
		return join(cluster, cfg)
	}
	for _, c := range []struct {
		cfg  rest.Config
		want int
	}{
		{rest.Config{Host: "https://a"}, 1}, {rest.Config{Host: "https://a"}, 1}, {rest.Config{Host: "https://b"}, 2}, {rest.Config{Host: "https://b", BearerToken: "x"}, 3}, {rest.Config{Host: "https://b", BearerToken: "x"}, 3},
	} {
		if _, err := fleet.at("prod", &c.cfg); err != nil || joined != c.want {
			t.Errorf("%s: %d connections, want %d, %v", c.cfg.Host, joined, c.want, err)
		}
	}
}

// Git is read if possible: an error counts if it persists, other than lab's own deadline.
func TestReadGitErrors(t *testing.T) {
	for _, tc := range []struct{ refused, want error }{{errRefused, errRefused}, {context.DeadlineExceeded, nil}} {
		synctest.Test(t, func(t *testing.T) {
			f, hub, _ := newFake(t, standing())
			hub.Refuse("list gitrepositories", tc.refused)
			began := time.Now()
			if err := f.readGit(t.Context(), func(string) {}); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			if took := time.Since(began); took != readWithin {
				t.Errorf("after %s", took)
			}
		})
	}
}

// Only the objects of the cluster lose their finalizers.
func TestAbandon(t *testing.T) {
	own := ", labels: {kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system}"
	k := func(name, more, spec string) string {
		return "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: " + name + ", namespace: flux-system" + own + more + "}\nspec: {interval: 1m, prune: true, path: x, sourceRef: {kind: GitRepository, name: x}" + spec + "}\n---\n"
	}
	r := func(name, more, spec string) string {
		return "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: " + name + ", namespace: flux-system" + more + "}\nspec: {interval: 1m" + spec + "}\n---\n"
	}
	const going, prod = ", finalizers: [a], deletionTimestamp: '2026-01-01T00:00:00Z'", ", kubeConfig: {secretRef: {name: live}}"
	f, hub, _ := newFake(t, strings.Replace(registered("prod", "homelab", longAgo), `credentials-since: "`, `kubeconfig-secrets: "flux-system/live=value", lab.homelab/credentials-since: "`, 1)+"\n"+registered("hub", "homelab", longAgo)+"\n"+
		k("going", going, prod)+k("staying", ", finalizers: [a]", prod)+k("of-hub", going, "")+r("going", going, prod)+r("staying", ", finalizers: [a]", prod)+r("of-hub", going, ""))
	f.cluster = "hub"
	lines, err := f.abandon(t.Context(), "prod", []lab.Application{{Name: "prod-going"}, {Name: "prod-more"}})
	if want := []string{"application prod-going is abandoned, its objects stay", "application prod-more is abandoned, its objects stay"}; err != nil || !slices.Equal(lines, want) {
		t.Errorf("%q, %v", lines, err)
	}
	for _, kind := range []schema.GroupVersionResource{kustomizations, helmReleases} {
		for name, want := range map[string]int{"going": 0, "staying": 1, "of-hub": 1} {
			if got := len(hub.Get(t, kind, "flux-system", name).GetFinalizers()); got != want {
				t.Errorf("%s %s has %d finalizers", kind.Resource, name, got)
			}
		}
	}
	hub.ClearActions()
	if lines, err := f.abandon(t.Context(), "prod", nil); lines != nil || err != nil || len(hub.Actions()) > 0 {
		t.Errorf("nothing left: %q, %v", lines, err)
	}
}

// Flux leaves the root's objects alone, which a repository with bootstrap's layout contains, too.
func TestApplyRootKept(t *testing.T) {
	f, hub, _ := newFake(t)
	root := theRoot()
	root.Manifest = []byte(strings.Replace(rootManifest, `labels: {mine: "yes"}`, `annotations: {mine: "yes"}`, 1))
	if _, err := f.ApplyRoot(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	for _, o := range []interface{ GetAnnotations() map[string]string }{hub.Get(t, gitRepositories, flux.Namespace, "other"), hub.Get(t, kustomizations, flux.Namespace, "flux-system")} {
		if got := o.GetAnnotations()["kustomize.toolkit.fluxcd.io/reconcile"]; got != "disabled" {
			t.Errorf("reconcile: %q", got)
		}
	}
	if got := hub.Get(t, gitRepositories, flux.Namespace, "flux-system").GetAnnotations(); got["mine"] != "yes" || len(got) != 2 {
		t.Errorf("%q", got)
	}
}
