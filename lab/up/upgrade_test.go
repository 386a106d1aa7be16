package up_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/engine/survey"
	"homelab/lab/up"
)

// listener records the lines of a run.
type listener struct {
	stepRecorder
	lines *[]string
}

func (l listener) Println(line string) { *l.lines = append(*l.lines, line) }

// upgraded runs Follow with another version of the engine, on surveys that differ.
func upgraded(t *testing.T, s *stage, change func(*up.Lab), surveys ...survey.Survey) (up.Outcome, []string, error) {
	t.Helper()
	p := &process{stage: s}
	l := p.lab()
	l.Release = lab.Release{Version: "3.6.1", Chart: "3.6.1"}
	l.Survey = func(context.Context) (survey.Survey, error) {
		if len(surveys) == 0 {
			return survey.Survey{}, errors.New("surveyed too often")
		}
		next := surveys[0]
		surveys = surveys[1:]
		return next, nil
	}
	if change != nil {
		change(l)
	}
	var lines []string
	out, err := l.Follow(t.Context(), up.Options{Timeout: time.Second}, listener{stepRecorder{p}, &lines})
	if len(surveys) > 0 {
		t.Errorf("%d surveys were not taken", len(surveys))
	}
	return out, lines, err
}

func TestEngineUpgraded(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	app := func(sync string) survey.Survey {
		return survey.Survey{Applications: []lab.Application{{Name: "dev-podinfo", Sync: sync, Health: "Healthy"}}}
	}
	steps := (&process{stage: s}).lab()
	steps.Release = lab.Release{Version: "3.6.1", Chart: "3.6.1"}
	seen, err := steps.Observe(t.Context(), up.Options{})
	must(t, err)
	var due []string
	for _, step := range steps.Plan(t.Context(), up.Options{}, seen) {
		if step.Action != lab.ActionNone {
			due = append(due, step.ID+" "+step.Reason)
		}
	}
	if want := []string{"engine 3.2.11 -> 3.6.1", "addons compared by the engine as it is now"}; !slices.Equal(due, want) {
		t.Errorf("plan changes %q, want %q", due, want)
	}

	out, lines, err := upgraded(t, s, nil, app("Synced"), app("OutOfSync"))
	must(t, err)
	if u := out.Upgrade; u.From != "3.2.11" || u.To != "3.6.1" || !slices.Equal(u.OutOfSync, []string{"dev-podinfo: OutOfSync, Healthy"}) {
		t.Errorf("%+v", u)
	}
	for _, want := range []string{"upgrade: newly out of sync: dev-podinfo: OutOfSync, Healthy", "breaking in argo cd 3.3: ", "breaking in argo cd 3.6: "} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) }) {
			t.Errorf("printed %q, want %s", lines, want)
		}
	}
	if out, _, err = upgraded(t, s, nil); err != nil || !out.Idle || out.Upgrade.To != "" {
		t.Errorf("again: %+v, %v", out, err)
	}
	_, lines, err = upgraded(t, s, func(l *up.Lab) { l.Release = lab.Release{Version: "3.2.11", Chart: "3.2.11"} }, app("Synced"), app("Synced"))
	must(t, err)
	if !slices.Contains(lines, "argo cd 3.6.1 to 3.2.11: upstream supports no way back but a snapshot from before") {
		t.Errorf("printed %q", lines)
	}
	if !slices.ContainsFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "upgrade: 3.6.1 to 3.2.11: all 0 tracked objects and 0 pods are as they were")
	}) {
		t.Errorf("printed %q", lines)
	}
}

// Of objects that are tracked in another way, the report names the first.
func TestUpgradeLines(t *testing.T) {
	for n, last := range map[int]string{6: "dev: 6", 7: "2 more; -o json names all"} {
		u := up.Upgrade{From: "3.6.1", To: "3.6.1"}
		for i := range n {
			u.Retracked = append(u.Retracked, fmt.Sprintf("dev: %d", i+1))
			u.Orphaned = append(u.Orphaned, fmt.Sprintf("dev: %d", i+1))
		}
		lines := u.Lines()
		if want := n + 6 + 1; len(lines) != want || lines[want-1] != "objects tracked in another way: "+last {
			t.Errorf("%d of %d: %q", len(lines), want, lines)
		}
	}
}

// What an upgrade changed is reported although the applications do not converge.
func TestEngineUpgradeReported(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	for _, e := range s.engines {
		e.Break("dev-podinfo", "it does not start")
	}
	_, lines, err := upgraded(t, s, nil, survey.Survey{}, survey.Survey{})
	if err == nil || !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "upgrade: 3.2.11 to 3.6.1") }) {
		t.Errorf("%v, printed %q", err, lines)
	}
}

// Without a survey, the upgrade is done, and what it changed is unknown.
func TestEngineUpgradeUnreported(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	for _, surveys := range [][]survey.Survey{nil, {{}}} {
		out, lines, err := upgraded(t, s, nil, surveys...)
		if err != nil || out.Upgrade.To != "3.6.1" || len(out.Upgrade.Unknown) != 1 || !out.Upgrade.Changes() || !slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, "surveyed too often") }) {
			t.Errorf("%+v, %v, printed %q", out.Upgrade, err, lines)
		}
		_, _, _ = upgraded(t, s, func(l *up.Lab) { l.Release = lab.Release{Version: "3.2.11", Chart: "3.2.11"} }, survey.Survey{}, survey.Survey{})
	}
}
