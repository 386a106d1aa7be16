package verb

import (
	"testing"

	"homelab/lab"
	"homelab/lab/scenario"
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
