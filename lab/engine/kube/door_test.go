package kube_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
)

const corefile = ".:53 {\n    errors\n    forward . /etc/resolv.conf\n}\n"

// TestDoor prepares a cluster for a door, notices what is taken away, and leaves nothing of it.
func TestDoor(t *testing.T) {
	kinds := kubetest.Core()
	for resource, kind := range map[string]string{"roles": "Role", "rolebindings": "RoleBinding"} {
		kinds[schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}] = kind
	}
	c := kubetest.New(t, kinds, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: coredns, namespace: kube-system}\ndata:\n  Corefile: |\n    "+strings.ReplaceAll(strings.TrimSpace(corefile), "\n", "\n    ")+"\n").Live(t)
	d := kube.Door{Lab: "demo", Domain: "demo.localhost", Host: "lab-demo-door", CA: "ca"}
	lacks := func(want string) kube.Credential {
		t.Helper()
		cred, got, err := d.Observe(t.Context(), c)
		if err != nil || got != want {
			t.Errorf("lacks %q, %v; want %q", got, err, want)
		}
		return cred
	}
	dns := func() string {
		text, _, _ := unstructured.NestedString(c.Get(t, kube.ConfigMaps, "kube-system", "coredns").Object, "data", "Corefile")
		return text
	}
	ensure := func() kube.Credential {
		t.Helper()
		cred, err := d.Ensure(t.Context(), c)
		if err != nil || cred.Token == "" {
			t.Fatalf("%+v, %v", cred, err)
		}
		if again := lacks(""); again.Token != cred.Token {
			t.Errorf("%+v, then %+v", cred, again)
		}
		return cred
	}
	lacks("the door has no account")
	ensure()
	role := c.Get(t, kube.ClusterRoles, "", "lab-door").Object
	if rules, _, _ := unstructured.NestedSlice(role, "rules"); len(rules) != 5 || strings.Contains(strings.ToLower(strings.Join(verbs(rules), " ")), "create") {
		t.Errorf("%v", rules)
	}
	if text := dns(); !strings.HasPrefix(text, corefile+"# lab's names begin\ndemo.localhost:53 {") || !strings.Contains(text, "regex .* lab-demo-door. answer auto") {
		t.Errorf("Corefile %s", text)
	}
	c.ClearActions()
	ensure()
	if w := c.Writes(); len(w) > 0 {
		t.Errorf("the second time, it writes %q", w)
	}
	d.CA = "another"
	lacks("pods cannot read the authority")
	ensure()
	d.Host = "lab-demo-other"
	lacks("its DNS does not know the names")
	ensure()
	if strings.Contains(dns(), "lab-demo-door") {
		t.Errorf("Corefile %s", dns())
	}
	for range 2 {
		if err := d.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if dns() != corefile {
		t.Errorf("left in the Corefile: %s", dns())
	}
	for resource := range kinds {
		for _, name := range c.Names(t, resource, "") {
			if name != "coredns" && name != kube.SpokeNamespace {
				t.Errorf("left: %s %s", resource.Resource, name)
			}
		}
	}
}

func verbs(rules []any) (list []string) {
	for _, r := range rules {
		v, _, _ := unstructured.NestedStringSlice(r.(map[string]any), "verbs")
		list = append(list, v...)
	}
	return list
}
