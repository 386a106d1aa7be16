package scenario_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

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
