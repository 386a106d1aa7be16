package argocd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

// skipReconcile makes Argo CD ignore an Application: https://argo-cd.readthedocs.io/en/stable/user-guide/skip_reconcile/
const skipReconcile = "argocd.argoproj.io/skip-reconcile"

const replacesPart = "replaces"

func (a *ArgoCD) replacesName() string { return "lab-" + a.lab + "-replaces" }

// replaces returns the policy that keeps Argo CD from syncing the Applications that would replace it, from the moment that their root or set creates them.
func (a *ArgoCD) replaces(root engine.Root) []*unstructured.Unstructured {
	if len(root.Replaces) == 0 {
		return nil
	}
	var names []string
	for _, name := range slices.Sorted(slices.Values(root.Replaces)) {
		names = append(names, kube.Quoted(name))
	}
	marks := `{` + kube.Quoted(skipReconcile) + `: "true", ` + kube.Quoted(lab.AnnotationReplaces) + `: "true"}`
	add := func(key string) string {
		return `JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey(` + kube.Quoted(key) + `), value: "true"}`
	}
	return kube.Mutation{
		Name: a.replacesName(), Lab: a.lab, Part: replacesPart, Resource: applications,
		Condition: "object.metadata.namespace == " + kube.Quoted(a.namespace) + " && object.metadata.name in [" + strings.Join(names, ", ") + "]",
		Patch: `has(object.metadata.annotations)
? [` + add(skipReconcile) + `, ` + add(lab.AnnotationReplaces) + `]
: [JSONPatch{op: "add", path: "/metadata/annotations", value: ` + marks + `}]`,
	}.Objects()
}

// Guard applies the policy; see engine.Guard.
func (a *ArgoCD) Guard(ctx context.Context, root engine.Root) error {
	served, err := kube.Mutates(a.hub)
	if err != nil || !served {
		return err
	}
	_, err = a.applyPolicy(ctx, root)
	return err
}

func (a *ArgoCD) applyPolicy(ctx context.Context, root engine.Root) (bool, error) {
	applied := false
	for _, o := range a.replaces(root) {
		before, after, err := kube.Apply(ctx, a.hub.Dynamic, kube.MutationResource(o), o)
		if err != nil {
			return applied, err
		}
		applied = applied || kube.Changed(before, after)
	}
	return applied, nil
}

// applyReplaces applies the policy, releases the Applications that it no longer covers, and reports whether anything changed.
func (a *ArgoCD) applyReplaces(ctx context.Context, root engine.Root) (bool, error) {
	served, err := kube.Mutates(a.hub)
	if err != nil || !served {
		return false, err
	}
	applied, err := a.applyPolicy(ctx, root)
	if err != nil {
		return applied, err
	}
	if len(root.Replaces) == 0 {
		cleared, err := kube.ClearMutation(ctx, a.hub, a.replacesName(), a.lab)
		if err != nil {
			return applied, err
		}
		applied = applied || cleared
	}
	released, err := a.releaseOthers(ctx, root)
	return applied || released, err
}

// releaseOthers lets Argo CD sync the Applications that a former policy covered.
func (a *ArgoCD) releaseOthers(ctx context.Context, root engine.Root) (bool, error) {
	client, released := a.hub.Dynamic.Resource(applications).Namespace(a.namespace), false
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("applications: %w", err)
	}
	for _, o := range list.Items {
		if !hasKey(o.GetAnnotations(), lab.AnnotationReplaces) || slices.Contains(root.Replaces, o.GetName()) {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{skipReconcile: nil, lab.AnnotationReplaces: nil}}})
		if err != nil {
			return released, fmt.Errorf("application %s: %w", o.GetName(), err)
		}
		if _, err := client.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kube.FieldManager}); err != nil {
			return released, fmt.Errorf("application %s: %w", o.GetName(), err)
		}
		released = true
	}
	return released, nil
}

// missingReplaces describes missing objects of the policy.
func (a *ArgoCD) missingReplaces(ctx context.Context, root engine.Root) ([]string, error) {
	if len(root.Replaces) == 0 {
		return nil, nil
	}
	served, err := kube.Mutates(a.hub)
	if err != nil || !served {
		return nil, err
	}
	var lines []string
	for _, o := range a.replaces(root) {
		have, _, err := kube.Compare(ctx, a.hub.Dynamic, kube.MutationResource(o), o)
		if err != nil {
			return nil, err
		}
		if have == nil {
			lines = append(lines, strings.ToLower(o.GetKind())+" "+o.GetName()+" is gone")
		}
	}
	return lines, nil
}
