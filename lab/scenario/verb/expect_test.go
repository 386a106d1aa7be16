package verb

import (
	"testing"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/fieldpath"
	"homelab/lab/scenario"
	"homelab/lab/strict"
)

// An expectation about an addon's application on a cluster is about all of them, unless it names one.
func TestSeveralApplications(t *testing.T) {
	view := scenario.View{scenario.Applications(): {Known: true}}
	for name, sync := range map[string]string{"web-pr-1": "Synced", "web-pr-2": "OutOfSync"} {
		a := scenario.Application{Application: lab.Application{Name: name, Addon: "web", Cluster: "dev", Sync: sync, Health: "Healthy"}}
		view[a.Subject()] = scenario.State{Known: true, Application: &a}
	}
	for name, want := range map[string]map[string]bool{"": {"synced": false, "out-of-sync": false}, "web-pr-1": {"synced": true}, "web-pr-2": {"synced": false, "out-of-sync": true}, "web-pr-3": {"synced": false}} {
		for sync, met := range want {
			k := check{Application: &scenario.ApplicationRef{Cluster: "dev", Addon: "web", Name: name}, Sync: sync}
			if j := k.judge(view); j.Met != met || j.Unknown {
				t.Errorf("%q is %s: %+v", name, sync, j)
			}
		}
	}
	if j := (check{Application: &scenario.ApplicationRef{Cluster: "dev", Addon: "web"}, Absent: true}).judge(view); j.Met {
		t.Error("absent, though one of two is not")
	}
	captures := check{Application: &scenario.ApplicationRef{Cluster: "dev", Addon: "web"}, Capture: map[string]string{"v": "version"}}
	if captures.capture(nil, view) == nil {
		t.Error("one of several captured")
	}
}

// A fragment of an object is what its leaves are at their paths.
func TestFragment(t *testing.T) {
	read := func(text string) (conditions, *strict.Reader) {
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
		r := strict.NewReader("x.yaml")
		var c conditions
		r.Decode(n.Content[0], &c, "has")
		return c, r
	}
	object := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app.kubernetes.io/name": "web"}},
		"spec":     map[string]any{"replicas": int64(2), "args": []any{"a", "b"}, "empty": map[string]any{}, "ports": []any{map[string]any{"name": "http", "port": int64(80)}, map[string]any{"name": "tls", "port": int64(443)}}},
	}
	holds := func(text string) bool {
		c, r := read(text)
		if len(r.Problems) > 0 {
			t.Fatalf("%s: %v", text, r.Problems)
		}
		for at, one := range c {
			p, err := fieldpath.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			if got, there := p.Get(object); !one.holds(got, there) {
				return false
			}
		}
		return true
	}
	for text, want := range map[string]bool{
		`spec: {replicas: 2}`:                                          true,
		`spec: {replicas: 3}`:                                          false,
		`spec: {replicas: {atLeast: 2}, args: [a, b]}`:                 true,
		`spec: {args: [a]}`:                                            false,
		`metadata: {labels: {app.kubernetes.io/name: web}}`:            true,
		`spec: {ports: [{port: 80}, {name: tls}]}`:                     true,
		`spec: {ports: [{port: 80}]}`:                                  false,
		`spec: {ports: [{port: 80}, {name: http}]}`:                    false,
		`spec: {empty: {}}`:                                            true,
		`spec: {missing: {}}`:                                          false,
		`spec.ports: [{name: http, port: 80}, {name: tls, port: 443}]`: true,
		`spec.ports: [{name: http}, {name: tls}]`:                      false,
		`spec: {replicas: {not: 2}}`:                                   false,
		`spec: {missing: {exists: false}}`:                             true,
		`spec.ports[name=tls]: {port: 443}`:                            true,
	} {
		if got := holds(text); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	for _, text := range []string{`spec: {replicas: {is: 1, not: 2}}`, `spec: {replicas: {AtMost: 2}}`, `[1]`} {
		if _, r := read(text); len(r.Problems) != 1 {
			t.Errorf("%s: %v", text, r.Problems)
		}
	}
}
