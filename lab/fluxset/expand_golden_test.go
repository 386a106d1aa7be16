package fluxset

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/strict"
)

// options are the lines above the files of a case.
type options struct {
	Scope     lab.FluxScope
	Extra     []string
	Artifacts bool
	Foreign   []string                     // clusters that define kinds by themselves
	Nodes     []map[string]string          // labels
	Known     map[string]map[string]string // data of ConfigMaps and Secrets, by NAMESPACE/NAME
}

// Each testdata/expand-NAME.txtar has options, the root in root.yaml, the files of https://example.com/fleet in fleet/, and in want what Expand and Adapt make of them.
// Other files are those of https://example.com/estate. Other repositories are elsewhere, and fleet has no revision but main. UPDATE_GOLDEN=1 updates it.
func TestExpandGolden(t *testing.T) {
	cases, err := filepath.Glob("testdata/expand-*.txtar")
	if err != nil || len(cases) < 7 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var o options
			if err := yaml.Unmarshal(archive.Comment, &o); err != nil {
				t.Fatal(err)
			}
			estate, fleet, want := fstest.MapFS{}, fstest.MapFS{}, ""
			for _, f := range archive.Files {
				if name, ok := strings.CutPrefix(f.Name, "fleet/"); ok {
					fleet[name] = &fstest.MapFile{Data: f.Data}
				} else if f.Name == "want" {
					want = string(f.Data)
				} else {
					estate[f.Name] = &fstest.MapFile{Data: f.Data}
				}
			}
			got := described(t, Expand(o.world(estate, fleet), "root.yaml"))
			if os.Getenv("UPDATE_GOLDEN") != "" {
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func (o options) world(estate, fleet fs.FS) World {
	w := World{
		FS: estate, Scope: o.Scope, Extra: o.Extra, Artifacts: o.Artifacts,
		Vars:    func(namespace, name string) map[string]string { return o.Known[namespace+"/"+name] },
		Foreign: func(cluster string) bool { return slices.Contains(o.Foreign, cluster) },
		Repository: func(url, revision string) (fs.FS, string, error) {
			switch {
			case url == "https://example.com/estate":
				return estate, "", nil
			case url != "https://example.com/fleet":
				return nil, "", &Absent{}
			case revision != "main":
				return nil, "", &Absent{Why: "no " + revision}
			}
			return fleet, "../fleet", nil
		},
	}
	if o.Nodes != nil {
		w.Nodes = func(string) []map[string]string { return o.Nodes }
	}
	return w
}

// described returns an expansion and the adaptations of its roots as YAML.
func described(t *testing.T, x Expansion) string {
	t.Helper()
	all := map[string]any{"sources": x.Sources, "problems": x.Problems}
	list := func(apps []Application) []any {
		var out []any
		for _, a := range apps {
			var objects []string
			for _, o := range a.Objects {
				objects = append(objects, fmt.Sprintf("%s %s %s: %s:%d", strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind"), key(o.Node), o.File, o.Line))
			}
			images := a.Images()
			a.Objects = nil
			out = append(out, map[string]any{"application": a, "objects": objects, "images": images})
		}
		return out
	}
	all["roots"], all["applications"] = list(x.Roots), list(x.Applications)
	for _, root := range x.Roots {
		m := x.Adapt(root)
		var without []string
		for _, o := range m.Without {
			without = append(without, fmt.Sprintf("%s %s: %s", strict.Text(o.Node, "kind"), key(o.Node), o.Why))
		}
		all["without of "+root.Key()], all["patches of "+root.Key()] = without, m.Patches
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(pruned(plain))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// pruned drops zero values.
func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if e = pruned(e); e != nil {
				out[k] = e
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case []any:
		var out []any
		for _, e := range v {
			out = append(out, pruned(e))
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case bool:
		if !v {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	case float64:
		if v == 0 {
			return nil
		}
		return int(v)
	}
	return v
}

// The root's own source counts, not the copy in Git, which has upstream's address.
func TestRootSource(t *testing.T) {
	x := expandForeign(map[string]string{
		"cluster/a.yaml": source + "kind: GitRepository\nmetadata: {name: flux-system, namespace: flux-system}\nspec: {url: https://example.com/upstream}\n---\n" + kustomizationOf("apps", ""),
		"apps/a.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n",
	})
	if got := x.Sources["GitRepository flux-system/flux-system"]; got != "https://example.com/fleet" {
		t.Error(got)
	}
	if a := x.Applications[0]; a.LeftOut != "" || a.Elsewhere != "" || len(a.Objects) != 1 {
		t.Errorf("%+v", a)
	}
}

// Health checks are adapted in copies.
func TestHealthChecksCopied(t *testing.T) {
	docs, problems := strict.Parse("x.yaml", []byte("[{apiVersion: source.toolkit.fluxcd.io/v1beta2, kind: GitRepository, name: a}, {apiVersion: image.toolkit.fluxcd.io/v1, kind: ImagePolicy, name: b}]"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	kept := Adaptation{}.HealthChecks(docs[0])
	if len(kept.Content) != 1 || strict.Text(kept.Content[0], "apiVersion") != "source.toolkit.fluxcd.io/v1" || strict.Text(kept.Content[0], "name") != "a" {
		t.Errorf("%+v", kept.Content)
	}
	if was := docs[0].Content; len(was) != 2 || strict.Text(was[0], "apiVersion") != "source.toolkit.fluxcd.io/v1beta2" {
		t.Errorf("changed: %+v", was)
	}
	if again := (Adaptation{}).HealthChecks(kept); again != kept {
		t.Error("a list without changes is copied")
	}
}
