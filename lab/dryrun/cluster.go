package dryrun

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"homelab/lab/argo"
)

// patience is how long an API server may take for a request.
const patience = 10 * time.Second

// Cluster asks the API server of a cluster. One that does not answer is asked no more.
type Cluster struct {
	client dynamic.Interface
	mapper meta.RESTMapper
	silent atomic.Pointer[error]
}

// Connect returns the cluster of a configuration. It makes no request.
func Connect(cfg *rest.Config) (*Cluster, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Timeout = -1, patience // the API server sheds load by itself
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	discover, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Cluster{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discover))}, nil
}

// resource returns the API of an object.
func (c *Cluster) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
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

// read returns an object as it is, or nil if there is none.
func (c *Cluster) read(ctx context.Context, o *unstructured.Unstructured) (live *unstructured.Unstructured, err error) {
	if err := c.silent.Load(); err != nil {
		return nil, *err
	}
	resource, err := c.resource(o)
	if err == nil {
		live, err = resource.Get(ctx, o.GetName(), metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if failed := new(url.Error); errors.As(err, &failed) {
		c.silent.Store(&err)
	}
	return live, err
}

// compare returns an object as it is, nil if there is none, and as it would be after it was applied in the way of the engine that has applied it before. An error is
// also what the API server refuses.
func (c *Cluster) compare(ctx context.Context, o *unstructured.Unstructured) (is, would map[string]any, err error) {
	live, err := c.read(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	resource, err := c.resource(o)
	if err != nil {
		return nil, nil, err
	}
	dry := []string{metav1.DryRunAll}
	if live == nil {
		next, err := resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true, DryRun: dry})
		if apierrors.IsNotFound(err) { // its namespace is to come
			next, err = o, nil
		}
		if err != nil {
			return nil, nil, err
		}
		return nil, clean(next), nil
	}
	o = withMarks(o, live)
	var next *unstructured.Unstructured
	if former := live.GetAnnotations()[lastApplied]; former != "" && applier(live) == "" {
		var patch []byte
		var kind types.PatchType
		if patch, kind, err = threeWay([]byte(former), o, live); err == nil {
			next, err = resource.Patch(ctx, o.GetName(), kind, patch, metav1.PatchOptions{FieldManager: manager, DryRun: dry})
		}
	} else {
		by := applier(live)
		if by == "" {
			by = manager
		}
		next, err = resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: by, Force: true, DryRun: dry})
	}
	if err != nil {
		return nil, nil, err
	}
	return clean(live), clean(next), nil
}

const (
	manager     = "lab-diff" // of the dry runs; an object has no fields of it
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// appliers are the field managers of engines that apply on the server's side.
var appliers = []string{argo.Manager, "kustomize-controller", "helm-controller"}

// applier returns the engine that has applied an object on the server's side, or "".
func applier(live *unstructured.Unstructured) string {
	for _, entry := range live.GetManagedFields() {
		if entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" && slices.Contains(appliers, entry.Manager) {
			return entry.Manager
		}
	}
	return ""
}

// marks are the labels and annotations by which engines know what they have applied.
var marks = []string{argo.TrackingID, argo.InstallationID, "kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace", "helm.toolkit.fluxcd.io/", "meta.helm.sh/", "app.kubernetes.io/managed-by"}

// withMarks returns an object with the marks of the live one that it does not have itself.
func withMarks(o, live *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	marked := func(of, has map[string]string) map[string]string {
		for key, value := range has {
			if _, own := of[key]; !own && slices.ContainsFunc(marks, func(m string) bool { return strings.HasPrefix(key, m) }) {
				if of == nil {
					of = map[string]string{}
				}
				of[key] = value
			}
		}
		return of
	}
	o.SetLabels(marked(o.GetLabels(), live.GetLabels()))
	o.SetAnnotations(marked(o.GetAnnotations(), live.GetAnnotations()))
	return o
}

// threeWay returns the patch of kubectl apply: what the former configuration has and o has not is removed.
func threeWay(former []byte, o, live *unstructured.Unstructured) ([]byte, types.PatchType, error) {
	want, err := json.Marshal(o)
	if err != nil {
		return nil, "", err
	}
	is, err := json.Marshal(live)
	if err != nil {
		return nil, "", err
	}
	typed, err := scheme.Scheme.New(o.GroupVersionKind())
	if err != nil { // a definition's, which has no strategy
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(former, want, is)
		return patch, types.MergePatchType, err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return nil, "", err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(former, want, is, schema, true)
	return patch, types.StrategicMergePatchType, err
}

// clean returns an object without what the API server adds to each.
func clean(o *unstructured.Unstructured) map[string]any {
	of := o.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(of.Object, "metadata", field)
	}
	annotations := of.GetAnnotations()
	delete(annotations, lastApplied)
	if len(annotations) == 0 {
		annotations = nil
	}
	of.SetAnnotations(annotations)
	delete(of.Object, "status")
	return of.Object
}

// applied returns the objects that an engine says it has applied for an Application or a Kustomization.
func applied(live *unstructured.Unstructured) (list []*unstructured.Unstructured) {
	add := func(group, version, kind, namespace, name string) {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(strings.TrimPrefix(group+"/"+version, "/"))
		o.SetKind(kind)
		o.SetNamespace(namespace)
		o.SetName(name)
		list = append(list, o)
	}
	text := func(of any, key string) string {
		fields, _ := of.(map[string]any)
		s, _ := fields[key].(string)
		return s
	}
	resources, _, _ := unstructured.NestedSlice(live.Object, "status", "resources") // Argo CD's
	for _, r := range resources {
		fields, _ := r.(map[string]any)
		if hook, _ := fields["hook"].(bool); !hook {
			add(text(r, "group"), text(r, "version"), text(r, "kind"), text(r, "namespace"), text(r, "name"))
		}
	}
	entries, _, _ := unstructured.NestedSlice(live.Object, "status", "inventory", "entries") // Flux'
	for _, e := range entries {
		// NAMESPACE_NAME_GROUP_KIND, with __ for a colon in a name
		id := strings.Split(strings.ReplaceAll(text(e, "id"), "__", ":"), "_")
		if len(id) == 4 {
			add(id[2], text(e, "v"), id[3], id[0], id[1])
		}
	}
	return list
}
