package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admission1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab/apiserver"
	"homelab/lab/desired"
	"homelab/lab/finding"
	"homelab/lab/needs"
	"homelab/lab/strict"
)

// engines are policies that only a program in the cluster evaluates, by group and kind; an empty kind is any.
var engines = []struct {
	schema.GroupKind
	by string
}{
	{schema.GroupKind{Group: "constraints.gatekeeper.sh"}, "Gatekeeper"},
	{schema.GroupKind{Group: "mutations.gatekeeper.sh"}, "Gatekeeper"},
	{schema.GroupKind{Group: "kyverno.io", Kind: "ClusterPolicy"}, "Kyverno"},
	{schema.GroupKind{Group: "kyverno.io", Kind: "Policy"}, "Kyverno"},
	{schema.GroupKind{Group: "policies.kyverno.io"}, "Kyverno"},
	{schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}, "a webhook"},
	{schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}, "a webhook"},
	{schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}, "the API server, which changes objects by it,"},
}

// member is an object of an application.
type member struct {
	application
	desired.Object
}

// policies applies the ValidatingAdmissionPolicies that a cluster will have to the objects that it will have.
func (l *linter) policies() {
	on := map[string][]member{} // cluster -> objects
	for _, a := range l.apps {
		for _, o := range a.objects {
			if needs.Applied(o.Document) {
				on[o.Cluster] = append(on[o.Cluster], member{a, o})
			}
		}
	}
	foreign := map[string][]member{} // by program and kind
	for _, c := range l.Estate.Clusters {
		for _, m := range on[c.Name] {
			gk := kindOf(m.Object).GroupKind()
			for _, e := range engines {
				if gk.Group == e.Group && (e.Kind == "" || gk.Kind == e.Kind) {
					foreign[e.by+"|"+gk.Kind] = append(foreign[e.by+"|"+gk.Kind], m)
				}
			}
		}
		l.policiesOf(on[c.Name])
	}
	for of, members := range foreign {
		by, kind, _ := strings.Cut(of, "|")
		l.foreign(by, kind, members)
	}
}

// foreign adds that the policies of a kind are not evaluated.
func (l *linter) foreign(by, kind string, members []member) {
	var names []string
	for _, m := range members {
		names = append(names, strings.TrimPrefix(m.ID(), kind+" "))
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 1 {
		l.policy(members[0], fmt.Sprintf("only %s evaluates it, in the cluster", by))
		return
	}
	at, message := l.place(members[0].application, members[0].Object, nil, fmt.Sprintf("%d of kind %s are not evaluated: only %s evaluates them, in the cluster: %s", len(names), kind, by, some(names)))
	l.add(finding.Finding{Rule: finding.PolicyUnknown, Position: at, Message: message})
}

func (l *linter) policiesOf(members []member) {
	policies, bindings := map[string]member{}, map[string]member{}
	for _, m := range members {
		gk := kindOf(m.Object).GroupKind()
		switch name := strict.Text(m.Node, "metadata", "name"); gk {
		case admission1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy").GroupKind():
			policies[name] = m
		case admission1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding").GroupKind():
			bindings[name] = m
		}
	}
	if len(policies)+len(bindings) == 0 {
		return
	}
	members = slices.Clone(members)
	objects := make([]map[string]any, 0, len(members))
	members = slices.DeleteFunc(members, func(m member) bool {
		o := decoded(m.Node)
		if o != nil {
			objects = append(objects, o)
		}
		return o == nil
	})
	of, err := apiserver.NewPolicies(objects)
	if err != nil {
		unread := policies
		if len(unread) == 0 {
			unread = bindings
		}
		at := unread[slices.Min(slices.Collect(maps.Keys(unread)))]
		l.policy(at, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	for binding, policy := range of.Unbound() {
		l.policy(bindings[binding], "the estate has no ValidatingAdmissionPolicy "+policy)
	}
	type open struct{ policy, why string }
	unknown := map[open][]string{} // objects
	for i, m := range members {
		for _, v := range of.Create(objects[i]) {
			if v.Unknown != "" {
				unknown[open{v.Policy, v.Unknown}] = append(unknown[open{v.Policy, v.Unknown}], m.ID())
				continue
			}
			severity := finding.Note
			switch {
			case slices.Contains(v.Actions, admission1.Deny) && !l.elsewhere(m.application):
				severity = finding.Error
			case slices.Contains(v.Actions, admission1.Deny), slices.Contains(v.Actions, admission1.Warn):
				severity = finding.Warning
			}
			at, message := l.place(m.application, m.Object, nil, m.ID()+": "+v.String())
			l.add(finding.Finding{Rule: finding.PolicyDenied, Severity: severity, Position: at, Message: message, Subject: finding.Subject{Cluster: m.Cluster, Application: m.Name, Object: m.ID()}})
		}
	}
	for of, ids := range unknown {
		l.policy(policies[of.policy], "for "+some(ids)+": "+of.why)
	}
}

// policy adds that a policy is not evaluated.
func (l *linter) policy(m member, why string) {
	at, message := l.place(m.application, m.Object, nil, m.ID()+" is not evaluated: "+why)
	l.add(finding.Finding{Rule: finding.PolicyUnknown, Position: at, Message: message, Subject: finding.Subject{Cluster: m.Object.Cluster, Application: m.Name, Object: m.ID()}})
}
