package series_test

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/series"
	"homelab/lab/scenario/verb"
)

const podinfo = "cluster: prod, apiVersion: apps/v1, kind: Deployment, namespace: podinfo, name: podinfo"

// stories only differ in how they end.
var stories = map[string]string{
	"first":  "steps: [{title: a minute, wait: {for: 1m}}]",
	"unmet":  "steps: [{title: never, expect: {object: {" + podinfo + "}, has: {spec.replicas: 99}, within: 10s}}]",
	"absent": "requires: {engine: [flux]}, steps: [{title: a minute, wait: {for: 1m}}]",
	"stuck":  "steps: [{title: a branch, commit: {message: m, branch: mine, remove: [environments/dev/addons/podinfo/values.yaml]}}]",
	"last":   "steps: [{title: a minute, wait: {for: 1m}}]",
	"left":   "steps: [{title: by hand, patch: {" + podinfo + ", set: {metadata.annotations.note: x}}}, {title: two minutes, wait: {for: 2m}}]",
	"right":  "steps: [{title: by hand, patch: {" + strings.Replace(podinfo, "prod", "dev", 1) + ", set: {metadata.annotations.note: x}}}, {title: a minute, wait: {for: 1m}}]",
	"over":   "steps: [{title: it is there, expect: {application: {cluster: prod, addon: podinfo}, sync: synced}}]",
	"renew":  "steps: [{title: dev is recreated, renew: {cluster: dev}}]",
	"labels": "steps: [{title: a label, label: {cluster: dev, labels: {a: b}}}, {title: a commit, commit: {message: m, remove: [environments/dev/addons/podinfo/values.yaml]}}]",
}

// played is a series played on an in-memory lab, as its audience sees it.
type played struct {
	series.Outcome
	t     *testing.T
	dir   string
	calls []string
	begun func(story string)
	junit []string // suites
}

// Begin implements series.Audience.
func (p *played) Begin(_ context.Context, s *scenario.Scenario) func(scenario.StepResult) {
	p.calls = append(p.calls, "begin "+s.Name)
	if p.begun != nil {
		p.begun(s.Name)
	}
	return func(r scenario.StepResult) {
		if r.Number == 1 {
			p.calls = append(p.calls, s.Name+" 1 "+cmp.Or(string(r.Verdict), "begins"))
		}
	}
}

// Together implements series.Audience.
func (p *played) Together(list []*scenario.Scenario) {
	call := "together"
	for _, s := range list {
		call += " " + s.Name
	}
	p.calls = append(p.calls, call)
	if p.begun != nil {
		p.begun("together")
	}
}

// End implements series.Audience.
func (p *played) End(r *scenario.Result, page string) {
	if page != "" {
		if _, err := os.Stat(page); err != nil {
			p.t.Error(err)
		}
		page = " " + filepath.Base(page)
	}
	p.calls = append(p.calls, "end "+r.Scenario+" "+string(r.Verdict)+page)
}

func play(t *testing.T, names []string, begun func(story string, interrupt func()), change func(*series.Options)) *played {
	t.Helper()
	files := map[string]string{}
	for name, spec := range stories {
		files["scenarios/"+name+"/scenario.yaml"] = "{apiVersion: lab/v1alpha1, kind: Scenario, metadata: {name: " + name + "}, spec: {title: t, teaches: t, " + spec + "}}"
	}
	fsys := scenariotest.Files(t, os.DirFS(filepath.Join("..", "..", "..")), files)
	p := &played{t: t, dir: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		var list []*scenario.Scenario
		for _, name := range names {
			s, err := scenario.Load(fsys, name, verb.All())
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if begun != nil {
			p.begun = func(story string) { begun(story, cancel) }
		}
		o := series.Options{
			Player: scenario.Player{World: scenariotest.New(t, fsys).World, OnStep: func(scenario.StepResult) { t.Error("Player.OnStep was called") }},
			Pages:  filepath.Join(p.dir, "pages"), JUnit: filepath.Join(p.dir, "junit.xml"), Audience: p,
		}
		if change != nil {
			change(&o)
		}
		p.Outcome = series.Play(ctx, list, o)
	})
	p.junit = suites(t, filepath.Join(p.dir, "junit.xml"))
	return p
}

