// Package kubetest provides an in-memory Kubernetes API.
package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab/engine/kube"
)

// Others is the field manager of other clients, whose requests are not among Writes.
const Others = "others"

// Kinds maps the resources of an API to their kinds.
type Kinds map[schema.GroupVersionResource]string

// Core returns the kinds used by every engine.
func Core() Kinds {
	kinds := Kinds{kube.Namespaces: "Namespace", kube.ServiceAccounts: "ServiceAccount", kube.ClusterRoles: "ClusterRole", kube.ClusterRoleBindings: "ClusterRoleBinding"}
	for kind, r := range kube.ExtraKinds {
		kinds[r] = kind
	}
	return kinds
}

// Cluster is an in-memory Kubernetes API with server-side apply and increasing resourceVersions.
type Cluster struct {
	*dynamicfake.FakeDynamicClient
	Typed *fake.Clientset

	kinds   Kinds
	mu      sync.Mutex
	version int
	refused map[string]error
	live    bool // see Live
}

// New returns a cluster with these kinds.
func New(t *testing.T, kinds Kinds, manifests ...string) *Cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	lists := map[schema.GroupVersionResource]string{}
	for r, kind := range kinds {
		gvk := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: kind}
		scheme.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: kind + "List"}, &unstructured.UnstructuredList{})
		lists[r] = kind + "List"
	}
	c := &Cluster{
		FakeDynamicClient: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, lists), Typed: fake.NewClientset(), kinds: kinds, refused: map[string]error{},
	}
	tracker := clienttesting.NewFieldManagedObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder(), managedfields.NewDeducedTypeConverter())
	react := clienttesting.ObjectReaction(tracker)
	c.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.refused[a.GetVerb()+" "+a.GetResource().Resource]; err != nil {
			return true, nil, err
		}
		handled, o, err := react(a)
		if u, ok := o.(*unstructured.Unstructured); ok && err == nil && (a.GetVerb() == "patch" || a.GetVerb() == "create" || a.GetVerb() == "update") {
			// The tracker derives one kind from the Go type, which is Unstructured for all of these.
			u.SetGroupVersionKind(a.GetResource().GroupVersion().WithKind(c.kinds[a.GetResource()]))
			c.version++
			u.SetResourceVersion(strconv.Itoa(c.version))
			if err := tracker.Update(a.GetResource(), u.DeepCopy(), u.GetNamespace()); err != nil {
				return true, nil, err
			}
		}
		if named, ok := a.(clienttesting.DeleteAction); ok && c.live && err == nil && a.GetResource() == kube.Namespaces {
			c.collect(tracker, named.GetName())
		}
		if list, ok := o.(*unstructured.UnstructuredList); ok && err == nil {
			list.SetResourceVersion(strconv.Itoa(c.version))
		}
		return handled, o, err
	})
	c.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		w, err := tracker.Watch(a.GetResource(), a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		// A real watch continues after the preceding list; the tracker's omits changes in between.
		list, err := tracker.List(a.GetResource(), a.GetResource().GroupVersion().WithKind(c.kinds[a.GetResource()]), a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		listed := version64(a.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion)
		return true, w, meta.EachListItem(list, func(o runtime.Object) error {
			if u := o.(*unstructured.Unstructured); version64(u.GetResourceVersion()) > listed {
				w.(*watch.RaceFreeFakeWatcher).Modify(u)
			}
			return nil
		})
	})
	for _, m := range manifests {
		c.Create(t, "", m)
	}
	c.ClearActions()
	return c
}

func version64(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// Refuse makes requests, such as "patch secrets", fail; nil makes them succeed again.
func (c *Cluster) Refuse(request string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[request] = err
}

// Create creates the documents of a manifest, in namespace unless they have one, as another client: the manager of their managedFields, or Others.
func (c *Cluster) Create(t *testing.T, namespace, manifest string) {
	t.Helper()
	docs := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(manifest)), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := docs.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if o.GetNamespace() == "" && !slices.Contains(clusterScoped(), o.GetKind()) {
			o.SetNamespace(namespace)
		}
		by := Others
		if managed := o.GetManagedFields(); len(managed) > 0 {
			by = managed[0].Manager
			o.SetManagedFields(nil)
		}
		if o.GetUID() == "" {
			o.SetUID(types.UID(strings.ToLower(o.GetKind()) + "-" + o.GetNamespace() + "-" + o.GetName()))
		}
		for r, kind := range c.kinds {
			if kind != o.GetKind() {
				continue
			}
			if _, err := c.Resource(r).Namespace(o.GetNamespace()).Create(context.Background(), o, metav1.CreateOptions{FieldManager: by}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// clusterScoped returns the kinds of objects without a namespace.
func clusterScoped() []string {
	return []string{"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
}

// Get returns an object.
func (c *Cluster) Get(t *testing.T, r schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := c.Resource(r).Namespace(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Names returns the sorted names of a kind's objects in a namespace; "" for all.
func (c *Cluster) Names(t *testing.T, r schema.GroupVersionResource, namespace string) []string {
	t.Helper()
	list, err := c.Resource(r).Namespace(namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range list.Items {
		names = append(names, o.GetName())
	}
	slices.Sort(names)
	return names
}

// Versions returns the resourceVersions of the objects whose names contain one of the words, by kind and name; of all without words. An object that was deleted
// and created again has another version.
func (c *Cluster) Versions(t *testing.T, words ...string) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for r, kind := range c.kinds {
		list, err := c.Resource(r).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return strings.Contains(o.GetName(), w) }) {
				versions[kind+" "+o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
			}
		}
	}
	return versions
}

// Patch changes an object as another client.
func (c *Cluster) Patch(t *testing.T, r schema.GroupVersionResource, namespace, name string, patch map[string]any) {
	t.Helper()
	b, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resource(r).Namespace(namespace).Patch(context.Background(), name, types.MergePatchType, b, metav1.PatchOptions{FieldManager: Others}); err != nil {
		t.Fatal(err)
	}
}

// Writes returns lab's mutating requests since the last call: verb, resource and name.
func (c *Cluster) Writes() []string {
	var out []string
	for _, a := range c.Actions() {
		switch a.GetVerb() {
		case "get", "list", "watch":
			continue
		}
		name := ""
		if p, ok := a.(clienttesting.PatchActionImpl); ok && p.PatchOptions.FieldManager == Others {
			continue
		}
		if named, ok := a.(interface{ GetName() string }); ok {
			name = " " + named.GetName()
		}
		out = append(out, a.GetVerb()+" "+a.GetResource().Resource+name)
	}
	c.ClearActions()
	return out
}

// Clients returns the clients of the cluster.
func (c *Cluster) Clients() kube.Clients { return kube.Clients{Dynamic: c, Typed: c.Typed} }
