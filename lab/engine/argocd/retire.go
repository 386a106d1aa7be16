package argocd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine/kube"
)

const (
	trackingID     = "argocd.argoproj.io/tracking-id"
	installationID = "argocd.argoproj.io/installation-id"
)

// managers are the field managers of what Argo CD syncs and creates.
var managers = []string{"argocd-controller"}

// traces returns Argo CD's traces in objects synced by Applications. The last applied configuration, which it compares with, contains them, too.
func (a *ArgoCD) traces(v view) kube.Traces {
	return kube.Traces{
		Annotations: []string{trackingID, installationID},
		Shared:      []string{"kubectl.kubernetes.io/last-applied-configuration"},
		Managers:    managers,
		Except:      func(crd string) bool { return slices.Contains(definitions, crd) },
		Origin: func(o *unstructured.Unstructured) kube.Origin {
			id, tracked := o.GetAnnotations()[trackingID]
			if !tracked {
				return kube.Untold
			}
			app, _, _ := strings.Cut(id, ":")
			// Labs of before had no installation's id.
			if _, known := v.apps[app]; known && slices.Contains([]string{"", a.installation()}, o.GetAnnotations()[installationID]) {
				return kube.Ours
			}
			return kube.Theirs
		},
	}
}

// appliedIn returns the objects that Applications synced to a cluster.
func appliedIn(v view, cluster, server string) []kube.Object {
	var list []kube.Object
	here := aimedAt(v, cluster, server)
	for _, name := range here {
		for _, r := range v.apps[name].Status.Resources {
			list = append(list, kube.Object{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name})
		}
	}
	for _, name := range namespacesOf(v, here) {
		list = append(list, kube.Object{Kind: "Namespace", Name: name})
	}
	return list
}

// definitions are Argo CD's CRDs. Others in its group belong to Rollouts, Workflows and Events.
var definitions = []string{"applications.argoproj.io", "applicationsets.argoproj.io", "appprojects.argoproj.io"}

// Retire removes Argo CD; see engine.Retirer. Namespaces created for Applications are noted in the spokes, for their removal.
func (a *ArgoCD) Retire(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) error {
	v, err := a.readView(ctx)
	if err != nil && !apierrors.IsNotFound(errors.Unwrap(err)) {
		return err
	}
	clients, applied := map[string]kube.Clients{}, map[string][]kube.Object{"": appliedIn(v, "in-cluster", InCluster)}
	known, err := a.registrations(ctx)
	if err != nil {
		return err
	}
	for _, r := range known {
		if r.Server == InCluster {
			applied[""] = append(applied[""], appliedIn(v, r.Cluster, "")...)
		}
	}
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
		applied[name] = appliedIn(v, name, server)
		if err := kube.NoteCreated(ctx, clients[name].Dynamic, namespacesOf(v, aimedAt(v, name, server)), managers); err != nil {
			return fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	rel, err := a.release.Observe(ctx, releaseName)
	if err != nil {
		return err
	}
	return kube.Retirement{
		Title: "argo cd", Lab: a.lab, Namespace: a.namespace, Workloads: rel.Workloads, Installed: rel.Revision > 0, Access: a.access(), Namespaces: []string{a.namespace},
		Traces: a.traces(v), Applied: func(spoke string) []kube.Object { return applied[spoke] }, Attached: a.attached,
		Kinds: kube.Definitions{Of: func(crd string) bool { return slices.Contains(definitions, crd) }, Release: releaseName, Namespace: a.namespace},
		Uninstall: func(ctx context.Context) error {
			if _, err := kube.ClearMutation(ctx, a.hub, a.replacesName(), a.lab); err != nil {
				return err
			}
			return a.release.Remove(ctx, releaseName)
		},
	}.Run(ctx, a.hub, clients, p)
}
