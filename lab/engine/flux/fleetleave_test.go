package flux

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
)

// crd returns the definition of a kind, installed by a release.
func crd(plural, group, release string) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + plural + "." + group + `, creationTimestamp: "2026-01-03T00:00:00Z", annotations: {meta.helm.sh/release-name: ` + release + `, meta.helm.sh/release-namespace: flux-system}}
spec: {versions: [{name: v0, served: false}, {name: v1, served: true}]}
---`
}

// inhabited returns a spoke with lab's Flux, which also has another user's objects.
func inhabited() string {
	labels := ", labels: {lab.homelab/name: homelab, lab.homelab/part: root}}"
	return strings.NewReplacer("uid: source}", "uid: source"+labels, "metadata: {name: cluster-prod}", "metadata: {name: cluster-prod"+labels).Replace(second(pair())) + `
apiVersion: v1
kind: Namespace
metadata: {name: flux-system, labels: {lab.homelab/name: homelab}}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: from-git, namespace: flux-system, labels: {kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system}}
spec: {url: 'http://x'}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: hers, namespace: default}
spec: {url: 'http://x'}
---` + crd("gitrepositories", "source.toolkit.fluxcd.io", "flux") + crd("helmrepositories", "source.toolkit.fluxcd.io", "flux") + crd("kustomizations", "kustomize.toolkit.fluxcd.io", "flux") +
		crd("buckets", "source.toolkit.fluxcd.io", "other") + crd("widgets", "example.com", "flux") + spokeObjects
}

func TestFleetUnregister(t *testing.T) {
	const kept = "cluster prod: customresourcedefinition helmrepositories.source.toolkit.fluxcd.io stays, with default/hers"
	withdraw := func(ctx context.Context, fleet *Fleet) ([]string, error) {
		return fleet.Withdraw(ctx, map[string]*rest.Config{"prod": {}}, func(string) {})
	}
	unregister := func(d engine.Departure) func(context.Context, *Fleet) ([]string, error) {
		return func(ctx context.Context, fleet *Fleet) ([]string, error) {
			return fleet.Unregister(ctx, d, func(string) {})
		}
	}
	for name, c := range map[string]struct {
		leave             func(context.Context, *Fleet) ([]string, error)
		lines             []string
		uninstalled, apps bool
		again             int // lines
	}{
		"withdrawn":          {withdraw, []string{kept}, true, false, 1},
		"left, and lives on": {unregister(engine.Departure{Cluster: "prod", Spoke: &rest.Config{}, LivesOn: true}), []string{kept, "cluster prod is no longer registered"}, true, false, 0},
		"left, and dies":     {unregister(engine.Departure{Cluster: "prod", Spoke: &rest.Config{}}), []string{"cluster prod is no longer registered"}, false, false, 0},
		"gone":               {unregister(engine.Departure{Cluster: "prod"}), []string{"cluster prod is no longer registered"}, false, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet, hub, spoke := newFleet(t, first(pair()), inhabited())
				fillResources(spoke)
				f, err := fleet.on("prod")
				if err != nil {
					t.Fatal(err)
				}
				release := &fakeRelease{state: helm.State{Revision: 1, Lab: "homelab"}}
				f.release = release
				fleet.links["prod"] = link{"", f}
				fleet.join = func(string, *rest.Config) (*Flux, error) { return f, nil }
				lines, err := c.leave(t.Context(), fleet)
				if err != nil || !slices.Equal(lines, c.lines) {
					t.Errorf("%q, %v", lines, err)
				}
				if release.removed != c.uninstalled {
					t.Errorf("uninstalled %t", release.removed)
				}
				if apps := spoke.Names(t, kustomizations, "cluster-prod"); len(apps) > 0 != c.apps {
					t.Errorf("applications %q", apps)
				}
				if c.uninstalled {
					for what, got := range map[string][]string{
						"before used": spoke.Names(t, kube.Namespaces, ""),
						"buckets.source.toolkit.fluxcd.io helmrepositories.source.toolkit.fluxcd.io widgets.example.com": spoke.Names(t, kube.CRDs, ""),
						"hers": spoke.Names(t, helmRepositories, ""),
						"":     slices.Concat(spoke.Names(t, gitRepositories, ""), spoke.Names(t, kustomizations, "")),
					} {
						if strings.Join(got, " ") != what {
							t.Errorf("%q, want %q", got, what)
						}
					}
				}
				if got, want := len(hub.Names(t, kube.Secrets, "cluster-prod")) == 1, name == "withdrawn"; got != want {
					t.Errorf("registered on the hub: %t", got)
				}
				if got := hub.Names(t, kustomizations, ""); len(got) != 2 {
					t.Errorf("of the hub: %q", got)
				}
				if again, err := c.leave(t.Context(), fleet); err != nil || len(again) != c.again {
					t.Errorf("second call: %q, %v", again, err)
				}
			})
		})
	}
}

func TestFleetKeepsForeignObjects(t *testing.T) {
	fleet, _, _ := newFleet(t, registered("prod", "other", longAgo), "")
	_, err := fleet.Unregister(t.Context(), engine.Departure{Cluster: "prod"}, func(string) {})
	var failed *lab.Error
	if !errors.As(err, &failed) || failed.Code != "not_ours" {
		t.Errorf("%v", err)
	}
}

// Lab does not install a second Flux.
func TestGuest(t *testing.T) {
	for name, c := range map[string]struct {
		has     string
		release helm.State
		ours    bool
	}{
		"bare":               {"", helm.State{}, true},
		"lab's kinds, kept":  {crd("gitrepositories", "source.toolkit.fluxcd.io", "flux"), helm.State{}, true},
		"lab's release":      {crd("gitrepositories", "source.toolkit.fluxcd.io", "flux"), helm.State{Revision: 2, Lab: "homelab", Inputs: "x"}, true},
		"other kinds":        {crd("widgets", "example.com", "widgets"), helm.State{}, true},
		"a bootstrapped one": {crd("gitrepositories", "source.toolkit.fluxcd.io", "other"), helm.State{}, false},
		"foreign release":    {crd("gitrepositories", "source.toolkit.fluxcd.io", "flux"), helm.State{Revision: 1}, false},
	} {
		f, _, _ := newFake(t)
		f.home, f.hub = "prod", kubetest.New(t, kinds(), c.has).Clients()
		release := &fakeRelease{state: c.release}
		f.release = release
		_, err := guest{f}.Install(canceled(t), lab.Chart{Name: "flux2"}, nil, func(string) {})
		var failed *lab.Error
		refused := errors.As(err, &failed) && failed.Code == "not_ours"
		if refused == c.ours || (release.last.Name != "") != c.ours {
			t.Errorf("%s: %v", name, err)
		}
	}
}
