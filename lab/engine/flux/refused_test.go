package flux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

var errRefused = errors.New("refused")

// refusal makes one request of an engine fail.
type refusal struct {
	mu   sync.Mutex
	on   bool
	at   int // the request that fails; negative for none
	seen []string
}

func (r *refusal) take(request string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on {
		return nil
	}
	r.seen = append(r.seen, request)
	if len(r.seen)-1 == r.at {
		return errRefused
	}
	return nil
}

// watch counts the requests to a cluster.
func (r *refusal) watch(name string, c *kubetest.Cluster) {
	react := func(a clienttesting.Action) (bool, runtime.Object, error) {
		err := r.take(name + ": " + a.GetVerb() + " " + a.GetResource().Resource)
		return err != nil, nil, err
	}
	c.PrependReactor("*", "*", react)
	c.Typed.PrependReactor("*", "*", react)
}

// refusedRelease is a release whose requests may fail.
type refusedRelease struct {
	fakeRelease
	r *refusal
}

func (x *refusedRelease) Observe(ctx context.Context, name string) (helm.State, error) {
	if err := x.r.take("observe release"); err != nil {
		return helm.State{}, err
	}
	return x.fakeRelease.Observe(ctx, name)
}

func (x *refusedRelease) Ensure(ctx context.Context, want helm.Release, p lab.Progress) (helm.Result, error) {
	if err := x.r.take("ensure release"); err != nil {
		return helm.Result{}, err
	}
	return x.fakeRelease.Ensure(ctx, want, p)
}

func (x *refusedRelease) Remove(ctx context.Context, name string) error {
	if err := x.r.take("remove release"); err != nil {
		return err
	}
	return x.fakeRelease.Remove(ctx, name)
}

// of makes the requests of an engine fail.
func (r *refusal) of(f *Flux) {
	f.release = &refusedRelease{r: r}
	connect := f.connect
	f.connect = func(cfg *rest.Config) (kube.Clients, error) {
		if err := r.take("connect"); err != nil {
			return kube.Clients{}, err
		}
		return connect(cfg)
	}
}

// refuse calls what prepare returns once for each of its requests, which fails. That is the result except for the ignored requests, in order. A view is read
// in one piece, and again while something is waited for: only its first request fails here, and only once.
func refuse(t *testing.T, ignored []string, prepare func(*testing.T, *refusal) func(context.Context) error) {
	t.Helper()
	once := func(at int) (seen []string, err error) {
		synctest.Test(t, func(t *testing.T) {
			r := &refusal{at: at}
			call := prepare(t, r)
			r.on = true
			err = call(t.Context())
			r.on = false
			seen = r.seen
		})
		return seen, err
	}
	all, err := once(-1)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d requests, %v", len(all), err)
	}
	var got []string
	for i := range all {
		if viewed(all[:i+1]) || polled(all[:i+1]) {
			continue
		}
		seen, err := once(i)
		switch {
		case i >= len(seen):
			t.Fatalf("%q, want %q", seen, all[:i+1])
		case err == nil:
			got = append(got, seen[i])
		case !errors.Is(err, errRefused):
			t.Errorf("%s: %v", seen[i], err)
		}
	}
	if !slices.Equal(got, ignored) {
		t.Errorf("ignored %q, want %q", got, ignored)
	}
}

// viewed reports whether the last request is one of a view's after its first.
func viewed(requests []string) bool {
	order := []string{"list helmreleases", "list kustomizations", "list artifactgenerators", "list helmcharts", "list gitrepositories"}
	for i, of := range order[:len(order)-1] {
		if _, request, _ := strings.Cut(requests[len(requests)-1], ": "); request != of {
			continue
		}
		for _, before := range order[i+1:] {
			requests = requests[:len(requests)-1]
			if len(requests) == 0 || !strings.HasSuffix(requests[len(requests)-1], before) {
				return false
			}
		}
		return true
	}
	return false
}

// polled reports whether the last request begins a view directly after another.
func polled(requests []string) bool {
	at, last := len(requests)-1, requests[len(requests)-1]
	return at > 0 && viewed(requests[:at]) && strings.HasSuffix(requests[at-1], "list helmreleases") && (strings.HasSuffix(last, "list secrets") || strings.HasSuffix(last, "list gitrepositories"))
}

// settings returns a root with everything that a root may have.
func settings() engine.Root {
	root := theRoot()
	root.Clusters = []string{"prod", "new"}
	root.Extra = []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{
		"name": "front", "namespace": flux.Namespace, "labels": map[string]any{lab.LabelName: "homelab", lab.LabelPart: kube.ExtraPart},
	}}}}
	return root
}

