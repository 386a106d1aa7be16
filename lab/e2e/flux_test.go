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
	"homelab/lab/ui"
)

// fluxSeconds is the estimate of TestDefaultEstateOnFlux, with the build of the controllers where they are not at hand.
func fluxSeconds(l *testLab) int {
	const quiet, build = 420, 300
	for _, i := range decode[ui.BundleResult](l, "bundle", "ls").Items {
		if strings.HasSuffix(i.Name, "-controller") && !strings.HasPrefix(i.Name, "image-") && !i.AtHand {
			return quiet + build
		}
	}
	return quiet
}

// onFlux brings up the default estate with Flux.
func onFlux(t *testing.T, l *testLab) {
	out := decode[ui.UpResult](l, "up", "--fix", "--engine", "flux")
	for _, s := range out.Steps {
		t.Logf("%-12s %-8s %6.1fs  %s", s.Name, s.Cluster, s.Seconds, s.Result)
	}
	if s := l.converged(4, 10); s.Engine != "flux" {
		t.Errorf("status names engine %q", s.Engine)
	}
}

// fluxBridged checks what Flux knows of a spoke.
func fluxBridged(t *testing.T, l *testLab) {
	if arn := roleARN(t, l, "prod"); !strings.HasPrefix(arn, "arn:aws:iam::210987654321:role/") {
		t.Errorf("role ARN in prod is %q", arn)
	}
	vars, err := l.kube("hub").CoreV1().ConfigMaps("cluster-prod").Get(t.Context(), "cluster-vars", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if vars.Immutable == nil || !*vars.Immutable {
		t.Error("cluster-vars can be changed")
	}
	for key, want := range map[string]string{"aws_account_id": "210987654321", "environment": "prod", "cluster_name": "prod", "addons_repo_path": "addons"} {
		if got := vars.Data[key]; got != want {
			t.Errorf("variable %s is %q, want %q", key, got, want)
		}
	}
}

// otherEngine asks a running lab for the engine that it has not got.
func otherEngine(_ *testing.T, l *testLab) {
	l.fails(lab.ExitFailed, "other_engine", "up", "--engine", "argocd")
}

// catalogues are the objects in the spokes, by engine.
var catalogues = map[lab.EngineType]map[string]map[string]any{}

// record notes what an engine brought to the spokes, and compares it with what the other one did.
func record(engine lab.EngineType) func(*testing.T, *testLab) {
	return func(t *testing.T, l *testLab) {
		mine := l.catalogue(t)
		catalogues[engine] = mine
		for other, theirs := range catalogues {
			if other == engine {
				continue
			}
			kinds := map[string]int{}
			for name := range mine {
				kinds[strings.Fields(name)[1]]++
			}
			t.Logf("%d objects compared: %v", len(mine), kinds)
			if diff := cmp.Diff(theirs, mine); diff != "" {
				t.Errorf("%s brings other objects than %s (-%s +%s):\n%s", engine, other, other, engine, diff)
			}
		}
	}
}

// catalogue is what addons brought to the spokes, without what the API server, controllers and engines add.
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
		{"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"},
		{"metadata", "annotations", "meta.helm.sh/release-name"},
		{"metadata", "annotations", "meta.helm.sh/release-namespace"},
		{"metadata", "labels", "app.kubernetes.io/managed-by"}, // by Helm itself, which Argo CD renders with alone
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
