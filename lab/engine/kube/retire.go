package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
)

// CRDs is the resource of CustomResourceDefinitions.
var CRDs = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

const (
	gracePeriod   = 20 * time.Second // for the engine's pods
	stoppedWithin = 2 * time.Minute  // until they have ended
	retiredWithin = 2 * time.Minute  // until its kinds and namespaces are gone
	retireEvery   = 300 * time.Millisecond
)

// Retirement removes an engine from a lab. Applied objects stay in the clusters, without traces of it. Every step may have been done before, so that an
// interrupted run can be resumed.
type Retirement struct {
	Title      string
	Lab        string
	Namespace  string                      // of its workloads
	Workloads  []string                    // "Deployment/server"
	Uninstall  func(context.Context) error // removes its release
	Of         func(crd string) bool       // whether a CRD is the engine's
	Namespaces []string                    // its own on the hub, including Namespace
	Access     Access                      // in spokes
	Traces     Traces
	// Leave removes anything else of the engine in a spoke, or on the hub if spoke is empty; may be nil.
	Leave func(ctx context.Context, spoke string, c Clients) error
}

// Run removes the engine: first its workloads, as a running one would delete the applied objects with its own; then its release, traces and access in all clusters,
// and last its objects, kinds and namespaces on the hub.
func (r Retirement) Run(ctx context.Context, hub Clients, spokes map[string]Clients, p lab.Progress) error {
	p("stopping " + r.Title)
	if err := r.stop(ctx, hub, p); err != nil {
		return err
	}
	if err := r.Uninstall(ctx); err != nil {
		return err
	}
	p("releasing the objects applied by " + r.Title)
	group, within := errgroup.WithContext(ctx)
	clean := func(spoke string, c Clients) {
		name := cmp.Or(spoke, "hub")
		group.Go(func() error {
			if r.Leave != nil {
				if err := r.Leave(within, spoke, c); err != nil {
					return fmt.Errorf("cluster %s: %w", name, err)
				}
			}
			if _, err := r.Traces.Erase(within, c); err != nil {
				return fmt.Errorf("cluster %s: %w", name, err)
			}
			if spoke == "" {
				return nil
			}
			if err := r.Access.Revoke(within, c.Dynamic); err != nil {
				return fmt.Errorf("cluster %s: %w", name, err)
			}
			return nil
		})
	}
	clean("", hub)
	for _, name := range slices.Sorted(maps.Keys(spokes)) {
		clean(name, spokes[name])
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := r.removeKinds(ctx, hub, p); err != nil {
		return err
	}
	return r.removeNamespaces(ctx, hub, p)
}

// stop deletes the engine's workloads and waits until their pods are gone. Their own grace periods may be too long to wait for: Flux's helm-controller has ten
// minutes to finish an upgrade, whose record is removed next.
func (r Retirement) stop(ctx context.Context, hub Clients, p lab.Progress) error {
	names := map[string]bool{}
	for _, w := range r.Workloads {
		kind, name, _ := strings.Cut(w, "/")
		names[name] = true
		var err error
		switch kind {
		case "Deployment":
			err = hub.Typed.AppsV1().Deployments(r.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		case "StatefulSet":
			err = hub.Typed.AppsV1().StatefulSets(r.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return Wrap(strings.ToLower(kind)+" "+name, err)
		}
	}
	killed, now := map[types.UID]bool{}, int64(1) // 0 would delete the object while the process may run
	began := time.Now()
	return await(ctx, stoppedWithin, p, func(ctx context.Context) (string, error) {
		pods, err := hub.Typed.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		left := ""
		for _, pod := range pods.Items {
			for name := range names {
				if !strings.HasPrefix(pod.Name, name+"-") {
					continue
				}
				left = "pod " + pod.Name
				if killed[pod.UID] || time.Since(began) < gracePeriod {
					continue
				}
				killed[pod.UID] = true
				if err := hub.Typed.CoreV1().Pods(r.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
					return left, Wrap(left, err)
				}
			}
		}
		return left, nil
	})
}

// removeKinds deletes the engine's objects, without their finalizers, and CRDs.
func (r Retirement) removeKinds(ctx context.Context, hub Clients, p lab.Progress) error {
	return await(ctx, retiredWithin, p, func(ctx context.Context) (string, error) {
		list, err := hub.Dynamic.Resource(CRDs).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		left := ""
		for i := range list.Items {
			crd := &list.Items[i]
			if !r.Of(crd.GetName()) {
				continue
			}
			left = "definition " + crd.GetName()
			if err := unfinalizeAll(ctx, hub, crd); err != nil {
				return left, fmt.Errorf("%s: %w", left, err)
			}
			if crd.GetDeletionTimestamp() != nil {
				continue
			}
			if err := hub.Dynamic.Resource(CRDs).Delete(ctx, crd.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return left, fmt.Errorf("%s: %w", left, err)
			}
		}
		return left, nil
	})
}

// unfinalizeAll removes the finalizers of all objects of a kind.
func unfinalizeAll(ctx context.Context, hub Clients, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	if len(versions) == 0 {
		return nil // not served
	}
	kind := schema.GroupVersionResource{Group: group, Version: versions[len(versions)-1], Resource: plural}
	list, err := hub.Dynamic.Resource(kind).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range list.Items {
		o := &list.Items[i]
		if len(o.GetFinalizers()) == 0 {
			continue
		}
		objects, what := Place(hub.Dynamic, kind, o)
		_, err := objects.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: FieldManager})
		if err != nil && !apierrors.IsNotFound(err) {
			return Wrap(what, err)
		}
	}
	return nil
}

// removeNamespaces deletes the engine's namespaces that lab created.
func (r Retirement) removeNamespaces(ctx context.Context, hub Clients, p lab.Progress) error {
	return await(ctx, retiredWithin, p, func(ctx context.Context) (string, error) {
		left := ""
		for _, name := range r.Namespaces {
			ns, err := hub.Dynamic.Resource(Namespaces).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && ns.GetLabels()[lab.LabelName] != r.Lab {
				continue
			}
			if err == nil && ns.GetDeletionTimestamp() == nil {
				err = hub.Dynamic.Resource(Namespaces).Delete(ctx, name, metav1.DeleteOptions{})
			}
			left = "namespace " + name
			if err != nil && !apierrors.IsNotFound(err) {
				return left, Wrap(left, err)
			}
		}
		return left, nil
	})
}

// await polls until look returns no remaining object.
func await(ctx context.Context, limit time.Duration, p lab.Progress, look func(context.Context) (string, error)) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for last := ""; ; {
		left, err := look(within)
		switch {
		case err != nil && within.Err() == nil:
			return err
		case err == nil && left == "":
			return nil
		case left != last && err == nil:
			last = left
			p("waiting for the removal of " + left)
		}
		if lab.Sleep(within, retireEvery) == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &lab.Error{
			Exit: lab.ExitTimeout, Code: "engine_not_gone", Message: fmt.Sprintf("%s is not gone within %s", last, lab.WholeSeconds(limit)),
			Cure: "run lab up again to continue; lab diagnose collects details",
		}
	}
}
