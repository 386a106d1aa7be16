//go:build e2e

package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/ui"
)

// asRendered compares what runs with `lab render`: every object is there, applying it again would change nothing, and the engine has applied no other.
func asRendered(t *testing.T, l *testLab) {
	res := decode[ui.RenderResult](l, "render", "--show-secrets")
	for _, p := range res.Problems {
		t.Logf("%s:%d: %s", p.File, p.Line, p.Message)
	}
	hub, leftOut := "", map[string]bool{}
	status := decode[ui.Status](l, "status")
	for _, a := range status.Applications {
		leftOut[a.Name] = a.LeftOut != "" // also because a host does not answer
	}
	for _, c := range status.Clusters {
		if c.Role == string(lab.RoleHub) {
			hub = c.Name
		}
	}
	targets := map[string]*target{}
	all, equal := 0, 0
	for _, app := range res.Applications {
		if leftOut[app.Name] || app.LeftOut != "" || !app.Complete {
			continue
		}
		ids := map[string][]string{} // by HelmRelease
		for _, o := range app.Objects {
			var object unstructured.Unstructured
			if err := object.UnmarshalJSON([]byte(o.Object)); err != nil {
				t.Fatal(err)
			}
			if o.Hook != "" { // may be gone
				continue
			}
			ids[o.Release] = append(ids[o.Release], idOf(&object))
			if targets[o.Cluster] == nil {
				targets[o.Cluster] = l.target(o.Cluster)
			}
			all++
			if diff := targets[o.Cluster].changes(t, &object); diff != "" {
				t.Errorf("%s: %s on %s (%s:%d) differs from what runs:\n%s", app.Name, idOf(&object), o.Cluster, o.File, o.Line, diff)
			} else {
				equal++
			}
		}
		for release, applied := range l.applied(t, hub, app, targets) {
			slices.Sort(ids[release])
			slices.Sort(applied)
			if diff := cmp.Diff(slices.Compact(ids[release]), slices.Compact(applied)); diff != "" {
				t.Errorf("%s %s: rendered (-) and applied objects (+) differ:\n%s", app.Name, release, diff)
			}
		}
	}
	if all == 0 {
		t.Error("no object was rendered")
	}
	t.Logf("%d of %d objects equal what %s runs", equal, all, res.Engine)
}

// liveCompared requires that `lab diff --live` finds nothing, and then a change of the estate that is not pushed.
func liveCompared(t *testing.T, l *testLab) {
	asRendered(t, l)
	l.must("diff", "--live", "--check")
	const values = "environments/dev/addons/podinfo/values.yaml"
	before := l.read(values)
	defer func() {
		l.write(values, before)
		l.must("generate") // for Flux
	}()
	l.write(values, before+"replicaCount: 3\n")
	l.must("generate")
	out := l.run("diff", "--live", "--addon", "podinfo", "-o", "json", "--check")
	var res ui.DiffResult
	if err := json.Unmarshal([]byte(out.stdout), &res); err != nil || out.code != int(lab.ExitUnmet) {
		t.Fatalf("lab diff --live: exit %d, %v\n%s", out.code, err, out.stderr)
	}
	found := slices.ContainsFunc(res.Changes, func(c ui.DiffChange) bool {
		return c.Kind == "Deployment" && c.Cluster == "dev" && len(c.Fields) == 1 && c.Fields[0].Path == "spec.replicas" && c.Fields[0].After == "3"
	})
	if !found || res.Applications == 0 || len(res.Unknown) > 0 {
		t.Errorf("the change is not found alone: %s", out.stdout)
	}
}

func idOf(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s %s/%s", o.GroupVersionKind().Group, o.GetKind(), o.GetNamespace(), o.GetName())
}

// target is a cluster.
type target struct {
	mapper meta.RESTMapper
	client dynamic.Interface
}

func (l *testLab) target(cluster string) *target {
	return &target{restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(l.kube(cluster).Discovery())), l.dynamic(cluster)}
}

// resource returns the API of an object.
func (c *target) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.client.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
	}
	return c.client.Resource(mapping.Resource), nil
}

// changes returns what applying an object would change, or "". Nothing is applied.
func (c *target) changes(t *testing.T, o *unstructured.Unstructured) string {
	resource, err := c.resource(o)
	if err != nil {
		return err.Error()
	}
	live, err := resource.Get(t.Context(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	after, err := resource.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "rendered", Force: true, DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err.Error()
	}
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(after.Object, "metadata", field)
	}
	has, _ := common(live.Object, after.Object).(map[string]any)
	return cmp.Diff(has, after.Object)
}

