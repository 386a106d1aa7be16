package apiserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	admission1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	strictjson "sigs.k8s.io/json"
)

// Policies are the ValidatingAdmissionPolicies of a cluster with their bindings.
type Policies struct {
	policies    []*boundPolicy
	objects     map[schema.GroupKind][]*unstructured.Unstructured // parameters are among them
	namespaces  map[string]*corev1.Namespace
	definitions map[schema.GroupKind]map[string]any
	read        map[schema.GroupVersionKind]*Definition
	unbound     map[string]string // policies that are not known, by binding
}

// Verdict is what a policy says of an object.
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

	asks      string // what of the unknowable it reads
	ofLive    bool   // it may ask for what only an object that exists has
	ofObject  bool   // its conditions ask for the object alone
	ofContext bool   // it asks for the namespace's object
}

var policyKind = admission1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy").GroupKind()

// NewPolicies returns the policies among the objects of a cluster, which also are their parameters, namespaces and definitions. What cannot be read is an error.
func NewPolicies(objects []map[string]any) (*Policies, error) {
	p := &Policies{
		objects: map[schema.GroupKind][]*unstructured.Unstructured{}, namespaces: map[string]*corev1.Namespace{}, definitions: map[schema.GroupKind]map[string]any{}, read: map[schema.GroupVersionKind]*Definition{},
		unbound: map[string]string{},
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
		case policyKind:
			var of boundPolicy
			if err := typed(o, &of.ValidatingAdmissionPolicy); err != nil {
				errs = append(errs, fmt.Errorf("ValidatingAdmissionPolicy %s: %w", u.GetName(), err))
				continue
			}
			if of.Spec.MatchConstraints == nil {
				errs = append(errs, fmt.Errorf("ValidatingAdmissionPolicy %s: spec.matchConstraints is missing", of.Name))
				continue
			}
			expressions := of.expressions()
			of.asks, of.ofLive = asks(expressions), slices.ContainsFunc(expressions, added.MatchString)
			of.ofContext = slices.ContainsFunc(expressions, func(e string) bool { return strings.Contains(e, "namespaceObject") })
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
	for policy, bindings := range bound {
		if slices.ContainsFunc(p.objects[policyKind], func(u *unstructured.Unstructured) bool { return u.GetName() == policy }) {
			continue
		}
		for _, b := range bindings {
			p.unbound[b.Name] = policy
		}
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

// Unbound returns the bindings of policies that are not among the objects, with these.
func (p *Policies) Unbound() map[string]string { return p.unbound }

// Create returns what the policies refuse, or may refuse, about a new object. It must be valid.
func (p *Policies) Create(object map[string]any) []Verdict {
	return p.judge(admission.Create, &metav1.CreateOptions{}, object, nil)
}

// Update is Create for an object that becomes another one.
func (p *Policies) Update(before, after map[string]any) []Verdict {
	return p.judge(admission.Update, &metav1.UpdateOptions{}, after, before)
}

// Delete is Create for an object that is deleted.
func (p *Policies) Delete(object map[string]any) []Verdict {
	return p.judge(admission.Delete, &metav1.DeleteOptions{}, nil, object)
}

// judge evaluates the policies on an object, an earlier one or both.
func (p *Policies) judge(operation admission.Operation, options runtime.Object, object, before map[string]any) []Verdict {
	if p.Empty() {
		return nil
	}
	var now, old runtime.Object // nil for none
	var u *unstructured.Unstructured
	for _, of := range []struct {
		object map[string]any
		into   *runtime.Object
	}{{before, &old}, {object, &now}} {
		if of.object == nil {
			continue
		}
		full, err := p.defaulted(of.object)
		if err != nil {
			return nil
		}
		u = &unstructured.Unstructured{Object: full}
		*of.into = u
	}
	gvk := u.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	plural, _, _ := unstructured.NestedString(p.definitions[gvk.GroupKind()], "spec", "names", "plural")
	resource.Resource = cmp.Or(plural, resource.Resource)
	attributes := admission.NewAttributesRecord(now, old, gvk, u.GetNamespace(), u.GetName(), resource, "", operation, options, false, &user.DefaultInfo{})
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
	case !matches || of.spares(attributes):
		return nil
	case open != "":
		return unknown("%s", open)
	case of.asks != "":
		return unknown("it asks for %s", of.asks)
	case of.ofLive && attributes.GetOldObject() != nil:
		return unknown("it asks for what the cluster adds to the object")
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
		for _, message := range c.refuses(of, attributes, param, p.namespaceOf(u)) {
			verdict.Message = message
			list = append(list, verdict)
		}
	}
	return list
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
