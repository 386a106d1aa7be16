package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
)

// Mutating admission policies, stable since Kubernetes 1.36.
var (
	Admission        = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	MutatingPolicies = Admission.WithResource("mutatingadmissionpolicies")
	MutatingBindings = Admission.WithResource("mutatingadmissionpolicybindings")
)

// Mutation is a mutating admission policy of lab's for objects that are written from repositories lab must not modify.
type Mutation struct {
	Name, Lab, Part string
	Resource        schema.GroupVersionResource // mutated when created or updated, whatever the version
	Variables       [][2]string                 // name and CEL expression, in order
	Condition       string                      // CEL
	Patch           string                      // CEL, a list of JSONPatch
}

// Objects returns the policy and its binding.
func (m Mutation) Objects() []*unstructured.Unstructured {
	object := func(kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": Admission.String(), "kind": kind, "spec": spec,
			"metadata": map[string]any{"name": m.Name, "labels": map[string]any{lab.LabelName: m.Lab, lab.LabelPart: m.Part}},
		}}
	}
	variables := []any{}
	for _, v := range m.Variables {
		variables = append(variables, map[string]any{"name": v[0], "expression": v[1]})
	}
	return []*unstructured.Unstructured{
		object("MutatingAdmissionPolicy", map[string]any{
			"failurePolicy": "Fail", "reinvocationPolicy": "Never",
			"matchConstraints": map[string]any{
				"matchPolicy": "Equivalent", "namespaceSelector": map[string]any{}, "objectSelector": map[string]any{},
				"resourceRules": []any{map[string]any{
					"apiGroups": []any{m.Resource.Group}, "apiVersions": []any{"*"}, "resources": []any{m.Resource.Resource}, "operations": []any{"CREATE", "UPDATE"}, "scope": "*",
				}},
			},
			"variables":       variables,
			"matchConditions": []any{map[string]any{"name": "applies", "expression": m.Condition}},
			"mutations":       []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": m.Patch}}},
		}),
		object("MutatingAdmissionPolicyBinding", map[string]any{"policyName": m.Name}),
	}
}

// MutationResource returns the resource of one of a mutation's objects.
func MutationResource(o *unstructured.Unstructured) schema.GroupVersionResource {
	if o.GetKind() == "MutatingAdmissionPolicy" {
		return MutatingPolicies
	}
	return MutatingBindings
}

// Quoted returns a CEL string.
func Quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // unreachable for a string
	}
	return string(text)
}

// Mutates reports whether a cluster serves mutating admission policies.
func Mutates(c Clients) (bool, error) {
	list, err := c.Typed.Discovery().ServerResourcesForGroupVersion(Admission.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("discovery: %w", err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == MutatingPolicies.Resource }), nil
}

// ClearMutation deletes a mutation of the lab and reports whether it existed.
func ClearMutation(ctx context.Context, c Clients, name, of string) (bool, error) {
	if served, err := Mutates(c); err != nil || !served {
		return false, err
	}
	cleared := false
	for _, r := range []schema.GroupVersionResource{MutatingBindings, MutatingPolicies} {
		o, err := c.Dynamic.Resource(r).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return cleared, fmt.Errorf("%s: %w", r.Resource, err)
		}
		if o.GetLabels()[lab.LabelName] != of {
			continue
		}
		if err := c.Dynamic.Resource(r).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return cleared, fmt.Errorf("%s %s: %w", r.Resource, name, err)
		}
		cleared = true
	}
	return cleared, nil
}
