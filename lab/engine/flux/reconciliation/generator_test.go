package reconciliation

import (
	"slices"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab/engine"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

func remove(t *testing.T, c *kubetest.Cluster, r schema.GroupVersionResource, name string) {
	t.Helper()
	if err := c.Clients().Dynamic.Resource(r).Namespace(flux.Namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestJudgeGenerated(t *testing.T) {
	generator := func(c *kubetest.Cluster, t *testing.T, patch map[string]any) {
		c.Patch(t, artifactGenerators, flux.Namespace, "parts", patch)
	}
	status := func(fields map[string]any) map[string]any { return map[string]any{"status": fields} }
	for name, tc := range map[string]struct {
		change  func(*testing.T, *kubetest.Cluster)
		pending []string
	}{
		"converged": {},
		"repository lags": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				c.Patch(t, GitRepositories, flux.Namespace, "flux-system", status(map[string]any{"artifact": map[string]any{"revision": "main@sha1:" + oldCommit}}))
			},
			pending: []string{"flux-system OutOfSync: is not at the fetched commit", "prod-web OutOfSync lags: repository flux-system is at aaaaaaa, wanted bbbbbbb"},
		},
		"not generated": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				generator(c, t, status(map[string]any{"observedSourcesDigest": "sha256:old"}))
			},
			pending: []string{"prod-web OutOfSync lags: artifact generator parts has not processed the fetched sources yet"},
		},
		"other source changed": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				c.Patch(t, buckets, flux.Namespace, "store", status(map[string]any{"artifact": map[string]any{"revision": "2"}}))
			},
			pending: []string{"prod-web OutOfSync lags: artifact generator parts has not processed the fetched sources yet"},
		},
		"other source missing": {
			change:  func(t *testing.T, c *kubetest.Cluster) { remove(t, c, buckets, "store") },
			pending: []string{"prod-web OutOfSync lags: Bucket store is not fetched yet"},
		},
		"generator fails": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				generator(c, t, conditions("Ready False BuildFailed: no files match"))
			},
			pending: []string{"prod-web OutOfSync lags: artifact generator parts: no files match"},
		},
		"no artifact": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				generator(c, t, conditions("Ready False BuildFailed: no files match"))
				remove(t, c, externalArtifacts, "web")
			},
			pending: []string{"prod-web OutOfSync lags: artifact web does not exist yet: no files match"},
		},
		"older artifact": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				c.Patch(t, Kustomizations, "cluster-prod", "web", status(map[string]any{"lastAppliedRevision": oldArtifact}))
			},
			pending: []string{"prod-web OutOfSync lags: is not at the latest artifact"},
		},
		"foreign": {
			change: func(t *testing.T, c *kubetest.Cluster) {
				generator(c, t, status(map[string]any{"observedSourcesDigest": "sha256:old"}))
				c.Patch(t, externalArtifacts, flux.Namespace, "web", map[string]any{"spec": map[string]any{"sourceRef": map[string]any{"kind": "Other"}}})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, generating(newCommit))
			if tc.change != nil {
				tc.change(t, hub)
			}
			v, err := read(t, hub)
			if err != nil {
				t.Fatal(err)
			}
			want := engine.Want{Revision: newCommit, Expected: []string{"prod-web"}}
			if got := verdict(v, want); !slices.Equal(got, tc.pending) {
				t.Errorf("got %q\nwant %q", got, tc.pending)
			}
		})
	}
}

// An application of an artifact has the commit of the artifact, and is requested once that exists.
func TestGeneratedApplication(t *testing.T) {
	hub := newHub(t, generating(newCommit))
	v, err := read(t, hub)
	if err != nil {
		t.Fatal(err)
	}
	if a := v.application("prod-web", v.Apps["prod-web"]); a.Revision != newCommit || a.Version != newCommit[:7] || a.Sync != synced || a.Health != Healthy {
		t.Errorf("%+v", a)
	}
	hub.Patch(t, artifactGenerators, flux.Namespace, "parts", conditions("Ready False BuildFailed: no files match"))
	hub.ClearActions()
	a := NewAsker(hub.Clients().Dynamic, engine.Want{Revision: newCommit})
	look := func(requests ...string) {
		t.Helper()
		if v, err = read(t, hub); err == nil {
			err = a.Look(t.Context(), v)
		}
		if got := hub.Writes(); err != nil || !slices.Equal(got, requests) {
			t.Fatalf("requests %q, want %q, %v", got, requests, err)
		}
		hub.ClearActions()
	}
	look("patch gitrepositories flux-system", "patch artifactgenerators parts")
	answer(t, hub, GitRepositories, flux.Namespace, "flux-system")
	hub.ClearActions()
	look("patch kustomizations flux-system")
	answer(t, hub, Kustomizations, flux.Namespace, "flux-system")
	hub.ClearActions()
	look() // no artifact of the fetched sources
	hub.Patch(t, artifactGenerators, flux.Namespace, "parts", conditions("Ready True Succeeded: made"))
	hub.ClearActions()
	look("patch kustomizations web")
}

// Suffixes by source-controller and helm-controller are dropped.
func TestVersionOf(t *testing.T) {
	of := func(kind string) helmv2.HelmRelease {
		r := helmv2.HelmRelease{}
		if kind == sourcev1.ExternalArtifactKind {
			r.Spec.ChartRef = &helmv2.CrossNamespaceSourceReference{Kind: kind}
			return r
		}
		r.Spec.Chart = &helmv2.HelmChartTemplate{Spec: helmv2.HelmChartTemplateSpec{SourceRef: helmv2.CrossNamespaceObjectReference{Kind: kind}}}
		return r
	}
	for kind, want := range map[string]string{sourcev1.ExternalArtifactKind: "1.0.0", sourcev1.GitRepositoryKind: "1.0.0", sourcev1.HelmRepositoryKind: "1.0.0+own"} {
		if got := versionOf(of(kind), "1.0.0+own"); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}
