package flux

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubetesting "k8s.io/client-go/testing"

	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

// serving makes a cluster serve mutating admission policies.
func serving(c *kubetest.Cluster) {
	c.Typed.Resources = []*metav1.APIResourceList{{GroupVersion: kube.Admission.String(), APIResources: []metav1.APIResource{{Name: kube.MutatingPolicies.Resource}}}}
}

func TestMirrors(t *testing.T) {
	f, hub, _ := newFake(t)
	serving(hub)
	root := theRoot()
	policies := []schema.GroupVersionResource{kube.MutatingPolicies, kube.MutatingBindings}
	for _, want := range []bool{true, false} {
		if changed, err := f.ApplyRoot(t.Context(), root); err != nil || changed != want {
			t.Errorf("%t, %v; want %t", changed, err, want)
		}
	}
	policy := hub.Get(t, kube.MutatingPolicies, "", "lab-homelab-mirrors")
	variable := at(policy.Object, "spec", "variables").([]any)[0].(map[string]any)["expression"]
	if variable != `{"github.com/example/other": "http://forge/lab/other.git"}` {
		t.Error(variable)
	}
	if got := at(hub.Get(t, kube.MutatingBindings, "", "lab-homelab-mirrors").Object, "spec", "policyName"); got != "lab-homelab-mirrors" {
		t.Error(got)
	}
	for _, r := range policies {
		if err := hub.Resource(r).Delete(t.Context(), "lab-homelab-mirrors", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		lines, err := f.Drift(t.Context(), root, nil)
		if err != nil || !slices.ContainsFunc(lines, func(s string) bool { return strings.HasSuffix(s, "lab-homelab-mirrors is gone") }) {
			t.Errorf("%q, %v", lines, err)
		}
		if changed, err := f.ApplyRoot(t.Context(), root); err != nil || !changed {
			t.Errorf("%t, %v", changed, err)
		}
	}
	root.Mirrors = nil
	for _, want := range []bool{true, false} {
		if changed, err := f.ApplyRoot(t.Context(), root); err != nil || changed != want {
			t.Errorf("without mirrors: %t, %v; want %t", changed, err, want)
		}
	}
	for _, r := range policies {
		if names := hub.Names(t, r, ""); len(names) > 0 {
			t.Errorf("left: %q", names)
		}
	}
}

// Addresses are matched as they are written: with spaces escaped, and with or without a slash and a suffix at the end.
func TestMirrorsOfAddresses(t *testing.T) {
	f, hub, _ := newFake(t)
	serving(hub)
	root := theRoot()
	root.Mirrors = map[string]string{"https://dev.azure.com/acme/My%20Fleet/_git/apps/": "http://forge/lab/apps.git"}
	if _, err := f.ApplyRoot(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	variables, _ := at(hub.Get(t, kube.MutatingPolicies, "", "lab-homelab-mirrors").Object, "spec", "variables").([]any)
	of := map[string]any{}
	for _, v := range variables {
		of[v.(map[string]any)["name"].(string)] = v.(map[string]any)["expression"]
	}
	if want := `{"dev.azure.com/acme/my fleet/_git/apps": "http://forge/lab/apps.git", "dev.azure.com/acme/my%20fleet/_git/apps": "http://forge/lab/apps.git"}`; of["mirrors"] != want {
		t.Errorf("%v, want %s", of["mirrors"], want)
	}
	if trimmed, _ := of["trimmed"].(string); !strings.Contains(trimmed, `variables.path.endsWith("/")`) || !strings.Contains(of["key"].(string), "variables.trimmed") {
		t.Errorf("%v", of)
	}
}

// Another lab's policy stays; clusters without policy support get none.
func TestMirrorsElsewhere(t *testing.T) {
	theirs := "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: lab-homelab-mirrors, labels: {lab.homelab/name: other}}\n"
	f, hub, _ := newFake(t, theirs)
	serving(hub)
	if cleared, err := f.clearMirrors(t.Context()); cleared || err != nil {
		t.Errorf("%t, %v", cleared, err)
	}
	f, hub, _ = newFake(t)
	if _, err := f.ApplyRoot(t.Context(), theRoot()); err != nil {
		t.Fatal(err)
	}
	if names := hub.Names(t, kube.MutatingPolicies, ""); len(names) > 0 {
		t.Errorf("%q", names)
	}
	broken := errors.New("broken")
	hub.Typed.PrependReactor("get", "resource", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, broken })
	serving(hub)
	if _, err := f.ApplyRoot(t.Context(), theRoot()); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, err := f.ApplyRoot(t.Context(), engine.Root{Manifest: []byte(rootManifest)}); !errors.Is(err, broken) {
		t.Errorf("without mirrors: %v", err)
	}
}

// A mirror has the lab's login, is unsigned and complete; upstream's keys and identities are missing here.
func TestMirrorsWithoutAccess(t *testing.T) {
	f, hub, _ := newFake(t)
	serving(hub)
	root := theRoot()
	const theirs = "secretRef: {name: deploy-key}, provider: github, serviceAccountName: git, proxySecretRef: {name: proxy}, verify: {mode: HEAD, secretRef: {name: keys}}, recurseSubmodules: true"
	root.Manifest = []byte(strings.Replace(rootManifest, "url: https://github.com/example/other", "url: https://github.com/example/other, "+theirs, 1))
	if _, err := f.ApplyRoot(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	spec := at(hub.Get(t, gitRepositories, flux.Namespace, "other").Object, "spec").(map[string]any)
	patch, _ := at(hub.Get(t, kube.MutatingPolicies, "", "lab-homelab-mirrors").Object, "spec", "mutations").([]any)[0].(map[string]any)["jsonPatch"].(map[string]any)["expression"].(string)
	login := map[string]any{"name": "lab-homelab-mirrors"}
	if !equal(spec["secretRef"], login) || !strings.Contains(patch, `[JSONPatch{op: "add", path: "/spec/secretRef", value: {"name": "lab-homelab-mirrors"}}]`) {
		t.Errorf("login in %v, or not in %s", spec, patch)
	}
	for _, field := range []string{"provider", "serviceAccountName", "proxySecretRef", "verify", "recurseSubmodules"} {
		if spec[field] != nil || !strings.Contains(patch, `(has(object.spec.`+field+`) ? [JSONPatch{op: "remove", path: "/spec/`+field+`"}] : [])`) {
			t.Errorf("%s in %v, or not in %s", field, spec, patch)
		}
	}
}

// In a standalone Flux, the Kustomizations below roots are applications, in any namespace.
func TestLookAtHome(t *testing.T) {
	labels := "labels: {kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system}"
	k := func(name, namespace, labels string) string {
		return "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: " + name + ", namespace: " + namespace + ", resourceVersion: '1', " + labels + "}\nspec: {interval: 1m, path: x, prune: true, sourceRef: {kind: GitRepository, name: x}}\n---\n"
	}
	objects := k("flux-system", "flux-system", "labels: {lab.homelab/name: homelab, lab.homelab/part: root}") +
		k("apps", "flux-system", labels) + k("apps", "team", labels) + k("seeds", "cluster-prod", labels) + k("by-hand", "flux-system", "labels: {}")
	f, _, _ := newFake(t, objects)
	names := func() (apps, layers []string) {
		v, err := f.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range v.Applications() {
			apps = append(apps, a.Cluster+" "+a.Name+" "+a.Addon)
		}
		for _, l := range v.Layers {
			layers = append(layers, l.Namespace+"/"+l.Name)
		}
		return apps, layers
	}
	if apps, layers := names(); !slices.Equal(apps, []string{"prod prod-seeds seeds"}) || !slices.Equal(layers, []string{"flux-system/flux-system", "flux-system/apps", "team/apps"}) {
		t.Errorf("hub: %q, %q", apps, layers)
	}
	f.home = "prod"
	if apps, layers := names(); !slices.Equal(apps, []string{"prod prod-apps apps", "prod prod-seeds seeds", "prod prod-team-apps team-apps"}) || !slices.Equal(layers, []string{"flux-system/flux-system"}) {
		t.Errorf("standalone: %q, %q", apps, layers)
	}
}

// A root with its own release is also an application.
func TestLookRootWithRelease(t *testing.T) {
	root := "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: flux-system, namespace: flux-system, labels: {lab.homelab/name: homelab, lab.homelab/part: root}}\n" +
		"spec: {interval: 1m, path: x, prune: true, sourceRef: {kind: GitRepository, name: x}}\n---\n" +
		"apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: web, labels: {kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system}}\n" +
		"spec: {interval: 1m, targetNamespace: apps}\n"
	f, _, _ := newFake(t, root)
	for home, want := range map[string][]string{"": nil, "prod": {"prod-flux-system"}} {
		f.home = home
		v, err := f.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range v.Applications() {
			got = append(got, a.Name)
			if a.Namespace != "apps" || a.Converged() {
				t.Errorf("%+v", a)
			}
		}
		if !slices.Equal(got, want) || len(v.Layers) != 1 {
			t.Errorf("home %q: %q, %d layers", home, got, len(v.Layers))
		}
	}
}

// In an attached cluster, the owner's sources keep their addresses.
func TestMirrorsBesideOwner(t *testing.T) {
	for attached, want := range map[bool]string{
		false: "has(object.spec.url)",
		true: `has(object.spec.url) && has(object.metadata.labels) && ("kustomize.toolkit.fluxcd.io/namespace" in object.metadata.labels` +
			` || "helm.toolkit.fluxcd.io/namespace" in object.metadata.labels || "lab.homelab/name" in object.metadata.labels)`,
	} {
		f, hub, _ := newFake(t)
		f.attached = attached
		serving(hub)
		if _, err := f.ApplyRoot(t.Context(), theRoot()); err != nil {
			t.Fatal(err)
		}
		conditions := at(hub.Get(t, kube.MutatingPolicies, "", "lab-homelab-mirrors").Object, "spec", "matchConditions").([]any)
		if got := conditions[0].(map[string]any)["expression"]; got != want {
			t.Errorf("attached %t: %v", attached, got)
		}
	}
}

// The login of mirrors is in every namespace with a redirected source, follows renewed credentials, and goes with the mirrors.
func TestMirrorLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, _ := newFake(t, standing())
		password := func(namespace string) string {
			t.Helper()
			return kube.SecretField(hub.Get(t, kube.Secrets, namespace, "lab-homelab-mirrors"), "password")
		}
		repository := func(password string) {
			t.Helper()
			of := engine.Repository{Name: "estate", URL: "http://forge/lab/estate.git", Type: "git", Username: "lab-reader", Password: password}
			if _, err := f.ApplyRepositories(t.Context(), []engine.Repository{of}); err != nil {
				t.Fatal(err)
			}
		}
		repository("first")
		if _, err := f.ApplyRoot(t.Context(), theRoot()); err != nil || password(flux.Namespace) != "first" {
			t.Fatalf("%q, %v", password(flux.Namespace), err)
		}
		hub.Create(t, "", `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: web, namespace: team}
spec: {url: http://forge/lab/other.git, secretRef: {name: lab-homelab-mirrors}}
`)
		hub.Refuse("patch secrets", errors.New("broken")) // at first
		time.AfterFunc(2*time.Second, func() { hub.Refuse("patch secrets", nil) })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := f.WaitConverged(ctx, engine.Want{Expected: []string{"never"}}, silent); err == nil || password("team") != "first" {
			t.Errorf("%q, %v", password("team"), err)
		}
		if repository("second"); password("team") != "second" || password(flux.Namespace) != "second" {
			t.Errorf("%q, %q after renewal", password("team"), password(flux.Namespace))
		}
		if _, err := f.clearMirrors(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := append(hub.Names(t, kube.Secrets, "team"), hub.Names(t, kube.MutatingPolicies, "")...); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
