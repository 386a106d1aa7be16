package dryrun

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/diff"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/render"
)

var (
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
)

// newCluster returns a cluster on an in-memory API, which also carries out dry runs.
func newCluster(t *testing.T, manifests ...string) (*Cluster, *kubetest.Cluster) {
	t.Helper()
	api := kubetest.New(t, kubetest.Kinds{configMaps: "ConfigMap", applications: "Application"}, manifests...)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(configMaps.GroupVersion().WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(applications.GroupVersion().WithKind("Application"), meta.RESTScopeNamespace)
	return &Cluster{client: api, mapper: mapper}, api
}

// app returns an application of a manifest.
func app(t *testing.T, manifest string) desired.App {
	t.Helper()
	return desired.App{
		Application: lab.Application{Name: "web", Addon: "web", Cluster: "dev"},
		Parts: []desired.Part{{Cluster: "dev", Render: func() (docs []render.Document, err error) {
			for doc := range strings.SplitSeq(manifest, "---\n") {
				var n yaml.Node
				if err := yaml.Unmarshal([]byte(doc), &n); err != nil {
					t.Fatal(err)
				}
				docs = append(docs, render.Document{Node: n.Content[0], File: "web.yaml"})
			}
			return docs, nil
		}}},
	}
}

// compare returns the differences between what runs and what an application wants, as lines.
func compare(t *testing.T, c *Cluster, a desired.App) (lines []string) {
	t.Helper()
	clusters := Clusters{Connect: func(string) (*Cluster, error) { return c, nil }, Home: func(desired.App) string { return "hub" }}
	is, would, err := clusters.Compare(t.Context(), []desired.App{a}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	found := diff.Compare(is, would, nil)
	for _, g := range found.Changes {
		line := string(g.Kind) + " " + g.Object.String()
		for _, f := range g.Fields {
			line += " " + string(f.Kind) + " " + f.Path.String()
		}
		lines = append(lines, line)
	}
	for _, u := range found.Unknown {
		lines = append(lines, "unknown "+u.Part+": "+u.Before.Message)
	}
	return lines
}

const wanted = `apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: web}
data: {a: "1"}
`

func TestCompare(t *testing.T) {
	const toy = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: one, namespace: web}\nspec: {a: x}\n" // the in-memory API has no strategy for built-in kinds
	const applied = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: one
  namespace: web
  annotations:
    argocd.argoproj.io/tracking-id: web:/ConfigMap:web/one
    kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"one","namespace":"web","annotations":{"argocd.argoproj.io/tracking-id":"web:/ConfigMap:web/one"}},"spec":{"a":"x","b":"y"}}'
spec: {a: x, b: y, c: theirs}
`
	for _, tc := range []struct {
		name, live, want string
		lines            []string
	}{
		{"the same", wanted, wanted, nil},
		{"another value", strings.Replace(wanted, `"1"`, `"2"`, 1), wanted, []string{"changed ConfigMap web/one changed data.a"}},
		{"missing", "", wanted, []string{"added ConfigMap web/one"}},
		{"removed, applied by the client", applied, toy, []string{"changed Application web/one removed spec.b"}},
		{"somebody's", strings.Replace(wanted, "\ndata: {", "\ndata: {c: theirs, ", 1), wanted, nil},
		{"unknown kind", wanted, strings.Replace(wanted, "kind: ConfigMap", "kind: Toy", 1), []string{`unknown Toy web/one: no matches for kind "Toy" in version "v1"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, api := newCluster(t)
			if tc.live != "" {
				api.Create(t, "web", tc.live)
			}
			api.ClearActions()
			if got := compare(t, c, app(t, tc.want)); !slices.Equal(got, tc.lines) {
				t.Errorf("%q, want %q", got, tc.lines)
			}
			for _, a := range api.Actions() {
				if p, ok := a.(clienttesting.PatchActionImpl); a.GetVerb() != "get" && (!ok || !slices.Equal(p.PatchOptions.DryRun, []string{metav1.DryRunAll})) {
					t.Errorf("no dry run: %v", a)
				}
			}
		})
	}
}

