package ui

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func tellStory(u *UI) {
	u.StoryBegin("drift: a human edits prod, and Git wins", "lab homelab")
	u.StoryStep(StoryLine{Number: 1, Title: "prod runs podinfo with 2 replicas"})
	u.StoryStep(StoryLine{Number: 1, Title: "prod runs podinfo with 2 replicas", Symbol: SymbolOK, Took: 100 * ms, Since: 100 * ms})
	u.StoryStep(StoryLine{Number: 2, Title: "a human scales podinfo in prod to 5", Symbol: SymbolOK, Took: 200 * ms, Since: 300 * ms})
	u.StoryStep(StoryLine{
		Number: 3, Title: "it is healed: 2 replicas again, \x1b[31mhowever long this title is, it must fit into its line", Symbol: SymbolFailed,
		Took: 30 * time.Second, Since: 30300 * ms, Detail: []Entry{
			{Name: "expected", Text: "deployment podinfo in prod: spec.replicas = 2 within 30s"},
			{Name: "last seen", Text: "spec.replicas = 5, unchanged for 29.8s"},
			{Name: "note", Text: "application prod-podinfo has selfHeal: false (addons/podinfo/applicationset.yaml:44)"},
		},
	})
	u.StoryPrompt("enter: go on")
	u.StoryStep(StoryLine{Number: 10, Title: "the lab is as it was", Symbol: SymbolOK, Took: 400 * ms, Since: 30700 * ms})
	u.StoryEnd("failed in 30.7s   timeline: drift.html")
}

func TestStory(t *testing.T) {
	for name, tty := range map[string]bool{"story.txt": false, "story-terminal.txt": true} {
		t.Run(name, func(t *testing.T) {
			var o, e bytes.Buffer
			var err io.Writer = &e
			screen := newVT(t, storyColumns, 40)
			if tty {
				err = screen
			}
			u := New(Options{Out: &o, Err: err, TTY: tty, OutTTY: tty, Clock: func() time.Time { return time.Time{} }})
			tellStory(u)
			text := e.String()
			if tty {
				text = screen.all()
			}
			if o.String() != "failed in 30.7s   timeline: drift.html\n" {
				t.Errorf("stdout: %q", o.String())
			}
			golden(t, name, text)
			if tty {
				fits(t, text)
			}
		})
	}
}

func TestStoryJSON(t *testing.T) {
	var o, e bytes.Buffer
	u := New(Options{Out: &o, Err: &e, JSON: true})
	tellStory(u)
	if o.Len() > 0 || !strings.Contains(e.String(), "it is healed") {
		t.Errorf("stdout %q, stderr %q", o.String(), e.String())
	}
}

func TestStoryReminds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e bytes.Buffer
		u := New(Options{Err: &e})
		u.StoryBegin("drift", "lab homelab")
		u.StoryStep(StoryLine{Number: 1, Title: "it is healed"})
		time.Sleep(21 * time.Second)
		u.StoryStep(StoryLine{Number: 1, Title: "it is healed", Symbol: SymbolOK, Took: 21 * time.Second, Since: 21 * time.Second})
		time.Sleep(21 * time.Second)
		u.StoryEnd("passed")
		var times []string
		for line := range strings.Lines(e.String()) {
			if strings.Contains(line, "it is healed") {
				times = append(times, strings.Fields(line)[0]+strings.Fields(line)[2])
			}
		}
		if got, want := strings.Join(times, " "), "10.0s· 20.0s· 21.0s✓"; got != want {
			t.Errorf("got %q, want %q in\n%s", got, want, e.String())
		}
	})
}
