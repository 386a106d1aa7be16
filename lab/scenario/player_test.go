package scenario_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

const (
	podinfo = "cluster: prod, apiVersion: apps/v1, kind: Deployment, namespace: podinfo, name: podinfo"
	set     = "addons/podinfo/applicationset.yaml"
)

// bench plays a one-off story on an in-memory lab.
type bench struct {
	*scenariotest.Lab
	t      *testing.T
	player scenario.Player
	story  *scenario.Scenario
}

func stage(t *testing.T, spec string, more map[string]string, then func(b *bench)) {
	t.Helper()
	files := map[string]string{"scenarios/test/scenario.yaml": "apiVersion: lab/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  title: t\n  teaches: t\n" + spec}
	for name, text := range more {
		files["scenarios/test/"+name] = text
	}
	fsys := scenariotest.Files(t, root(), files)
	synctest.Test(t, func(t *testing.T) {
		l := scenariotest.New(t, fsys)
		then(&bench{Lab: l, t: t, player: scenario.Player{World: l.World}, story: load(t, fsys, "test")})
	})
}

func (b *bench) play() *scenario.Result { return b.player.Play(b.t.Context(), b.story) }

// want checks the verdict and that the lab was restored.
func (b *bench) want(r *scenario.Result, v scenario.Verdict) {
	b.t.Helper()
	if r.Verdict != v || len(r.Left) > 0 {
		b.t.Fatalf("want %s\n%s", v, story(r))
	}
	unchanged(b.t, b.Lab)
}

func TestRestoreRefreshesEngine(t *testing.T) {
	stage(t, `
  steps:
    - title: four
      commit: {message: m, set: {clusters/prod/addons/podinfo/values.yaml: {replicaCount: 4}}}
    - title: they are
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 4}}
`, nil, func(b *bench) {
		b.player.OnStep = func(r scenario.StepResult) {
			if r.Title == "the lab is as it was" && r.Verdict == "" {
				b.Engine.Miss()
			}
		}
		r := b.play()
		b.want(r, scenario.Passed)
		if last := r.Steps[len(r.Steps)-1]; last.Took > 10*time.Second {
			t.Errorf("put back in %s", last.Took)
		}
	})
}

// Applications that have not seen the story's commit yet look restored, and are not.
func TestRestoreWaitsForLaggingEngine(t *testing.T) {
	stage(t, `
  steps:
    - title: four
      commit: {message: m, set: {clusters/prod/addons/podinfo/values.yaml: {replicaCount: 4}}}
`, nil, func(b *bench) {
		b.Engine.Lag(5 * time.Second)
		b.want(b.play(), scenario.Passed)
		head, err := b.Forge.Tree(b.t.Context(), scenario.Branch)
		if settled, _ := b.Engine.Settled(b.t.Context()); err != nil || settled != head.Commit {
			t.Errorf("the story is over, the engine at %s, the forge at %s, %v", settled, head.Commit, err)
		}
	})
}

func TestStoryTimeout(t *testing.T) {
	stage(t, `
  timeout: 10s
  steps:
    - title: by hand
      patch: {`+podinfo+`, set: {metadata.annotations.note: x}}
    - title: never
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 99}, within: 20m}
`, nil, func(b *bench) {
		r := b.play()
		b.want(r, scenario.TimedOut)
		if step, _ := r.FailedStep(); r.Exit() != lab.ExitTimeout || !strings.Contains(step.Error, "expected deployment podinfo in prod: spec.replicas = 99 within 20m, last seen spec.replicas = 2") {
			t.Error(story(r))
		}
	})
}

// The engine heals within half a second; a later expectation still finds the drift.
func TestShortLivedState(t *testing.T) {
	stage(t, `
  steps:
    - id: edit
      title: by hand
      patch: {`+podinfo+`, set: {spec.replicas: 7}}
    - title: long after it was healed
      wait: {for: 20s}
    - title: it was out of sync
      expect: {application: {cluster: prod, addon: podinfo}, sync: out-of-sync, since: edit}
    - title: and healed after that
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 2}, since: edit}
`, nil, func(b *bench) {
		r := b.play()
		b.want(r, scenario.Passed)
		for i, m := range r.Measures {
			if m.From != "by hand" || m.Took <= 0 || m.Took > 2*time.Second {
				t.Errorf("measure %d: %+v", i, m)
			}
		}
		if len(r.Measures) != 2 || r.Measures[0].Took > r.Measures[1].Took {
			t.Errorf("measures %+v", r.Measures)
		}
	})
}

