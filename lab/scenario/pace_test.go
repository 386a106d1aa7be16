package scenario_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"homelab/lab/scenario"
)

// A wait lasts for as long as its subject moves, unless it says how fast it must be.
func TestPatience(t *testing.T) {
	for name, c := range map[string]struct {
		limit   string
		notes   []string // of the object, one every 20 s; it waits for the note "5"
		verdict scenario.Verdict
		took    time.Duration
		why     string
	}{
		"slow":                  {"", []string{"1", "2", "3", "4", "5"}, scenario.Passed, 100 * time.Second, ""},
		"slow, must be fast":    {", within: 30s", []string{"1", "2", "3", "4", "5"}, scenario.Failed, 30 * time.Second, "within 30s"},
		"stands still":          {"", nil, scenario.Failed, 30 * time.Second, "nothing moved for 30s"},
		"moves, then stands":    {"", []string{"1"}, scenario.Failed, 50 * time.Second, "nothing moved for 30s"},
		"circles":               {", patience: 30s", strings.Split(strings.Repeat("1 2 ", 20), " "), scenario.Failed, 70 * time.Second, "nothing moved for 30s"},
		"moves for ever":        {", patience: 25s", strings.Split("a b c d e f g h i j k l m n o", " "), scenario.Failed, 125 * time.Second, "not done after 2m 5s, though things still moved"},
		"only its times change": {"", []string{"2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z", "5"}, scenario.Failed, 50 * time.Second, "nothing moved for 30s"},
	} {
		t.Run(name, func(t *testing.T) {
			stage(t, `
  steps:
    - title: five
      expect: {object: {`+podinfo+`}, has: {metadata.annotations.note: "5"}`+c.limit+`}
`, nil, func(b *bench) {
				var notes []*time.Timer
				b.player.OnStep = func(r scenario.StepResult) {
					for i, note := range c.notes {
						if r.Number == 1 && r.Verdict == "" && note != "" {
							notes = append(notes, time.AfterFunc(time.Duration(i+1)*20*time.Second, func() {
								o := b.object("prod", "podinfo")
								o.SetAnnotations(map[string]string{"note": note})
								b.update("prod", o)
							}))
						}
					}
					if r.Number == 1 && r.Verdict != "" {
						for _, n := range notes {
							n.Stop()
						}
						o := b.object("prod", "podinfo")
						o.SetAnnotations(nil)
						b.update("prod", o)
					}
				}
				r := b.play()
				b.want(r, c.verdict)
				step := r.Steps[0]
				if took := step.Took.Round(5 * time.Second); took != c.took {
					t.Errorf("took %s, want %s\n%s", took, c.took, story(r))
				}
				if u := step.Unmet; c.why != "" && (u == nil || !strings.Contains(u.Expected+strings.Join(u.Notes, ", "), c.why)) {
					t.Errorf("%+v, want %q", u, c.why)
				}
			})
		})
	}
}

// Events around a subject are movement, but for warnings: a pod that cannot start is reported again and again.
func TestPatienceEvents(t *testing.T) {
	for kind, took := range map[string]time.Duration{"Normal": 90 * time.Second, "Warning": 30 * time.Second} {
		stage(t, `
  steps:
    - title: never
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 99}}
`, nil, func(b *bench) {
			for i := range 3 {
				time.AfterFunc(time.Duration(i+1)*20*time.Second, func() { b.event(kind, "e"+strconv.Itoa(i), "Pulled"+strconv.Itoa(i)) })
			}
			r := b.play()
			b.want(r, scenario.Failed)
			if got := r.Steps[0].Took.Round(5 * time.Second); got != took {
				t.Errorf("%s: took %s, want %s", kind, got, took)
			}
		})
	}
}

// Both times of a wait are a problem, and times are printed in whole seconds.
func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{119999974422: "2m", 90 * time.Second: "1m30s", 500 * time.Millisecond: "500ms", 3 * time.Hour: "3h"} {
		if got := scenario.Span(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
