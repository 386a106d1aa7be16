package argocd

import (
	"context"
	"fmt"
	"time"

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

// Argo CD's identity in a spoke. The names are those of `argocd cluster add`, in lab's own namespace.
const (
	SpokeNamespace = "lab-system"
	spokeAccount   = "argocd-manager"
	spokeToken     = "argocd-manager-token"
	spokeBinding   = "lab-" + spokeAccount
)

// credential is Argo CD's access to a spoke.
type credential struct {
	token string
	ca    []byte // PEM
}

// credentials ensures Argo CD's ServiceAccount in a spoke, and returns its token. The token is bound to a Secret and does not expire, since a lab may be
// suspended for weeks. made reports whether anything had to be created or repaired.
func (a *ArgoCD) credentials(ctx context.Context, spoke dynamic.Interface) (cred credential, made bool, err error) {
	if err := a.ensureNamespace(ctx, spoke, SpokeNamespace, silent); err != nil {
		return credential{}, false, err
	}
	account := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": map[string]any{"name": spokeAccount, "namespace": SpokeNamespace, "labels": a.labels(registration)},
	}}
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": map[string]any{"name": spokeBinding, "labels": a.labels(registration)},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": spokeAccount, "namespace": SpokeNamespace}},
	}}
	token := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
		"metadata": map[string]any{
			"name": spokeToken, "namespace": SpokeNamespace, "labels": a.labels(registration),
			"annotations": map[string]any{"kubernetes.io/service-account.name": spokeAccount},
		},
	}}
	var issued *unstructured.Unstructured
	for _, part := range []struct {
		resource schema.GroupVersionResource
		want     *unstructured.Unstructured
	}{{serviceAccounts, account}, {roleBindings, binding}, {secrets, token}} {
		before, after, err := apply(ctx, spoke, part.resource, part.want)
		if err != nil {
			return credential{}, made, err
		}
		made, issued = made || changed(before, after), after
	}
	if c, ok := readCredential(issued); ok {
		return c, made, nil
	}
	cred, err = awaitToken(ctx, spoke)
	return cred, made, err
}

func readCredential(o *unstructured.Unstructured) (credential, bool) {
	c := credential{token: secretField(o, "token"), ca: []byte(secretField(o, "ca.crt"))}
	return c, c.token != "" && len(c.ca) > 0
}

// awaitToken waits until the token controller has filled the Secret.
func awaitToken(ctx context.Context, spoke dynamic.Interface) (credential, error) {
	start := time.Now()
	within, cancel := context.WithTimeout(ctx, tokenWithin)
	defer cancel()
	one := fields.OneTermEqualSelector("metadata.name", spokeToken).String()
	objects := spoke.Resource(secrets).Namespace(SpokeNamespace)
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
	var found credential
	_, err := watchtools.UntilWithSync(within, lw, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		o, isObject := e.Object.(*unstructured.Unstructured)
		if !isObject || o.GetName() != spokeToken {
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
		return credential{}, ctx.Err()
	}
	return credential{}, fmt.Errorf("%w for %s/%s in %s", errNoToken, SpokeNamespace, spokeAccount, time.Since(start).Round(time.Second))
}
