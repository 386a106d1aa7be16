package consequence_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/consequence"
	"homelab/lab/desired"
	"homelab/lab/render"
)

// state reads a side of a case: files SIDE/CLUSTER/APPLICATION[/RELEASE], each a manifest of the unit and its objects.
func state(t *testing.T, engine lab.EngineType, files []txtar.File, side string) consequence.State {
	t.Helper()
	s := consequence.State{Engine: engine}
	apps := map[string]*desired.App{}
	var order []string
	for _, f := range files {
		parts := strings.Split(f.Name, "/")
		if parts[0] != side {
			continue
		}
		cluster, name := parts[1], parts[2]
		if len(s.Clusters) == 0 || s.Clusters[len(s.Clusters)-1] != cluster {
			s.Clusters = append(s.Clusters, cluster)
		}
		app, known := apps[name]
		if !known {
			app = &desired.App{Application: lab.Application{Name: name, Cluster: cluster}, Engine: engine, At: lab.Position{File: "sets.yaml"}}
			apps[name] = app
			order = append(order, name)
		}
		part := desired.Part{Cluster: cluster}
		if len(parts) == 5 {
			part.Name = parts[3] + "/" + parts[4]
		}
		var docs []render.Document
		d := yaml.NewDecoder(strings.NewReader(string(f.Data)))
		for line := 1; ; line++ {
			var n yaml.Node
			if d.Decode(&n) != nil {
				break
			}
			var m map[string]any
			if err := n.Decode(&m); err != nil {
				t.Fatal(err)
			}
			if kind, _ := m["kind"].(string); line == 1 && part.Name == "" && (kind == "Application" || kind == "Kustomization") {
				app.Manifest = m
				if m["set"] != nil {
					app.Set = fmt.Sprint(m["set"])
				}
				if m["fixed"] != nil {
					app.Fixed = fmt.Sprint(m["fixed"])
				}
				if m["kept"] != nil {
					app.Kept = fmt.Sprint(m["kept"])
				}
				continue
			}
			if m["rejected"] != nil {
				app.Engine, app.LeftOut = "", fmt.Sprint(m["rejected"])
				continue
			}
			docs = append(docs, render.Document{Node: n.Content[0], File: f.Name})
		}
		if app.Engine == "" {
			continue
		}
		part.Render = func() ([]render.Document, error) {
			if strings.Contains(string(f.Data), "broken") {
				return nil, fmt.Errorf("broken")
			}
			return docs, nil
		}
		app.Parts = append(app.Parts, part)
	}
	for _, name := range order {
		s.Apps = append(s.Apps, *apps[name])
	}
	return s
}

// Each case is a file: the comment is the expected effects, one a line.
func TestOf(t *testing.T) {
	for _, engine := range []lab.EngineType{lab.EngineArgoCD, lab.EngineFlux} {
		a, err := txtar.ParseFile(fmt.Sprintf("testdata/%s.txtar", engine))
		if err != nil {
			t.Fatal(err)
		}
		cases := map[string][]txtar.File{}
		want := map[string]string{}
		for _, f := range a.Files {
			name, rest, _ := strings.Cut(f.Name, "/")
			if rest == "want" {
				want[name] = string(f.Data)
				continue
			}
			cases[name] = append(cases[name], txtar.File{Name: rest, Data: f.Data})
		}
		if len(want) < 10 {
			t.Errorf("%s: %d cases", engine, len(want))
		}
		for name, files := range cases {
			t.Run(string(engine)+"/"+name, func(t *testing.T) {
				effects, _ := consequence.Of(state(t, engine, files, "before"), state(t, engine, files, "after"))
				var got strings.Builder
				for _, e := range effects {
					fmt.Fprintln(&got, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s", e.Action, e.Cluster, e.Application, e.Release, e.Object)), " "))
					if e.Loses != "" {
						fmt.Fprintln(&got, "  loses", e.Loses)
					}
				}
				if d := cmp.Diff(want[name], got.String()); d != "" {
					t.Errorf("-want +got\n%s", d)
				}
			})
		}
	}
}

// A cluster that left keeps what its own engine applied; and what cannot be read is unknown, not deleted.
func TestLeft(t *testing.T) {
	files := []txtar.File{
		{Name: "before/dev/web", Data: []byte("{kind: Kustomization, metadata: {name: web}, spec: {prune: true}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web}}\n")},
		{Name: "after/hub/x", Data: []byte("{kind: Kustomization, metadata: {name: x}}\n")},
	}
	before, after := state(t, lab.EngineFlux, files, "before"), state(t, lab.EngineFlux, files, "after")
	before.Clusters = append(before.Clusters, "hub")
	actions := func() (list []consequence.Action) {
		effects, _ := consequence.Of(before, after)
		for _, e := range effects {
			list = append(list, e.Action)
		}
		return list
	}
	if d := cmp.Diff([]consequence.Action{consequence.Delete, consequence.Stay}, actions()); d != "" {
		t.Errorf("one engine: %s", d)
	}
	after.Unknown = map[string]string{"dev": "unreadable"}
	if d := cmp.Diff([]consequence.Action{consequence.Unknown, consequence.Stay}, actions()); d != "" {
		t.Errorf("unknown: %s", d)
	}
	after.Unknown, after.Each = nil, true
	if d := cmp.Diff([]consequence.Action{consequence.Stay}, actions()); d != "" {
		t.Errorf("an engine on each cluster: %s", d)
	}
}

// What only a controller knows is unknown.
func TestUnknownSets(t *testing.T) {
	files := []txtar.File{
		{Name: "before/dev/web", Data: []byte("{kind: Application, metadata: {name: web}, set: a}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web}}\n")},
		{Name: "after/dev/x", Data: []byte("{kind: Application, metadata: {name: x}}\n")},
	}
	before, after := state(t, lab.EngineArgoCD, files, "before"), state(t, lab.EngineArgoCD, files, "after")
	after.Sets = map[string]string{"a": "asks a forge"}
	effects, _ := consequence.Of(before, after)
	if len(effects) != 1 || effects[0].Action != consequence.Unknown || effects[0].Reason != "asks a forge" {
		t.Errorf("got %+v", effects)
	}
}
