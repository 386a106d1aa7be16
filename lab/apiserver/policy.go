package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	gocel "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admission1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	strictjson "sigs.k8s.io/json"
)

// Policies are the ValidatingAdmissionPolicies of a cluster with their bindings.
type Policies struct {
	policies    []*boundPolicy
	objects     map[schema.GroupKind][]*unstructured.Unstructured // parameters are among them
	namespaces  map[string]*corev1.Namespace
	definitions map[schema.GroupKind]map[string]any
	read        map[schema.GroupVersionKind]*Definition
}

// Verdict is what a policy says of a new object.
type Verdict struct {
	Policy, Binding string
	Actions         []admission1.ValidationAction // Deny, Warn, Audit
	Message         string
	Unknown         string // why it is not known whether the policy refuses the object; the message is empty then
}

func (v Verdict) String() string {
	return fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", v.Policy, v.Binding, v.Message)
}

type boundPolicy struct {
	admission1.ValidatingAdmissionPolicy
	bindings []*admission1.ValidatingAdmissionPolicyBinding
	compiled func() (*compiled, error)

	asks      string // for what nobody knows offline
	ofObject  bool   // its conditions ask for the object alone
	ofContext bool   // it asks for the namespace's object
}

type compiled struct {
	conditions            matchconditions.Matcher // nil for none
	validations, messages cel.ConditionEvaluator
}

// NewPolicies returns the policies among the objects of a cluster, which also are their parameters, namespaces and definitions. What cannot be read is an error.
func NewPolicies(objects []map[string]any) (*Policies, error) {
	p := &Policies{
		objects: map[schema.GroupKind][]*unstructured.Unstructured{}, namespaces: map[string]*corev1.Namespace{}, definitions: map[schema.GroupKind]map[string]any{}, read: map[schema.GroupVersionKind]*Definition{},
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		p.namespaces[name] = namespace(name, nil)
	}
	var errs []error
	bound := map[string][]*admission1.ValidatingAdmissionPolicyBinding{}
	for _, o := range objects {
		u := &unstructured.Unstructured{Object: o}
		gvk := u.GroupVersionKind()
		p.objects[gvk.GroupKind()] = append(p.objects[gvk.GroupKind()], u)
		switch gvk.GroupKind() {
		case schema.GroupKind{Kind: "Namespace"}:
			p.namespaces[u.GetName()] = namespace(u.GetName(), u.GetLabels())
		case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
			group, _, _ := unstructured.NestedString(o, "spec", "group")
			kind, _, _ := unstructured.NestedString(o, "spec", "names", "kind")
			p.definitions[schema.GroupKind{Group: group, Kind: kind}] = o
		case admission1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy").GroupKind():
			var of boundPolicy
			if err := typed(o, &of.ValidatingAdmissionPolicy); err != nil {
				errs = append(errs, fmt.Errorf("ValidatingAdmissionPolicy %s: %w", u.GetName(), err))
				continue
			}
			if of.Spec.MatchConstraints == nil {
				errs = append(errs, fmt.Errorf("ValidatingAdmissionPolicy %s: spec.matchConstraints is missing", of.Name))
				continue
			}
			of.asks, of.ofContext = asks(of.expressions()), strings.Contains(strings.Join(of.expressions(), "\n"), "namespaceObject")
			of.ofObject = !slices.ContainsFunc(of.Spec.MatchConditions, func(c admission1.MatchCondition) bool { return outside.MatchString(c.Expression) })
			of.compiled = sync.OnceValues(func() (*compiled, error) { return compile(&of.ValidatingAdmissionPolicy) })
			p.policies = append(p.policies, &of)
		case admission1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding").GroupKind():
			var of admission1.ValidatingAdmissionPolicyBinding
			if err := typed(o, &of); err != nil {
				errs = append(errs, fmt.Errorf("ValidatingAdmissionPolicyBinding %s: %w", u.GetName(), err))
				continue
			}
			bound[of.Spec.PolicyName] = append(bound[of.Spec.PolicyName], &of)
		}
	}
	for _, of := range p.policies {
		of.bindings = bound[of.Name]
	}
	return p, errors.Join(errs...)
}

// typed decodes an object of this version, and sets its defaults.
func typed(object map[string]any, into runtime.Object) error {
	if v := object["apiVersion"]; v != admission1.SchemeGroupVersion.String() {
		return fmt.Errorf("apiVersion is %v, and only %s is known", v, admission1.SchemeGroupVersion)
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		return err
	}
	scheme().Default(into)
	return nil
}

// namespace returns a namespace with the label that all have.
func namespace(name string, of map[string]string) *corev1.Namespace {
	all := labels.Merge(of, map[string]string{corev1.LabelMetadataName: name})
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all}}
}

// Empty reports whether there are no policies.
func (p *Policies) Empty() bool { return len(p.policies) == 0 }

