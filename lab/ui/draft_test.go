package ui

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A draft of any size fits on a screen.
func TestDraftFitsOneScreen(t *testing.T) {
	d := DraftInfo{Clusters: []string{"hub"}}
	for i := range 200 {
		name := fmt.Sprintf("thing-%d", i)
		d.Clusters = append(d.Clusters, name)
		d.Roots = append(d.Roots, "../fleet/"+name+".yaml:1:1")
		d.Keys = append(d.Keys, DraftKey{Kind: "annotation", Key: name, How: "found"})
		d.Open = append(d.Open, OpenValue{Key: name})
		d.Addons = append(d.Addons, DraftAddon{Addon: name, Why: "it comes from https://example.com/" + name})
		d.Applications = append(d.Applications, PlanApplication{Name: name, LeftOut: fmt.Sprintf("needs kind Thing%d of example.com, which nothing available defines", i)})
		d.Without = append(d.Without, DraftLeft{Why: fmt.Sprintf("reason number %d differs", i)}, DraftLeft{Why: name + " is " + fmt.Sprint(i) + " of " + string(rune('a'+i%26)) + "-kind"})
	}
	rows := d.rows()
	if len(rows) > 24 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		if len(row[2]) > 200 {
			t.Errorf("%d characters: %s", len(row[2]), row[2])
		}
	}
	if diff := cmp.Diff([]string{"not waited for", "200", Some(names(d.Applications)) + ": needs kind … of …, which nothing available defines"}, rows[4]); diff != "" {
		t.Error(diff)
	}
}

// A reason that all have is not cut at its colon.
func TestReasonsOfDraft(t *testing.T) {
	d := DraftInfo{Applications: []PlanApplication{
		{Name: "a", LeftOut: "cannot be built: ../fleet/a/kustomization.yaml:4:3: a/b.yaml does not exist"},
		{Name: "b", LeftOut: "variable a_1 is not set: ../fleet/b.yaml:1"},
		{Name: "c", LeftOut: "variable a_2 is not set: ../fleet/c.yaml:2"},
	}}
	want := [][]string{
		{"applications", "0", "none"},
		{"not waited for", "2", "b, c: variable … is not set"},
		{"not waited for", "1", "a: cannot be built: ../fleet/a/kustomization.yaml:4:3: a/b.yaml does not exist"},
	}
	if diff := cmp.Diff(want, d.rows()); diff != "" {
		t.Error(diff)
	}
}

func names(list []PlanApplication) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.Name)
	}
	return out
}
