package argocd

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

// issue acts as the token controller.
func issue(t *testing.T, spoke *cluster, token string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]any{
		"token": base64.StdEncoding.EncodeToString([]byte(token)), "ca.crt": base64.StdEncoding.EncodeToString([]byte("PEM")),
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = spoke.Resource(secrets).Namespace(kube.SpokeNamespace).Patch(context.Background(), "argocd-manager-token", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "controller"})
	if err != nil {
		t.Fatal(err)
	}
}

func prod(change func(labels, annotations map[string]lab.Value)) lab.Registration {
	r := lab.Registration{
		Cluster: "prod", Server: "https://homelab-prod-control-plane:6443",
		Labels:      map[string]lab.Value{"environment": {Value: "prod"}, "enable_podinfo": {Value: "true"}},
		Annotations: map[string]lab.Value{"aws_region": {Value: "eu-west-1"}, "addons_repo_path": {Value: ""}},
	}
	if change != nil {
		change(r.Labels, r.Annotations)
	}
	return r
}

// registered returns an engine with a registration of prod.
func registered(t *testing.T) (a *ArgoCD, hub, spoke *cluster) {
	t.Helper()
	a, hub, spoke = newFake(t)
	synctest.Test(t, func(t *testing.T) {
		done := make(chan error, 1)
		go func() {
			lines, err := a.Register(t.Context(), prod(nil), &rest.Config{})
			if err == nil && !slices.Equal(lines, []string{"registered as https://homelab-prod-control-plane:6443"}) {
				err = errors.New(strings.Join(lines, "\n"))
			}
			done <- err
		}()
		time.Sleep(time.Second)
		issue(t, spoke, "token-1")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
	return a, hub, spoke
}

func TestRegister(t *testing.T) {
	_, hub, spoke := registered(t)
	o := hub.Get(t, secrets, Namespace, "cluster-prod")
	labels := o.GetLabels()
	for k, v := range map[string]string{
		argo.SecretType: "cluster", "environment": "prod", "enable_podinfo": "true", lab.LabelName: "homelab", lab.LabelPart: "registration",
	} {
		if labels[k] != v {
			t.Errorf("label %s is %q, want %q", k, labels[k], v)
		}
	}
	if _, has := o.GetAnnotations()["addons_repo_path"]; !has || o.GetAnnotations()["aws_region"] != "eu-west-1" {
		t.Errorf("annotations %v", o.GetAnnotations())
	}
	want := `{"bearerToken":"token-1","tlsClientConfig":{"insecure":false,"caData":"UEVN"}}`
	if got := kube.SecretField(o, "config"); got != want {
		t.Errorf("config %s, want %s", got, want)
	}
	if kube.SecretField(o, "name") != "prod" || kube.SecretField(o, "server") != "https://homelab-prod-control-plane:6443" {
		t.Errorf("%v", o.Object["data"])
	}

	binding := spoke.Get(t, roleBindings, "", "lab-argocd-manager")
	if got := toYAML(t, binding.Object["subjects"]); got != "- kind: ServiceAccount\n  name: argocd-manager\n  namespace: lab-system" {
		t.Error(got)
	}
	for _, o := range []*unstructured.Unstructured{
		spoke.Get(t, serviceAccounts, kube.SpokeNamespace, "argocd-manager"), spoke.Get(t, secrets, kube.SpokeNamespace, "argocd-manager-token"), binding,
	} {
		if o.GetLabels()[lab.LabelName] != "homelab" {
			t.Errorf("%s %s: no label of the lab", o.GetKind(), o.GetName())
		}
	}
}

// The controller's cached entry of an earlier registration is replaced when credentials change, not when a registration is created.
func TestRegisterNewCredentials(t *testing.T) {
	_, hub, _ := registered(t)
	var configs []string
	for _, action := range hub.Actions() {
		if p, ok := action.(clienttesting.PatchAction); ok && p.GetName() == "cluster-prod" {
			var o unstructured.Unstructured
			if err := json.Unmarshal(p.GetPatch(), &o.Object); err != nil {
				t.Fatal(err)
			}
			configs = append(configs, kube.SecretField(&o, "config"))
		}
	}
	want := []string{
		`{"bearerToken":"token-1","tlsClientConfig":{"insecure":false,"caData":"UEVN","serverName":"homelab-prod-control-plane"}}`,
		`{"bearerToken":"token-1","tlsClientConfig":{"insecure":false,"caData":"UEVN"}}`,
	}
	if !slices.Equal(configs, want) {
		t.Errorf("config %s\nwant %s", configs, want)
	}
	if since := kube.CredentialsSince(hub.Get(t, secrets, Namespace, "cluster-prod")); since.IsZero() {
		t.Error("annotation with the time is missing")
	}
}

// A registration written by an interrupted run or an older lab lacks the second step.
func TestRegisterIncomplete(t *testing.T) {
	a, hub, _ := registered(t)
	hub.patch(t, secrets, "cluster-prod", map[string]any{"metadata": map[string]any{"annotations": map[string]any{kube.SinceAnnotation: nil}}})
	if why, err := a.CheckCredentials(t.Context(), "prod", &rest.Config{}); err != nil || why != "its credentials are incomplete" {
		t.Errorf("%q, %v", why, err)
	}
	if lines, err := a.Register(t.Context(), prod(nil), &rest.Config{}); err != nil || !slices.Equal(lines, []string{"credentials renewed"}) {
		t.Errorf("%v, %v", lines, err)
	}
	if since := kube.CredentialsSince(hub.Get(t, secrets, Namespace, "cluster-prod")); since.IsZero() {
		t.Error("annotation with the time is missing")
	}
}

func TestCheckCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error
		allowed bool
		want    string
		fails   bool
	}{
		"accepted":          {allowed: true},
		"unknown token":     {err: apierrors.NewUnauthorized("who"), want: "its token is unknown there"},
		"no rights":         {want: "its account has no rights there"},
		"other certificate": {err: &url.Error{Op: "Post", URL: "https://prod", Err: &tls.CertificateVerificationError{Err: errors.New("x509")}}, want: "its certificate is another cluster's"},
		"unreachable":       {err: errors.New("connection refused"), fails: true},
		"review forbidden":  {err: apierrors.NewForbidden(secrets.GroupResource(), "", nil), want: "its account has no rights there"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _, spoke := registered(t)
			spoke.Typed.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: tc.allowed}}, tc.err
			})
			var as *rest.Config
			connect := a.connect
			a.connect = func(c *rest.Config) (kube.Clients, error) { as = c; return connect(c) }
			why, err := a.CheckCredentials(t.Context(), "prod", &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "admin's", TLSClientConfig: rest.TLSClientConfig{CAFile: "/ca", CertFile: "/admin"}})
			if why != tc.want || (err != nil) != tc.fails {
				t.Errorf("%q, %v", why, err)
			}
			if as.Host != "https://127.0.0.1:1" || as.BearerToken != "token-1" || string(as.CAData) != "PEM" || as.CAFile != "" || as.CertFile != "" {
				t.Errorf("client identity %+v", as)
			}
		})
	}
	a, _, _ := registered(t)
	if why, err := a.CheckCredentials(t.Context(), "unknown", &rest.Config{}); why != "" || err != nil {
		t.Errorf("unregistered cluster: %q, %v", why, err)
	}
}

