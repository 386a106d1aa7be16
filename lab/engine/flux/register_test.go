package flux

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

func prod(change func(labels, annotations map[string]lab.Value)) lab.Registration {
	r := lab.Registration{
		Cluster: "prod", Server: "https://homelab-prod-control-plane:6443",
		Labels:      map[string]lab.Value{"environment": {Value: "prod"}},
		Annotations: map[string]lab.Value{"aws_region": {Value: "eu-west-1"}, "odd/key": {Value: "a b: c"}},
	}
	if change != nil {
		change(r.Labels, r.Annotations)
	}
	return r
}

// issue acts as the token controller.
func issue(t *testing.T, spoke *kubetest.Cluster, token string) {
	t.Helper()
	spoke.Patch(t, kube.Secrets, kube.SpokeNamespace, "flux-manager-token", map[string]any{"data": map[string]any{
		"token": base64.StdEncoding.EncodeToString([]byte(token)), "ca.crt": base64.StdEncoding.EncodeToString([]byte("PEM")),
	}})
}

// withProd returns an engine with a registration of prod.
func withProd(t *testing.T, manifests ...string) (f *Flux, hub, spoke *kubetest.Cluster) {
	t.Helper()
	f, hub, spoke = newFake(t, manifests...)
	if _, _, err := (kube.Access{Account: "flux-manager", Labels: f.labels(registration)}).Ensure(canceled(t), spoke); err == nil {
		t.Fatal("a token without a token controller")
	}
	issue(t, spoke, "secret")
	lines, err := f.Register(t.Context(), prod(nil), &rest.Config{})
	if err != nil || !slices.Equal(lines, []string{"registered as https://homelab-prod-control-plane:6443"}) {
		t.Fatalf("%q, %v", lines, err)
	}
	return f, hub, spoke
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func vars(t *testing.T, hub *kubetest.Cluster) map[string]string {
	t.Helper()
	o := hub.Get(t, kube.ConfigMaps, "cluster-prod", flux.ClusterVars)
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	if immutable, _, _ := unstructured.NestedBool(o.Object, "immutable"); !immutable || o.GetLabels()["reconcile.fluxcd.io/watch"] != "Enabled" {
		t.Errorf("%v", o.Object)
	}
	if data[flux.VarsDigest] == "" {
		t.Error("no digest")
	}
	delete(data, flux.VarsDigest)
	return data
}

func TestRegister(t *testing.T) {
	f, hub, _ := withProd(t)
	o := hub.Get(t, kube.Secrets, "cluster-prod", flux.ClusterKubeconfig)
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(kube.SecretField(o, "value")))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://homelab-prod-control-plane:6443" || cfg.BearerToken != "secret" || string(cfg.CAData) != "PEM" || cfg.ServerName != "" {
		t.Errorf("%+v", cfg)
	}
	if o.GetLabels()["reconcile.fluxcd.io/watch"] != "" {
		t.Error("a label change restarts releases")
	}
	if ns := hub.Get(t, kube.Namespaces, "", "cluster-prod"); ns.GetLabels()[lab.LabelName] != "homelab" {
		t.Errorf("%v", ns.GetLabels())
	}
	want := map[string]string{"environment": "prod", "aws_region": "eu-west-1", "odd_key": "a b: c"}
	if got := vars(t, hub); !maps.Equal(got, want) {
		t.Errorf("vars %v", got)
	}
	hub.ClearActions()
	if lines, err := f.Register(t.Context(), prod(nil), &rest.Config{}); err != nil || len(lines) != 0 {
		t.Errorf("second Register: %q, %v", lines, err)
	}
	if w := hub.Writes(); len(w) != 0 {
		t.Errorf("second Register wrote %q", w)
	}
	s, err := f.Observe(t.Context())
	if err != nil || len(s.Registrations) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	r := s.Registrations[0]
	if d := engine.Diff(prod(nil), r); len(d) != 0 || r.Cluster != "prod" || time.Since(r.Since) > time.Minute || r.Since.IsZero() {
		t.Errorf("%q, %+v", d, r)
	}
}

