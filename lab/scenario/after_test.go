package scenario_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

// Always steps are played after a failed step, and their failures count.
func TestAlways(t *testing.T) {
	const spec = "  steps:\n    - {title: fails, expect: {object: {" + podinfo + "}, absent: true, within: 1s}}\n    - {title: not played, wait: {for: 1s}}\n" +
		"  always:\n    - {title: looks, wait: {for: 1s}}\n    - {title: misses, expect: {object: {" + podinfo + "}, absent: true, within: 1s}}\n    - {title: goes on, wait: {for: 1s}}\n"
	for skip, want := range map[string][]string{
		"":      {"failed fails", "not played not played", "passed looks", "failed misses", "passed goes on", "passed the lab is as it was"},
		"fails": {"passed not played", "passed looks", "failed misses", "passed goes on", "passed the lab is as it was"},
	} {
		story := spec
		if skip != "" {
			head, rest, _ := strings.Cut(spec, "    - {title: fails")
			_, rest, _ = strings.Cut(rest, "\n")
			story = head + rest
		}
		stage(t, story, nil, func(b *bench) {
			r := b.play()
			b.want(r, scenario.Failed)
			var got []string
			for _, s := range r.Steps {
				got = append(got, string(s.Verdict)+" "+s.Title)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// stray is an engine that no longer follows the forge.
type stray struct{ *scenariotest.Engine }

func (stray) Follow(context.Context, string, []string, func()) error {
	return errors.New("no sync since")
}

func TestStrayEngine(t *testing.T) {
	stage(t, "  steps:\n    - {title: four, commit: {message: m, set: {clusters/prod/addons/podinfo/values.yaml: {replicaCount: 4}}}}\n", nil, func(b *bench) {
		b.player.World.Engine = stray{b.Engine}
		r := b.play()
		if r.Verdict != scenario.Failed || !slices.Contains(r.Left, "the engine does not follow: no sync since") {
			t.Errorf("%s\nleft: %q", story(r), r.Left)
		}
	})
}

// slow is an engine that takes minutes to follow, and moves or stands still meanwhile.
type slow struct {
	*scenariotest.Engine
	moves bool
}

func (s slow) Follow(ctx context.Context, commit string, but []string, moved func()) error {
	for range 7 {
		if err := lab.Sleep(ctx, time.Minute); err != nil {
			return errors.New("1 of 11 applications is not healthy")
		}
		if s.moves {
			moved()
		}
	}
	return s.Engine.Follow(ctx, commit, but, moved)
}

// An engine that moves is waited for, and one that stands still is not.
func TestSlowEngine(t *testing.T) {
	for moves, left := range map[bool][]string{true: nil, false: {"the engine does not follow: nothing moved for 2m 0s: 1 of 11 applications is not healthy"}} {
		stage(t, "  steps:\n    - {title: four, commit: {message: m, set: {clusters/prod/addons/podinfo/values.yaml: {replicaCount: 4}}}}\n", nil, func(b *bench) {
			b.player.World.Engine = slow{b.Engine, moves}
			if r := b.play(); !slices.Equal(r.Left, left) {
				t.Errorf("moves %t: %s\nleft: %q", moves, story(r), r.Left)
			}
		})
	}
}

// A cluster that is required only for an addon must answer, too.
func TestRequiredAddonUnreachable(t *testing.T) {
	stage(t, "  requires: {addons: {podinfo: [prod]}}\n  steps:\n    - {title: never, pause: {cluster: dev}}\n", nil, func(b *bench) {
		b.player.World.Clusters = down{b.Clusters, "prod"}
		r := b.play()
		b.want(r, scenario.Broken)
		if !strings.Contains(r.Reason, "cluster prod does not answer") || len(r.Steps) != 0 {
			t.Errorf("%s: %s", r.Reason, story(r))
		}
	})
}