func TestRegisterUnchanged(t *testing.T) {
	a, hub, spoke := registered(t)
	hub.Writes()
	spoke.Writes()
	lines, err := a.Register(t.Context(), prod(nil), &rest.Config{})
	if err != nil || len(lines) != 0 {
		t.Errorf("%v, %v", lines, err)
	}
	if w := append(hub.Writes(), spoke.Writes()...); len(w) != 0 {
		t.Errorf("requests: %v", w)
	}
}

func TestRegisterChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(labels, annotations map[string]lab.Value)
		want   []string
	}{
		"value":   {func(_, a map[string]lab.Value) { a["aws_region"] = lab.Value{Value: "eu-central-1"} }, []string{"annotation aws_region: eu-west-1 -> eu-central-1"}},
		"emptied": {func(_, a map[string]lab.Value) { a["aws_region"] = lab.Value{} }, []string{`annotation aws_region: eu-west-1 -> ""`}},
		"added":   {func(l, _ map[string]lab.Value) { l["tier"] = lab.Value{Value: "gold"} }, []string{"label tier: gold"}},
		"removed": {
			func(l, a map[string]lab.Value) { delete(l, "enable_podinfo"); delete(a, "addons_repo_path") },
			[]string{"label enable_podinfo: removed", "annotation addons_repo_path: removed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, hub, _ := registered(t)
			lines, err := a.Register(t.Context(), prod(tc.change), &rest.Config{})
			if err != nil || !slices.Equal(lines, tc.want) {
				t.Errorf("%q, %v", lines, err)
			}
			o := hub.Get(t, secrets, Namespace, "cluster-prod")
			if d := engine.Diff(prod(tc.change), a.registered(o)); len(d) != 0 {
				t.Errorf("secret: %v", d)
			}
			if again, err := a.Register(t.Context(), prod(tc.change), &rest.Config{}); err != nil || len(again) != 0 {
				t.Errorf("second Register: %v, %v", again, err)
			}
		})
	}
}

