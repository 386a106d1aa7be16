package kubetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab/engine/kube"
)

// Live adds what Kubernetes' own controllers do until the test ends: tokens are issued to ServiceAccounts, and a namespace is deleted with its objects.
func (c *Cluster) Live(t *testing.T) *Cluster {
	t.Helper()
	c.mu.Lock()
	c.live = true
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for issued := 0; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				issued = c.issue(ctx, issued)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// issue fills token Secrets, and returns the number of tokens issued so far.
func (c *Cluster) issue(ctx context.Context, issued int) int {
	list, err := c.Resource(kube.Secrets).List(ctx, metav1.ListOptions{})
	if err != nil {
		return issued
	}
	for i := range list.Items {
		o := &list.Items[i]
		if o.Object["type"] != "kubernetes.io/service-account-token" || kube.SecretField(o, "token") != "" {
			continue
		}
		issued++
		encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
		patch, err := json.Marshal(map[string]any{"data": map[string]any{"token": encode("token-" + strconv.Itoa(issued)), "ca.crt": encode("PEM")}})
		if err != nil {
			return issued
		}
		// One that is deleted meanwhile gets none.
		_, _ = c.Resource(kube.Secrets).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: Others})
	}
	return issued
}

// collect deletes the objects of a namespace.
func (c *Cluster) collect(tracker clienttesting.ObjectTracker, namespace string) {
	for r, kind := range c.kinds {
		list, err := tracker.List(r, r.GroupVersion().WithKind(kind), namespace)
		if err != nil || r == kube.Namespaces {
			continue
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			u := o.(*unstructured.Unstructured)
			if u.GetNamespace() != namespace {
				return nil
			}
			return tracker.Delete(r, namespace, u.GetName())
		})
	}
}

// Connect returns the clients of a live cluster for a configuration, whose token may be known there or not.
func (c *Cluster) Connect(cfg *rest.Config) (kube.Clients, error) {
	clients := c.Clients()
	if cfg.BearerToken == "" {
		return clients, nil
	}
	typed := fake.NewClientset()
	typed.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		list, err := c.Resource(kube.Secrets).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return true, nil, err
		}
		for i := range list.Items {
			if kube.SecretField(&list.Items[i], "token") == cfg.BearerToken {
				return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
			}
		}
		return true, nil, apierrors.NewUnauthorized("unknown token")
	})
	clients.Typed = typed
	return clients, nil
}
