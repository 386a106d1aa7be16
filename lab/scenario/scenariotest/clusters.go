package scenariotest

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/testing"

	"homelab/lab/scenario"
)

// kinds are the kinds that the clusters serve.
func kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		{Version: "v1", Kind: "ConfigMap"},
		{Version: "v1", Kind: "ServiceAccount"},
		{Version: "v1", Kind: "Event"},
		{Version: "v1", Kind: "Service"},
		{Version: "v1", Kind: "Secret"},
		{Version: "v1", Kind: "Pod"},
		{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"},
		{Group: "argoproj.io", Version: "v1alpha1", Kind: "ApplicationSet"},
		{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"},
		{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"},
		{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "GitRepository"},
		{Group: customGroup, Version: "v1", Kind: "Shelf"},
	}
}

// customGroup is the group of the kind that a cluster serves only with its definition.
const customGroup = "example.com"

// clusterKinds are the cluster-scoped kinds.
func clusterKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Version: "v1", Kind: "Namespace"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
		policyKind(),
		bindingKind(),
		definitionKind(),
	}
}

// Clusters is an in-memory scenario.Clusters with one fake client per cluster.
type Clusters struct {
	mu      sync.Mutex
	clients map[string]*fake.FakeDynamicClient
	apis    map[string]*api
	mapper  meta.RESTMapper
	version int
	changed func() // called on every change
	Paused  map[string]bool
	Logs    map[string]string // pod/container -> log

	Forbidden map[string]bool // resources that may not be listed
}

// NewClusters returns empty clusters.
func NewClusters(names ...string) *Clusters {
	mapper := meta.NewDefaultRESTMapper(nil)
	lists := map[schema.GroupVersionResource]string{}
	add := func(k schema.GroupVersionKind, scope meta.RESTScope) {
		mapper.Add(k, scope)
		resource, _ := meta.UnsafeGuessKindToResource(k)
		lists[resource] = k.Kind + "List"
	}
	for _, k := range kinds() {
		add(k, meta.RESTScopeNamespace)
	}
	for _, k := range clusterKinds() {
		add(k, meta.RESTScopeRoot)
	}
	c := &Clusters{clients: map[string]*fake.FakeDynamicClient{}, apis: map[string]*api{}, mapper: mapper, version: 1000, changed: func() {}, Paused: map[string]bool{}}
	for _, name := range names {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
		client.PrependReactor("*", "*", c.versions(client))
		c.clients[name] = client
		c.apis[name] = &api{name: name, clusters: c, breaks: make(chan struct{})}
	}
	return c
}

// versions sets resource versions as a real API server does, refuses outdated updates, and implements apply.
func (c *Clusters) versions(client *fake.FakeDynamicClient) testing.ReactionFunc {
	return func(action testing.Action) (bool, runtime.Object, error) {
		switch a := action.(type) {
		case testing.CreateActionImpl:
			c.stamp(a.GetObject())
		case testing.UpdateActionImpl:
			o, ok := a.GetObject().(*unstructured.Unstructured)
			now, err := client.Tracker().Get(a.GetResource(), a.GetNamespace(), o.GetName())
			if ok && err == nil && o.GetResourceVersion() != "" && now.(*unstructured.Unstructured).GetResourceVersion() != o.GetResourceVersion() {
				return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), o.GetName(), fmt.Errorf("it was changed"))
			}
			c.stamp(a.GetObject())
		case testing.PatchActionImpl:
			if a.GetPatchType() == types.ApplyPatchType {
				o, err := c.apply(client, a)
				return true, o, err
			}
		}
		return false, nil, nil
	}
}

func (c *Clusters) stamp(o runtime.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	if m, err := meta.Accessor(o); err == nil {
		m.SetGeneration(max(1, m.GetGeneration()))
		m.SetResourceVersion(strconv.Itoa(c.version))
		if m.GetUID() == "" {
			m.SetUID(types.UID(strconv.Itoa(c.version)))
		}
	}
}

