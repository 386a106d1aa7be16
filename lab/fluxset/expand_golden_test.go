package fluxset

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"

	"homelab/lab/flux"
	"homelab/lab/golden"
	"homelab/lab/needs"
	"homelab/lab/strict"
)

// options are the lines above the files of a case.
type options struct {
	Scope     flux.Scope
	Extra     []string
	Artifacts bool
	Foreign   []string                     // clusters that define kinds by themselves
	Nodes     []map[string]string          // labels
	Known     map[string]map[string]string // data of ConfigMaps and Secrets, by NAMESPACE/NAME
}

// Each testdata/expand-NAME.txtar has options, the root in root.yaml, the files of https://example.com/fleet in fleet/, and in want what Expand and Adapt make of them.
// Other files are those of https://example.com/estate. Other repositories are elsewhere, and fleet has no revision but main. UPDATE_GOLDEN=1 updates it.
func TestExpandGolden(t *testing.T) {
	golden.Run(t, "testdata/expand-*.txtar", 13, func(t *testing.T, _ string, comment []byte, files fstest.MapFS) string {
		var o options
		if err := yaml.Unmarshal(comment, &o); err != nil {
			t.Fatal(err)
		}
		estate, fleet := fstest.MapFS{}, fstest.MapFS{}
		for path, f := range files {
			if name, ok := strings.CutPrefix(path, "fleet/"); ok {
				fleet[name] = f
			} else {
				estate[path] = f
			}
		}
		return described(t, Expand(o.world(estate, fleet), "root.yaml"))
	})
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
			images := needs.Images(a.Objects)
			a.Objects = nil
			out = append(out, map[string]any{"application": a, "objects": objects, "images": images})
		}
		return out
	}
	all["roots"], all["applications"] = list(x.Roots), list(x.Applications)
	if len(x.Sets) > 0 {
		all["sets"], all["notes"] = list(x.Sets), x.Notes
	}
	for _, root := range x.Roots {
		m := x.Adapt(root)
		var without []string
		for _, o := range m.Without {
			without = append(without, fmt.Sprintf("%s %s: %s", strict.Text(o.Node, "kind"), key(o.Node), o.Why))
		}
		all["without of "+root.Key()], all["patches of "+root.Key()] = without, m.Patches
	}
	return golden.YAML(t, all)
}

// The root's own source counts, not the copy in Git, which has upstream's address.
func TestRootSource(t *testing.T) {
	x := expandForeign(map[string]string{
		"cluster/a.yaml": source + "kind: GitRepository\nmetadata: {name: flux-system, namespace: flux-system}\nspec: {interval: 1m, url: https://example.com/upstream}\n---\n" + kustomizationOf("apps", ""),
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
