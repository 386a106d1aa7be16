package reconciliation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	swapi "github.com/fluxcd/source-watcher/api/v2/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/engine/kube/kubetest"
)

const (
	oldCommit = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	newCommit = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

const longAgo = "2026-01-01T00:00:00Z"

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
	return Read(t.Context(), hub.Clients().Dynamic, "homelab", lab.FluxScopeOf("", nil))
}

// answer marks an object's request as handled.
func answer(t *testing.T, c *kubetest.Cluster, r schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	token := c.Get(t, r, namespace, name).GetAnnotations()[meta.ReconcileRequestAnnotation]
	if token == "" {
		t.Fatalf("%s %s was not requested", r.Resource, name)
	}
	c.Patch(t, r, namespace, name, map[string]any{"status": map[string]any{"lastHandledReconcileAt": token}})
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
