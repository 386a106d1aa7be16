//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/flux"
	"homelab/lab/ui"
)

// runs changes the engine of the estate, which was Argo CD.
func (l *testLab) runs(engine string) {
	l.t.Helper()
	l.edit("clusters/hub/cluster.yaml", "{type: argocd}", "{type: "+engine+"}")
	l.must("generate")
}

// engine returns the lab's engine.
func (l *testLab) engine() lab.EngineType {
	l.t.Helper()
	return lab.EngineType(decode[ui.Status](l, "status").Engine)
}

// onFlux brings up the default estate with Flux in a shape; that of the hub is the default of `--engine flux`.
func onFlux(shape lab.Shape) func(*testing.T, *testLab) {
	return func(t *testing.T, l *testLab) {
		args := []string{"up", "--fix"}
		if shape == lab.ShapeStandalone {
			l.runs("flux, shape: standalone")
		} else {
			args = append(args, "--engine", "flux")
		}
		out := decode[ui.UpResult](l, args...)
		for _, s := range out.Steps {
			t.Logf("%-12s %-8s %6.1fs  %s", s.Name, s.Cluster, s.Seconds, s.Result)
		}
		if s := l.converged(4, 10); s.Engine != "flux" {
			t.Errorf("status names engine %q", s.Engine)
		}
	}
}

// eachItsOwn checks that every cluster's Flux manages only its own cluster.
func eachItsOwn(t *testing.T, l *testLab) {
	kustomizations := schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
	for _, cluster := range []string{"hub", "dev", "staging", "prod"} {
		list, err := l.dynamic(cluster).Resource(kustomizations).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			path, _, _ := unstructured.NestedString(o.Object, "spec", "path")
			if path != "./clusters/"+cluster && !strings.HasPrefix(path, "./clusters/"+cluster+"/") {
				t.Errorf("%s applies %s", cluster, path)
			}
			if _, remote, _ := unstructured.NestedMap(o.Object, "spec", "kubeConfig"); remote {
				t.Errorf("%s: %s targets another cluster", cluster, o.GetName())
			}
		}
		pods, err := l.kube(cluster).CoreV1().Pods(flux.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != 4 {
			t.Errorf("%s: %d pods of Flux, %v", cluster, len(pods.Items), err)
		}
	}
}

// otherShape requests another shape for a running lab.
func otherShape(_ *testing.T, l *testLab) {
	l.edit("clusters/hub/cluster.yaml", "shape: standalone", "shape: hub")
	l.must("generate")
	l.fails(lab.ExitFailed, "other_engine", "up")
	l.edit("clusters/hub/cluster.yaml", "shape: hub", "shape: standalone")
	l.must("generate")
}

// fluxBridged checks the variables of a spoke.
func fluxBridged(shape lab.Shape) func(*testing.T, *testLab) {
	return func(t *testing.T, l *testLab) {
		bridgedIn(t, l, map[lab.Shape]string{lab.ShapeHub: "hub", lab.ShapeStandalone: "prod"}[shape])
	}
}

