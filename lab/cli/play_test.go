package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/series"
	"homelab/lab/scenario/verb"
	"homelab/lab/ui"
)

// outcome is the result of playing scenario drift.
type outcome struct {
	exit         lab.Exit
	json         ui.ScenarioRun
	stderr       string
	page         bool
	junitVerdict string
}

// playDrift plays scenario drift on an in-memory lab; begin is called at the start of each step.
func playDrift(t *testing.T, change func(dir string, how *series.Options), begin func(step int, l *scenariotest.Lab, interrupt func())) outcome {
	t.Helper()
	root := os.DirFS(filepath.Join("..", ".."))
	story, err := scenario.Load(root, "drift", verb.All())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var out, narration bytes.Buffer
	var r outcome
	synctest.Test(t, func(t *testing.T) {
		l := scenariotest.New(t, root)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := &program{ui: ui.New(ui.Options{Out: &out, Err: &narration, JSON: true})}
		how := series.Options{Player: scenario.Player{World: l.World}, Pages: filepath.Join(dir, "pages"), JUnit: filepath.Join(dir, "junit.xml")}
		if change != nil {
			change(dir, &how)
		}
		step := 0
		begin(step, l, cancel)
		how.Player.Pause = func(context.Context, scenario.Step) error {
			step++
			begin(step, l, cancel)
			return nil
		}
		err := p.playAll(ctx, "homelab", []*scenario.Scenario{story}, how)
		var shown exitError
		if err != nil && !errors.As(err, &shown) {
			t.Errorf("error besides the result: %v", err)
		}
		r.exit = shown.exit
		time.Sleep(time.Second)
	})
	if err := json.Unmarshal(out.Bytes(), &r.json); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	r.stderr = narration.String()
	_, err = os.Stat(filepath.Join(dir, "pages", "drift.html"))
	r.page = err == nil
	r.junitVerdict = junitVerdict(t, filepath.Join(dir, "junit.xml"))
	return r
}

func junitVerdict(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	var j struct {
		Properties []struct {
			Name  string `xml:"name,attr"`
			Value string `xml:"value,attr"`
		} `xml:"testsuite>properties>property"`
	}
	if err := xml.Unmarshal(data, &j); err != nil {
		t.Errorf("%v in %s", err, data)
	}
	for _, p := range j.Properties {
		if p.Name == "verdict" {
			return p.Value
		}
	}
	return ""
}

// The result is written as JSON, JUnit and HTML page, regardless of the exit code.
func TestPlayResults(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(dir string, how *series.Options)
		begin   func(step int, l *scenariotest.Lab, interrupt func())
		exit    lab.Exit
		verdict scenario.Verdict
		page    bool
		junit   bool
		message string
	}{
		"passed": {exit: lab.ExitDone, verdict: scenario.Passed, page: true, junit: true},
		"interrupted at first step": {
			begin: func(step int, _ *scenariotest.Lab, interrupt func()) {
				if step == 0 {
					interrupt()
				}
			},
			exit: lab.ExitInterrupted, verdict: scenario.Interrupted, junit: true,
		},
		"interrupted at later step": {
			begin: func(step int, _ *scenariotest.Lab, interrupt func()) {
				if step == 7 {
					interrupt()
				}
			},
			exit: lab.ExitInterrupted, verdict: scenario.Interrupted, page: true, junit: true, message: "git main",
		},
		"expectation unmet": {
			begin: func(step int, l *scenariotest.Lab, _ func()) {
				if step == 2 {
					l.Engine.Shut()
				}
			},
			exit: lab.ExitUnmet, verdict: scenario.Failed, page: true, junit: true, message: "nothing seen from the engine",
		},
		"cluster unreachable": {
			begin: func(step int, l *scenariotest.Lab, _ func()) {
				if step == 0 {
					l.Clusters.Shut("prod")
				}
			},
			exit: lab.ExitFailed, verdict: scenario.Broken, junit: true,
		},
		"page not writable": {
			change: func(_ string, how *series.Options) { how.Pages = "/dev/null/pages" },
			exit:   lab.ExitFailed, verdict: scenario.Passed, junit: true, message: "error: timeline:",
		},
		"nothing writable": {
			change: func(_ string, how *series.Options) { how.Pages, how.JUnit = "/dev/null/pages", "/dev/null/junit" },
			exit:   lab.ExitFailed, verdict: scenario.Passed, message: "junit:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			begin := c.begin
			if begin == nil {
				begin = func(int, *scenariotest.Lab, func()) {}
			}
			r := playDrift(t, c.change, begin)
			if r.exit != c.exit || r.json.Verdict != string(c.verdict) || len(r.json.Scenarios) != 1 {
				t.Errorf("exit %d, %s, want %d, %s\n%s", r.exit, r.json.Verdict, c.exit, c.verdict, r.stderr)
			}
			if r.page != c.page || (r.junitVerdict == string(c.verdict)) != c.junit {
				t.Errorf("page: %t, junit: %q", r.page, r.junitVerdict)
			}
			if !strings.Contains(r.stderr, c.message) {
				t.Errorf("no %q in:\n%s", c.message, r.stderr)
			}
		})
	}
}
