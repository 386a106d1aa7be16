package flux

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

// Labels of the copies of a spoke's kubeconfig, in Secrets that a mounted repository refers to.
const (
	kubeconfigPart = "kubeconfig"
	clusterLabel   = "lab.homelab/cluster"
)

// formatSecrets returns the references for an annotation: "production/cluster-kubeconfig=value,...".
func formatSecrets(list []lab.KubeconfigSecret) string {
	var out []string
	for _, k := range list {
		out = append(out, k.String()+"="+k.Key)
	}
	return strings.Join(out, ",")
}

func parseSecrets(text string) []lab.KubeconfigSecret {
	var list []lab.KubeconfigSecret
	for one := range strings.SplitSeq(text, ",") {
		at, key, ok := strings.Cut(one, "=")
		namespace, name, also := strings.Cut(at, "/")
		if ok && also {
			list = append(list, lab.KubeconfigSecret{Namespace: namespace, Name: name, Key: key})
		}
	}
	return list
}

// scope returns the clusters of Flux's Kustomizations, from the registrations.
func (f *Flux) scope(ctx context.Context) (flux.Scope, error) {
	if f.home != "" {
		return f.scopeOf(nil), nil
	}
	list, err := f.hub.Dynamic.Resource(kube.Secrets).List(ctx, metav1.ListOptions{LabelSelector: lab.LabelName + "=" + f.lab + "," + lab.LabelPart + "=" + registration})
	if err != nil {
		return flux.Scope{}, fmt.Errorf("registrations: %w", err)
	}
	var known []engine.Registered
	for i := range list.Items {
		if o := &list.Items[i]; o.GetName() == flux.ClusterKubeconfig {
			known = append(known, f.registered(o))
		}
	}
	return f.scopeOf(known), nil
}

// scopeOf is scope for known registrations.
func (f *Flux) scopeOf(known []engine.Registered) flux.Scope {
	if f.home != "" {
		return flux.Scope{Home: f.home, Rooted: f.attached}
	}
	var clusters []lab.Cluster
	for _, r := range known {
		clusters = append(clusters, lab.Cluster{Name: r.Cluster, KubeconfigSecrets: r.Secrets})
	}
	return flux.ScopeOf(f.cluster, clusters)
}

// kubeconfigs returns the copies of all clusters, by NAMESPACE/NAME.
func (f *Flux) kubeconfigs(ctx context.Context) (map[string]*unstructured.Unstructured, error) {
	list, err := f.hub.Dynamic.Resource(kube.Secrets).List(ctx, metav1.ListOptions{LabelSelector: lab.LabelName + "=" + f.lab + "," + lab.LabelPart + "=" + kubeconfigPart})
	if err != nil {
		return nil, err
	}
	copies := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		o := &list.Items[i]
		copies[o.GetNamespace()+"/"+o.GetName()] = o
	}
	return copies, nil
}

// copiesOf returns the Secrets of a registration other than lab's own.
func copiesOf(cluster string, secrets []lab.KubeconfigSecret) []lab.KubeconfigSecret {
	return slices.DeleteFunc(slices.Clone(secrets), func(k lab.KubeconfigSecret) bool {
		return k.Namespace == flux.NamespaceOf(cluster) && k.Name == flux.ClusterKubeconfig
	})
}

// missingKubeconfig describes a copy that is missing or differs from a registration's Secret, or returns "".
func missingKubeconfig(o *unstructured.Unstructured, secrets []lab.KubeconfigSecret, copies map[string]*unstructured.Unstructured) string {
	cluster, _ := flux.ClusterOf(o.GetNamespace())
	for _, k := range copiesOf(cluster, secrets) {
		have := copies[k.String()]
		if have == nil || kube.SecretField(have, k.Key) != kube.SecretField(o, flux.KubeconfigKey) {
			return "its kubeconfig in Secret " + k.String() + " is missing or outdated"
		}
	}
	return ""
}

// applyKubeconfigs writes the copies of a cluster's kubeconfig, creating their namespaces, and deletes former ones. It reports whether anything changed.
func (f *Flux) applyKubeconfigs(ctx context.Context, reg lab.Registration, config string) (bool, error) {
	changed := false
	kept := map[string]bool{}
	for _, k := range copiesOf(reg.Cluster, reg.KubeconfigSecrets) {
		kept[k.String()] = true
		have, err := f.hub.Dynamic.Resource(kube.Secrets).Namespace(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			if err := f.ensureNamespace(ctx, k.Namespace); err != nil {
				return changed, err
			}
		case err != nil:
			return changed, kube.Wrap("secret "+k.String(), err)
		case have.GetLabels()[lab.LabelName] != f.lab:
			return changed, &lab.Error{
				Exit: lab.ExitFailed, Code: "not_ours", Message: fmt.Sprintf("Secret %s exists, and lab did not create it", k),
				Cure: "delete it on the hub, or leave it out of spec.kubeconfigSecrets of cluster " + reg.Cluster,
			}
		}
		labels := f.labels(kubeconfigPart)
		labels[clusterLabel] = reg.Cluster
		want := kube.Secret(map[string]any{"name": k.Name, "namespace": k.Namespace, "labels": labels}, map[string]string{k.Key: config})
		before, after, err := kube.Apply(ctx, f.hub.Dynamic, kube.Secrets, want)
		if err != nil {
			return changed, err
		}
		changed = changed || kube.Changed(before, after)
	}
	dropped, err := f.dropKubeconfigs(ctx, reg.Cluster, kept)
	return changed || dropped, err
}

// ensureNamespace creates a namespace unless it exists. It has no labels, as it belongs to Git.
func (f *Flux) ensureNamespace(ctx context.Context, name string) error {
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, err := f.hub.Dynamic.Resource(kube.Namespaces).Create(ctx, ns, metav1.CreateOptions{FieldManager: kube.FieldManager})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return kube.Wrap("namespace "+name, err)
}

// dropKubeconfigs deletes the copies of a cluster's kubeconfig, or of all if cluster is empty, except the kept ones. It reports whether there were any.
func (f *Flux) dropKubeconfigs(ctx context.Context, cluster string, kept map[string]bool) (bool, error) {
	copies, err := f.kubeconfigs(ctx)
	if err != nil {
		return false, err
	}
	dropped := false
	for key, o := range copies {
		if cluster != "" && o.GetLabels()[clusterLabel] != cluster || kept[key] {
			continue
		}
		if err := f.delete(ctx, kube.Secrets, o.GetNamespace(), o.GetName()); err != nil {
			return dropped, err
		}
		dropped = true
	}
	return dropped, nil
}
