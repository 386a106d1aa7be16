package argocd

import (
	"context"
	"fmt"
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
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
)

// cluster is an in-memory Kubernetes API with server-side apply and increasing resourceVersions.
type cluster struct {
	*dynamicfake.FakeDynamicClient
	typed   *fake.Clientset
	mu      sync.Mutex
	version int
	// refuse maps requests to their errors: verb and resource, "patch secrets" -> error.
	refuse map[string]error
}

var kinds = map[schema.GroupVersionResource]string{
	applications: "Application", applicationSets: "ApplicationSet", appProjects: "AppProject", namespaces: "Namespace",
	kube.BesideKinds["ConfigMap"]: "ConfigMap", kube.BesideKinds["Service"]: "Service", kube.BesideKinds["Deployment"]: "Deployment",
	secrets: "Secret", serviceAccounts: "ServiceAccount", roleBindings: "ClusterRoleBinding",
}

func newCluster(t *testing.T, manifests ...string) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	lists := map[schema.GroupVersionResource]string{}
	for r, kind := range kinds {
		gvk := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: kind}
		scheme.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: kind + "List"}, &unstructured.UnstructuredList{})
		lists[r] = kind + "List"
	}
	c := &cluster{FakeDynamicClient: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, lists), typed: fake.NewClientset(), refuse: map[string]error{}}
	tracker := clienttesting.NewFieldManagedObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder(), managedfields.NewDeducedTypeConverter())
	react := clienttesting.ObjectReaction(tracker)
	c.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.refuse[a.GetVerb()+" "+a.GetResource().Resource]; err != nil {
			return true, nil, err
		}
		handled, o, err := react(a)
		if u, ok := o.(*unstructured.Unstructured); ok && err == nil && (a.GetVerb() == "patch" || a.GetVerb() == "create" || a.GetVerb() == "update") {
			// The tracker derives one kind from the Go type, which is Unstructured for all of these.
			u.SetGroupVersionKind(a.GetResource().GroupVersion().WithKind(kinds[a.GetResource()]))
			c.version++
			u.SetResourceVersion(strconv.Itoa(c.version))
			if err := tracker.Update(a.GetResource(), u.DeepCopy(), u.GetNamespace()); err != nil {
				return true, nil, err
			}
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
		list, err := tracker.List(a.GetResource(), a.GetResource().GroupVersion().WithKind(kinds[a.GetResource()]), a.GetNamespace())
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
		c.create(t, m)
	}
	c.ClearActions()
	return c
}

// create creates the documents of a manifest as another client.
func (c *cluster) create(t *testing.T, manifest string) {
	t.Helper()
	objects, err := decode([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		for r, kind := range kinds {
			if kind != o.GetKind() {
				continue
			}
			if o.GetNamespace() == "" && (r == applications || r == applicationSets) {
				o.SetNamespace(Namespace)
			}
			if _, err := c.Resource(r).Namespace(o.GetNamespace()).Create(context.Background(), o, metav1.CreateOptions{FieldManager: "someone"}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// get returns an object without server-managed fields.
func (c *cluster) get(t *testing.T, r schema.GroupVersionResource, ns, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := c.Resource(r).Namespace(ns).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// names returns the sorted names of a kind's objects in Argo CD's namespace.
func (c *cluster) names(t *testing.T, r schema.GroupVersionResource) []string {
	t.Helper()
	list, err := c.Resource(r).Namespace(Namespace).List(t.Context(), metav1.ListOptions{})
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

// argoManager is the field manager for Argo CD's own changes.
const argoManager = "argocd"

// writes returns lab's mutating requests since the last call.
func (c *cluster) writes() []string {
	var out []string
	for _, a := range c.Actions() {
		switch a.GetVerb() {
		case "get", "list", "watch":
		default:
			name := ""
			if p, ok := a.(clienttesting.PatchActionImpl); ok {
				if p.PatchOptions.FieldManager == argoManager {
					continue
				}
				name = " " + p.GetName()
			}
			out = append(out, a.GetVerb()+" "+a.GetResource().Resource+name)
		}
	}
	c.ClearActions()
	return out
}

func (c *cluster) clients() kube.Clients { return kube.Clients{Dynamic: c, Typed: c.typed} }

// fakeRelease is an in-memory Helm release.
type fakeRelease struct {
	state helm.State
	fail  error
	calls int
	in    string // namespace of the last call
}

func (r *fakeRelease) Observe(context.Context, string) (helm.State, error) { return r.state, r.fail }

func (r *fakeRelease) Ensure(_ context.Context, want helm.Release, p lab.Progress) (helm.Result, error) {
	if r.fail != nil {
		return helm.Result{}, r.fail
	}
	inputs, err := helm.Inputs(want.Chart, want.Values)
	if err != nil {
		return helm.Result{}, err
	}
	r.in = want.Namespace
	reason, missing := "chart or values changed", r.state.Missing
	if r.state.Inputs == inputs {
		if len(missing) == 0 {
			return helm.Result{State: r.state}, nil
		}
		reason, r.state.Missing = missing[0]+" is gone", nil
	}
	p(fmt.Sprintf("%s %s: upgrading, %s", want.Chart.Name, want.Chart.Version, reason))
	r.calls++
	r.state.Revision++
	r.state.Inputs, r.state.Status, r.state.App, r.state.Chart = inputs, "deployed", "v3.2.11", want.Chart.Version
	return helm.Result{State: r.state, Changed: true, Reason: reason, Replaced: missing}, nil
}

// theDefaultProject is created by Argo CD's first start.
const theDefaultProject = `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
`

// newFake returns an engine with an in-memory hub and spoke.
func newFake(t *testing.T, manifests ...string) (a *ArgoCD, hub, spoke *cluster) {
	t.Helper()
	hub, spoke = newCluster(t, append(manifests, theDefaultProject)...), newCluster(t)
	a = &ArgoCD{
		lab: "homelab", namespace: Namespace, hub: hub.clients(), release: &fakeRelease{},
		connect: func(*rest.Config) (kube.Clients, error) { return spoke.clients(), nil },
	}
	return a, hub, spoke
}

func toYAML(t *testing.T, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
