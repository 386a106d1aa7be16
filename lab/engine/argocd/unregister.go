package argocd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

// Unregister unregisters a cluster and describes the changes.
//
// A reachable cluster is cleaned first: its registration loses the enable_ labels that ApplicationSets select by, so that Argo CD, still able to access the
// cluster, deletes its Applications with their objects. From a cluster that outlives the lab, the Applications' namespaces and Argo CD's access are deleted
// too. The registration is deleted last, so that an interrupted run is repeated. Nothing can be deleted from an unreachable cluster: Applications that Argo CD
// cannot finalize lose their finalizer.
func (a *ArgoCD) Unregister(ctx context.Context, d engine.Departure, p lab.Progress) ([]string, error) {
	have, err := a.registrationSecret(ctx, d.Cluster)
	if have == nil || err != nil {
		return nil, err
	}
	name := have.GetName()
	if have.GetLabels()[lab.LabelName] != a.lab {
		return nil, &lab.Error{
			Exit: lab.ExitFailed, Code: "not_ours", Message: "cluster " + d.Cluster + " was registered by someone else",
			Cure: "remove the secret " + a.namespace + "/" + name + " manually if it is no longer needed",
		}
	}
	lines, err := a.clean(ctx, d, have, p)
	if err != nil {
		return lines, fmt.Errorf("cluster %s: %w", d.Cluster, err)
	}
	if err := a.hub.Dynamic.Resource(secrets).Namespace(a.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return lines, fmt.Errorf("cluster %s: %w", d.Cluster, err)
	}
	lines = append(lines, "cluster "+d.Cluster+" is no longer registered")
	freed, err := a.releaseUnreachable(ctx, d.Cluster, kube.SecretField(have, "server"))
	for _, f := range freed {
		lines = append(lines, "application "+f+" is abandoned, its objects stay")
	}
	return lines, err
}

// clean deletes from a reachable cluster what Argo CD deployed, and describes what stays.
func (a *ArgoCD) clean(ctx context.Context, d engine.Departure, have *unstructured.Unstructured, p lab.Progress) ([]string, error) {
	if d.Spoke == nil {
		return nil, nil
	}
	if d.LivesOn {
		v, err := a.readView(ctx)
		if err != nil && !apierrors.IsNotFound(errors.Unwrap(err)) {
			return nil, err
		}
		if err := a.noteNamespaces(ctx, d.Spoke, namespacesOf(v, aimedAt(v, d.Cluster, kube.SecretField(have, "server")))); err != nil {
			return nil, err
		}
	}
	var lines []string
	left, err := a.drain(ctx, have, p)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		lines = append(lines, fmt.Sprintf("cluster %s keeps the objects of %s", d.Cluster, strings.Join(left, ", ")))
	}
	if !d.LivesOn {
		return lines, nil
	}
	kept, err := a.removeAccess(ctx, d.Spoke, p)
	for _, k := range kept {
		lines = append(lines, "cluster "+d.Cluster+": "+k)
	}
	return lines, err
}

// drain disables all addons in a registration and waits until the cluster's Applications are gone. It returns the remaining ones: selected by other labels, or
// not deleted in time.
func (a *ArgoCD) drain(ctx context.Context, have *unstructured.Unstructured, p lab.Progress) ([]string, error) {
	if err := a.disableAddons(ctx, have); err != nil {
		return nil, err
	}
	cluster, server := kube.SecretField(have, "name"), kube.SecretField(have, "server")
	within, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	w := a.watch(within)
	defer w.stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	want := engine.Want{Changed: true}
	w.since = validSince([]engine.Registered{a.registered(have)}, want)
	nudge := newNudger(a, want)
	reported := ""
	var left []string
	for {
		select {
		case <-within.Done():
			return left, ctx.Err()
		case <-w.changed:
		case <-tick.C:
		}
		if !w.synced() {
			if apierrors.IsNotFound(w.failure()) {
				return nil, nil // Argo CD is not installed: no Applications
			}
			continue
		}
		v, err := w.view()
		if err != nil {
			return left, err
		}
		v.sets = v.generating()
		if left = aimedAt(v, cluster, server); len(left) == 0 {
			return nil, nil
		}
		sent, err := nudge.refreshSets(ctx, v)
		if err != nil {
			return left, err
		}
		if !sent && !removing(v, left) {
			// The two watches are not synchronized: a read shows whether an ApplicationSet that is done has deleted anything.
			if v, err = a.snapshot(ctx, want); err != nil {
				return left, err
			}
			v.sets = v.generating()
			if left = aimedAt(v, cluster, server); !removing(v, left) {
				return left, nil
			}
		}
		if err := nudge.unstick(ctx, v, left); err != nil {
			return left, err
		}
		if line := fmt.Sprintf("removing %d applications of %s: %s", len(left), cluster, left[0]); line != reported {
			reported = line
			p(line)
		}
	}
}

// disableAddons removes the enable_ labels from a registration. ApplicationSet templates may read the others until the end.
func (a *ArgoCD) disableAddons(ctx context.Context, have *unstructured.Unstructured) error {
	off := map[string]any{}
	for k := range have.GetLabels() {
		if strings.HasPrefix(k, enablePrefix) {
			off[k] = nil
		}
	}
	if len(off) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": off}})
	if err != nil {
		return err
	}
	_, err = a.hub.Dynamic.Resource(secrets).Namespace(a.namespace).Patch(ctx, have.GetName(), types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: kube.FieldManager})
	return kube.Wrap("registration "+have.GetName(), err)
}

// enablePrefix is the prefix of the labels that enable addons.
const enablePrefix = "enable_"

// removing reports whether any of the named Applications is terminating, or an ApplicationSet still has to be refreshed.
func removing(v view, names []string) bool {
	for _, s := range v.sets {
		if hasKey(s.Metadata.Annotations, refreshApplicationSet) {
			return true
		}
	}
	return slices.ContainsFunc(names, func(n string) bool { return v.apps[n].terminating() })
}

// aimedAt returns the Applications with a cluster as destination.
func aimedAt(v view, cluster, server string) []string {
	var names []string
	for _, name := range sortedKeys(v.apps) {
		d := v.apps[name].Spec.Destination
		if d.Name == cluster || d.Server == server && server != "" {
			names = append(names, name)
		}
	}
	return names
}

// releaseUnreachable removes the finalizers from terminating Applications whose cluster Argo CD can no longer access.
func (a *ArgoCD) releaseUnreachable(ctx context.Context, cluster, server string) ([]string, error) {
	v, err := a.snapshot(ctx, engine.Want{})
	if apierrors.IsNotFound(errors.Unwrap(err)) {
		return nil, nil // no Argo CD, no Applications
	}
	if err != nil {
		return nil, err
	}
	var freed []string
	for _, name := range aimedAt(v, cluster, server) {
		if !v.apps[name].terminating() {
			continue
		}
		if err := a.dropFinalizers(ctx, applications, name); err != nil {
			return freed, err
		}
		freed = append(freed, name)
	}
	return freed, nil
}
