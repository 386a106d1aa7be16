package needs_test

import (
	"errors"
	"testing"

	"homelab/lab"
	"homelab/lab/needs"
)

// With --strict, what lab concludes to be left out counts like what is unavailable; what the estate itself holds back does not.
func TestRefuse(t *testing.T) {
	const url = "https://charts.example.com"
	at := func(line int) lab.Position { return lab.Position{File: "addons/a.yaml", Line: line} }
	e := &lab.Estate{
		Clusters: []lab.Cluster{{Name: "hub", Role: lab.RoleHub, Provider: lab.ProviderKind}},
		Applications: []lab.Generated{
			{Application: lab.Application{Name: "chart", Cluster: "hub"}, At: at(1), Others: []string{url}},
			{Application: lab.Application{Name: "after", Cluster: "hub"}, At: at(2), Needs: []string{"chart"}},
			{Application: lab.Application{Name: "widget", Cluster: "hub"}, At: at(3), Lacks: []lab.Need{{Why: "nothing provides kind Widget"}}, Mounted: true},
			{Application: lab.Application{Name: "doubtful", Cluster: "hub"}, At: at(4), Lacks: []lab.Need{{Why: "nothing creates Secret x/y"}}},
			{Application: lab.Application{Name: "manual", Cluster: "hub", LeftOut: "synced manually"}, At: at(5), Held: true},
			{Application: lab.Application{Name: "engine", Cluster: "hub", LeftOut: "replaces the engine"}, At: at(6), Replaces: true},
			{Application: lab.Application{Name: "fine", Cluster: "hub"}, At: at(7)},
		},
	}
	err := needs.Refuse(e, needs.Mark(e, map[string]error{url: errors.New("no answer")}))
	var refused *lab.Error
	if !errors.As(err, &refused) || refused.Exit != lab.ExitInvalid || refused.Code != "unavailable" {
		t.Fatalf("%v", err)
	}
	want := []string{url + " is unavailable: no answer", "after: needs chart, which is left out", "widget: nothing provides kind Widget", "doubtful: nothing creates Secret x/y"}
	if len(refused.Problems) != len(want) {
		t.Fatalf("%+v, want %q", refused.Problems, want)
	}
	for i, p := range refused.Problems {
		if p.Message != want[i] || p.Line != i+1 {
			t.Errorf("%+v, want %q in line %d", p, want[i], i+1)
		}
	}
	e.Applications = e.Applications[4:]
	if err := needs.Refuse(e, nil); err != nil {
		t.Errorf("what the estate holds back is refused: %v", err)
	}
}
