package apiserver

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admission1 "k8s.io/api/admissionregistration/v1"
)

// policyCase is a case of testdata/policies.yaml. All policies apply to all of them, as on a server that has them all.
type policyCase struct {
	Name    string           `json:"name"`
	Objects []map[string]any `json:"objects"`
	Ask     []map[string]any `json:"ask"`
	Update  []policyUpdate   `json:"update"`
	Delete  []map[string]any `json:"delete"`
}

// policyUpdate is an object that is created, and then becomes another one.
type policyUpdate struct {
	Before map[string]any `json:"before"`
	After  map[string]any `json:"after"`
}

func policyCases(t *testing.T) (list []policyCase) {
	t.Helper()
	read(t, "testdata/policies.yaml", &list)
	return list
}

// TestPolicies compares what policies refuse with what a real API server refuses: of several messages, it returns one.
func TestPolicies(t *testing.T) {
	var want map[string][][]string
	read(t, "testdata/recorded-policies.yaml", &want)
	var definition map[string]any
	read(t, "testdata/definitions.yaml", &definition)
	objects := []map[string]any{definition}
	for _, c := range policyCases(t) {
		objects = append(objects, c.Objects...)
	}
	p, err := NewPolicies(objects)
	if err != nil {
		t.Fatal(err)
	}
	equal, all := 0, 0
	for _, c := range policyCases(t) {
		var answers [][]Verdict
		for _, object := range c.Ask {
			answers = append(answers, p.Create(object))
		}
		for _, u := range c.Update {
			stored, err := Applied(u.Before, u.After)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, p.Update(u.Before, stored))
		}
		for _, object := range c.Delete {
			answers = append(answers, p.Delete(object))
		}
		for i, verdicts := range answers {
			denied := []string{}
			for _, v := range verdicts {
				if v.Unknown != "" {
					t.Errorf("%s: unknown: %s", c.Name, v.Unknown)
				}
				if slices.Contains(v.Actions, admission1.Deny) {
					denied = append(denied, v.String())
				}
			}
			all++
			if i >= len(want[c.Name]) {
				t.Fatalf("%s is not recorded: task record-apiserver", c.Name)
			}
			recorded := want[c.Name][i]
			if len(recorded) == 0 && len(denied) > 0 || slices.ContainsFunc(recorded, func(message string) bool { return !slices.Contains(denied, message) }) {
				t.Errorf("%s: -recorded +lab\n%s", c.Name, cmp.Diff(recorded, denied))
				continue
			}
			equal++
		}
	}
	t.Logf("%d of %d equal", equal, all)
}

// TestPoliciesUnknown expects no verdict on what only a cluster knows.
func TestPoliciesUnknown(t *testing.T) {
	one := func(spec, binding map[string]any) *Policies {
		spec["matchConstraints"] = map[string]any{"resourceRules": []any{map[string]any{
			"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"configmaps"},
		}}}
		binding["policyName"], binding["validationActions"] = "p", []any{"Deny"}
		p, err := NewPolicies([]map[string]any{
			{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": "p"}, "spec": spec},
			{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": map[string]any{"name": "b"}, "spec": binding},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	validation := func(expression string) map[string]any {
		return map[string]any{"validations": []any{map[string]any{"expression": expression}}}
	}
	parameter := validation("params.data.a == 'b'")
	parameter["paramKind"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	for want, p := range map[string]*Policies{
		"asks for the user":          one(validation("request.userInfo.username == 'me'"), map[string]any{}),
		"what its user may do":       one(validation("authorizer.group('').resource('pods').check('get').allowed()"), map[string]any{}),
		"the labels of namespace ns": one(validation("namespaceObject.metadata.labels.a == 'b'"), map[string]any{}),
		"labels of namespace ns, ":   one(validation("true"), map[string]any{"matchResources": map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "ns", "a": "b"}}}}),
		"ConfigMap ns/limits, is":    one(parameter, map[string]any{"paramRef": map[string]any{"name": "limits", "parameterNotFoundAction": "Deny"}}),
	} {
		list := p.Create(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "ns"}})
		if len(list) != 1 || !strings.Contains(list[0].Unknown, want) {
			t.Errorf("%s: %+v", want, list)
		}
	}
	if _, err := NewPolicies([]map[string]any{{"apiVersion": "admissionregistration.k8s.io/v1alpha1", "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": "old"}}}); err == nil || !strings.Contains(err.Error(), "old") {
		t.Errorf("an unknown version: %v", err)
	}
}
