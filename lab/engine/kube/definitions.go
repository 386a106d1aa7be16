package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
)

// CRDs is the resource of CustomResourceDefinitions.
var CRDs = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Helm's annotations with the release of an object.
const helmRelease, helmNamespace = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"

// Definitions are the CustomResourceDefinitions of an engine in a cluster, which may have some of them from another installation.
type Definitions struct {
	Of        func(name string) bool // whether one, PLURAL.GROUP, is the engine's
	Release   string                 // lab's Helm release of the engine
	Namespace string                 // of the release
	Attached  bool                   // the cluster, whose owner may have had a release of the same name
}

// Find returns the engine's definitions in a cluster: those that lab's release brought, and those of others or from before the cluster was attached.
func (d Definitions) Find(ctx context.Context, c Clients) (own, others []unstructured.Unstructured, err error) {
	var came metav1.Time
	if d.Attached {
		if came, err = attachedAt(ctx, c); err != nil {
			return nil, nil, err
		}
	}
	err = each(ctx, c, CRDs, func(o *unstructured.Unstructured) {
		a, created := o.GetAnnotations(), o.GetCreationTimestamp()
		switch {
		case !d.Of(o.GetName()):
		case a[helmRelease] == d.Release && a[helmNamespace] == d.Namespace && !created.Before(&came):
			own = append(own, *o)
		default:
			others = append(others, *o)
		}
	})
	return own, others, err
}

// Remove deletes the definitions that lab brought and that have no objects. It describes those that stay, and returns one that is still being deleted.
func (d Definitions) Remove(ctx context.Context, c Clients) (stays []string, left string, err error) {
	own, _, err := d.Find(ctx, c)
	if err != nil {
		return nil, "", err
	}
	for i := range own {
		crd, used := &own[i], ""
		err := each(ctx, c, definedBy(crd), func(o *unstructured.Unstructured) {
			used = strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
		})
		if err != nil {
			return stays, left, err
		}
		if used != "" {
			stays = append(stays, fmt.Sprintf("customresourcedefinition %s stays, with %s", crd.GetName(), used))
			continue
		}
		left = "definition " + crd.GetName()
		if crd.GetDeletionTimestamp() != nil {
			continue
		}
		if err := c.Dynamic.Resource(CRDs).Delete(ctx, crd.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return stays, left, Wrap(left, err)
		}
	}
	return stays, left, nil
}

// definedBy returns a served version of a definition's kind.
func definedBy(crd *unstructured.Unstructured) schema.GroupVersionResource {
	plural, group, _ := strings.Cut(crd.GetName(), ".")
	kind := schema.GroupVersionResource{Group: group, Resource: plural}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["served"] == true {
			kind.Version, _ = m["name"].(string)
			return kind
		}
	}
	return kind
}

// claim labels the engine's own objects as the lab's, so that an interrupted removal still finds them, and removes their finalizers, which no controller handles any more.
func (d Definitions) claim(ctx context.Context, c Clients, labName string, mine func(*unstructured.Unstructured) bool) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": nil, "labels": map[string]string{lab.LabelName: labName}}})
	if err != nil {
		return err
	}
	_, err = d.own(ctx, c, mine, func(objects schema.GroupVersionResource, o *unstructured.Unstructured) error {
		if len(o.GetFinalizers()) == 0 && o.GetLabels()[lab.LabelName] == labName {
			return nil
		}
		client, what := Place(c.Dynamic, objects, o)
		_, err := client.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return Wrap(what, err)
	})
	return err
}

// empty deletes the engine's own objects, and returns one that still exists.
func (d Definitions) empty(ctx context.Context, c Clients, mine func(*unstructured.Unstructured) bool) (string, error) {
	return d.own(ctx, c, mine, func(objects schema.GroupVersionResource, o *unstructured.Unstructured) error {
		client, what := Place(c.Dynamic, objects, o)
		err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return Wrap(what, err)
	})
}

// own calls do for the objects of the definitions that are the lab's, and returns the last one.
func (d Definitions) own(ctx context.Context, c Clients, mine func(*unstructured.Unstructured) bool, do func(schema.GroupVersionResource, *unstructured.Unstructured) error) (string, error) {
	own, others, err := d.Find(ctx, c)
	if err != nil {
		return "", err
	}
	last, list := "", append(own, others...)
	for i := range list {
		var found []*unstructured.Unstructured
		kind := definedBy(&list[i])
		err := each(ctx, c, kind, func(o *unstructured.Unstructured) {
			if mine(o) {
				found = append(found, o)
			}
		})
		for _, o := range found {
			if err == nil {
				_, last = Place(c.Dynamic, kind, o)
				err = do(kind, o)
			}
		}
		if err != nil {
			return last, err
		}
	}
	return last, nil
}
