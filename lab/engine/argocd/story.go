package argocd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"homelab/lab"
	"homelab/lab/engine"
)

// Watch tells of every application as it is, calls ready, and goes on telling of each change, in order, until ctx ends. The root application is not among them.
func (a *ArgoCD) Watch(ctx context.Context, seen func(lab.Application, engine.Observed), ready func()) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(a.hub.dynamic, 0, a.namespace, nil)
	informer := factory.ForResource(applications).Informer()
	tell := func(o any, gone bool) {
		if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = t.Obj
		}
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return
		}
		app, err := parseApplication(u)
		if err != nil {
			return // one that is not an Application's shape is none that lab made
		}
		heals, _, _ := unstructured.NestedBool(u.Object, "spec", "syncPolicy", "automated", "selfHeal")
		for _, s := range a.summarise([]application{app}) {
			seen(s, engine.Observed{SelfHeal: heals && app.automated(), Gone: gone, Definition: definition(u)})
		}
	}
	// A watch that breaks is taken up again by the informer, which would log it.
	if err := informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil {
		return err
	}
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { tell(o, false) },
		UpdateFunc: func(_, o any) { tell(o, false) },
		DeleteFunc: func(o any) { tell(o, true) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	select {
	case <-handler.HasSyncedChecker().Done():
		ready()
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}

// definition is a digest of what is asked of an application, whatever became of it.
func definition(u *unstructured.Unstructured) string {
	b, err := json.Marshal([]any{u.Object["spec"], u.GetLabels(), u.GetFinalizers()})
	if err != nil {
		return "" // it came as JSON
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Registration reads what Argo CD knows of a cluster, as far as lab set it.
func (a *ArgoCD) Registration(ctx context.Context, cluster string) (engine.Registered, error) {
	o, err := a.known(ctx, cluster)
	if err != nil {
		return engine.Registered{}, err
	}
	return a.registered(o), nil
}

// known is the registration of a cluster that has one.
func (a *ArgoCD) known(ctx context.Context, cluster string) (*unstructured.Unstructured, error) {
	o, err := a.registrationSecret(ctx, cluster)
	if o == nil && err == nil {
		err = fmt.Errorf("cluster %s is not registered: lab up registers it", cluster)
	}
	return o, err
}

// Mark changes labels and annotations of a cluster's registration as Register would: lab stays the owner of every key, so that what is put back to what it was
// is no difference to the next Register. A key that somebody else set is not touched, and an error.
func (a *ArgoCD) Mark(ctx context.Context, cluster string, m engine.Marks) error {
	o, err := a.known(ctx, cluster)
	if err != nil {
		return err
	}
	meta := map[string]any{"name": o.GetName(), "namespace": a.namespace}
	for _, part := range []struct {
		field  string
		all    map[string]string
		change map[string]*string
	}{{"labels", o.GetLabels(), m.Labels}, {"annotations", o.GetAnnotations(), m.Annotations}} {
		mine := own(o, part.field, part.all)
		for k, v := range part.change {
			if _, has := part.all[k]; has && !hasKey(mine, k) {
				return fmt.Errorf("cluster %s: %s %s was set by somebody else", cluster, part.field, k)
			}
			if v == nil {
				delete(mine, k)
			} else {
				mine[k] = *v
			}
		}
		if len(mine) > 0 {
			meta[part.field] = plainValues(mine)
		}
	}
	data := map[string]string{}
	for _, k := range []string{"name", "server", "config"} {
		data[k] = secretField(o, k)
	}
	_, _, err = apply(ctx, a.hub.dynamic, secrets, secret(meta, data))
	return wrap("cluster "+cluster, err)
}

func plainValues(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// Refresh asks Argo CD to look at Git for every Application, as the button does. It removes the request once it has looked.
func (a *ArgoCD) Refresh(ctx context.Context) error {
	list, err := a.hub.dynamic.Resource(applications).Namespace(a.namespace).List(ctx, metav1.ListOptions{})
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
