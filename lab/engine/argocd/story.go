package argocd

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/informer"
)

// Watch reports every Application, calls ready, and then reports each change in order until ctx ends. Roots are omitted.
func (a *ArgoCD) Watch(ctx context.Context, seen func(lab.Application, engine.Observed), ready func()) error {
	apps := a.informer(applications)
	report := func(o any, gone bool) {
		if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = t.Obj
		}
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return
		}
		app, err := parseApplication(u)
		if err != nil {
			return // not a valid Application, so not lab's
		}
		heals, _, _ := unstructured.NestedBool(u.Object, "spec", "syncPolicy", "automated", "selfHeal")
		for _, s := range a.summarise([]application{app}) {
			seen(s, engine.Observed{SelfHeal: heals && app.automated(), Gone: gone, Definition: definition(u)})
		}
	}
	// Informers restart broken watches; the default handler would log.
	if err := apps.SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil {
		return err
	}
	handler, err := apps.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { report(o, false) },
		UpdateFunc: func(_, o any) { report(o, false) },
		DeleteFunc: func(o any) { report(o, true) },
	})
	if err != nil {
		return err
	}
	defer informer.Run(ctx, apps)()
	select {
	case <-handler.HasSyncedChecker().Done():
		ready()
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}

// definition returns a digest of an Application's spec, independent of its status.
func definition(u *unstructured.Unstructured) string {
	return kube.Digest(u.Object["spec"], u.GetLabels(), u.GetFinalizers())
}

// Registration returns the labels and annotations that lab set on a cluster's registration.
func (a *ArgoCD) Registration(ctx context.Context, cluster string) (engine.Registered, error) {
	o, err := a.known(ctx, cluster)
	if err != nil {
		return engine.Registered{}, err
	}
	return a.registered(o), nil
}

// known returns the registration of a cluster, or an error if there is none.
func (a *ArgoCD) known(ctx context.Context, cluster string) (*unstructured.Unstructured, error) {
	o, err := a.registrationSecret(ctx, cluster)
	return kube.Known(cluster, o, err)
}

// Mark changes labels and annotations of a cluster's registration, as Register does. A key set by someone else is an error.
func (a *ArgoCD) Mark(ctx context.Context, cluster string, m engine.Marks) error {
	o, err := a.known(ctx, cluster)
	if err != nil {
		return err
	}
	meta, err := kube.Marked(o, m.Labels, m.Annotations)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", cluster, err)
	}
	data := map[string]string{}
	for _, k := range []string{"name", "server", "config"} {
		data[k] = kube.SecretField(o, k)
	}
	_, _, err = kube.Apply(ctx, a.hub.Dynamic, secrets, kube.Secret(meta, data))
	return kube.Wrap("cluster "+cluster, err)
}

// Refresh requests a refresh of every Application. Argo CD removes the annotation afterwards.
func (a *ArgoCD) Refresh(ctx context.Context) error {
	list, err := a.hub.Dynamic.Resource(applications).Namespace(a.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("applications: %w", err)
	}
	n := newNudger(a, engine.Want{})
	for _, o := range list.Items {
		if _, err := n.annotate(ctx, applications, o.GetName(), refreshApplication, "normal"); err != nil {
			return err
		}
	}
	return nil
}
