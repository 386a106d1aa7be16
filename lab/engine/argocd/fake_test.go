package argocd

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
)

// cluster is an in-memory Kubernetes API; Argo CD's objects in manifests are in its namespace.
type cluster struct{ *kubetest.Cluster }

func newCluster(t *testing.T, manifests ...string) *cluster {
	t.Helper()
	kinds := kubetest.Core()
	kinds[applications], kinds[applicationSets], kinds[appProjects], kinds[kube.CRDs] = "Application", "ApplicationSet", "AppProject", "CustomResourceDefinition"
	kinds[kube.MutatingPolicies], kinds[kube.MutatingBindings] = "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"
	c := &cluster{kubetest.New(t, kinds)}
	for _, m := range manifests {
		c.create(t, m)
	}
	c.ClearActions()
	return c
}

// create creates the documents of a manifest as another client.
func (c *cluster) create(t *testing.T, manifest string) {
	t.Helper()
	c.Create(t, Namespace, manifest)
}

// names returns the sorted names of a kind's objects in Argo CD's namespace.
func (c *cluster) names(t *testing.T, r schema.GroupVersionResource) []string {
	t.Helper()
	return c.Names(t, r, Namespace)
}

// fakeRelease is an in-memory Helm release.
type fakeRelease struct {
	state helm.State
	fail  error
	calls int
	in    string // namespace of the last call
}

func (r *fakeRelease) Remove(context.Context, string) error {
	if r.fail == nil {
		r.state = helm.State{}
	}
	return r.fail
}

func (r *fakeRelease) Observe(context.Context, string) (helm.State, error) { return r.state, r.fail }

func (r *fakeRelease) Ensure(_ context.Context, want helm.Release, p lab.Progress) (helm.Result, error) {
	if r.fail != nil {
		return helm.Result{}, r.fail
	}
	inputs, err := helm.Inputs(want.Chart, want.Values)
	if err != nil {
		return helm.Result{}, err
	}
	r.in = want.Namespace
	reason, missing := "chart or values changed", r.state.Missing
	if r.state.Inputs == inputs {
		if len(missing) == 0 {
			return helm.Result{State: r.state}, nil
		}
		reason, r.state.Missing = missing[0]+" is gone", nil
	}
	p(fmt.Sprintf("%s %s: upgrading, %s", want.Chart.Name, want.Chart.Version, reason))
	r.calls++
	r.state.Revision++
	r.state.Inputs, r.state.Status, r.state.App, r.state.Chart = inputs, "deployed", "v3.2.11", want.Chart.Version
	return helm.Result{State: r.state, Changed: true, Reason: reason, Replaced: missing}, nil
}

// theDefaultProject is created by Argo CD's first start.
const theDefaultProject = `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
`

// newFake returns an engine with an in-memory hub and spoke.
func newFake(t *testing.T, manifests ...string) (a *ArgoCD, hub, spoke *cluster) {
	t.Helper()
	hub, spoke = newCluster(t, append(manifests, theDefaultProject)...), newCluster(t)
	a = &ArgoCD{
		lab: "homelab", namespace: Namespace, hub: hub.Clients(), release: &fakeRelease{},
		connect: func(*rest.Config) (kube.Clients, error) { return spoke.Clients(), nil },
	}
	return a, hub, spoke
}

func toYAML(t *testing.T, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
