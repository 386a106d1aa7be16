package argocd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine/kube"
)

// traces are Argo CD's traces in synced objects. The last applied configuration, which it compares with, contains them, too.
var traces = kube.Traces{
	Annotations: []string{"argocd.argoproj.io/tracking-id"},
	Shared:      []string{"kubectl.kubernetes.io/last-applied-configuration"},
	Managers:    []string{"argocd-controller"},
}

// definitions are Argo CD's CRDs. Others in its group belong to Rollouts, Workflows and Events.
var definitions = []string{"applications.argoproj.io", "applicationsets.argoproj.io", "appprojects.argoproj.io"}

// Retire removes Argo CD; see engine.Retirer. Namespaces created for Applications are noted in the spokes, for their removal.
func (a *ArgoCD) Retire(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) error {
	v, err := a.readView(ctx)
	if err != nil && !apierrors.IsNotFound(errors.Unwrap(err)) {
		return err
	}
	clients := map[string]kube.Clients{}
	for _, name := range slices.Sorted(maps.Keys(spokes)) {
		if clients[name], err = a.connect(spokes[name]); err != nil {
			return fmt.Errorf("cluster %s: %w", name, err)
		}
		server := ""
		if have, err := a.registrationSecret(ctx, name); err != nil {
			return err
		} else if have != nil {
			server = kube.SecretField(have, "server")
		}
		if err := kube.NoteNamespaces(ctx, clients[name].Dynamic, kube.SpokeNamespace, namespacesOf(v, aimedAt(v, name, server))); err != nil {
			return fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	rel, err := a.release.Observe(ctx, releaseName)
	if err != nil {
		return err
	}
	return kube.Retirement{
		Title: "argo cd", Lab: a.lab, Namespace: a.namespace, Workloads: rel.Workloads, Access: a.access(), Traces: traces, Namespaces: []string{a.namespace},
		Uninstall: func(ctx context.Context) error {
			if _, err := kube.ClearMutation(ctx, a.hub, a.replacesName(), a.lab); err != nil {
				return err
			}
			return a.release.Remove(ctx, releaseName)
		},
		Of: func(crd string) bool { return slices.Contains(definitions, crd) },
	}.Run(ctx, a.hub, clients, p)
}
