// Package fluxtest has manifests of a lab that one Flux runs, for tests.
package fluxtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab/engine/kube/kubetest"
)

// Commits of the estate.
const (
	OldCommit = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	NewCommit = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// LongAgo is before anything that a test does.
const LongAgo = "2026-01-01T00:00:00Z"

// Source returns the estate's repository, fetched at a commit.
func Source(commit string) string {
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

// Layer returns a Kustomization of flux-system; one without an owner is the root.
func Layer(name, owner, commit string) string {
	labels := "lab.homelab/name: homelab, lab.homelab/part: root"
	if owner != "" {
		labels = "kustomize.toolkit.fluxcd.io/name: " + owner + ", kustomize.toolkit.fluxcd.io/namespace: flux-system"
	}
	return Kustomization("flux-system", name, labels, commit)
}

// App returns an addon's Kustomization of a cluster, applied by a layer at a commit.
func App(cluster, name, commit string) string {
	return Kustomization("cluster-"+cluster, name, "kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system", commit)
}

// Kustomization returns one that is applied at a commit.
func Kustomization(namespace, name, labels, commit string) string {
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

// Release returns a release of an addon.
func Release(cluster, name string) string {
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

// Converged returns a converged lab.
func Converged() string {
	return Source(NewCommit) + Layer("flux-system", "", NewCommit) + App("prod", "podinfo", NewCommit) + Release("prod", "podinfo")
}

// Conditions returns a patch of an object's conditions, each written as "Ready False Reason: message".
func Conditions(list ...string) map[string]any {
	var out []any
	for _, s := range list {
		head, message, _ := strings.Cut(s, ": ")
		parts := strings.Fields(head)
		out = append(out, map[string]any{"type": parts[0], "status": parts[1], "reason": parts[2], "message": message, "lastTransitionTime": nil})
	}
	return map[string]any{"status": map[string]any{"conditions": out}}
}

// Answer marks an object's request as handled.
func Answer(t *testing.T, c *kubetest.Cluster, r schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	token := c.Get(t, r, namespace, name).GetAnnotations()[meta.ReconcileRequestAnnotation]
	if token == "" {
		t.Fatalf("%s %s was not requested", r.Resource, name)
	}
	c.Patch(t, r, namespace, name, map[string]any{"status": map[string]any{"lastHandledReconcileAt": token}})
}
