package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"homelab/lab"
)

// namespaceLimit bounds the wait for a terminating namespace.
const namespaceLimit = 90 * time.Second

// EnsureNamespaces creates the missing ones of a cluster's namespaces and returns them. Terminating ones are waited for.
func (k *Kind) EnsureNamespaces(ctx context.Context, name string, namespaces []string, p lab.Progress) ([]string, error) {
	cfg, err := k.RESTConfig(name)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	var made []string
	for _, ns := range namespaces {
		created, err := ensureNamespace(ctx, client.CoreV1().Namespaces(), ns, orDiscard(p))
		if err != nil {
			return made, fmt.Errorf("cluster %s: %w", name, err)
		}
		if created {
			made = append(made, ns)
		}
	}
	return made, nil
}

func ensureNamespace(ctx context.Context, client corev1client.NamespaceInterface, name string, p lab.Progress) (created bool, err error) {
	err = wait.PollUntilContextTimeout(ctx, time.Second, namespaceLimit, true, func(ctx context.Context) (bool, error) {
		ns, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil && ns.DeletionTimestamp != nil:
			p("waiting for the removal of namespace " + name)
			return false, nil
		case err == nil:
			return true, nil
		case !apierrors.IsNotFound(err):
			return false, err
		}
		_, err = client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		created = err == nil
		return created, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = &lab.Error{
			Exit: lab.ExitTimeout, Code: "namespace_stuck", Message: fmt.Sprintf("namespace %s is still terminating after %s", name, lab.WholeSeconds(namespaceLimit)),
			Cure: "its status shows the cause: kubectl get namespace " + lab.Quote(name) + " -o yaml",
		}
	}
	return created, err
}

// settled returns the names of the namespaces that are not terminating.
func settled(list *corev1.NamespaceList) []string {
	var names []string
	for _, ns := range list.Items {
		if ns.DeletionTimestamp == nil {
			names = append(names, ns.Name)
		}
	}
	return names
}
