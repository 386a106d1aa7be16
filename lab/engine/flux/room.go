package flux

import (
	"context"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab/engine/kube"
)

// makeRoom makes the namespaces of clusters that the estate has and that are not registered: a root that meets none applies nothing at all, to no cluster.
// It reports whether one was missing.
func (f *Flux) makeRoom(ctx context.Context, clusters []string) (bool, error) {
	made := false
	for _, c := range clusters {
		ns := kube.Namespace{Name: namespaceOf(c), Labels: f.labels(registration)}
		_, err := f.hub.Dynamic.Resource(kube.Namespaces).Get(ctx, ns.Name, metav1.GetOptions{})
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return made, kube.Wrap("namespace "+ns.Name, err)
		}
		if err := ns.Ensure(ctx, f.hub.Dynamic, silent); err != nil {
			return made, err
		}
		made = true
	}
	return made, nil
}

// keep has Flux leave an object of the root as lab made it: a repository in bootstrap's layout holds it too, with the address that it has upstream.
func (f *Flux) keep(o *unstructured.Unstructured) {
	annotations := map[string]string{}
	maps.Copy(annotations, o.GetAnnotations())
	annotations["kustomize.toolkit.fluxcd.io/reconcile"] = "disabled"
	o.SetAnnotations(annotations)
}