// What the engine that applies on the server's side had applied, and no longer wants, goes; somebody else's fields stay.
func TestCompareApplied(t *testing.T) {
	c, api := newCluster(t)
	apply := func(manager, manifest string) {
		t.Helper()
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := api.Resource(configMaps).Namespace("web").Apply(t.Context(), "one", o, metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	apply("kustomize-controller", strings.Replace(wanted, "\ndata: {", "\ndata: {b: x, ", 1))
	apply("somebody", strings.Replace(wanted, `a: "1"`, "c: theirs", 1))
	if got, want := compare(t, c, app(t, wanted)), []string{"changed ConfigMap web/one removed data.b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCompareRefused(t *testing.T) {
	c, api := newCluster(t)
	api.Create(t, "web", wanted)
	api.Refuse("patch configmaps", errors.New("data is immutable"))
	if got, want := compare(t, c, app(t, wanted)), []string{"unknown ConfigMap web/one: data is immutable"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRefused(t *testing.T) {
	c, api := newCluster(t)
	api.Create(t, "web", wanted)
	clusters := Clusters{Connect: func(string) (*Cluster, error) { return c, nil }}
	key := Object{"web", "dev", "ConfigMap web/one"}
	apps := []desired.App{app(t, wanted)}
	if got := clusters.Refused(t.Context(), apps, map[Object]bool{key: true}); len(got) > 0 {
		t.Errorf("%q", got)
	}
	api.Refuse("patch configmaps", apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "one", field.ErrorList{field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set")}))
	if got := clusters.Refused(t.Context(), apps, nil); len(got) > 0 {
		t.Errorf("not asked: %q", got)
	}
	got := clusters.Refused(t.Context(), apps, map[Object]bool{key: true})
	if why := got[key]; len(got) != 1 || !strings.Contains(why, "data: Forbidden: field is immutable") {
		t.Errorf("%q", got)
	}
	ending := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "one", errors.New("being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	api.Refuse("patch configmaps", ending)
	if got := clusters.Refused(t.Context(), apps, map[Object]bool{key: true}); len(got) > 0 {
		t.Errorf("a namespace that goes: %q", got)
	}
}

// A cluster that does not answer is asked once.
func TestCompareSilent(t *testing.T) {
	c, api := newCluster(t)
	api.Refuse("get configmaps", &url.Error{Op: "Get", URL: "https://127.0.0.1:1", Err: errors.New("connection refused")})
	got := compare(t, c, app(t, wanted+"---\n"+strings.Replace(wanted, "one", "two", 1)))
	if len(got) != 2 || !strings.Contains(got[0], "connection refused") || len(api.Actions()) != 1 {
		t.Errorf("%q, %d requests", got, len(api.Actions()))
	}
}

// The manifest of an application is compared, too, and what its engine has applied and it no longer has is removed.
func TestCompareManifest(t *testing.T) {
	c, api := newCluster(t)
	api.Create(t, "web", wanted)
	api.Create(t, "web", strings.Replace(wanted, "one", "former", 1))
	api.Create(t, "argocd", `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web}
spec: {project: default}
status:
  resources:
    - {version: v1, kind: ConfigMap, namespace: web, name: one}
    - {version: v1, kind: ConfigMap, namespace: web, name: former}
`)
	a := app(t, wanted)
	a.Manifest = map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": map[string]any{"name": "web", "namespace": "argocd"}, "spec": map[string]any{"project": "other"}}
	if got, want := compare(t, c, a), []string{"changed Application argocd/web changed spec.project", "removed ConfigMap web/former"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What cannot be asked about the manifest is said.
func TestCompareManifestRefused(t *testing.T) {
	c, api := newCluster(t)
	api.Create(t, "web", wanted)
	api.Refuse("get applications", errors.New("no permission"))
	a := app(t, wanted)
	a.Manifest = map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": map[string]any{"name": "web", "namespace": "argocd"}}
	if got, want := compare(t, c, a), []string{"unknown itself: no permission"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestApplied(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"inventory": map[string]any{"entries": []any{
		map[string]any{"id": "web_web_apps_Deployment", "v": "v1"}, map[string]any{"id": "_system__node_rbac.authorization.k8s.io_ClusterRole", "v": "v1"}, map[string]any{"id": "garbled"},
	}}}}}
	var got []string
	for _, o := range applied(o) {
		got = append(got, idOf(o))
	}
	if want := []string{"Deployment.apps web/web", "ClusterRole.rbac.authorization.k8s.io /system:node"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
