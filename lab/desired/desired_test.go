package desired_test

import (
	"errors"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// part returns a part with the documents of a text, whose namespace is "web".
func part(t *testing.T, text string) desired.Part {
	t.Helper()
	nodes, problems := strict.Parse("file.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return desired.Part{Cluster: "dev", Namespace: "web", Render: func() (docs []render.Document, err error) {
		for _, n := range nodes {
			docs = append(docs, render.Document{Node: n, File: "file.yaml"})
		}
		return docs, nil
	}}
}

func TestObjects(t *testing.T) {
	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: teams.example.com}
spec: {scope: Cluster, group: example.com, names: {kind: Team}}
---
`
	for _, tc := range []struct{ name, text, want string }{
		{"namespaced", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "ConfigMap web/a"},
		{"namespace of its own", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n", "ConfigMap b/a"},
		{"empty namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: \"\"}\n", "ConfigMap web/a"},
		{"of the cluster", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: b}\n", "Namespace a"},
		{"unknown kind", "apiVersion: example.com/v1\nkind: Team\nmetadata: {name: a}\n", "Team web/a"},
		{"kind of the cluster, by its definition", definition + "apiVersion: example.com/v1\nkind: Team\nmetadata: {name: a, namespace: b}\n", "CustomResourceDefinition teams.example.com, Team a"},
		{"list", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]\n", "ConfigMap web/a"},
		{"again", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: web}\n", "ConfigMap web/b, Secret web/a"},
		{"generated names", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "Pod web/a-*, Pod web/a-*"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects, problems := desired.App{Last: true, Parts: []desired.Part{part(t, tc.text)}}.Objects()
			var got []string
			for _, o := range objects {
				got = append(got, o.ID())
				if o.Cluster != "dev" {
					t.Errorf("cluster %q", o.Cluster)
				}
			}
			if strings.Join(got, ", ") != tc.want || len(problems) > 0 {
				t.Errorf("%q, want %q; %v", got, tc.want, problems)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	fails := desired.Part{Name: "apps/web", Render: func() ([]render.Document, error) { return nil, errors.New("no") }}
	app := desired.App{Application: lab.Application{Name: "web"}, At: lab.Position{File: "web.yaml", Line: 3}, Parts: []desired.Part{fails, part(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")}}
	objects, problems := app.Objects()
	if len(objects) != 1 || len(problems) != 1 || problems[0].String() != "web.yaml:3: web: HelmRelease apps/web: no" {
		t.Errorf("%d objects, %v", len(objects), problems)
	}
}

func TestMask(t *testing.T) {
	const text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: eA==}\nstringData: {b: x}\n"
	objects, _ := desired.App{Parts: []desired.Part{part(t, text)}}.Objects()
	masked, err := objects[0].Mask().YAML()
	if err != nil || strings.Count(string(masked), "'***'") != 2 || strings.Contains(string(masked), "eA==") {
		t.Errorf("%s%v", masked, err)
	}
	if whole, err := objects[0].YAML(); err != nil || !strings.Contains(string(whole), "eA==") {
		t.Errorf("masking changed the object: %s%v", whole, err)
	}
}

// JSON, of which Flux's substitution makes YAML, is written as usual.
func TestYAML(t *testing.T) {
	const text = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", labels: {l: "yes"}, "namespace": "web"}, "data": {"a": "b # c", "d": "010", "t": "x\ny\n", "e": "", "u": "a: b"}, "list": [1, {"b": true}], "none": {}}`
	objects, _ := desired.App{Parts: []desired.Part{part(t, text)}}.Objects()
	before, err := objects[0].JSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := objects[0].YAML()
	const want = `apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  labels:
    l: "yes"
  namespace: web
data:
  a: "b # c"
  d: "010"
  t: |
    x
    y
  e: ""
  u: "a: b"
list:
  - 1
  - b: true
none: {}
`
	if err != nil || string(got) != want {
		t.Errorf("%s%v", got, err)
	}
	again, _ := desired.App{Parts: []desired.Part{part(t, string(got))}}.Objects()
	if after, err := again[0].JSON(); err != nil || string(after) != string(before) {
		t.Errorf("%s, was %s; %v", after, before, err)
	}
}

// Both engines read YAML 1.1.
func TestJSON(t *testing.T) {
	objects, _ := desired.App{Parts: []desired.Part{part(t, "apiVersion: v1\nkind: Pod\nspec: {hostNetwork: yes, a: \"yes\", b: 010}\n")}}.Objects()
	got, err := objects[0].JSON()
	if want := `"spec":{"a":"yes","b":8,"hostNetwork":true}`; err != nil || !strings.Contains(string(got), want) {
		t.Errorf("%s, want %s; %v", got, want, err)
	}
}