func TestStateBeforeChangeIgnored(t *testing.T) {
	stage(t, `
  steps:
    - title: self-heal off, and synced so
      commit: {message: m, set: {`+set+`: {spec.template.spec.syncPolicy.automated.selfHeal: false}, clusters/prod/addons/podinfo/values.yaml: {replicaCount: 4}}}
    - title: four
      expect: {that: [{object: {`+podinfo+`}, has: {spec.replicas: 4}}, {application: {cluster: prod, addon: podinfo}, heals: false, sync: synced, health: healthy}]}
    - title: by hand
      patch: {`+podinfo+`, set: {spec.replicas: 7}}
    - title: it had four before, and has them no more
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 4}, within: 5s}
`, nil, func(b *bench) {
		r := b.play()
		b.want(r, scenario.Failed)
		step, _ := r.FailedStep()
		if u := step.Unmet; step.Number != 4 || u.LastSeen != "spec.replicas = 7" || !slices.Contains(u.Notes, "application prod-podinfo has selfHeal: false ("+set+":59)") {
			t.Error(story(r))
		}
	})
}

// The time that a state must hold counts from the change.
func TestStays(t *testing.T) {
	stage(t, `
  steps:
    - title: by hand
      patch: {`+podinfo+`, set: {metadata.annotations.note: x}}
    - title: it stays
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 2}, for: 10s}
    - title: until it changes
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 2}, within: 12s, for: 10s}
`, nil, func(b *bench) {
		time.AfterFunc(15*time.Second, func() { // once during the stay, once more before the deadline
			r := b.object("prod", "podinfo")
			_ = unstructured.SetNestedField(r.Object, int64(3), "spec", "replicas")
			b.update("prod", r)
		})
		r := b.play()
		if s := r.Steps[1]; s.Verdict != scenario.Passed || s.Took < 10*time.Second {
			t.Error(story(r))
		}
		if s := r.Steps[2]; s.Verdict != scenario.Passed || s.Took < 14*time.Second {
			t.Errorf("healed 5 s into the stay, want another 10 s: %s", story(r))
		}
	})
}

func TestSkipped(t *testing.T) {
	for requires, why := range map[string]string{
		"engine: [flux]":                   "it needs flux, but the lab runs argocd",
		"clusters: [dev, moon]":            "the lab has no cluster moon",
		"addons: {podinfo: [hub]}":         "cluster hub does not have the addon podinfo; lab addon enable podinfo --cluster hub and lab up give it",
		"parts: [runner]":                  "the lab has no runner; spec.runner: {} in clusters/hub/cluster.yaml and lab up give it one",
		"addons: {identity: [dev, other]}": "cluster other does not have the addon identity",
	} {
		stage(t, "  requires: {"+requires+"}\n  steps:\n    - title: never\n      pause: {cluster: dev}\n", nil, func(b *bench) {
			r := b.play()
			b.want(r, scenario.Skipped)
			if r.Reason != why || len(r.Steps) != 0 || r.Exit() != lab.ExitDone {
				t.Errorf("%s: %s, %+v", requires, r.Reason, r.Steps)
			}
		})
	}
}

func TestPartialPlay(t *testing.T) {
	const spec = `
  steps:
    - {title: one, wait: {for: 1s}}
    - {title: two, wait: {for: 1s}}
    - {title: three, wait: {for: 1s}}
`
	played := func(r *scenario.Result) string {
		var titles []string
		for _, s := range r.Steps {
			if s.Verdict == scenario.Passed {
				titles = append(titles, s.Title)
			}
		}
		return strings.Join(titles, ", ")
	}
	for _, c := range []struct {
		only, from int
		want       string
	}{{0, 2, "two, three, the lab is as it was"}, {2, 0, "two, the lab is as it was"}, {0, 0, "one, two, three, the lab is as it was"}} {
		stage(t, spec, nil, func(b *bench) {
			b.player.Only, b.player.From = c.only, c.from
			if got := played(b.play()); got != c.want {
				t.Errorf("step %d, from %d: %s", c.only, c.from, got)
			}
		})
	}
	stage(t, spec, nil, func(b *bench) {
		var asked []string
		b.player.Pause = func(_ context.Context, s scenario.Step) error {
			asked = append(asked, s.Title)
			if s.Title == "three" {
				return context.Canceled
			}
			return nil
		}
		r := b.play()
		b.want(r, scenario.Interrupted)
		if !slices.Equal(asked, []string{"two", "three"}) || played(r) != "one, two, the lab is as it was" {
			t.Errorf("asked before %q; %s", asked, story(r))
		}
	})
}

