package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
)

// Extras manages the extra objects of a root in an engine's namespace.
type Extras struct {
	Hub       dynamic.Interface
	Namespace string
	Lab       string
}

// ExtraKinds are the supported kinds of a root's extra objects.
var ExtraKinds = map[string]schema.GroupVersionResource{
	"ConfigMap":  ConfigMaps,
	"Secret":     Secrets,
	"Service":    {Version: "v1", Resource: "services"},
	"Deployment": {Group: "apps", Version: "v1", Resource: "deployments"},
}

// ExtraPart is the part label of a root's extra objects.
const ExtraPart = "front"

func extraResource(o *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	r, ok := ExtraKinds[o.GetKind()]
	if !ok {
		return r, fmt.Errorf("%s %s: unsupported kind", strings.ToLower(o.GetKind()), o.GetName())
	}
	return r, nil
}

// Apply applies a root's extra objects, deletes those no longer needed, and reports whether anything changed.
func (e Extras) Apply(ctx context.Context, objects []*unstructured.Unstructured) (bool, error) {
	applied, kept := false, map[string]bool{}
	for _, o := range objects {
		resource, err := extraResource(o)
		if err != nil {
			return applied, err
		}
		before, after, err := Apply(ctx, e.Hub, resource, o)
		if err != nil {
			return applied, err
		}
		applied = applied || Changed(before, after)
		kept[o.GetKind()+"/"+o.GetName()] = true
	}
	// Engines retry a failed connection to them only after minutes.
	if err := e.await(ctx, objects); err != nil {
		return applied, err
	}
	for _, kind := range slices.Sorted(maps.Keys(ExtraKinds)) {
		client := e.Hub.Resource(ExtraKinds[kind]).Namespace(e.Namespace)
		list, err := client.List(ctx, metav1.ListOptions{LabelSelector: lab.LabelName + "=" + e.Lab + "," + lab.LabelPart + "=" + ExtraPart})
		if err != nil {
			return applied, fmt.Errorf("%s: %w", ExtraKinds[kind].Resource, err)
		}
		for _, o := range list.Items {
			if kept[kind+"/"+o.GetName()] {
				continue
			}
			if err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return applied, fmt.Errorf("%s %s: %w", strings.ToLower(kind), o.GetName(), err)
			}
			applied = true
		}
	}
	return applied, nil
}

// extraWithin bounds the wait for a Deployment, on a slow and busy machine.
const extraWithin = 2 * time.Minute

// await waits until the current Deployments are available.
func (e Extras) await(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		client, what := Place(e.Hub, ExtraKinds["Deployment"], o)
		last := "not created"
		err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, extraWithin, true, func(ctx context.Context) (bool, error) {
			have, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
			if err != nil {
				last = err.Error()
				return false, nil //nolint:nilerr // retried until the deadline
			}
			status, _, _ := unstructured.NestedMap(have.Object, "status")
			count := func(key string) int64 { n, _, _ := unstructured.NestedInt64(status, key); return n }
			last = fmt.Sprintf("%d of %d replicas available", count("availableReplicas"), count("replicas"))
			return count("observedGeneration") >= have.GetGeneration() && count("updatedReplicas") > 0 && count("availableReplicas") == count("replicas"), nil
		})
		if err != nil && ctx.Err() == nil {
			return &lab.Error{Exit: lab.ExitTimeout, Code: "not_ready", Message: fmt.Sprintf("%s is not available after %s, last seen: %s", what, extraWithin, last), Cure: "lab up retries; lab diagnose collects details"}
		}
		if err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// Drift describes missing or modified extra objects.
func (e Extras) Drift(ctx context.Context, objects []*unstructured.Unstructured) ([]string, error) {
	var lines []string
	for _, o := range objects {
		resource, err := extraResource(o)
		if err != nil {
			return nil, err
		}
		have, _, err := Compare(ctx, e.Hub, resource, o)
		if err != nil {
			return nil, err
		}
		objects, what := Place(e.Hub, resource, o)
		if have == nil {
			lines = append(lines, what+" is gone")
			continue
		}
		// Lists of containers and ports contain defaults: only the API server can compare them.
		would, err := objects.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: FieldManager, Force: true, DryRun: []string{metav1.DryRunAll}})
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", what, err)
		case Changed(have, would):
			lines = append(lines, what+" was changed")
		}
	}
	return lines, nil
}