// bridgedIn checks prod's variables in a cluster.
func bridgedIn(t *testing.T, l *testLab, cluster string) {
	if arn := roleARN(t, l, "prod"); !strings.HasPrefix(arn, "arn:aws:iam::210987654321:role/") {
		t.Errorf("role ARN in prod is %q", arn)
	}
	vars, err := l.kube(cluster).CoreV1().ConfigMaps("cluster-prod").Get(t.Context(), "cluster-vars", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if vars.Immutable == nil || !*vars.Immutable {
		t.Error("cluster-vars is mutable")
	}
	for key, want := range map[string]string{"aws_account_id": "210987654321", "environment": "prod", "cluster_name": "prod", "addons_repo_path": "addons"} {
		if got := vars.Data[key]; got != want {
			t.Errorf("variable %s is %q, want %q", key, got, want)
		}
	}
}

// otherEngine requests another engine for a running lab.
func otherEngine(_ *testing.T, l *testLab) {
	l.fails(lab.ExitFailed, "other_engine", "up", "--engine", "argocd")
}

// catalogues are the objects in the spokes, by engine and shape.
var catalogues = map[string]map[string]map[string]any{}

// record records the objects that an engine deployed for the unedited estate, and compares them with those of others.
func record(engine string) func(*testing.T, *testLab) {
	return func(t *testing.T, l *testLab) {
		mine := l.catalogue(t)
		for other, theirs := range catalogues {
			sameCatalogue(t, other, theirs, engine, mine)
		}
		catalogues[engine] = mine
	}
}

func sameCatalogue(t *testing.T, before string, was map[string]map[string]any, after string, is map[string]map[string]any) {
	t.Helper()
	kinds := map[string]int{}
	for name := range is {
		kinds[strings.Fields(name)[1]]++
	}
	t.Logf("%d objects compared: %v", len(is), kinds)
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("%s deploys other objects than %s (-%s +%s):\n%s", after, before, before, after, diff)
	}
}

// catalogue returns the objects of addons in the spokes, without additions by the API server, controllers and engines.
func (l *testLab) catalogue(t *testing.T) map[string]map[string]any {
	t.Helper()
	objects := map[string]map[string]any{}
	for _, cluster := range []string{"dev", "staging", "prod"} {
		for _, r := range []schema.GroupVersionResource{
			{Group: "apps", Version: "v1", Resource: "deployments"},
			{Version: "v1", Resource: "services"},
			{Version: "v1", Resource: "serviceaccounts"},
			{Version: "v1", Resource: "configmaps"},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
			{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
		} {
			list, err := l.dynamic(cluster).Resource(r).List(t.Context(), metav1.ListOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			for _, o := range list.Items {
				if _, own := flux.ClusterOf(o.GetNamespace()); own { // read by the cluster's own Flux
					continue
				}
				if ns := o.GetNamespace(); ns == "podinfo" || ns == "identity" || strings.Contains(o.GetName(), "metrics-server") || strings.Contains(o.GetName(), "metrics.k8s.io") {
					if o.GetName() != "kube-root-ca.crt" && o.GetName() != "default" {
						objects[fmt.Sprintf("%s %s %s/%s", cluster, r.Resource, ns, o.GetName())] = plainObject(&o)
					}
				}
			}
		}
	}
	if len(objects) < 30 {
		t.Errorf("only %d objects: %v", len(objects), slices.Sorted(maps.Keys(objects)))
	}
	return objects
}

func plainObject(o *unstructured.Unstructured) map[string]any {
	for _, field := range [][]string{
		{"status"},
		{"metadata", "uid"},
		{"metadata", "resourceVersion"},
		{"metadata", "creationTimestamp"},
		{"metadata", "generation"},
		{"metadata", "managedFields"},
		{"metadata", "annotations", "deployment.kubernetes.io/revision"},
		{"metadata", "annotations", "argocd.argoproj.io/tracking-id"},
		{"metadata", "annotations", "argocd.argoproj.io/installation-id"},
		{"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"},
		{"metadata", "annotations", "meta.helm.sh/release-name"},
		{"metadata", "annotations", "meta.helm.sh/release-namespace"},
		{"metadata", "labels", "app.kubernetes.io/managed-by"}, // set by Helm itself; Argo CD only renders with it
		{"metadata", "labels", "helm.toolkit.fluxcd.io/name"},
		{"metadata", "labels", "helm.toolkit.fluxcd.io/namespace"},
		{"spec", "clusterIP"},
		{"spec", "clusterIPs"},
	} {
		unstructured.RemoveNestedField(o.Object, field...)
	}
	meta, _ := o.Object["metadata"].(map[string]any)
	for _, of := range []string{"labels", "annotations"} {
		if m, ok := meta[of].(map[string]any); ok && len(m) == 0 {
			delete(meta, of)
		}
	}
	return o.Object
}