func TestRegisterChanges(t *testing.T) {
	f, hub, spoke := withProd(t)
	since := kube.CredentialsSince(hub.Get(t, kube.Secrets, "cluster-prod", flux.ClusterKubeconfig))
	change := func(labels, annotations map[string]lab.Value) {
		annotations["aws_region"] = lab.Value{Value: "eu-central-1"}
		delete(annotations, "odd/key")
		labels["1st"] = lab.Value{Value: "x"}
	}
	hub.ClearActions()
	lines, err := f.Register(t.Context(), prod(change), &rest.Config{})
	if want := []string{"label 1st: x", "annotation aws_region: eu-west-1 -> eu-central-1", "annotation odd/key: removed"}; err != nil || !slices.Equal(lines, want) {
		t.Errorf("%q, %v", lines, err)
	}
	if w, want := hub.Writes(), []string{"delete configmaps cluster-vars", "patch configmaps cluster-vars", "patch secrets cluster-kubeconfig"}; !slices.Equal(w, want) {
		t.Errorf("wrote %q", w)
	}
	if got := vars(t, hub); !maps.Equal(got, map[string]string{"environment": "prod", "aws_region": "eu-central-1", "_1st": "x"}) {
		t.Errorf("vars %v", got)
	}
	if at := kube.CredentialsSince(hub.Get(t, kube.Secrets, "cluster-prod", flux.ClusterKubeconfig)); !at.Equal(since) {
		t.Errorf("since %s, was %s", at, since)
	}
	issue(t, spoke, "another")
	if lines, err := f.Register(t.Context(), prod(change), &rest.Config{}); err != nil || !slices.Equal(lines, []string{"credentials renewed"}) {
		t.Errorf("%q, %v", lines, err)
	}
	if err := hub.Resource(kube.ConfigMaps).Namespace("cluster-prod").Delete(t.Context(), flux.ClusterVars, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if s, err := f.Observe(t.Context()); err != nil || len(s.Registrations) != 1 || !slices.Equal(engine.Diff(prod(change), s.Registrations[0]), []string{"its variables are missing"}) {
		t.Errorf("without variables: %+v, %v", s.Registrations, err)
	}
	if lines, err := f.Register(t.Context(), prod(change), &rest.Config{}); err != nil || !slices.Equal(lines, []string{"registration repaired"}) {
		t.Errorf("%q, %v", lines, err)
	}
	vars(t, hub)
}

// The hub needs no kubeconfig; behind a proxy, the server name is the cluster's.
func TestRegisterAddresses(t *testing.T) {
	f, hub, _ := withProd(t)
	if _, err := f.Register(t.Context(), lab.Registration{Cluster: "hub", Server: InCluster}, nil); err != nil {
		t.Fatal(err)
	}
	if o := hub.Get(t, kube.Secrets, "cluster-hub", flux.ClusterKubeconfig); kube.SecretField(o, "value") != "" {
		t.Error("hub has a kubeconfig")
	}
	reg := prod(nil)
	reg.Server, reg.Via, reg.Proxy = "https://ABC.eks.amazonaws.com", "https://homelab-prod-control-plane:6443", "http://front:3128"
	if _, err := f.Register(t.Context(), reg, &rest.Config{}); err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.Load([]byte(kube.SecretField(hub.Get(t, kube.Secrets, "cluster-prod", flux.ClusterKubeconfig), "value")))
	if err != nil {
		t.Fatal(err)
	}
	if c := cfg.Clusters["prod"]; c.Server != reg.Server || c.ProxyURL != reg.Proxy || c.TLSServerName != "homelab-prod-control-plane" {
		t.Errorf("%+v", c)
	}
	reg.Via = ":"
	if _, err := f.Register(t.Context(), reg, &rest.Config{}); err == nil || !strings.HasPrefix(err.Error(), "cluster prod: ") {
		t.Errorf("%v", err)
	}
}

func TestVars(t *testing.T) {
	labels, annotations := map[string]string{"a/b": "label", "x": "label"}, map[string]string{"a.b": "annotation", "9": "y"}
	got := flux.Variables(labels, annotations)
	digest := got[flux.VarsDigest]
	delete(got, flux.VarsDigest)
	if want := map[string]string{"a_b": "annotation", "x": "label", "_9": "y"}; !maps.Equal(got, want) || len(digest) != 10 {
		t.Errorf("%v, digest %q", got, digest)
	}
	annotations[flux.VarsDigest] = "mine"
	if again := flux.Variables(labels, annotations)[flux.VarsDigest]; again != digest {
		t.Errorf("the same variables have digests %s and %s", digest, again)
	}
	annotations["9"] = "z"
	if other := flux.Variables(labels, annotations)[flux.VarsDigest]; other == digest {
		t.Errorf("other variables have digest %s, too", digest)
	}
}

func TestRegisterErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, request := range []string{"get namespaces", "get secrets", "patch secrets", "get configmaps", "patch configmaps", "patch namespaces"} {
		f, hub, spoke := newFake(t)
		spoke.Refuse("none", nil)
		hub.Refuse(request, broken)
		if _, err := f.Register(t.Context(), lab.Registration{Cluster: "hub", Server: InCluster}, nil); !errors.Is(err, broken) {
			t.Errorf("%s: %v", request, err)
		}
	}
}

func TestCheckCredentials(t *testing.T) {
	f, hub, spoke := withProd(t)
	allowed, refusal := true, error(nil)
	spoke.Typed.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}}, refusal
	})
	admits := func(want string) {
		t.Helper()
		if why, err := f.CheckCredentials(t.Context(), "prod", &rest.Config{}); why != want || err != nil {
			t.Errorf("%q, %v, want %q", why, err, want)
		}
	}
	admits("")
	allowed = false
	admits("its account has no rights there")
	allowed, refusal = true, apierrors.NewUnauthorized("x")
	admits("its token is unknown there")
	refusal = errors.New("refused")
	if _, err := f.CheckCredentials(t.Context(), "prod", &rest.Config{}); err == nil || !strings.HasPrefix(err.Error(), "cluster prod: ") {
		t.Errorf("%v", err)
	}
	hub.Patch(t, kube.Secrets, "cluster-prod", flux.ClusterKubeconfig, map[string]any{"data": map[string]any{"value": "eA=="}})
	admits("its credentials are incomplete")
	if err := hub.Resource(kube.ConfigMaps).Namespace("cluster-prod").Delete(t.Context(), flux.ClusterVars, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	admits("its variables are missing")
	broken := errors.New("broken")
	hub.Refuse("get configmaps", broken)
	if why, err := f.CheckCredentials(t.Context(), "prod", &rest.Config{}); why != "" || !errors.Is(err, broken) {
		t.Errorf("%q, %v", why, err)
	}
	if why, err := f.CheckCredentials(t.Context(), "unknown", &rest.Config{}); why != "" || err != nil {
		t.Errorf("%q, %v", why, err)
	}
}
