package apiserver

import (
	"slices"

	admission1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// interfaces are what matching needs of an API server.
type interfaces struct {
	admission.ObjectInterfaces
	runtime.EquivalentResourceMapper
}

func (i interfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper { return i }

func (interfaces) EquivalentResourcesFor(schema.GroupVersionResource, string) []schema.GroupVersionResource {
	return nil
}

// matches reports whether constraints select an object, or may, and why that is not known.
func (p *Policies) matches(of *admission1.MatchResources, attributes admission.Attributes) (matches bool, unknown string, err error) {
	if selects(of) {
		if unknown = p.unlabelled(attributes); unknown != "" {
			of = of.DeepCopy()
			of.NamespaceSelector = &metav1.LabelSelector{}
		}
	}
	m := matching.NewMatcher(lister{Policies: p}, nil)
	matches, _, _, err = m.Matches(attributes, interfaces{}, &constraints{of})
	if matches || err != nil || of.MatchPolicy != nil && *of.MatchPolicy == admission1.Exact || len(of.ResourceRules) == 0 {
		return matches, unknown, err
	}
	of = of.DeepCopy()
	for i := range of.ResourceRules {
		of.ResourceRules[i].APIVersions = []string{"*"}
	}
	matches, _, _, err = m.Matches(attributes, interfaces{}, &constraints{of})
	return matches, "it asks for another version of the object", err
}

// unlabelled says that the labels of an object's namespace are not known, or returns "".
func (p *Policies) unlabelled(attributes admission.Attributes) string {
	if ns := attributes.GetNamespace(); ns != "" && p.namespaces[ns] == nil {
		return "it asks for the labels of namespace " + ns + ", which the estate does not define"
	}
	return ""
}

// constraints is matching.MatchCriteria.
type constraints struct{ of *admission1.MatchResources }

func (c *constraints) GetParsedNamespaceSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(c.of.NamespaceSelector)
}

func (c *constraints) GetParsedObjectSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(c.of.ObjectSelector)
}

func (c *constraints) GetMatchResources() admission1.MatchResources { return *c.of }

// lister is corelisters.NamespaceLister. A namespace that is not known has the label that all have.
type lister struct {
	corelisters.NamespaceLister
	*Policies
}

func (l lister) Get(name string) (*corev1.Namespace, error) {
	if ns := l.namespaces[name]; ns != nil {
		return ns, nil
	}
	return namespace(name, nil), nil
}

// selects reports whether constraints read labels of namespaces that differ.
func selects(of *admission1.MatchResources) bool {
	if of == nil || of.NamespaceSelector == nil {
		return false
	}
	for key := range of.NamespaceSelector.MatchLabels {
		if key != corev1.LabelMetadataName {
			return true
		}
	}
	return slices.ContainsFunc(of.NamespaceSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key != corev1.LabelMetadataName })
}
