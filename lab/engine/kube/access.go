package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"homelab/lab"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// SpokeNamespace is lab's own namespace in a spoke.
const SpokeNamespace = "lab-system"

// tokenWithin bounds the wait for a token: the token controller answers in milliseconds.
const tokenWithin = 30 * time.Second

// Access is an account of the lab's in a cluster: an engine's in a spoke, or its door's.
type Access struct {
	Account string         // ServiceAccount in SpokeNamespace
	Labels  map[string]any // of all its objects
	Rules   []any          // RBAC rules, as in a ClusterRole; nil for all rights
}

func (x Access) token() string { return x.Account + "-token" }

// Binding is the name of the account's ClusterRoleBinding.
func (x Access) Binding() string { return "lab-" + x.Account }

// Credential is an engine's credential for a spoke.
type Credential struct {
	Token string
	CA    []byte // PEM
}

// Ensure creates the account if missing, with its rights, and reads its token. The token is bound to a Secret and does not expire, since a lab may
// be stopped for weeks; it ends with the cluster. made reports whether anything was created or repaired. SpokeNamespace must exist. Objects of the same names that
// are not the lab's are not overwritten.
func (x Access) Ensure(ctx context.Context, spoke dynamic.Interface) (cred Credential, made bool, err error) {
	if err := x.free(ctx, spoke, Namespaces, "", SpokeNamespace); err != nil {
		return Credential{}, false, err
	}
	var issued *unstructured.Unstructured
	for _, part := range x.parts() {
		if err := x.free(ctx, spoke, part.resource, part.want.GetNamespace(), part.want.GetName()); err != nil {
			return Credential{}, made, err
		}
		before, after, err := Apply(ctx, spoke, part.resource, part.want)
		if err != nil {
			return Credential{}, made, err
		}
		made, issued = made || Changed(before, after), after
	}
	if c, ok := readCredential(issued); ok {
		return c, made, nil
	}
	cred, err = x.awaitToken(ctx, spoke)
	return cred, made, err
}

// Observe returns the account's token, and whether the account is as Ensure makes it.
func (x Access) Observe(ctx context.Context, in dynamic.Interface) (cred Credential, whole bool, err error) {
	for _, part := range x.parts() {
		have, same, err := Compare(ctx, in, part.resource, part.want)
		if err != nil || !same {
			return Credential{}, false, err
		}
		cred, whole = readCredential(have)
	}
	return cred, whole, nil
}

// part is an object of an account.
type part struct {
	resource schema.GroupVersionResource
	want     *unstructured.Unstructured
}

// parts returns the objects of the account, the Secret last.
func (x Access) parts() []part {
	role := "cluster-admin"
	var list []part
	add := func(resource schema.GroupVersionResource, o map[string]any) {
		list = append(list, part{resource, &unstructured.Unstructured{Object: o}})
	}
	add(ServiceAccounts, map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": map[string]any{"name": x.Account, "namespace": SpokeNamespace, "labels": x.Labels},
	})
	if x.Rules != nil {
		role = x.Binding()
		add(ClusterRoles, map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
			"metadata": map[string]any{"name": role, "labels": x.Labels}, "rules": x.Rules,
		})
	}
	add(ClusterRoleBindings, map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": map[string]any{"name": x.Binding(), "labels": x.Labels},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": x.Account, "namespace": SpokeNamespace}},
	})
	add(Secrets, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
		"metadata": map[string]any{
			"name": x.token(), "namespace": SpokeNamespace, "labels": x.Labels,
			"annotations": map[string]any{"kubernetes.io/service-account.name": x.Account},
		},
	})
	return list
}

// free returns an error if an object exists that is not the lab's.
func (x Access) free(ctx context.Context, spoke dynamic.Interface, resource schema.GroupVersionResource, namespace, name string) error {
	o, err := spoke.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && any(o.GetLabels()[lab.LabelName]) == x.Labels[lab.LabelName] {
		return nil
	}
	what := strings.TrimSuffix(resource.Resource, "s") + " " + name
	if err != nil {
		return Wrap(what, err)
	}
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "not_ours", Message: "the cluster has a " + what + " that is not the lab's",
		Cure: "rename or remove it there, or take the cluster out of the estate",
	}
}

func readCredential(o *unstructured.Unstructured) (Credential, bool) {
	c := Credential{Token: SecretField(o, "token"), CA: []byte(SecretField(o, "ca.crt"))}
	return c, c.Token != "" && len(c.CA) > 0
}

// awaitToken watches the Secret until the token controller has filled it.
func (x Access) awaitToken(ctx context.Context, spoke dynamic.Interface) (Credential, error) {
	start := time.Now()
	within, cancel := context.WithTimeout(ctx, tokenWithin)
	defer cancel()
	one := fields.OneTermEqualSelector("metadata.name", x.token()).String()
	objects := spoke.Resource(Secrets).Namespace(SpokeNamespace)
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = one
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = one
			return objects.Watch(ctx, o)
		},
	}, spoke)
	var found Credential
	_, err := watchtools.UntilWithSync(within, lw, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		o, isObject := e.Object.(*unstructured.Unstructured)
		if !isObject || o.GetName() != x.token() {
			return false, nil
		}
		c, ok := readCredential(o)
		if ok {
			found = c
		}
		return ok, nil
	})
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return Credential{}, ctx.Err()
	}
	return Credential{}, fmt.Errorf("%w for %s/%s in %s", ErrNoToken, SpokeNamespace, x.Account, time.Since(start).Round(time.Second))
}

// ErrNoToken means that the token controller did not answer.
var ErrNoToken = errors.New("no token was issued")

// Revoke deletes the account from a spoke, but not lab's namespace.
func (x Access) Revoke(ctx context.Context, spoke dynamic.Interface) error {
	for _, part := range slices.Backward(x.parts()) {
		if err := remove(ctx, spoke, part, x.Labels[lab.LabelName]); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes an object if it is the lab's.
func remove(ctx context.Context, in dynamic.Interface, p part, labName any) error {
	objects, name := Place(in, p.resource, p.want)
	o, err := objects.Get(ctx, p.want.GetName(), metav1.GetOptions{})
	if err == nil && any(o.GetLabels()[lab.LabelName]) == labName {
		err = objects.Delete(ctx, p.want.GetName(), metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return Wrap(name, err)
	}
	return nil
}
