package fieldpath

import (
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func value(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

const object = `
metadata:
  annotations: {eks.amazonaws.com/role-arn: arn, plain: p}
spec:
  replicas: 2
  containers:
    - {name: sidecar, image: a}
    - {name: podinfo, image: b, env: [{name: X, value: "1"}]}
  generators:
    - clusters: {selector: {matchLabels: {environment: dev}}, values: {v: 1}}
    - clusters: {selector: {matchLabels: {environment: prod}}, values: {v: 2}}
`

func TestGet(t *testing.T) {
	for path, want := range map[string]any{
		`spec.replicas`: 2,
		`metadata.annotations["eks.amazonaws.com/role-arn"]`:                                "arn",
		`["metadata"].annotations.plain`:                                                    "p",
		`spec.containers[0].image`:                                                          "a",
		`spec.containers[name=podinfo].image`:                                               "b",
		`spec.containers[name=podinfo].env[name=X].value`:                                   "1",
		`spec.generators[clusters.selector.matchLabels.environment=prod].clusters.values.v`: 2,
	} {
		p, err := Parse(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got, ok := p.Get(value(t, object)); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v", path, got, ok, want)
		}
		var root yaml.Node
		if err := yaml.Unmarshal([]byte(object), &root); err != nil {
			t.Fatal(err)
		}
		if n, _, ok := p.Node(&root); !ok || n.Kind != yaml.ScalarNode {
			t.Errorf("%s: no node", path)
		}
	}
	for _, path := range []string{`spec.nothing`, `spec.containers[2]`, `spec.containers[name=x].image`, `spec.replicas.deeper`, `spec[0]`, `spec.containers.image`} {
		p, err := Parse(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got, ok := p.Get(value(t, object)); ok {
			t.Errorf("%s: got %v, want none", path, got)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, path := range []string{"", ".", "a.", "a..b", "a[", "a[x]", "a[-1]", `a["x]`, `a["x"`, "]", "a]b", "[a[0]=1]", strings.Repeat("a.", 600), strings.Repeat("a.", 80) + "a"} {
		if p, err := Parse(path); err == nil {
			t.Errorf("%.20q parsed as %v", path, p)
		}
	}
}

func TestSetAndRemove(t *testing.T) {
	v := value(t, object)
	for path, to := range map[string]any{
		"spec.replicas":                       5,
		"spec.new.deep.key":                   "made",
		"spec.containers[name=podinfo].image": "c",
		`metadata.labels["a.b/c"]`:            "d",
	} {
		p, err := Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Set(v, to); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if got, ok := p.Get(v); !ok || got != to {
			t.Errorf("%s: got %v", path, got)
		}
	}
	for _, path := range []string{"spec.containers[name=none].image", "spec.replicas.x", "spec.absent[0]", "spec.containers.image"} {
		p, _ := Parse(path)
		if err := p.Set(v, 1); err == nil {
			t.Errorf("%s was set", path)
		}
	}
	// Removing the missing prefix undoes Set.
	before, fresh := value(t, object), value(t, object)
	deep, _ := Parse("spec.made.up.key")
	made, ok := deep.Missing(fresh)
	if err := deep.Set(fresh, 1); err != nil || !ok {
		t.Fatal(err, ok)
	}
	if _, missing := deep.Missing(fresh); missing {
		t.Error("still missing")
	}
	if err := made.Remove(fresh); err != nil || !reflect.DeepEqual(before, fresh) {
		t.Errorf("%v: %v", err, fresh)
	}
	p, _ := Parse("spec.new.deep.key")
	if err := p.Remove(v); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Get(v); ok {
		t.Error("not removed")
	}
	if err := p.Remove(v); err != nil {
		t.Errorf("removing a missing value: %v", err)
	}
	p, _ = Parse("spec.containers[0]")
	if err := p.Remove(v); err == nil {
		t.Error("removed an element")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a.b[0]", `a["x"].c`, "a[b.c=d]", "[", "..", `["\u0041"]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s)
		if err != nil {
			return
		}
		m := map[string]any{"a": []any{map[string]any{"b": 1}}}
		p.Get(m)
		if p.Set(m, 1) == nil {
			if v, ok := p.Get(m); !ok || v != 1 {
				// setting may change what a match depends on
				if !strings.Contains(s, "=") {
					t.Errorf("%q: %v after Set", s, v)
				}
			}
		}
	})
}
