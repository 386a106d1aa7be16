package ui

import (
	"bytes"
	"encoding/json"
	"testing"

	"homelab/lab"
	"homelab/lab/finding"
)

func TestSarif(t *testing.T) {
	var out bytes.Buffer
	u := New(Options{Out: &out, Err: &out})
	res := NewLintResult("homelab", "argocd", []finding.Finding{
		{Rule: finding.FloatingImage, Severity: finding.Warning, Position: lab.Position{File: "addons/web/a b.yaml", Line: 3, Column: 7}, Message: "m", Cure: "c"},
		{Rule: finding.NotRead, Severity: finding.Warning, Position: lab.Position{File: "/elsewhere/x.yaml"}, Message: "m"},
		{Rule: finding.UnknownOutput, Severity: finding.Note, Message: "m"},
	}, 0)
	if err := u.Sarif(res, "v1", "estate"); err != nil {
		t.Fatal(err)
	}
	var log sarifLog
	if err := json.Unmarshal(out.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	results := log.Runs[0].Results
	if got := results[0].Locations[0].Physical; got.File.URI != "estate/addons/web/a%20b.yaml" || *got.Region != (sarifRegion{3, 7}) {
		t.Errorf("%+v", got)
	}
	if got := results[1].Locations[0].Physical; got.File.URI != "file:///elsewhere/x.yaml" || got.File.Base != "" || got.Region != nil {
		t.Errorf("%+v", got)
	}
	if len(results[2].Locations) != 0 || results[2].Level != "note" {
		t.Errorf("%+v", results[2])
	}
	for _, r := range results {
		if log.Runs[0].Tool.Driver.Rules[r.Index].ID != r.Rule {
			t.Errorf("rule %d is not %s", r.Index, r.Rule)
		}
	}
}
