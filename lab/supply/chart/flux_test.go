package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	helmchart "helm.sh/helm/v3/pkg/chart"
)

// fluxChartOf builds the chart from its modules.
func fluxChartOf(t *testing.T) *helmchart.Chart {
	t.Helper()
	r, err := Find("flux2", "")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := build(t, r, cached(t, r))
	return c
}

// names returns the names of a kind's objects, in order.
func names(objects map[string]map[string]any, kind string) []string {
	var list []string
	for id := range objects {
		if name, ok := strings.CutPrefix(id, kind+"/"); ok {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func managerOf(t *testing.T, objects map[string]map[string]any, name string) map[string]any {
	t.Helper()
	doc, ok := objects["Deployment/"+name]
	if !ok {
		t.Fatalf("no Deployment %s", name)
	}
	m, err := mainContainer(doc)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFluxDefaults(t *testing.T) {
	objects := render(t, fluxChartOf(t), "{}")
	all := []string{
		"helm-controller", "image-automation-controller", "image-reflector-controller", "kustomize-controller", "notification-controller", "source-controller", "source-watcher",
	}
	for _, kind := range []string{"Deployment", "ServiceAccount"} {
		if got := names(objects, kind); !slices.Equal(got, all) {
			t.Errorf("%s: %q", kind, got)
		}
	}
	if got := names(objects, "Service"); !slices.Equal(got, []string{"notification-controller", "source-controller", "source-watcher", "webhook-receiver"}) {
		t.Errorf("services: %q", got)
	}
	if got := names(objects, "CustomResourceDefinition"); len(got) != 15 {
		t.Errorf("%d kinds: %q", len(got), got)
	}
	args := managerOf(t, objects, "source-controller")["args"].([]any)
	if !slices.Contains(args, any("--storage-adv-addr=source-controller.$(RUNTIME_NAMESPACE).svc.cluster.local.")) ||
		!slices.Contains(args, any("--events-addr=http://notification-controller.argocd.svc.cluster.local./")) {
		t.Errorf("source-controller's arguments: %q", args)
	}
}

// A value disables each controller with its own objects.
func TestFluxControllers(t *testing.T) {
	chart := fluxChartOf(t)
	for _, c := range controllers {
		t.Run(c.name, func(t *testing.T) {
			objects := render(t, chart, c.key+": {create: false}")
			for _, kind := range []string{"Deployment", "ServiceAccount"} {
				if got := names(objects, kind); slices.Contains(got, c.name) || len(got) != len(controllers)-1 {
					t.Errorf("%s: %q", kind, got)
				}
			}
			for _, binding := range []string{"cluster-reconciler-argocd", "crd-controller-argocd"} {
				subjects, _ := objects["ClusterRoleBinding/"+binding]["subjects"].([]any)
				if len(subjects) == 0 {
					t.Errorf("%s has no subjects", binding)
				}
				for _, s := range subjects {
					if s.(map[string]any)["name"] == c.name {
						t.Errorf("%s binds it", binding)
					}
				}
			}
			for _, kind := range names(objects, "CustomResourceDefinition") {
				if own := objects["CustomResourceDefinition/"+kind]["metadata"].(map[string]any)["labels"].(map[string]any); own["app.kubernetes.io/component"] == c.name {
					t.Errorf("%s remains", kind)
				}
			}
			for _, name := range names(objects, "Deployment") {
				events := slices.ContainsFunc(managerOf(t, objects, name)["args"].([]any), func(a any) bool { return strings.HasPrefix(a.(string), "--events-addr=http://") })
				if want := c.key != "notificationController" && name != "notification-controller"; events != want {
					t.Errorf("%s sends events: %t, want %t", name, events, want)
				}
			}
		})
	}
}

func TestFluxValues(t *testing.T) {
	objects := render(t, fluxChartOf(t), `
clusterDomain: lab.test
logLevel: debug
watchAllNamespaces: false
multitenancy: {enabled: true, defaultServiceAccount: tenant}
kustomizeController:
  image: registry.test/kustomize
  tag: v1
  imagePullPolicy: Never
  container: {additionalArgs: [--concurrent=8]}
  nodeSelector: {disk: fast}
notificationController: {webhookReceiver: {service: {annotations: {lab: test}}}}
`)
	m := managerOf(t, objects, "kustomize-controller")
	if m["image"] != "registry.test/kustomize:v1" || m["imagePullPolicy"] != "Never" {
		t.Errorf("runs %v, pulled %v", m["image"], m["imagePullPolicy"])
	}
	for _, want := range []string{
		"--no-cross-namespace-refs=true", "--default-service-account=tenant", "--watch-all-namespaces=false", "--log-level=debug", "--concurrent=8",
		"--events-addr=http://notification-controller.argocd.svc.lab.test./",
	} {
		if !slices.Contains(m["args"].([]any), any(want)) {
			t.Errorf("no %s in %q", want, m["args"])
		}
	}
	if got := objects["Service/webhook-receiver"]["metadata"].(map[string]any)["annotations"]; fmt.Sprint(got) != "map[lab:test]" {
		t.Errorf("the receiver's annotations: %v", got)
	}
	if _, err := tryRender(fluxChartOf(t), "kustomizeControler: {create: false}"); err == nil || !strings.Contains(err.Error(), "kustomizeControler") {
		t.Errorf("a value that does not exist: %v", err)
	}
}