// suites returns the names of JUnit's suites with their verdicts.
func suites(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	var j struct {
		Suites []struct {
			Name       string `xml:"name,attr"`
			Properties []struct {
				Name  string `xml:"name,attr"`
				Value string `xml:"value,attr"`
			} `xml:"properties>property"`
		} `xml:"testsuite"`
	}
	if err == nil {
		err = xml.Unmarshal(data, &j)
	}
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, s := range j.Suites {
		for _, p := range s.Properties {
			if p.Name == "verdict" {
				list = append(list, s.Name+" "+p.Value)
			}
		}
	}
	return list
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A failed or skipped story does not stop the series. Each has its own audience, and a page if it was played.
func TestPlay(t *testing.T) {
	p := play(t, []string{"first", "unmet", "absent", "last"}, nil, nil)
	equal(t, "calls", p.calls, []string{
		"begin first", "first 1 begins", "first 1 passed", "end first passed first.html",
		"begin unmet", "unmet 1 begins", "unmet 1 failed", "end unmet failed unmet.html",
		"begin absent", "end absent skipped",
		"begin last", "last 1 begins", "last 1 passed", "end last passed last.html",
	})
	equal(t, "junit", p.junit, []string{"first passed", "unmet failed", "absent skipped", "last passed"})
	var pages []string
	for i, page := range p.Pages {
		name := p.Results[i].Scenario
		if page != "" && page != filepath.Join(p.dir, "pages", name+".html") {
			t.Errorf("the page of %s is %s", name, page)
		}
		pages = append(pages, filepath.Base(page))
	}
	equal(t, "pages", pages, []string{"first.html", "unmet.html", ".", "last.html"})
	if p.Unwritten != nil {
		t.Error(p.Unwritten)
	}
	if scenario.WorstVerdict(p.Results) != scenario.Failed {
		t.Errorf("%s", scenario.WorstVerdict(p.Results))
	}
	sum := time.Duration(0)
	for _, r := range p.Results {
		sum += r.Took
	}
	if p.Took < 2*time.Minute || p.Took != sum {
		t.Errorf("%s, and its stories %s", p.Took, sum)
	}
}

type branches = scenario.Branches

// protected rejects the removal of branches.
type protected struct{ branches }

func (protected) RemoveBranch(context.Context, string) error { return errors.New("it is protected") }

// A story that does not restore the lab ends the series.
func TestPlayUnrestored(t *testing.T) {
	p := play(t, []string{"stuck", "absent", "last"}, nil, func(o *series.Options) { o.Player.World.Branches = protected{o.Player.World.Branches} })
	equal(t, "calls", p.calls, []string{
		"begin stuck", "stuck 1 begins", "stuck 1 passed", "end stuck failed stuck.html", "begin absent", "end absent not played", "begin last", "end last not played",
	})
	equal(t, "junit", p.junit, []string{"stuck failed", "absent not played", "last not played"})
	if r := p.Results[2]; r.Reason != "stuck did not restore the lab: lab up restores it" || scenario.Worst(p.Results) != lab.ExitUnmet {
		t.Errorf("%+v, exit %d", r, scenario.Worst(p.Results))
	}
}

// A story is played on the lab that those before it have left, which may be reached in another way.
func TestPlayMoved(t *testing.T) {
	p := play(t, []string{"renew", "over"}, nil, func(o *series.Options) {
		renew := o.Player.World.Renew
		o.Player.World.Renew = func(ctx context.Context, cluster string) (scenario.World, error) {
			w, err := renew(ctx, cluster)
			w.Lab, w.Renew = "moved", o.Player.World.Renew
			return w, err
		}
	})
	for i, moved := range []bool{false, true} {
		if r := p.Results[i]; r.Verdict != scenario.Passed || (r.Lab == "moved") != moved {
			t.Errorf("%s: %s on lab %s, %s", r.Scenario, r.Verdict, r.Lab, r.Reason)
		}
	}
}

// An interrupt ends the series; earlier results are still written.
func TestPlayInterrupted(t *testing.T) {
	p := play(t, []string{"first", "unmet", "last"}, func(story string, interrupt func()) {
		if story == "unmet" {
			time.AfterFunc(time.Second, interrupt)
		}
	}, nil)
	equal(t, "calls", p.calls, []string{
		"begin first", "first 1 begins", "first 1 passed", "end first passed first.html",
		"begin unmet", "unmet 1 begins", "unmet 1 interrupted", "end unmet interrupted unmet.html",
	})
	equal(t, "junit", p.junit, []string{"first passed", "unmet interrupted"})
	if len(p.Results) != 2 || len(p.Pages) != 2 || p.Unwritten != nil {
		t.Errorf("%d results, pages %q, %v", len(p.Results), p.Pages, p.Unwritten)
	}
}

// Write errors are reported with the results.
func TestPlayWriteErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*series.Options)
		messages []string
		junit    int
	}{
		"pages":       {func(o *series.Options) { o.Pages = "/dev/null/pages" }, []string{"timeline: "}, 2},
		"junit":       {func(o *series.Options) { o.JUnit = "/dev/null/junit" }, []string{"junit: "}, 0},
		"both":        {func(o *series.Options) { o.Pages, o.JUnit = "/dev/null/pages", "/dev/null/junit" }, []string{"timeline: ", "junit: "}, 0},
		"none wanted": {func(o *series.Options) { o.JUnit = "" }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t, []string{"first", "last"}, nil, c.change)
			if len(p.Results) != 2 || scenario.WorstVerdict(p.Results) != scenario.Passed || len(p.junit) != c.junit {
				t.Errorf("%d results, %d in junit", len(p.Results), len(p.junit))
			}
			if (p.Unwritten == nil) != (c.messages == nil) {
				t.Fatalf("unwritten: %v", p.Unwritten)
			}
			for _, want := range c.messages {
				if !strings.Contains(p.Unwritten.Error(), want) {
					t.Errorf("%q is not in %q", want, p.Unwritten)
				}
			}
		})
	}
}

func TestPlayNothing(t *testing.T) {
	p := play(t, nil, nil, nil)
	if len(p.Results) != 0 || len(p.calls) != 0 || p.Unwritten != nil {
		t.Errorf("%+v", p.Outcome)
	}
}
