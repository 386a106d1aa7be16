package flux

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	swapi "github.com/fluxcd/source-watcher/api/v2/v1beta1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine/flux/fluxtest"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

const (
	oldCommit, newCommit = fluxtest.OldCommit, fluxtest.NewCommit
	longAgo              = fluxtest.LongAgo
)

var (
	source, layer, app, releaseOf               = fluxtest.Source, fluxtest.Layer, fluxtest.App, fluxtest.Release
	standing, conditions, answer, kustomization = fluxtest.Converged, fluxtest.Conditions, fluxtest.Answer, fluxtest.Kustomization
)

// fakeRelease is an in-memory Helm release.
type fakeRelease struct {
	state helm.State
	fail  error
	last  helm.Release

	removed bool
}

func (r *fakeRelease) Observe(context.Context, string) (helm.State, error) { return r.state, r.fail }

func (r *fakeRelease) Ensure(_ context.Context, want helm.Release, p lab.Progress) (helm.Result, error) {
	if r.fail != nil {
		return helm.Result{}, r.fail
	}
	p(want.Chart.Name + " " + want.Chart.Version + ": installing")
	r.last = want
	r.state.Revision++
	r.state.Status, r.state.App = "deployed", "2.9.5"
	return helm.Result{State: r.state, Changed: true}, nil
}

func (r *fakeRelease) Remove(context.Context, string) error {
	if r.fail == nil {
		r.state, r.removed = helm.State{}, true
	}
	return r.fail
}

func kinds() kubetest.Kinds {
	k := kubetest.Core()
	k[kustomizations], k[helmReleases], k[gitRepositories] = "Kustomization", "HelmRelease", "GitRepository"
	k[kube.MutatingPolicies], k[kube.MutatingBindings] = "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"
	for name, kind := range map[string]string{"externalartifacts": "ExternalArtifact", "ocirepositories": "OCIRepository", "buckets": "Bucket"} {
		k[sourcev1.GroupVersion.WithResource(name)] = kind
	}
	k[swapi.GroupVersion.WithResource("artifactgenerators")] = "ArtifactGenerator"
	k[kube.CRDs] = "CustomResourceDefinition"
	k[helmRepositories], k[helmCharts], k[receivers] = "HelmRepository", "HelmChart", "Receiver"
	return k
}

// newFake returns an engine with an in-memory hub and spoke.
func newFake(t *testing.T, manifests ...string) (f *Flux, hub, spoke *kubetest.Cluster) {
	t.Helper()
	hub, spoke = kubetest.New(t, kinds(), manifests...), kubetest.New(t, kinds())
	f = &Flux{
		lab: "homelab", namespace: flux.Namespace, hub: hub.Clients(), release: &fakeRelease{},
		connect: func(*rest.Config) (kube.Clients, error) { return spoke.Clients(), nil },
	}
	return f, hub, spoke
}

// registered returns a registration like lab's, with fields owned by another client.
func registered(cluster, labName, since string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: cluster-%[1]s}
---
apiVersion: v1
kind: Secret
metadata:
  name: cluster-kubeconfig
  namespace: cluster-%[1]s
  labels: {lab.homelab/name: %[2]s, lab.homelab/part: registration}
  annotations: {lab.homelab/credentials-since: %[3]q}
data: {value: %[4]s}
---`, cluster, labName, since, base64.StdEncoding.EncodeToString([]byte("x")))
}

// generating returns a converged lab with an artifact generator, for which all kinds of sources are read.
func generating() string {
	return standing() + "\napiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\nmetadata: {name: parts, namespace: flux-system}\nspec: {sources: [], artifacts: []}\n"
}
