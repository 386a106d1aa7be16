package apiserver

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	gocel "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admission1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// compiled are the expressions of a policy.
type compiled struct {
	conditions            matchconditions.Matcher // nil for none
	validations, messages cel.ConditionEvaluator
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
func (c *compiled) refuses(of *boundPolicy, attributes admission.Attributes, param runtime.Object, in *corev1.Namespace) []string {
	failed := func(err error) []string {
		if *of.Spec.FailurePolicy == admission1.Ignore {
			return nil
		}
		return []string{err.Error()}
	}
	ctx := context.Background()
	asked := versioned(attributes)
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

// spares reports whether the policy's own conditions leave an object out, by the object alone.
func (p *boundPolicy) spares(attributes admission.Attributes) bool {
	if !p.ofObject {
		return false
	}
	c, err := p.compiled()
	if err != nil || c.conditions == nil {
		return false
	}
	is := c.conditions.Match(context.Background(), versioned(attributes), nil, nil)
	return is.Error == nil && !is.Matches
}

// outside matches expressions that ask for more than the object.
var outside = regexp.MustCompile(`\b(request|authorizer|params|namespaceObject|variables)\b`)

func versioned(of admission.Attributes) *admission.VersionedAttributes {
	v := &admission.VersionedAttributes{Attributes: of, VersionedKind: of.GetKind(), VersionedObject: admission.NewLazyObject(of.GetObject())}
	if old := of.GetOldObject(); old != nil {
		v.VersionedOldObject = admission.NewLazyObject(old)
	}
	return v
}

// unknowable is what is unknown offline, by how expressions ask for it.
var unknowable = []struct {
	asks *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`\brequest\.userInfo\b`), "the user who applies the object"},
	{regexp.MustCompile(`\bauthorizer\b`), "what its user may do"},
	{regexp.MustCompile(`\brequest\.(uid|dryRun|options)\b`), "the request"},
}

// added is what an object has besides its manifest once it exists.
var added = regexp.MustCompile(`\b(status|resourceVersion|uid|generation|creationTimestamp|deletionTimestamp|managedFields)\b`)

// asks returns the unknowable that expressions read, or "".
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
