package resourceset

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"homelab/lab/render"
	"homelab/lab/strict"
)

func setOf(t *testing.T, spec string, providers ...string) Set {
	t.Helper()
	document := func(file, text string) render.Document {
		n, problems := strict.ParseOne(file, []byte(text))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return render.Document{Node: n, File: file}
	}
	s := Set{Document: document("set.yaml", "apiVersion: "+apiVersion+"\nkind: ResourceSet\nmetadata: {name: web, namespace: web}\n"+spec)}
	for i, text := range providers {
		s.Providers = append(s.Providers, document(fmt.Sprintf("provider%d.yaml", i), "apiVersion: "+apiVersion+"\nkind: ResourceSetInputProvider\n"+text))
	}
	return s
}

// object is an element of spec.resources.
const object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: \"<< inputs.name >>\", namespace: web}}"

// ids returns the names of objects with their positions.
func ids(docs []render.Document) (list []string) {
	for _, d := range docs {
		list = append(list, fmt.Sprintf("%s %s:%d", strict.Title(d.Node), d.File, d.Line))
	}
	return list
}

func TestPositions(t *testing.T) {
	docs, unknown, err := setOf(t, `spec:
  inputs: [{name: a}, {name: b}]
  resources:
  - `+object+`
  resourcesTemplate: |
    apiVersion: v1
    kind: Secret
    metadata:
      name: << inputs.name >>
`).Expand()
	want := []string{"ConfigMap a set.yaml:7", "ConfigMap b set.yaml:7", "Secret a set.yaml:8", "Secret b set.yaml:8"}
	if d := cmp.Diff(want, ids(docs)); d != "" || err != nil || len(unknown) > 0 {
		t.Errorf("%v %v\n%s", err, unknown, d)
	}
}

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"missing input":    {"spec:\n  inputs: [{other: a}]\n  resources:\n  - apiVersion: v1\n    kind: ConfigMap\n    metadata:\n      name: << inputs.name >>\n", "set.yaml:10: ResourceSet web: spec.resources[0]: at <inputs>: map has no entry for key \"name\""},
		"in a template":    {"spec:\n  inputs: [{other: a}]\n  resourcesTemplate: |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: << inputs.name >>}\n", "set.yaml:9: ResourceSet web: spec.resourcesTemplate: at <inputs>"},
		"unknown function": {"spec: {inputs: [{name: a}], resourcesTemplate: '<< semver inputs.name >>'}\n", "function \"semver\" not defined"},
		"open delimiter":   {"spec: {inputs: [{name: a}], resourcesTemplate: '<< inputs.name'}\n", "unclosed action"},
		"strategy":         {"spec: {inputStrategy: {name: Multiply}, inputs: [{name: a}], resources: [" + object + "]}\n", "set.yaml:4: ResourceSet web: spec.inputStrategy.name cannot be \"Multiply\""},
		"name or selector": {"spec: {inputsFrom: [{kind: X}], resources: [" + object + "]}\n", "must have either name or selector"},
		"a text":           {"spec: {inputs: text, resources: [" + object + "]}\n", "spec.inputs must be a list, not"},
		"list of texts":    {"spec: {inputs: [text], resources: [" + object + "]}\n", "spec.inputs[0] must be a mapping, not"},
		"without any":      {"spec: {inputs: [{name: a}]}\n", "set.yaml:4: ResourceSet web: makes nothing"},
		"without kind":     {"spec: {inputs: [{name: a}], resourcesTemplate: 'a: << inputs.name >>'}\n", "makes an object without"},
	} {
		_, _, err := setOf(t, c.spec).Expand()
		if known := new(render.Error); !errors.As(err, &known) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestUnknown(t *testing.T) {
	const static = "metadata: {name: static, namespace: web}\nspec: {type: Static, defaultValues: {name: b}}\n"
	for name, c := range map[string]struct {
		spec, provider string
		want, notes    []string
	}{
		"pull requests": {
			"spec: {inputs: [{name: a}], inputsFrom: [{name: prs}], resources: [" + object + "]}\n",
			"metadata: {name: prs, namespace: web}\nspec: {type: GitHubPullRequest, url: https://github.com/acme/web}\n",
			[]string{"ConfigMap a set.yaml:4"},
			[]string{"provider0.yaml:1: ResourceSet web: the inputs of ResourceSetInputProvider prs of type GitHubPullRequest are known only to a running operator: https://github.com/acme/web"},
		},
		"permuted with pull requests": {
			"spec: {inputStrategy: {name: Permute}, inputs: [{name: a}], inputsFrom: [{name: prs}], resources: [" + object + "]}\n",
			"metadata: {name: prs, namespace: web}\nspec: {type: GiteaPullRequest, url: https://git.example.com/web}\n",
			nil,
			[]string{"provider0.yaml:1: ResourceSet web: the inputs of ResourceSetInputProvider prs of type GiteaPullRequest are known only to a running operator: https://git.example.com/web"},
		},
		"nothing creates it": {
			"spec: {inputsFrom: [{name: other}], resources: [" + object + "]}\n", static, nil,
			[]string{"set.yaml:4: ResourceSet web: the inputs of ResourceSetInputProvider web/other, which nothing in the repositories creates, are not known"},
		},
		"uid": {
			"spec: {inputsFrom: [{name: static}], resources: [{apiVersion: v1, kind: ConfigMap, metadata: {name: \"a-<< inputs.id >>\"}}, " + object + "]}\n", static,
			[]string{"ConfigMap b set.yaml:4"},
			[]string{"set.yaml:4: ResourceSet web: what spec.resources[0] makes is not known: inputs.id depends on the UID of ResourceSetInputProvider static, which only a cluster assigns"},
		},
		"random": {
			"spec: {inputs: [{name: a}], resources: [{apiVersion: v1, kind: ConfigMap, metadata: {name: \"<< randInt 1 2 >>\"}}, " + object + "]}\n", static,
			[]string{"ConfigMap a set.yaml:4"},
			[]string{"set.yaml:4: ResourceSet web: what spec.resources[0] makes is not known: it calls randInt, whose result depends on the operator"},
		},
		"copied": {
			"spec: {inputs: [{name: a}], resources: [{apiVersion: v1, kind: Secret, metadata: {name: a, annotations: {" + copyFrom + ": web/other}}}]}\n", static,
			[]string{"Secret a set.yaml:4"},
			[]string{"set.yaml:4: ResourceSet web: the data of Secret a is not known: it is that of web/other in the cluster"},
		},
	} {
		docs, unknown, err := setOf(t, c.spec, c.provider).Expand()
		var notes []string
		for _, p := range unknown {
			notes = append(notes, p.String())
		}
		if d := cmp.Diff([][]string{c.want, c.notes}, [][]string{ids(docs), notes}); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
}

func TestCopied(t *testing.T) {
	s := setOf(t, "spec: {inputs: [{name: a}], resources: [{apiVersion: v1, kind: Secret, metadata: {name: a, annotations: {"+copyFrom+": web/other}}}]}\n")
	s.Data = func(kind, namespace, name string) map[string]string {
		return map[string]string{kind: namespace + "/" + name}
	}
	docs, unknown, err := s.Expand()
	if err != nil || len(unknown) > 0 || len(docs) != 1 || strict.Text(docs[0].Node, "data", "Secret") != "d2ViL290aGVy" {
		t.Errorf("%v %v %v", docs, unknown, err)
	}
}

func TestOptions(t *testing.T) {
	s := setOf(t, "spec: {inputs: [{name: a}], inputsFrom: [{name: static}], resources: ["+object+"]}\n", "metadata: {name: static, namespace: web}\nspec: {type: Static, defaultValues: {name: b}}\n")
	options := s.Options()
	objects := plain(strict.Get(s.Node, "spec", "resources"))
	want := map[string]any{
		"spec":      map[string]any{"inputs": []any{map[string]any{"name": "a"}}, "resources": objects},
		"providers": map[string]any{"static": map[string]any{"spec": map[string]any{"defaultValues": map[string]any{"name": "b"}}}},
	}
	if d := cmp.Diff(want, options); d != "" {
		t.Error(d)
	}
	changed := map[string]any{
		"spec":      map[string]any{"inputs": []any{map[string]any{"name": "c"}}},
		"providers": map[string]any{"static": map[string]any{"spec": map[string]any{"defaultValues": map[string]any{"name": "d"}}}},
	}
	docs, _, err := s.With(changed).Expand()
	if d := cmp.Diff([]string{"ConfigMap c set.yaml:4", "ConfigMap d set.yaml:4"}, ids(docs)); d != "" || err != nil {
		t.Error(err, d)
	}
	objects.([]any)[0].(map[string]any)["kind"] = "Secret"
	docs, _, err = s.With(map[string]any{"spec": map[string]any{"resources": objects}}).Expand()
	if d := cmp.Diff([]string{"Secret a set.yaml:0", "Secret b set.yaml:0"}, ids(docs)); d != "" || err != nil {
		t.Error(err, d)
	}
	if of, path := s.Of([]string{"providers", "static", "spec", "defaultValues", "name"}); of.File != "provider0.yaml" || len(path) != 3 {
		t.Error(of.File, path)
	}
}

// No template of a stranger takes long, or much memory.
func TestHostile(t *testing.T) {
	for name, c := range map[string]struct{ template, want string }{
		"recursion":  {`<< define "a" >><< template "a" >><< end >><< template "a" >>`, "nest"},
		"ranges":     {`<< range until 4000 >><< range until 4000 >><< range until 4000 >>x<< end >><< end >><< end >>`, "steps"},
		"repeat":     {`<< repeat 1000000000 "x" >>`, "MiB"},
		"doubling":   {`<< $x := "xxxxxxxx" >><< range until 64 >><< $x = print $x $x >><< end >><< $x >>`, "MiB"},
		"nesting":    {strings.Repeat(`<< if true >>`, 5000) + strings.Repeat(`<< end >>`, 5000), "nest"},
		"expression": {`<< regexMatch (repeat 500 "(a?)") (repeat 2000000 "a") >>`, "steps"},
	} {
		_, _, err := setOf(t, "spec: {inputs: [{name: a}], resourcesTemplate: '"+c.template+"'}\n").Expand()
		if known := new(render.Error); !errors.As(err, &known) || !known.Limit || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	var sets []string
	for i := range 101 {
		sets = append(sets, fmt.Sprintf("{n: %d}", i))
	}
	provider := "spec: {inputStrategy: {name: Permute}, inputs: [" + strings.Join(sets, ", ") + "], inputsFrom: [{name: a}, {name: b}], resources: [" + object + "]}\n"
	if _, _, err := setOf(t, provider).Expand(); err != nil {
		t.Errorf("without providers: %v", err)
	}
}

func FuzzExpand(f *testing.F) {
	for _, spec := range []string{
		"inputs: [{name: a}]\nresources: [" + object + "]\n",
		"inputs: [{name: [1, {b: c}]}]\ninputStrategy: {name: Permute}\nresourcesTemplate: |\n  << range inputs.web.name >>\n  a: << . | toYaml | nindent 2 >>\n  << end >>\n",
		"inputsFrom: [{selector: {matchLabels: {a: b}}}, {name: x}]\nsteps: [{name: a, resources: [" + object + "]}]\ncommonMetadata: {labels: {a: b}}\n",
	} {
		f.Add([]byte(spec), "defaultValues: {name: b}\n")
	}
	f.Fuzz(func(t *testing.T, spec []byte, values string) {
		in, problems := strict.ParseOne("set.yaml", spec)
		from, more := strict.ParseOne("provider.yaml", []byte(values))
		if len(problems)+len(more) > 0 {
			return
		}
		s := setOf(t, "spec: {}\n", "metadata: {name: x, namespace: web, labels: {a: b}}\nspec: {type: Static}\n")
		strict.Set(s.Node, "spec", in)
		strict.Set(strict.Get(s.Providers[0].Node, "spec"), "defaultValues", from)
		left := 200_000
		s.Step = func(n int) error {
			if left -= n; left < 0 {
				return errors.New("too long")
			}
			return nil
		}
		docs, _, err := s.Expand()
		if known := new(render.Error); err != nil && (!errors.As(err, &known) || known.Line < 1 || known.File == "") {
			t.Errorf("no position: %v", err)
		}
		for _, d := range docs {
			if d.File != "set.yaml" || d.Line < 1 || strict.Text(d.Node, "kind") == "" {
				t.Errorf("%+v", d)
			}
		}
	})
}
