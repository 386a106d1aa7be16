package flux

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

// withSecrets returns the registration of prod, with kubeconfigs in Secrets "NAMESPACE/NAME=KEY".
func withSecrets(secrets ...string) lab.Registration {
	r := prod(nil)
	r.KubeconfigSecrets = parseSecrets(strings.Join(secrets, ","))
	return r
}

func TestRegisterKubeconfigSecrets(t *testing.T) {
	f, hub, spoke := withProd(t)
	register := func(reg lab.Registration, want ...string) {
		t.Helper()
		if lines, err := f.Register(t.Context(), reg, &rest.Config{}); err != nil || !slices.Equal(lines, want) {
			t.Errorf("%q, %v, want %q", lines, err, want)
		}
		s, err := f.Observe(t.Context())
		if err != nil || len(s.Registrations) != 1 || len(engine.Diff(reg, s.Registrations[0])) > 0 {
			t.Errorf("%+v, %v", s.Registrations, err)
		}
		own := kube.SecretField(hub.Get(t, kube.Secrets, "cluster-prod", flux.ClusterKubeconfig), "value")
		for _, k := range copiesOf("prod", reg.KubeconfigSecrets) {
			if got := kube.SecretField(hub.Get(t, kube.Secrets, k.Namespace, k.Name), k.Key); got != own || got == "" {
				t.Errorf("%s: %q, want %q", k, got, own)
			}
		}
	}
	both := withSecrets("live/cluster-kubeconfig=value", "flux-system/live=config", "cluster-prod/cluster-kubeconfig=value")
	register(both, "kubeconfig in Secret live/cluster-kubeconfig", "kubeconfig in Secret flux-system/live", "kubeconfig in Secret cluster-prod/cluster-kubeconfig")
	hub.ClearActions()
	register(both)
	if w := hub.Writes(); len(w) > 0 {
		t.Errorf("second Register wrote %q", w)
	}
	issue(t, spoke, "another")
	register(both, "credentials renewed")

	if err := hub.Resource(kube.Secrets).Namespace("live").Delete(t.Context(), "cluster-kubeconfig", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	const missing = "its kubeconfig in Secret live/cluster-kubeconfig is missing or outdated"
	if s, err := f.Observe(t.Context()); err != nil || s.Registrations[0].Defect != missing {
		t.Errorf("%+v, %v", s.Registrations, err)
	}
	register(both, "registration repaired")
	hub.Patch(t, kube.Secrets, "flux-system", "live", map[string]any{"data": map[string]any{"config": "eA=="}})
	if s, err := f.Observe(t.Context()); err != nil || s.Registrations[0].Defect != strings.Replace(missing, "live/cluster-kubeconfig", "flux-system/live", 1) {
		t.Errorf("%+v, %v", s.Registrations, err)
	}
	register(both, "registration repaired")

	register(withSecrets("flux-system/live=config"), "kubeconfig in Secret live/cluster-kubeconfig: removed", "kubeconfig in Secret cluster-prod/cluster-kubeconfig: removed")
	if got := hub.Names(t, kube.Secrets, "live"); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if got := hub.Names(t, kube.Namespaces, ""); !slices.Contains(got, "live") {
		t.Errorf("%q", got)
	}
	synctest.Test(t, func(t *testing.T) {
		if _, err := f.Unregister(t.Context(), engine.Departure{Cluster: "prod", Spoke: &rest.Config{}}, func(string) {}); err != nil {
			t.Fatal(err)
		}
	})
	if got := hub.Names(t, kube.Secrets, "flux-system"); slices.Contains(got, "live") {
		t.Errorf("%q", got)
	}
}

// Secrets that lab did not create are left alone.
func TestRegisterForeignKubeconfigSecret(t *testing.T) {
	f, hub, _ := withProd(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: cluster-kubeconfig, namespace: live}\ndata: {value: eA==}\n")
	_, err := f.Register(t.Context(), withSecrets("live/cluster-kubeconfig=value"), &rest.Config{})
	var failed *lab.Error
	if !errors.As(err, &failed) || failed.Code != "not_ours" {
		t.Errorf("%v", err)
	}
	if got := kube.SecretField(hub.Get(t, kube.Secrets, "live", "cluster-kubeconfig"), "value"); got != "x" {
		t.Errorf("%q", got)
	}
}

// theirs are the objects of a mounted repository that keeps each cluster in a namespace, on a hub with prod.
func theirs() string {
	const from = "kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system"
	remote := func(manifest string) string {
		return strings.Replace(manifest, "spec: {", "spec: {kubeConfig: {secretRef: {name: cluster-kubeconfig}}, ", 1)
	}
	release := strings.NewReplacer("namespace: cluster-prod", "namespace: live", "/namespace: cluster-prod", "/namespace: live").Replace(releaseOf("prod", "web"))
	return source(newCommit) + layer("flux-system", "", newCommit) + remote(kustomization("live", "access", from, newCommit)) + kustomization("live", "web", from, newCommit) + release +
		kustomization("flux-system", "own", from, newCommit) +
		strings.Replace(registered("prod", "homelab", longAgo), "annotations: {", "annotations: {lab.homelab/kubeconfig-secrets: live/cluster-kubeconfig=value, ", 1) +
		"\napiVersion: v1\nkind: Secret\nmetadata: {name: cluster-kubeconfig, namespace: live, labels: {lab.homelab/name: homelab, lab.homelab/part: kubeconfig, lab.homelab/cluster: prod}}\ndata: {value: eA==}\n"
}

func TestLookKubeconfigSecrets(t *testing.T) {
	f, _, _ := newFake(t, theirs())
	f.cluster = "hub"
	v, err := f.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range v.Applications() {
		got = append(got, a.Cluster+" "+a.Name+" "+a.Version)
	}
	if want := []string{"hub hub-own bbbbbbb", "prod prod-access bbbbbbb", "prod prod-web 1.2.3"}; !slices.Equal(got, want) || len(v.Layers) != 1 {
		t.Errorf("%q, want %q; %d layers", got, want, len(v.Layers))
	}
	if r := v.ReleasesIn("prod"); len(r) != 1 {
		t.Errorf("releases in prod: %v", r)
	}
}

// A leaving cluster takes its Kustomizations in other namespaces, then their kubeconfig.
func TestUnregisterKubeconfigSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, _ := newFake(t, theirs())
		f.cluster = "hub"
		hub.ClearActions()
		if _, err := f.Unregister(t.Context(), engine.Departure{Cluster: "prod", Spoke: &rest.Config{}}, func(string) {}); err != nil {
			t.Fatal(err)
		}
		var deleted []string
		for _, w := range hub.Writes() {
			if what, ok := strings.CutPrefix(w, "delete "); ok {
				deleted = append(deleted, what)
			}
		}
		if want := []string{"kustomizations access", "kustomizations web", "helmreleases web", "secrets cluster-kubeconfig", "namespaces cluster-prod", "secrets cluster-kubeconfig"}; !slices.Equal(deleted, want) {
			t.Errorf("%q, want %q", deleted, want)
		}
		if got := hub.Names(t, kustomizations, "flux-system"); !slices.Equal(got, []string{"flux-system", "own"}) {
			t.Errorf("%q", got)
		}
	})
}

// Kustomizations that apply those of spokes are removed before them, without their objects.
func TestWithdrawParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := strings.Replace(theirs(), "uid: live-access, labels: {kustomize.toolkit.fluxcd.io/name: flux-system", "uid: live-access, labels: {kustomize.toolkit.fluxcd.io/name: own", 1)
		f, hub, _ := newFake(t, below)
		f.cluster = "hub"
		hub.ClearActions()
		if _, err := f.Withdraw(t.Context(), map[string]*rest.Config{"prod": {}}, func(string) {}); err != nil {
			t.Fatal(err)
		}
		w := hub.Writes()
		own, access := slices.Index(w, "delete kustomizations own"), slices.Index(w, "delete kustomizations access")
		if own < 0 || access < own || !slices.Contains(w[:own], "patch kustomizations own") {
			t.Errorf("%q", w)
		}
	})
}
