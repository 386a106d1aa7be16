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
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
)

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
	Installed  bool                        // in a namespace that has no other engine's objects
	Uninstall  func(context.Context) error // removes its release
	Kinds      Definitions                 // its own, on the hub
	Namespaces []string                    // its own on the hub, including Namespace
	Access     Access                      // in spokes
	Traces     Traces
	Applied    func(spoke string) []Object // what it applied in a spoke, or on the hub if spoke is empty
	Attached   func(spoke string) bool     // whether lab attached that cluster, which has objects of its owner's; nil means it made all
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
	mine, err := r.mine(ctx, hub)
	if err != nil {
		return err
	}
	if err := r.Kinds.claim(ctx, hub, r.Lab, mine); err != nil {
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
			if _, err := r.Traces.Erase(within, c, r.Applied(spoke), r.Attached != nil && r.Attached(spoke)); err != nil {
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
	if err := r.removeKinds(ctx, hub, mine, p); err != nil {
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

// mine returns a function that reports whether an object of the engine's kinds is the lab's.
func (r Retirement) mine(ctx context.Context, hub Clients) (func(*unstructured.Unstructured) bool, error) {
	own, err := r.ownNamespaces(ctx, hub)
	if err != nil {
		return nil, err
	}
	own[r.Namespace] = own[r.Namespace] || r.Installed
	applied := map[Object]bool{}
	for _, o := range r.Applied("") {
		applied[o] = true
	}
	return func(o *unstructured.Unstructured) bool {
		if o.GetLabels()[lab.LabelName] == r.Lab || own[o.GetNamespace()] {
			return true
		}
		is := r.Traces.Origin(o)
		return is == Ours || is == Untold && applied[ObjectOf(o)]
	}, nil
}

// removeKinds deletes the engine's objects, and its definitions without other users.
func (r Retirement) removeKinds(ctx context.Context, hub Clients, mine func(*unstructured.Unstructured) bool, p lab.Progress) error {
	if err := await(ctx, retiredWithin, p, func(ctx context.Context) (string, error) { return r.Kinds.empty(ctx, hub, mine) }); err != nil {
		return err
	}
	var stays []string
	err := await(ctx, retiredWithin, p, func(ctx context.Context) (left string, err error) {
		stays, left, err = r.Kinds.Remove(ctx, hub)
		return left, err
	})
	for _, s := range stays {
		p(s)
	}
	return err
}

// ownNamespaces returns those of the engine's namespaces that lab created.
func (r Retirement) ownNamespaces(ctx context.Context, hub Clients) (map[string]bool, error) {
	own := map[string]bool{}
	for _, name := range r.Namespaces {
		ns, err := hub.Dynamic.Resource(Namespaces).Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, Wrap("namespace "+name, err)
		}
		if err == nil && ns.GetLabels()[lab.LabelName] == r.Lab {
			own[name] = true
		}
	}
	return own, nil
}

// removeNamespaces deletes the engine's namespaces that lab created.
func (r Retirement) removeNamespaces(ctx context.Context, hub Clients, p lab.Progress) error {
	return await(ctx, retiredWithin, p, func(ctx context.Context) (string, error) {
		own, err := r.ownNamespaces(ctx, hub)
		left := ""
		for _, name := range slices.Sorted(maps.Keys(own)) {
			left = "namespace " + name
			if err := hub.Dynamic.Resource(Namespaces).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return left, Wrap(left, err)
			}
		}
		return left, err
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
