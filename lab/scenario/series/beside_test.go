package series_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/series"
	"homelab/lab/scenario/verb"
)

// Stories without common subjects are played side by side, and those with some in turn. Each has a report of its own, and its lab is as it was.
func TestPlayBeside(t *testing.T) {
	p := play(t, []string{"left", "over", "right", "unmet"}, nil, func(o *series.Options) { o.Jobs = 3 })
	if p.calls[0] != "together left right" {
		t.Fatalf("%q", p.calls)
	}
	both := slices.Sorted(slices.Values(p.calls[1:7]))
	equal(t, "side by side", both, []string{"begin left", "begin right", "end left passed left.html", "end right passed right.html", "left 1 passed", "right 1 passed"})
	for i, name := range []string{"left", "right"} { // as a whole, whichever ends first
		at := slices.Index(p.calls, "begin "+name)
		equal(t, name, p.calls[at:at+3], []string{both[i], name + " 1 passed", "end " + name + " passed " + name + ".html"})
	}
	equal(t, "in turn", p.calls[7:], []string{
		"begin over", "over 1 begins", "over 1 passed", "end over passed over.html", "begin unmet", "unmet 1 begins", "unmet 1 failed", "end unmet failed unmet.html",
	})
	if p.Took > 150*time.Second {
		t.Errorf("took %s", p.Took)
	}
}

// An interrupt ends all of them, and the lab is as it was.
func TestPlayBesideInterrupted(t *testing.T) {
	p := play(t, []string{"left", "right", "last"}, func(_ string, interrupt func()) { time.AfterFunc(10*time.Second, interrupt) }, func(o *series.Options) { o.Jobs = 2 })
	if len(p.Results) != 2 {
		t.Fatalf("%q", p.calls)
	}
	for _, r := range p.Results {
		if r.Verdict != scenario.Interrupted || len(r.Left) > 0 || r.Took > 20*time.Second {
			t.Errorf("%s %s after %s, left %q", r.Scenario, r.Verdict, r.Took, r.Left)
		}
	}
}

// What changes Git or a whole cluster is played alone.
func TestAlone(t *testing.T) {
	root := os.DirFS(filepath.Join("..", "..", ".."))
	files := map[string]string{}
	for name, spec := range stories {
		files["scenarios/"+name+"/scenario.yaml"] = "{apiVersion: lab/v1alpha1, kind: Scenario, metadata: {name: " + name + "}, spec: {title: t, teaches: t, " + spec + "}}"
	}
	fsys := scenariotest.Files(t, root, files)
	synctest.Test(t, func(t *testing.T) {
		list, err := scenario.LoadAll(fsys, []string{"left", "right", "stuck", "labels"}, verb.All())
		if err != nil {
			t.Fatal(err)
		}
		w := scenariotest.New(t, fsys).World
		equal(t, "alone", scenario.Alone(list, w), []string{"changes what an engine knows of a cluster: labels", "commits to Git: stuck"})
		for i, one := range list {
			for j, other := range list {
				if got, want := scenario.Apart(one, other, w), i+j == 1; got != want {
					t.Errorf("%s and %s apart: %t", one.Name, other.Name, got)
				}
			}
		}
	})
}
