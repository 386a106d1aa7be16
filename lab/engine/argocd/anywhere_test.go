package argocd

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
	"homelab/lab/engine"
)

// Everything that lab writes to the hub is in the configured namespace.
func TestWithNamespace(t *testing.T) {
	a, hub, _ := newFake(t)
	a.namespace = "gitops"
	release := &fakeRelease{}
	a.release = release
	if _, err := a.Install(t.Context(), lab.Chart{Name: "argo-cd", Version: "1", Digest: "sha256:x"}, map[string]any{}, func(string) {}); err != nil {
		t.Log(err) // the fake API never makes a workload ready
	}
	if release.in != "gitops" {
		t.Errorf("release in namespace %q", release.in)
	}
	if _, err := a.Register(t.Context(), lab.Registration{Cluster: "hub", Server: InCluster}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ApplyRepositories(t.Context(), []engine.Repository{{Name: "estate", Type: "git", URL: "http://forge/lab/estate.git"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ApplyRoot(t.Context(), engine.Root{Manifest: []byte(theRoot)}); err != nil {
		t.Fatal(err)
	}
	for name, objects := range map[string]dynamic.ResourceInterface{
		"secrets cluster-hub": hub.Resource(secrets).Namespace("gitops"), "applications addons": hub.Resource(applications).Namespace("gitops"),
	} {
		list, err := objects.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
	if d := Definition("gitops"); d.Namespace != "gitops" || d.Service != "http://argocd-server.gitops.svc" {
		t.Errorf("%+v", d)
	}
	if d := Definition(""); d.Namespace != Namespace {
		t.Errorf("%+v", d)
	}
}

const theRoot = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: addons}
spec:
  project: default
  source: {repoURL: http://forge/lab/estate.git, path: addons, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: gitops}
`
