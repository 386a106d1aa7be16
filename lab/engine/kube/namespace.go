package kube

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
)

// Resources of the core groups.
var (
	Namespaces          = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	Secrets             = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	ConfigMaps          = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	ServiceAccounts     = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	ClusterRoles        = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	ClusterRoleBindings = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
)

// namespaceWithin bounds the wait for a terminating namespace.
const namespaceWithin = 90 * time.Second

// Namespace is a namespace that lab needs in a cluster.
type Namespace struct {
	Name   string
	Labels map[string]any
	// Leaving is called while the namespace is terminating, to remove what blocks it; may be nil.
	Leaving func(context.Context) error
}

// Ensure creates the namespace if absent. An existing one is left alone; a terminating one is waited for.
func (n Namespace) Ensure(ctx context.Context, in dynamic.Interface, p lab.Progress) error {
	seen, err := n.settled(ctx, in, p)
	if err != nil || seen == There {
		return err
	}
	_, _, err = Apply(ctx, in, Namespaces, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": n.Name, "labels": n.Labels},
	}})
	return err
}

// Presence is the state of a namespace.
type Presence int

// Presences
const (
	Absent Presence = iota
	There
	Leaving // terminating
)

// ObserveNamespace reads a namespace.
func ObserveNamespace(ctx context.Context, in dynamic.Interface, name string) (Presence, error) {
	ns, err := in.Resource(Namespaces).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Absent, nil
	case err != nil:
		return Absent, fmt.Errorf("namespace %s: %w", name, err)
	case ns.GetDeletionTimestamp() != nil:
		return Leaving, nil
	}
	return There, nil
}

// settled waits until the namespace is not terminating.
func (n Namespace) settled(ctx context.Context, in dynamic.Interface, p lab.Progress) (Presence, error) {
	within, cancel := context.WithTimeout(ctx, namespaceWithin)
	defer cancel()
	for {
		seen, err := ObserveNamespace(within, in, n.Name)
		if err != nil || seen != Leaving {
			return seen, err
		}
		p("waiting for the removal of namespace " + n.Name)
		if n.Leaving != nil {
			if err := n.Leaving(within); err != nil && within.Err() == nil {
				return seen, err
			}
		}
		if lab.Sleep(within, 500*time.Millisecond) == nil {
			continue
		}
		if ctx.Err() != nil {
			return seen, ctx.Err()
		}
		return seen, &lab.Error{
			Exit: lab.ExitTimeout, Code: "namespace_stuck",
			Message: fmt.Sprintf("namespace %s is still terminating after %s", n.Name, lab.WholeSeconds(namespaceWithin)),
			Cure:    "its status shows the cause: kubectl get namespace " + lab.Quote(n.Name) + " -o yaml",
		}
	}
}