func TestVariablesAndCaptures(t *testing.T) {
	stage(t, `
  vars: {cluster: prod, wanted: 2}
  steps:
    - title: typed, captured
      expect:
        object: {cluster: "${cluster}", apiVersion: apps/v1, kind: Deployment, namespace: podinfo, name: podinfo}
        has: {spec.replicas: "${wanted}"}
        capture: {image: "spec.template.spec.containers[0].image", n: spec.replicas}
    - title: used
      patch: {`+podinfo+`, set: {metadata.annotations.note: "${image} x ${n} $${image} in ${lab}, ${scenario}"}}
    - title: seen
      expect:
        object: {`+podinfo+`}
        has: {metadata.annotations.note: {matches: "^ghcr.io/stefanprodan/podinfo:6.7.0 x 2 .{8} in homelab, test$"}, spec.replicas: "${n}"}
`, nil, func(b *bench) { b.want(b.play(), scenario.Passed) })
	stage(t, `
  steps:
    - {title: sets, expect: {object: {`+podinfo+`}, capture: {n: spec.replicas}}}
    - {title: uses, patch: {`+podinfo+`, set: {metadata.annotations.note: "${n}"}}}
`, nil, func(b *bench) {
		b.player.From = 2
		r := b.play()
		if r.Verdict != scenario.Broken || !strings.Contains(story(r), "step 2: ${n} is not set") {
			t.Error(story(r))
		}
	})
}

func TestEvents(t *testing.T) {
	stage(t, `
  steps:
    - {title: a change, patch: {`+podinfo+`, set: {metadata.annotations.note: x}}}
    - title: it is reported
      expect: {event: {cluster: prod, namespace: podinfo, kind: Pod, reason: Failed, message: {matches: "^no "}}, within: 10s}
    - title: once
      expect: {event: {cluster: prod, namespace: podinfo, reason: Failed}, within: 3s}
`, nil, func(b *bench) {
		b.report("before", "Failed") // must not count: before the change
		time.AfterFunc(6*time.Second, func() { b.report("after", "Failed") })
		r := b.play()
		if s := r.Steps[1]; s.Verdict != scenario.Passed || s.Took < 5*time.Second {
			t.Errorf("met by an earlier event: %s", story(r))
		}
		if s := r.Steps[2]; s.Verdict != scenario.Failed || !strings.HasPrefix(s.Unmet.Expected, "an event Failed in namespace podinfo of prod") {
			t.Errorf("the same event twice: %s", story(r))
		}
	})
}

func TestEngineWatchFails(t *testing.T) {
	stage(t, "  steps:\n    - {title: x, wait: {for: 1s}}\n", nil, func(b *bench) {
		b.player.World.Engine = deaf{b.Engine}
		r := b.play()
		if r.Verdict != scenario.Broken || !strings.Contains(r.Reason, "watch application -*: the hub is gone") {
			t.Errorf("%s: %s", r.Verdict, r.Reason)
		}
	})
}

type deaf struct{ *scenariotest.Engine }

func (deaf) Watch(context.Context, func(scenario.Application), func()) error {
	return errors.New("the hub is gone")
}

func TestRestoreRefreshesLaggingEngine(t *testing.T) {
	stage(t, `
  steps:
    - title: four
      commit: {message: m, set: {clusters/prod/addons/podinfo/values.yaml: {replicaCount: 4}}}
    - title: arrives
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 4}, within: 1m}
`, nil, func(b *bench) {
		b.Engine.Lag(20 * time.Second)
		_, err := b.Forge.Commit(b.t.Context(), scenario.Change{Branch: scenario.Branch, Author: "she", Message: "m", Files: map[string]*scenario.File{"note.txt": {Content: []byte("x")}}})
		if err != nil {
			b.t.Fatal(err)
		}
		b.player.OnStep = func(r scenario.StepResult) {
			if r.Title == "the lab is as it was" && r.Verdict == "" {
				b.Engine.Miss()
			}
		}
		r := b.play()
		if last := r.Steps[len(r.Steps)-1]; r.Verdict != scenario.Passed || last.Took < 3*time.Second {
			b.t.Errorf("put back in %s\n%s", last.Took, story(r))
		}
	})
}
