package needs

import (
	"strings"
	"testing"

	"homelab/lab/render"
	"homelab/lab/strict"
)

func TestRejected(t *testing.T) {
	large := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web%s}\ndata: {a: " + strings.Repeat("x", maxAnnotations) + "}"
	of := func(annotations string) string { return strings.Replace(large, "%s", annotations, 1) }
	for _, c := range []struct {
		text    string
		options []string
		want    string
	}{
		{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}", nil, ""},
		{"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: web}", nil, "without a name: web.yaml"},
		{"apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: web, annotations: {argocd.argoproj.io/hook: PreSync}}", nil, ""},
		{of(""), nil, "too large for a client-side apply: ServerSideApply=true is not set"},
		{of(""), []string{"ServerSideApply=true"}, ""},
		{of(", annotations: {argocd.argoproj.io/sync-options: 'Prune=false, Replace=true'}"), nil, ""},
		{"apiVersion: v1\nkind: Secret\nmetadata: {name: web}\ndata: {a: <password>}", nil, "invalid: data.a is not in base64"},
		{"apiVersion: v1\nkind: Secret\nmetadata: {name: web}\ndata: {a: c2VjcmV0}\nstringData: {b: <password>}", nil, ""},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, env: [{name: A, value: 1}]}]}", nil, "invalid: json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string"},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {container: []}", nil, `invalid: unknown field "spec.container"`},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {container: []}", []string{"Validate=false"}, ""},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: my_web}", nil, "invalid: its name cannot be that of an object"},
		{"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'system:web'}", nil, ""},
		{"apiVersion: example.com/v1\nkind: Plan\nmetadata: {name: web}\nspec: {any: thing}", nil, ""},
	} {
		docs, problems := strict.Parse("web.yaml", []byte(c.text))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := ArgoCD(0).Rejected(render.Document{Node: docs[0], File: "web.yaml"}, c.options...); got != c.want {
			t.Errorf("%.100s: %q, want %q", c.text, got, c.want)
		}
	}
}