// Create returns what the policies refuse, or may refuse, about a new object. It must be valid.
func (p *Policies) Create(object map[string]any) []Verdict {
	full, err := p.defaulted(object)
	if err != nil || p.Empty() {
		return nil
	}
	u := &unstructured.Unstructured{Object: full}
	gvk := u.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	plural, _, _ := unstructured.NestedString(p.definitions[gvk.GroupKind()], "spec", "names", "plural")
	resource.Resource = cmp.Or(plural, resource.Resource)
	attributes := admission.NewAttributesRecord(u, nil, gvk, u.GetNamespace(), u.GetName(), resource, "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{})
	if rules.IsExemptAdmissionConfigurationResource(attributes) {
		return nil
	}
	var list []Verdict
	for _, of := range p.policies {
		for _, b := range of.bindings {
			list = append(list, p.evaluate(of, b, attributes, u)...)
		}
	}
	return list
}

// defaulted returns an object with the defaults of its kind, also if a definition has them.
func (p *Policies) defaulted(object map[string]any) (map[string]any, error) {
	gvk := (&unstructured.Unstructured{Object: object}).GroupVersionKind()
	definition := p.definitions[gvk.GroupKind()]
	if definition == nil {
		return Defaulted(object)
	}
	if p.read[gvk] == nil {
		d, err := NewDefinition(definition, gvk.Version)
		if err != nil {
			return nil, err
		}
		p.read[gvk] = d
	}
	return p.read[gvk].Defaulted(object), nil
}

// evaluate returns what a policy refuses by a binding.
func (p *Policies) evaluate(of *boundPolicy, b *admission1.ValidatingAdmissionPolicyBinding, attributes admission.Attributes, u *unstructured.Unstructured) []Verdict {
	verdict := Verdict{Policy: of.Name, Binding: b.Name, Actions: b.Spec.ValidationActions}
	unknown := func(format string, args ...any) []Verdict {
		verdict.Unknown = fmt.Sprintf(format, args...)
		return []Verdict{verdict}
	}
	matches, open, err := p.matches(of.Spec.MatchConstraints, attributes)
	if matches && err == nil && b.Spec.MatchResources != nil {
		var more string
		matches, more, err = p.matches(b.Spec.MatchResources, attributes)
		open = cmp.Or(open, more)
	}
	switch {
	case err != nil:
		return unknown("%s", err)
	case !matches || of.spares(attributes, u):
		return nil
	case open != "":
		return unknown("%s", open)
	case of.asks != "":
		return unknown("it asks for %s", of.asks)
	case of.ofContext && p.unlabelled(attributes) != "":
		return unknown("%s", p.unlabelled(attributes))
	}
	params, why := p.parameters(of, b, u.GetNamespace())
	if why != "" {
		return unknown("%s", why)
	}
	c, err := of.compiled()
	if err != nil {
		return unknown("%s", err)
	}
	var list []Verdict
	for _, param := range params {
		for _, message := range c.refuses(of, attributes, u, param, p.namespaceOf(u)) {
			verdict.Message = message
			list = append(list, verdict)
		}
	}
	return list
}

// spares reports whether the policy's own conditions leave an object out, by the object alone.
func (p *boundPolicy) spares(attributes admission.Attributes, u *unstructured.Unstructured) bool {
	if !p.ofObject {
		return false
	}
	c, err := p.compiled()
	if err != nil || c.conditions == nil {
		return false
	}
	is := c.conditions.Match(context.Background(), versioned(attributes, u), nil, nil)
	return is.Error == nil && !is.Matches
}

// outside matches expressions that ask for more than the object.
var outside = regexp.MustCompile(`\b(request|authorizer|params|namespaceObject|variables)\b`)

func versioned(attributes admission.Attributes, u *unstructured.Unstructured) *admission.VersionedAttributes {
	return &admission.VersionedAttributes{Attributes: attributes, VersionedKind: u.GroupVersionKind(), VersionedObject: admission.NewLazyObject(u)}
}

func (p *Policies) namespaceOf(u *unstructured.Unstructured) *corev1.Namespace {
	switch {
	case u.GetKind() == "Namespace" && u.GroupVersionKind().Group == "":
		return namespace(u.GetName(), u.GetLabels())
	case u.GetNamespace() == "":
		return nil
	}
	ns, _ := lister{Policies: p}.Get(u.GetNamespace()) // never fails
	return ns
}

// unknowable is what nobody knows offline, by how expressions ask for it.
var unknowable = []struct {
	asks *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`\brequest\.userInfo\b`), "the user who applies the object"},
	{regexp.MustCompile(`\bauthorizer\b`), "what its user may do"},
	{regexp.MustCompile(`\brequest\.(uid|dryRun|options)\b`), "the request"},
}

func asks(expressions []string) string {
	var list []string
	for _, u := range unknowable {
		if slices.ContainsFunc(expressions, u.asks.MatchString) {
			list = append(list, u.what)
		}
	}
	return strings.Join(list, " and ")
}

