package reconciliation

import (
	"fmt"
	"testing"

	swapi "github.com/fluxcd/source-watcher/api/v2/v1beta1"

	"homelab/lab/engine/flux/fluxtest"
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

// newHub returns an in-memory cluster with Flux.
func newHub(t *testing.T, manifests ...string) *kubetest.Cluster {
	t.Helper()
	k := kubetest.Core()
	k[Kustomizations], k[HelmReleases], k[GitRepositories], k[HelmRepositories], k[HelmCharts] = "Kustomization", "HelmRelease", "GitRepository", "HelmRepository", "HelmChart"
	k[artifactGenerators], k[externalArtifacts], k[ociRepositories], k[buckets] = "ArtifactGenerator", "ExternalArtifact", "OCIRepository", "Bucket"
	return kubetest.New(t, k, manifests...)
}

// read returns what a Flux without registered clusters is doing.
func read(t *testing.T, hub *kubetest.Cluster) (View, error) {
	t.Helper()
	return Read(t.Context(), hub.Clients().Dynamic, "homelab", flux.ScopeOf("", nil))
}

// merged merges patches.
func merged(patches ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, p := range patches {
		for k, v := range p {
			if under, ok := out[k].(map[string]any); ok {
				v = merged(under, v.(map[string]any))
			}
			out[k] = v
		}
	}
	return out
}

func status(fields map[string]any) map[string]any { return map[string]any{"status": fields} }
func spec(fields map[string]any) map[string]any   { return map[string]any{"spec": fields} }

const (
	oldArtifact = "latest@sha256:aaaa"
	newArtifact = "latest@sha256:bbbb"
)

// generating returns a lab with an application of an artifact, generated from the estate at a commit and from a bucket.
func generating(commit string) string {
	digest := swapi.HashObservedSources(map[string]swapi.ObservedSource{
		"repo": {Digest: "sha256:x", Revision: "main@sha1:" + commit, URL: "http://x"}, "store": {Digest: "sha256:y", Revision: "1", URL: "http://y"},
	})
	return source(newCommit) + layer("flux-system", "", newCommit) + fmt.Sprintf(`
apiVersion: source.toolkit.fluxcd.io/v1
kind: Bucket
metadata: {name: store, namespace: flux-system}
status: {artifact: {revision: "1", digest: 'sha256:y', url: 'http://y', path: b, lastUpdateTime: null}}
---
apiVersion: source.extensions.fluxcd.io/v1beta1
kind: ArtifactGenerator
metadata: {name: parts, namespace: flux-system, uid: parts}
spec:
  sources: [{alias: repo, kind: GitRepository, name: flux-system}, {alias: store, kind: Bucket, name: store}]
  artifacts: [{name: web, copy: [{from: '@repo/web/**', to: '@artifact/'}]}]
status:
  observedSourcesDigest: %s
  conditions: [{type: Ready, status: "True", reason: Succeeded, message: made, lastTransitionTime: null}]
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: ExternalArtifact
metadata: {name: web, namespace: flux-system, uid: web}
spec: {sourceRef: {apiVersion: source.extensions.fluxcd.io/v1beta1, kind: ArtifactGenerator, name: parts, namespace: flux-system}}
status: {artifact: {revision: '%s', digest: 'sha256:z', url: 'http://z', path: z, lastUpdateTime: null}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: web, namespace: cluster-prod, uid: prod-web, labels: {kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system}}
spec: {interval: 10m, prune: true, path: x, sourceRef: {kind: ExternalArtifact, name: web, namespace: flux-system}}
status:
  lastAppliedRevision: '%[2]s'
  lastAttemptedRevision: '%[2]s'
  lastAppliedOriginRevision: main@sha1:%[3]s
  conditions: [{type: Ready, status: "True", reason: ReconciliationSucceeded, message: applied, lastTransitionTime: null}]
---`, digest, newArtifact, commit)
}
