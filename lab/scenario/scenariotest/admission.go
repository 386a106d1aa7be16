package scenariotest

import (
	"fmt"
	"slices"

	gocel "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Users, as real clusters see them.
const (
	person         = "kubernetes-admin"
	serviceAccount = "system:serviceaccount:lab-system:" // of the engine, on a spoke
)

func policyKind() schema.GroupVersionKind {
	return admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy")
}

func bindingKind() schema.GroupVersionKind {
	return admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding")
}

// admit returns why the ValidatingAdmissionPolicies of a cluster refuse a change, or nil. Of expressions, it evaluates those about the request.
func (c *Clusters) admit(cluster, user, operation string, resource schema.GroupVersionResource, o *unstructured.Unstructured) error {
	policies := map[string]admissionv1.ValidatingAdmissionPolicy{}
	for _, u := range c.list(cluster, policyKind()) {
		var p admissionv1.ValidatingAdmissionPolicy
		must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p))
		policies[p.Name] = p
	}
	for _, u := range c.list(cluster, bindingKind()) {
		var b admissionv1.ValidatingAdmissionPolicyBinding
		must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &b))
		p, known := policies[b.Spec.PolicyName]
		if !known || !slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) || !matches(p, operation, resource) || b.Spec.MatchResources != nil && !selects(b.Spec.MatchResources.NamespaceSelector, map[string]string{"kubernetes.io/metadata.name": o.GetNamespace()}) {
			continue
		}
		request := map[string]any{"operation": operation, "userInfo": map[string]any{"username": user}}
		if slices.ContainsFunc(p.Spec.MatchConditions, func(m admissionv1.MatchCondition) bool { return !holds(m.Expression, request) }) {
			continue
		}
		for _, v := range p.Spec.Validations {
			if !holds(v.Expression, request) {
				return apierrors.NewForbidden(resource.GroupResource(), o.GetName(), fmt.Errorf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", p.Name, b.Name, v.Message))
			}
		}
	}
	return nil
}

func matches(p admissionv1.ValidatingAdmissionPolicy, operation string, resource schema.GroupVersionResource) bool {
	return p.Spec.MatchConstraints != nil && slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
		return slices.Contains(r.APIGroups, resource.Group) && slices.Contains(r.Resources, resource.Resource) && slices.Contains(r.Operations, admissionv1.OperationType(operation))
	})
}

// holds evaluates an expression about a request. One that is not understood is a bug of a story, or of this package.
func holds(expression string, request map[string]any) bool {
	env, err := gocel.NewEnv(gocel.Variable("request", gocel.DynType))
	must(err)
	ast, issues := env.Compile(expression)
	must(issues.Err())
	program, err := env.Program(ast)
	must(err)
	out, _, err := program.Eval(map[string]any{"request": request})
	must(err)
	return out.Value() == true
}
