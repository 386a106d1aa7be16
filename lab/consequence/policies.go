package consequence

import (
	"slices"
	"strings"

	admission1 "k8s.io/api/admissionregistration/v1"

	"homelab/lab/apiserver"
	"homelab/lab/desired"
	"homelab/lab/strict"
)

const policyKind = "ValidatingAdmissionPolicy"

// denied returns the message of the policies of a cluster that refuse an object, which is new, was another one or, without stored, is deleted; or else why it is not known
// whether they do. What is applied first if a policy changes, too, is not known.
func (f *foresight) denied(was map[string]any, o object, stored map[string]any) (refused, unknown string) {
	policies, known := f.policies[o.Cluster]
	if !known {
		policies = [2]*apiserver.Policies{f.policiesOf(f.before, o.Cluster), f.policiesOf(f.after, o.Cluster)}
		f.policies[o.Cluster] = policies
	}
	var messages [2]string
	for i, p := range policies {
		if p == nil {
			continue
		}
		var verdicts []apiserver.Verdict
		switch {
		case stored == nil:
			verdicts = p.Delete(was)
		case was == nil:
			verdicts = p.Create(stored)
		default:
			verdicts = p.Update(was, stored)
		}
		var list []string
		for _, v := range verdicts {
			switch {
			case !slices.Contains(v.Actions, admission1.Deny):
			case v.Unknown != "":
				unknown = "whether ValidatingAdmissionPolicy " + v.Policy + " denies it is unknown: " + v.Unknown
			default:
				list = append(list, v.String())
			}
		}
		messages[i] = strings.Join(list, "; ")
	}
	switch {
	case messages[0] != "" && messages[1] != "":
		return messages[1], ""
	case messages[1] != "":
		return "", "refused if the policy is applied first: " + messages[1]
	case messages[0] != "":
		return "", "refused unless the policy goes or changes first: " + messages[0]
	}
	return "", unknown
}

// policiesOf returns the policies that a cluster has with these units, or nil for none. All of its objects are rendered only if it has one.
func (f *foresight) policiesOf(units []*unit, cluster string) *apiserver.Policies {
	has := false
	for _, u := range units {
		if !has && f.lazy(u, cluster) && slices.ContainsFunc(u.app.Parts, func(p desired.Part) bool { return p.Mentions == nil || p.Mentions(policyKind) }) {
			has = slices.ContainsFunc(f.rendered(u.app), func(o desired.Object) bool { return o.Cluster == cluster && strict.Text(o.Node, "kind") == policyKind })
		}
		has = has || slices.ContainsFunc(u.objects, func(o object) bool { return o.Cluster == cluster && text(o.content, "kind") == policyKind })
	}
	if !has {
		return nil
	}
	var objects []map[string]any
	for _, u := range units {
		if f.lazy(u, cluster) {
			for _, o := range f.rendered(u.app) {
				if content, err := content(o); err == nil && o.Cluster == cluster {
					objects = append(objects, content)
				}
			}
			continue
		}
		for _, o := range u.objects {
			if o.Cluster == cluster && !f.unchanged[u.app.Name] {
				objects = append(objects, o.content)
			}
		}
	}
	p, _ := apiserver.NewPolicies(objects) // lint says what cannot be read
	return p
}

// lazy reports whether a unit's objects, and those of its releases, have not been rendered because they do not change.
func (f *foresight) lazy(u *unit, cluster string) bool {
	return f.unchanged[u.app.Name] && u.release == "" && slices.ContainsFunc(u.app.Parts, func(p desired.Part) bool { return p.Cluster == cluster })
}
