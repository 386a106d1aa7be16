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
)

const withImages = `
  requires: {images: {beta: [dev, prod], alpha: [dev]}}
  steps:
    - {title: a change, patch: {` + podinfo + `, set: {metadata.annotations.note: x}}}
`

func TestImagesBeforeFirstStep(t *testing.T) {
	stage(t, withImages, nil, func(b *bench) {
		var brought []string
		b.player.Images = func(_ context.Context, cluster string, images []string) error {
			brought = append(brought, cluster+": "+strings.Join(images, " "))
			return nil
		}
		b.player.OnStep = func(r scenario.StepResult) {
			if want := []string{"dev: alpha beta", "prod: beta"}; !slices.Equal(brought, want) {
				t.Errorf("%q when %q begins, want %q", brought, r.Title, want)
			}
		}
		b.want(b.play(), scenario.Passed)
	})
}

func TestImagesFail(t *testing.T) {
	stage(t, withImages, nil, func(b *bench) {
		b.player.Images = func(context.Context, string, []string) error { return errors.New("no such image") }
		r := b.play()
		b.want(r, scenario.Broken)
		if r.Reason != "no such image" || len(r.Steps) != 0 {
			t.Error(story(r))
		}
	})
}

func TestEventAbsent(t *testing.T) {
	const spec = `
  steps:
    - {title: a change, patch: {` + podinfo + `, set: {metadata.annotations.note: x}}}
    - title: two replicas, and nothing failed
      expect:
        that:
          - {event: {cluster: prod, namespace: podinfo, reason: Failed}, absent: true}
          - {object: {` + podinfo + `}, has: {spec.replicas: 2}}
        for: 10s
`
	for after, verdict := range map[time.Duration]scenario.Verdict{5 * time.Second: scenario.Failed, time.Minute: scenario.Passed} {
		stage(t, spec, nil, func(b *bench) {
			b.report("before", "Failed")
			time.AfterFunc(after, func() { b.report("after", "Failed") })
			r := b.play()
			b.want(r, verdict)
			if s := r.Steps[1]; verdict == scenario.Failed && !strings.HasPrefix(s.Unmet.Error(), "expected no event Failed in namespace podinfo of prod") {
				t.Error(story(r))
			}
		})
	}
}

// A required cluster may be one that only gets images.
func TestImagesForMissingCluster(t *testing.T) {
	stage(t, "  requires: {images: {alpha: [moon]}}\n  steps:\n    - {title: never, pause: {cluster: dev}}\n", nil, func(b *bench) {
		if r := b.play(); r.Verdict != scenario.Skipped || r.Reason != "the lab has no cluster moon" || r.Exit() != lab.ExitDone {
			t.Error(story(r))
		}
	})
}