const issuedToken = `
apiVersion: v1
kind: Secret
metadata: {name: flux-manager-token, namespace: lab-system, labels: {lab.homelab/name: homelab}}
data: {token: c2VjcmV0, ca.crt: UEVN}
`

const left = `
apiVersion: v1
kind: Namespace
metadata: {name: cluster-left, labels: {lab.homelab/name: homelab, lab.homelab/part: registration}}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: former, namespace: flux-system, uid: former, labels: {lab.homelab/name: homelab, lab.homelab/part: repository}}
spec: {url: 'http://x'}
---`

const mirrorObjects = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: lab-homelab-mirrors, labels: {lab.homelab/name: homelab}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: lab-homelab-mirrors, labels: {lab.homelab/name: homelab}}
---`

const labSystem = `
apiVersion: v1
kind: Namespace
metadata: {name: lab-system, creationTimestamp: "2026-01-02T00:00:00Z", labels: {lab.homelab/name: homelab}}
---
apiVersion: v1
kind: Namespace
metadata: {name: podinfo, creationTimestamp: "2026-01-03T00:00:00Z", annotations: {by: engine}, managedFields: [{manager: helm-controller}]}
---
`

const discovery = "spoke: get resource" // a group that does not answer has no objects

var repositories = []engine.Repository{
	{Name: "estate", Type: "git", URL: "http://forge/estate.git", Username: "lab", Password: "hush"},
	{Name: "charts", Type: "helm", URL: "http://forge/charts", Username: "lab", Password: "hush"},
}

// Each operation returns the error of any of its requests.
func TestRefused(t *testing.T) {
	quiet := func(string) {}
	value := "x"
	readingGit := []string{"hub: list secrets", "hub: list gitrepositories"} // Git is read if possible
	for name, tc := range map[string]struct {
		hub     string
		prepare func(t *testing.T, f *Flux, hub, spoke *kubetest.Cluster)
		call    func(ctx context.Context, f *Flux) error
		ignored []string
	}{
		"applications": {hub: generating(), call: func(ctx context.Context, f *Flux) error { _, err := f.Applications(ctx); return err }},
		"standing":     {hub: generating(), call: func(ctx context.Context, f *Flux) error { _, err := f.Snapshot(ctx); return err }},
		"observe": {hub: registered("prod", "homelab", longAgo) + ownNamespaces, call: func(ctx context.Context, f *Flux) error {
			f.release.(*refusedRelease).state = helm.State{Revision: 1, Workloads: []string{"Deployment/source-controller"}}
			_, err := f.Observe(ctx)
			return err
		}},
		"refresh": {hub: standing() + left, call: func(ctx context.Context, f *Flux) error { return f.Refresh(ctx) }},
		"register": {call: func(ctx context.Context, f *Flux) error {
			_, err := f.Register(ctx, withSecrets("live/cluster-kubeconfig=value"), &rest.Config{})
			return err
		}, prepare: func(t *testing.T, _ *Flux, _, spoke *kubetest.Cluster) { spoke.Create(t, "", issuedToken) }},
		"register again": {call: func(ctx context.Context, f *Flux) error {
			reg := withSecrets("other/cluster-kubeconfig=value")
			reg.Annotations["aws_region"] = lab.Value{Value: "eu-north-1"}
			_, err := f.Register(ctx, reg, &rest.Config{})
			return err
		}, prepare: func(t *testing.T, f *Flux, _, spoke *kubetest.Cluster) {
			spoke.Create(t, "", issuedToken)
			if _, err := f.Register(t.Context(), withSecrets("live/cluster-kubeconfig=value"), &rest.Config{}); err != nil {
				t.Fatal(err)
			}
			issue(t, spoke, "another")
		}},
		"admits": {ignored: []string{"connect"}, call: func(ctx context.Context, f *Flux) error { // then the credentials are to blame

			_, err := f.CheckCredentials(ctx, "prod", &rest.Config{})
			return err
		}, prepare: func(t *testing.T, f *Flux, _, spoke *kubetest.Cluster) {
			spoke.Create(t, "", issuedToken)
			if _, err := f.Register(t.Context(), prod(nil), &rest.Config{}); err != nil {
				t.Fatal(err)
			}
			spoke.Typed.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
			})
		}},
		"registration": {hub: registered("prod", "homelab", longAgo), call: func(ctx context.Context, f *Flux) error { _, err := f.Registration(ctx, "prod"); return err }},
		"mark": {call: func(ctx context.Context, f *Flux) error {
			return f.Mark(ctx, "hub", engine.Marks{Annotations: map[string]*string{"aws_region": &value}})
		}, prepare: func(t *testing.T, f *Flux, _, _ *kubetest.Cluster) {
			if _, err := f.Register(t.Context(), lab.Registration{Cluster: "hub", Server: InCluster}, nil); err != nil {
				t.Fatal(err)
			}
		}},
		"apply repositories": {hub: left, call: func(ctx context.Context, f *Flux) error {
			_, err := f.ApplyRepositories(ctx, repositories)
			return err
		}},
		"apply root": {hub: left + layer("flux-system", "", newCommit) + layer("old", "", newCommit), prepare: func(_ *testing.T, _ *Flux, hub, _ *kubetest.Cluster) { serving(hub) }, call: func(ctx context.Context, f *Flux) error {
			_, err := f.ApplyRoot(ctx, settings())
			return err
		}},
		"apply root without mirrors": {hub: mirrorObjects, prepare: func(_ *testing.T, _ *Flux, hub, _ *kubetest.Cluster) { serving(hub) }, call: func(ctx context.Context, f *Flux) error {
			_, err := f.ApplyRoot(ctx, engine.Root{Manifest: []byte(strings.TrimPrefix(source(newCommit), "\n"))})
			return err
		}},
		"drift": {prepare: func(_ *testing.T, _ *Flux, hub, _ *kubetest.Cluster) { serving(hub) }, call: func(ctx context.Context, f *Flux) error {
			_, err := f.Drift(ctx, settings(), repositories)
			return err
		}},
		"unregister": {hub: stopped() + "\n" + adopted, prepare: func(t *testing.T, _ *Flux, _, spoke *kubetest.Cluster) {
			spoke.Create(t, "", labSystem)
			fillResources(spoke)
		}, call: func(ctx context.Context, f *Flux) error {
			_, err := f.Unregister(ctx, engine.Departure{Cluster: "prod", Spoke: &rest.Config{}, LivesOn: true}, quiet)
			return err
		}, ignored: append(slices.Clone(readingGit), discovery)},
		"unregister, stuck": {hub: stopped(), prepare: func(t *testing.T, _ *Flux, hub, _ *kubetest.Cluster) { kept(t, hub) }, call: func(ctx context.Context, f *Flux) error {
			_, err := f.Unregister(ctx, engine.Departure{Cluster: "prod"}, quiet)
			return err
		}, ignored: readingGit},
		"withdraw": {hub: standing() + layer("below", "flux-system", newCommit) + registered("prod", "homelab", longAgo), prepare: func(t *testing.T, _ *Flux, _, spoke *kubetest.Cluster) {
			spoke.Create(t, "", labSystem)
			fillResources(spoke)
		}, call: func(ctx context.Context, f *Flux) error {
			_, err := f.Withdraw(ctx, map[string]*rest.Config{"prod": {}}, quiet)
			return err
		}, ignored: []string{discovery}},
		"retire": {hub: registered("prod", "homelab", longAgo) + app("prod", "podinfo", newCommit) + releaseOf("prod", "podinfo") + ownNamespaces + "\n---" + mirrorObjects, prepare: func(_ *testing.T, _ *Flux, hub, _ *kubetest.Cluster) { serving(hub) }, call: func(ctx context.Context, f *Flux) error {
			return f.Retire(ctx, nil, quiet)
		}},
		"install": {hub: ownNamespaces, ignored: []string{"hub: list deployments", "hub: list statefulsets"}, call: func(ctx context.Context, f *Flux) error {
			_, err := f.Install(ctx, lab.Chart{Name: "flux2"}, nil, quiet)
			return err
		}},
		"install as a guest": {ignored: []string{"hub: list deployments", "hub: list statefulsets"}, call: func(ctx context.Context, f *Flux) error {
			f.release.(*refusedRelease).state = helm.State{Revision: 2, Lab: "homelab", Inputs: "x"}
			_, err := guest{f}.Install(ctx, lab.Chart{Name: "flux2"}, nil, quiet)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, tc.ignored, func(t *testing.T, r *refusal) func(context.Context) error {
				f, hub, spoke := newFake(t, tc.hub)
				if tc.prepare != nil {
					tc.prepare(t, f, hub, spoke)
				}
				r.watch("hub", hub)
				r.watch("spoke", spoke)
				r.of(f)
				return func(ctx context.Context) error { return tc.call(ctx, f) }
			})
		})
	}
}

// adopted is a release without a Kustomization, which is removed by itself.
const adopted = `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: alone, namespace: cluster-prod, uid: alone}
spec: {interval: 10m, suspend: true}
---`

// Each operation of a fleet returns the error of any of its requests, or takes the cluster for one that does not answer.
func TestFleetRefused(t *testing.T) {
	quiet := func(string) {}
	cfg := &rest.Config{Host: "https://prod"}
	little, _, _ := strings.Cut(inhabited(), "\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository")
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, fleet *Fleet, hub, spoke *kubetest.Cluster)
		call    func(ctx context.Context, fleet *Fleet) error
		ignored []string
	}{
		"register": {call: func(ctx context.Context, fleet *Fleet) error {
			_, err := fleet.Register(ctx, prod(nil), cfg)
			return err
		}},
		"admits": {call: func(ctx context.Context, fleet *Fleet) error {
			_, err := fleet.CheckCredentials(ctx, "prod", cfg)
			return err
		}},
		"unregister": {call: func(ctx context.Context, fleet *Fleet) error {
			_, err := fleet.Unregister(ctx, engine.Departure{Cluster: "prod", Spoke: cfg, LivesOn: true}, quiet)
			return err
		}, ignored: []string{discovery}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, tc.ignored, func(t *testing.T, r *refusal) func(context.Context) error {
				fleet, hub, spoke := newFleet(t, registered("prod", "homelab", longAgo), little+crd("gitrepositories", "source.toolkit.fluxcd.io", "flux")+labSystem)
				fillResources(spoke)
				if tc.prepare != nil {
					tc.prepare(t, fleet, hub, spoke)
				}
				r.watch("hub", hub)
				r.watch("spoke", spoke)
				r.of(fleet.hub)
				join := fleet.join
				fleet.join = func(cluster string, cfg *rest.Config) (*Flux, error) {
					if err := r.take("join"); err != nil {
						return nil, err
					}
					f, err := join(cluster, cfg)
					if err == nil {
						r.of(f)
					}
					return f, err
				}
				return func(ctx context.Context) error { return tc.call(ctx, fleet) }
			})
		})
	}
}

func TestFleetWithdrawErrors(t *testing.T) {
	for _, request := range []string{"", "list gitrepositories", "delete customresourcedefinitions"} {
		synctest.Test(t, func(t *testing.T) {
			fleet, _, spoke := newFleet(t, first(pair()), inhabited())
			if request == "" {
				fleet.join = func(string, *rest.Config) (*Flux, error) { return nil, errRefused }
			}
			spoke.Refuse(request, errRefused)
			_, err := fleet.Withdraw(t.Context(), map[string]*rest.Config{"prod": {}}, func(string) {})
			if !errors.Is(err, errRefused) || !strings.HasPrefix(err.Error(), "cluster prod: ") {
				t.Errorf("%s: %v", request, err)
			}
		})
	}
}

// An object that another client deletes at the same time is ignored.
func TestGoneMeanwhile(t *testing.T) {
	gone := apierrors.NewNotFound(kustomizations.GroupResource(), "x")
	for name, tc := range map[string]struct {
		hub      string
		requests []string
		call     func(ctx context.Context, f *Flux) error
	}{
		"refresh": {standing(), []string{"patch gitrepositories"}, func(ctx context.Context, f *Flux) error { return f.Refresh(ctx) }},
		"unregister": {stopped() + "\n" + adopted, []string{"patch kustomizations", "patch helmreleases"}, func(ctx context.Context, f *Flux) error {
			_, err := f.Unregister(ctx, engine.Departure{Cluster: "prod"}, func(string) {})
			return err
		}},
		"apply repositories": {left, []string{"delete helmrepositories"}, func(ctx context.Context, f *Flux) error {
			_, err := f.ApplyRepositories(ctx, nil)
			return err
		}},
		"apply root": {layer("old", "", newCommit), []string{"patch kustomizations", "delete kustomizations"}, func(ctx context.Context, f *Flux) error {
			root := engine.Root{Manifest: []byte(strings.TrimPrefix(source(newCommit), "\n"))}
			_, err := f.ApplyRoot(ctx, root)
			return err
		}},
	} {
		for _, request := range tc.requests {
			t.Run(fmt.Sprintf("%s, %s", name, request), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, hub, _ := newFake(t, tc.hub)
					hub.Refuse(request, gone)
					if err := tc.call(t.Context(), f); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