// latest returns the version of the last change.
func (c *Clusters) latest() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// apply merges an object into the live one.
func (c *Clusters) apply(client *fake.FakeDynamicClient, a testing.PatchActionImpl) (runtime.Object, error) {
	want := &unstructured.Unstructured{}
	if err := want.UnmarshalJSON(a.GetPatch()); err != nil {
		return nil, err
	}
	now, err := client.Tracker().Get(a.GetResource(), a.GetNamespace(), a.GetName())
	if apierrors.IsNotFound(err) {
		c.stamp(want)
		err := client.Tracker().Create(a.GetResource(), want, a.GetNamespace())
		if err == nil {
			c.start(client, a.GetResource(), want.DeepCopy())
		}
		return want, err
	}
	if err != nil {
		return nil, err
	}
	o := now.DeepCopyObject().(*unstructured.Unstructured)
	before := o.DeepCopy()
	if want.GetKind() == "ConfigMap" && a.GetNamespace() != "argocd" {
		delete(o.Object, "data") // of which the applier owns all
	}
	overlay(o.Object, want.Object)
	if !reflect.DeepEqual(before.Object["spec"], o.Object["spec"]) {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	c.stamp(o)
	return o, client.Tracker().Update(a.GetResource(), o, a.GetNamespace())
}

func overlay(under, over map[string]any) {
	for k, v := range over {
		m, isMap := v.(map[string]any)
		below, wasMap := under[k].(map[string]any)
		if isMap && wasMap {
			overlay(below, m)
			continue
		}
		under[k] = v
	}
}

// Client returns the client of a cluster as seen from outside.
func (c *Clusters) Client(cluster string) (scenario.Client, error) {
	client, err := c.within(cluster)
	if err == nil {
		client.Dynamic = outside{client.Dynamic, c.apis[cluster]}
		client.Logs = func(_ context.Context, _, pod string, o *corev1.PodLogOptions) ([]byte, error) {
			return []byte(c.Logs[pod+"/"+o.Container]), nil
		}
	}
	return client, err
}

// within returns a client that works whether the cluster answers or not.
func (c *Clusters) within(cluster string) (scenario.Client, error) {
	client, ok := c.clients[cluster]
	if !ok {
		return scenario.Client{}, fmt.Errorf("no cluster %s", cluster)
	}
	return scenario.Client{Dynamic: client, Mapper: c.mapper}, nil
}

// Pause freezes a cluster: neither clients nor the engine reach it.
func (c *Clusters) Pause(_ context.Context, cluster string) error { return c.setPaused(cluster, true) }

// Resume undoes Pause.
func (c *Clusters) Resume(_ context.Context, cluster string) error {
	return c.setPaused(cluster, false)
}

func (c *Clusters) setPaused(cluster string, to bool) error {
	way, ok := c.apis[cluster]
	if !ok {
		return fmt.Errorf("no cluster %s", cluster)
	}
	defer c.changed()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Paused[cluster] = to; to {
		way.Shut()
	} else {
		way.Open()
	}
	return nil
}

// bootTakes is how long a reboot takes.
const bootTakes = 5 * time.Second

// Reboot cuts a cluster off for a while.
func (c *Clusters) Reboot(_ context.Context, cluster, node string) error {
	if node != "" && node != cluster+"-control-plane" {
		return fmt.Errorf("cluster %s has no node %s", cluster, node)
	}
	if err := c.setPaused(cluster, true); err != nil {
		return err
	}
	c.BreakOff(cluster)
	time.AfterFunc(bootTakes, func() { must(c.setPaused(cluster, false)) })
	return nil
}

// Partition cuts a cluster off, like Pause.
func (c *Clusters) Partition(_ context.Context, cluster string) error {
	return c.setPaused(cluster, true)
}

// Repair undoes Partition.
func (c *Clusters) Repair(_ context.Context, cluster string) error {
	return c.setPaused(cluster, false)
}

// Shut cuts a cluster off from clients; the engine still reaches it.
func (c *Clusters) Shut(cluster string) { c.apis[cluster].Shut() }

// Open undoes Shut.
func (c *Clusters) Open(cluster string) { c.apis[cluster].Open() }

// BreakOff ends all watches of a cluster.
func (c *Clusters) BreakOff(cluster string) { c.apis[cluster].breakOff() }

// IsPaused reports whether a cluster is paused.
func (c *Clusters) IsPaused(cluster string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Paused[cluster]
}
