package flux

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/engine"
)

// GitRepositories of a foreign repository have upstream's addresses, at any depth, and must not be modified. Therefore a policy of the API server replaces them with
// the mirror's. Such policies are stable since Kubernetes 1.36; on older clusters only the root's own sources are redirected.
var (
	admission       = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	mutatingPolicy  = admission.WithResource("mutatingadmissionpolicies")
	mutatingBinding = admission.WithResource("mutatingadmissionpolicybindings")
)

const mirrorsPart = "mirrors"

// mirrorsName returns the name of the cluster-scoped policy and its binding.
func (f *Flux) mirrorsName() string { return "lab-" + f.lab + "-mirrors" }

// mirrors returns the policy that redirects sources to the forge's mirrors, if there are any.
func (f *Flux) mirrors(root engine.Root) []part {
	if len(root.Mirrors) == 0 {
		return nil
	}
	byKey := map[string]string{}
	for address, mirror := range root.Mirrors {
		byKey[lab.RepositoryKey(address)] = mirror
	}
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		entries = append(entries, quoted(key)+": "+quoted(byKey[key]))
	}
	object := func(kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": admission.String(), "kind": kind, "metadata": map[string]any{"name": f.mirrorsName(), "labels": f.labels(mirrorsPart)}, "spec": spec,
		}}
	}
	// lab.RepositoryKey in CEL.
	const key = `(url(object.spec.url).getHostname() + url(object.spec.url).getEscapedPath()).lowerAscii()`
	policy := object("MutatingAdmissionPolicy", map[string]any{
		"failurePolicy": "Fail", "reinvocationPolicy": "Never",
		"matchConstraints": map[string]any{
			"matchPolicy": "Equivalent", "namespaceSelector": map[string]any{}, "objectSelector": map[string]any{},
			"resourceRules": []any{map[string]any{
				"apiGroups": []any{gitRepositories.Group}, "apiVersions": []any{"*"}, "resources": []any{gitRepositories.Resource}, "operations": []any{"CREATE", "UPDATE"}, "scope": "*",
			}},
		},
		"variables": []any{
			map[string]any{"name": "mirrors", "expression": "{" + strings.Join(entries, ", ") + "}"},
			map[string]any{"name": "path", "expression": `has(object.spec.url) && isURL(object.spec.url) ? ` + key + ` : ""`},
			map[string]any{"name": "key", "expression": `variables.path.endsWith(".git") ? variables.path.substring(0, variables.path.size() - 4) : variables.path`},
		},
		"matchConditions": []any{map[string]any{"name": "has-an-address", "expression": "has(object.spec.url)"}},
		"mutations": []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": `variables.key in variables.mirrors
? [JSONPatch{op: "replace", path: "/spec/url", value: variables.mirrors[variables.key]}] + (has(object.spec.secretRef) ? [JSONPatch{op: "remove", path: "/spec/secretRef"}] : [])
: []`}}},
	})
	binding := object("MutatingAdmissionPolicyBinding", map[string]any{"policyName": f.mirrorsName()})
	return []part{{mutatingPolicy, policy}, {mutatingBinding, binding}}
}

// quoted returns a CEL string.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // unreachable for a string
	}
	return string(text)
}

// admits reports whether the cluster serves mutating admission policies.
func (f *Flux) admits() (bool, error) {
	list, err := f.hub.Typed.Discovery().ServerResourcesForGroupVersion(admission.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("discovery: %w", err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == mutatingPolicy.Resource }), nil
}

// clearMirrors deletes lab's policy and reports whether it existed.
func (f *Flux) clearMirrors(ctx context.Context) (bool, error) {
	if served, err := f.admits(); err != nil || !served {
		return false, err
	}
	cleared := false
	for _, r := range []schema.GroupVersionResource{mutatingBinding, mutatingPolicy} {
		o, err := f.hub.Dynamic.Resource(r).Get(ctx, f.mirrorsName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return cleared, fmt.Errorf("%s: %w", r.Resource, err)
		}
		if o.GetLabels()[lab.LabelName] != f.lab {
			continue
		}
		if err := f.delete(ctx, r, "", o.GetName()); err != nil {
			return cleared, err
		}
		cleared = true
	}
	return cleared, nil
}