// Other clients annotate cluster Secrets, too.
func TestRegisterForeignKeys(t *testing.T) {
	a, hub, _ := registered(t)
	patch := []byte(`{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"now"},"labels":{"mine":"x"}}}`)
	if _, err := hub.Resource(secrets).Namespace(Namespace).Patch(t.Context(), "cluster-prod", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl"}); err != nil {
		t.Fatal(err)
	}
	hub.Writes()
	if lines, err := a.Register(t.Context(), prod(nil), &rest.Config{}); err != nil || len(lines) != 0 || len(hub.Writes()) != 0 {
		t.Errorf("foreign key reported as a difference: %v, %v", lines, err)
	}
	change := func(l, _ map[string]lab.Value) { delete(l, "environment") }
	if _, err := a.Register(t.Context(), prod(change), &rest.Config{}); err != nil {
		t.Fatal(err)
	}
	o := hub.Get(t, secrets, Namespace, "cluster-prod")
	if o.GetLabels()["mine"] != "x" || o.GetAnnotations()["argocd.argoproj.io/refresh"] != "now" {
		t.Errorf("labels %v, annotations %v", o.GetLabels(), o.GetAnnotations())
	}
	if _, has := o.GetLabels()["environment"]; has {
		t.Error("lab's own label was kept")
	}
}

// A recreated cluster has other credentials under the same name.
func TestRegisterRenewsCredentials(t *testing.T) {
	a, _, spoke := registered(t)
	issue(t, spoke, "token-2")
	lines, err := a.Register(t.Context(), prod(nil), &rest.Config{})
	if err != nil || !slices.Equal(lines, []string{"credentials renewed"}) {
		t.Errorf("%v, %v", lines, err)
	}
	for _, l := range lines {
		if strings.Contains(l, "token-") {
			t.Errorf("token in the output: %s", l)
		}
	}
}

func TestRegisterHub(t *testing.T) {
	a, hub, spoke := newFake(t)
	reg := lab.Registration{Cluster: "hub", Server: InCluster}
	for i, want := range [][]string{{"registered as " + InCluster}, nil} {
		lines, err := a.Register(t.Context(), reg, nil)
		if err != nil || !slices.Equal(lines, want) {
			t.Errorf("Register %d: %v, %v", i+1, lines, err)
		}
	}
	if got := kube.SecretField(hub.Get(t, secrets, Namespace, "cluster-hub"), "config"); got != `{"tlsClientConfig":{"insecure":false}}` {
		t.Error(got)
	}
	if w := spoke.Writes(); len(w) != 0 {
		t.Errorf("requests to a spoke: %v", w)
	}
}

func TestRegisterTokenTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, _ := newFake(t)
		start := time.Now()
		_, err := a.Register(t.Context(), prod(nil), &rest.Config{})
		if !errors.Is(err, kube.ErrNoToken) || !strings.Contains(err.Error(), "cluster prod") || time.Since(start) != 30*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		if _, err := hub.Resource(secrets).Namespace(Namespace).Get(t.Context(), "cluster-prod", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("registered without credentials: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Register(ctx, prod(nil), &rest.Config{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled Register = %v", err)
		}
	})
}

func TestObserveRegistrations(t *testing.T) {
	a, hub, _ := registered(t)
	hub.create(t, `
apiVersion: v1
kind: Secret
metadata: {name: cluster-other, namespace: argocd, labels: {argocd.argoproj.io/secret-type: cluster}}
`)
	s, err := a.Observe(t.Context())
	if err != nil || len(s.Registrations) != 1 || s.Registrations[0].Cluster != "prod" {
		t.Fatalf("%+v, %v", s, err)
	}
	if d := engine.Diff(prod(nil), s.Registrations[0]); len(d) != 0 {
		t.Errorf("%v", d)
	}
	if s.Installed() || s.Ready {
		t.Errorf("%+v", s)
	}
}