func (p *boundPolicy) expressions() []string {
	var list []string
	for _, v := range p.Spec.Variables {
		list = append(list, v.Expression)
	}
	for _, c := range p.Spec.MatchConditions {
		list = append(list, c.Expression)
	}
	for _, v := range p.Spec.Validations {
		list = append(list, v.Expression, v.MessageExpression)
	}
	return list
}

// parameters returns the parameters of a binding, with nil for none, or why they are unknown.
func (p *Policies) parameters(of *boundPolicy, b *admission1.ValidatingAdmissionPolicyBinding, namespace string) (params []runtime.Object, unknown string) {
	ref := b.Spec.ParamRef
	if of.Spec.ParamKind == nil || ref == nil {
		return []runtime.Object{nil}, ""
	}
	kind := schema.FromAPIVersionAndKind(of.Spec.ParamKind.APIVersion, of.Spec.ParamKind.Kind).GroupKind()
	in := cmp.Or(ref.Namespace, namespace)
	if scope, _, _ := unstructured.NestedString(p.definitions[kind], "spec", "scope"); scope == "Cluster" {
		in = ""
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil, err.Error()
	}
	for _, o := range p.objects[kind] {
		if o.GetNamespace() == in && (ref.Name == o.GetName() || ref.Name == "" && selector.Matches(labels.Set(o.GetLabels()))) {
			full, err := p.defaulted(o.Object)
			if err != nil {
				return nil, err.Error()
			}
			params = append(params, &unstructured.Unstructured{Object: full})
		}
	}
	if len(params) == 0 {
		return nil, fmt.Sprintf("its parameter, %s %s, is not in the estate", kind.Kind, strings.TrimPrefix(in+"/"+cmp.Or(ref.Name, metav1.FormatLabelSelector(ref.Selector)), "/"))
	}
	return params, ""
}

// expression is an expression of a policy, by the type that it has.
type expression struct {
	name, text string
	of         *gocel.Type
}

func (e expression) GetName() string            { return e.name }
func (e expression) GetExpression() string      { return e.text }
func (e expression) ReturnTypes() []*gocel.Type { return []*gocel.Type{e.of} }

func compile(p *admission1.ValidatingAdmissionPolicy) (*compiled, error) {
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	declared := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	for _, v := range p.Spec.Variables {
		compiler.CompileAndStoreVariable(expression{v.Name, v.Expression, gocel.AnyType}, declared, environment.StoredExpressions)
	}
	c := &compiled{}
	var conditions, validations, messages []cel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	for _, v := range p.Spec.Validations {
		validations = append(validations, expression{"", v.Expression, gocel.BoolType})
		var message cel.ExpressionAccessor
		if v.MessageExpression != "" {
			message = expression{"", v.MessageExpression, gocel.StringType}
		}
		messages = append(messages, message)
	}
	if len(conditions) > 0 {
		c.conditions = matchconditions.NewMatcher(compiler.CompileCondition(conditions, declared, environment.StoredExpressions), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	c.validations = compiler.CompileCondition(validations, declared, environment.StoredExpressions)
	declared.HasAuthorizer = false
	c.messages = compiler.CompileCondition(messages, declared, environment.StoredExpressions)
	return c, nil
}

// refuses returns the messages of the validations that fail.
func (c *compiled) refuses(of *boundPolicy, attributes admission.Attributes, u *unstructured.Unstructured, param runtime.Object, in *corev1.Namespace) []string {
	failed := func(err error) []string {
		if *of.Spec.FailurePolicy == admission1.Ignore {
			return nil
		}
		return []string{err.Error()}
	}
	ctx := context.Background()
	asked := versioned(attributes, u)
	if c.conditions != nil {
		switch is := c.conditions.Match(ctx, asked, param, nil); {
		case is.Error != nil:
			return failed(is.Error)
		case !is.Matches:
			return nil
		}
	}
	request := cel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(attributes.GetResource()), metav1.GroupVersionKind(asked.VersionedKind))
	ns := cel.CreateNamespaceObject(in)
	bindings := cel.OptionalVariableBindings{VersionedParams: param}
	results, left, err := c.validations.ForInput(ctx, asked, request, bindings, ns, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return failed(err)
	}
	messages, _, _ := c.messages.ForInput(ctx, asked, request, bindings, ns, left) // without one, the text of the validation stands
	var list []string
	for i, r := range results {
		switch {
		case r.Error != nil:
			list = append(list, failed(r.Error)...)
		case r.EvalResult != types.True:
			v := of.Spec.Validations[i]
			text := ""
			if i < len(messages) && messages[i].Error == nil && messages[i].EvalResult != nil {
				text, _ = messages[i].EvalResult.Value().(string)
				if text = strings.TrimSpace(text); len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(text, "\n") {
					text = ""
				}
			}
			list = append(list, cmp.Or(text, strings.TrimSpace(v.Message), "failed expression: "+strings.TrimSpace(v.Expression)))
		}
	}
	return list
}
