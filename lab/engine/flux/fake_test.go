package flux

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	swapi "github.com/fluxcd/source-watcher/api/v2/v1beta1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
)

const (
	oldCommit = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	newCommit = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
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
		lab: "homelab", namespace: lab.FluxNamespace, hub: hub.Clients(), release: &fakeRelease{},
		connect: func(*rest.Config) (kube.Clients, error) { return spoke.Clients(), nil },
	}
	return f, hub, spoke
}

// source returns the estate's repository, fetched at a commit.
func source(commit string) string {
	return fmt.Sprintf(`
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system, uid: source}
spec: {url: 'http://forge/estate.git', interval: 10m, ref: {branch: main}}
status:
  artifact: {revision: main@sha1:%s, digest: 'sha256:x', url: 'http://x', path: x, lastUpdateTime: null}
  conditions: [{type: Ready, status: "True", reason: Succeeded, message: stored, lastTransitionTime: null}]
---`, commit)
}

// layer returns a Kustomization of flux-system; one without an owner is the root.
func layer(name, owner, commit string) string {
	labels := "lab.homelab/name: homelab, lab.homelab/part: root"
	if owner != "" {
		labels = "kustomize.toolkit.fluxcd.io/name: " + owner + ", kustomize.toolkit.fluxcd.io/namespace: flux-system"
	}
	return kustomization("flux-system", name, labels, commit)
}

// app returns an addon's Kustomization of a cluster, applied by a layer at a commit.
func app(cluster, name, commit string) string {
	return kustomization("cluster-"+cluster, name, "kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system", commit)
}

func kustomization(namespace, name, labels, commit string) string {
	return fmt.Sprintf(`
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: %[1]s, namespace: %[2]s, uid: %[2]s-%[1]s, labels: {%[3]s}}
spec: {interval: 10m, prune: true, path: x, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}
status:
  lastAppliedRevision: main@sha1:%[4]s
  lastAttemptedRevision: main@sha1:%[4]s
  conditions: [{type: Ready, status: "True", reason: ReconciliationSucceeded, message: applied, lastTransitionTime: null}]
---`, name, namespace, labels, commit)
}

// releaseOf returns a release of an addon.
func releaseOf(cluster, name string) string {
	return fmt.Sprintf(`
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: %[2]s
  namespace: cluster-%[1]s
  uid: release-%[1]s-%[2]s
  labels: {kustomize.toolkit.fluxcd.io/name: %[2]s, kustomize.toolkit.fluxcd.io/namespace: cluster-%[1]s}
spec: {interval: 10m, targetNamespace: %[2]s, install: {createNamespace: true}, driftDetection: {mode: enabled}, kubeConfig: {secretRef: {name: cluster-kubeconfig}}}
status:
  history: [{chartName: %[2]s, chartVersion: 1.2.3, configDigest: x, digest: x, name: x, namespace: x, status: deployed, version: 1, firstDeployed: null, lastDeployed: null, deleted: null}]
  conditions: [{type: Ready, status: "True", reason: UpgradeSucceeded, message: done, lastTransitionTime: null}]
---`, cluster, name)
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

// standing returns a converged lab.
func standing() string {
	return source(newCommit) + layer("flux-system", "", newCommit) + app("prod", "podinfo", newCommit) + releaseOf("prod", "podinfo")
}

func conditions(list ...string) map[string]any {
	var out []any
	for _, s := range list { // "Ready False Reason: message"
		head, message, _ := strings.Cut(s, ": ")
		parts := strings.Fields(head)
		out = append(out, map[string]any{"type": parts[0], "status": parts[1], "reason": parts[2], "message": message, "lastTransitionTime": nil})
	}
	return map[string]any{"status": map[string]any{"conditions": out}}
}

// generating returns a converged lab with an artifact generator, for which all kinds of sources are read.
func generating() string {
	return standing() + "\napiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\nmetadata: {name: parts, namespace: flux-system}\nspec: {sources: [], artifacts: []}\n"
}