// common returns live without the keys that after lacks: an engine's controller may add to its own objects, also in lists that are replaced as a whole.
func common(live, after any) any {
	switch after := after.(type) {
	case map[string]any:
		of, ok := live.(map[string]any)
		if !ok {
			return live
		}
		kept := map[string]any{}
		for key, v := range after {
			if have, ok := of[key]; ok {
				kept[key] = common(have, v)
			}
		}
		return kept
	case []any:
		of, ok := live.([]any)
		if !ok || len(of) != len(after) {
			return live
		}
		kept := make([]any, len(of))
		for i := range of {
			kept[i] = common(of[i], after[i])
		}
		return kept
	}
	return live
}

// inventoried matches an id in an inventory of Flux: NAMESPACE_NAME_GROUP_KIND.
var inventoried = regexp.MustCompile(`^([^_]*)_(.*)_([^_]*)_([^_]*)$`)

// applied returns what the engine says that it has applied, by HelmRelease.
func (l *testLab) applied(t *testing.T, hub string, app ui.RenderedApplication, targets map[string]*target) map[string][]string {
	var is unstructured.Unstructured
	if err := is.UnmarshalJSON([]byte(app.Manifest)); err != nil {
		t.Fatal(err)
	}
	home := hub
	if strings.Contains(l.read("clusters/"+hub+"/cluster.yaml"), "shape: standalone") {
		home = app.Cluster
	}
	if targets[home] == nil {
		targets[home] = l.target(home)
	}
	live := targets[home].get(t, &is)
	applied := map[string][]string{}
	text := func(of any, key string) string {
		fields, _ := of.(map[string]any)
		s, _ := fields[key].(string)
		return s
	}
	resources, _, _ := unstructured.NestedSlice(live.Object, "status", "resources") // Argo CD's
	for _, r := range resources {
		applied[""] = append(applied[""], fmt.Sprintf("%s %s %s/%s", text(r, "group"), text(r, "kind"), text(r, "namespace"), text(r, "name")))
	}
	entries, _, _ := unstructured.NestedSlice(live.Object, "status", "inventory", "entries") // Flux'
	for _, e := range entries {
		id := inventoried.FindStringSubmatch(text(e, "id"))
		if id == nil {
			t.Fatalf("id %v", e)
		}
		applied[""] = append(applied[""], fmt.Sprintf("%s %s %s/%s", id[3], id[4], id[1], strings.ReplaceAll(id[2], "__", ":")))
	}
	for _, o := range app.Objects {
		if o.Release != "" && applied[o.Release] == nil {
			applied[o.Release] = released(t, targets[home], targets[o.Cluster], o.Release)
		}
	}
	return applied
}

func (c *target) get(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	resource, err := c.resource(o)
	if err != nil {
		t.Fatal(err)
	}
	live, err := resource.Get(t.Context(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// released returns the objects of a HelmRelease's last release, without hooks.
func released(t *testing.T, home, target *target, name string) []string {
	object := func(version, kind, namespace, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(version)
		o.SetKind(kind)
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	namespace, name, _ := strings.Cut(name, "/")
	release := home.get(t, object("helm.toolkit.fluxcd.io/v2", "HelmRelease", namespace, name))
	storage, _, _ := unstructured.NestedString(release.Object, "status", "storageNamespace")
	history, _, _ := unstructured.NestedSlice(release.Object, "status", "history")
	if len(history) == 0 {
		t.Fatalf("HelmRelease %s has no history", name)
	}
	last, _ := history[0].(map[string]any)
	secret := target.get(t, object("v1", "Secret", storage, fmt.Sprintf("sh.helm.release.v1.%v.v%v", last["name"], last["version"])))
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", "release")
	var of struct {
		Manifest  string `json:"manifest"`
		Namespace string `json:"namespace"`
	}
	if err := unzip(encoded, &of); err != nil {
		t.Fatalf("release of %s: %v", name, err)
	}
	var ids []string
	for _, doc := range strings.Split(of.Manifest, "\n---\n") {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(doc, "---\n")), &o.Object); err != nil {
			t.Fatal(err)
		}
		if len(o.Object) == 0 {
			continue
		}
		mapping, err := target.mapper.RESTMapping(o.GroupVersionKind().GroupKind())
		if err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace && o.GetNamespace() == "" {
			o.SetNamespace(of.Namespace)
		}
		ids = append(ids, idOf(&o))
	}
	return ids
}

// unzip decodes what Helm stores: JSON, compressed, in Base64, in the Base64 of a Secret.
func unzip(encoded string, v any) error {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		data, err = base64.StdEncoding.DecodeString(string(data))
	}
	if err != nil {
		return err
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return json.NewDecoder(r).Decode(v)
}
