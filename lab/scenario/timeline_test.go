package scenario_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kube "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/verb"
	"homelab/lab/strict"
)

// The timeline has each lane's states in order, for objects the fields that the story uses.
func TestTimeline(t *testing.T) {
	stage(t, `
  steps:
    - title: by hand
      patch: {`+podinfo+`, set: {'metadata.annotations["example.com/note"]': x, spec.replicas: 7}}
    - title: healed
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 2}}
    - title: five
      commit: {message: m, set: {clusters/prod/addons/podinfo/values.yaml: {replicaCount: 5}}}
    - title: they are
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 5}}
`, nil, func(b *bench) {
		r := b.play()
		b.want(r, scenario.Passed)
		of := func(lane scenario.Lane) (texts []string) {
			for _, m := range r.Marks {
				if m.Lane == lane {
					texts = append(texts, m.Text)
				}
			}
			return texts
		}
		var counts []string
		for _, text := range of(scenario.Lane{Cluster: "prod", Name: "deployment podinfo"}) {
			if _, count, ok := strings.Cut(text, "spec.replicas = "); ok && strings.HasPrefix(text, "example.com/note") {
				counts = append(counts, count)
			}
		}
		if counts = slices.Compact(counts); !slices.Equal(counts, []string{"2", "7", "2", "5", "2"}) {
			t.Errorf("replicas %q in %+v", counts, r.Marks)
		}
		if git := of(scenario.Lane{Name: "git main"}); len(git) != 2 || !strings.HasSuffix(git[0], ": m") || git[1] != "lab: put back" {
			t.Errorf("commits %q", git)
		}
		if states := of(scenario.Lane{Cluster: "prod", Name: "application podinfo"}); len(states) < 3 || states[0] != "synced, healthy, 6.7.0" {
			t.Errorf("states %q", states)
		}
		for i, m := range r.Marks {
			if next := i + 1; next < len(r.Marks) && m.State != "event" && m.Lane == r.Marks[next].Lane && m.Text == r.Marks[next].Text {
				t.Errorf("duplicate %+v", m)
			}
		}
		if !slices.IsSortedFunc(r.Marks, func(a, b scenario.Mark) int {
			if a.Lane == b.Lane {
				return int(a.At - b.At)
			}
			return strings.Compare(a.Lane.Cluster+"\x00"+a.Lane.Name, b.Lane.Cluster+"\x00"+b.Lane.Name)
		}) {
			t.Errorf("marks %+v", r.Marks)
		}
	})
}

// Pending undos are reported, the last change first.
func TestLeaveReports(t *testing.T) {
	stage(t, `
  steps:
    - {title: a commit, commit: {message: m, set: {clusters/prod/addons/podinfo/values.yaml: {replicaCount: 3}}}}
    - {title: a pause, pause: {cluster: dev}}
`, nil, func(b *bench) {
		var back []string
		b.player.OnStep = func(r scenario.StepResult) {
			if r.Verb == "leave" && r.Verdict == "" {
				back = r.Back
			}
		}
		b.want(b.play(), scenario.Passed)
		if !slices.Equal(back, []string{"resume dev", "git main"}) {
			t.Errorf("to be undone %q", back)
		}
	})
}

// A short-lived state from before a cluster's silence counts.
func TestShortLivedStateBeforeSilence(t *testing.T) {
	stage(t, `
  steps:
    - id: edit
      title: by hand
      patch: {`+podinfo+`, set: {spec.replicas: 7}}
    - title: long after it was healed
      wait: {for: 40s}
    - title: it was there
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 7}, within: 1m, since: edit}
`, nil, func(b *bench) {
		b.player.OnStep = func(r scenario.StepResult) {
			switch {
			case r.Number == 2 && r.Verdict == "":
				time.AfterFunc(5*time.Second, func() { b.Clusters.Shut("prod") })
			case r.Number == 3 && r.Verdict != "":
				b.Clusters.Open("prod")
			}
		}
		b.want(b.play(), scenario.Passed)
	})
}

// The age of the last state counts from its change, regardless of other changes of the object.
func TestUnchanged(t *testing.T) {
	stage(t, `
  steps:
    - title: never
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 99}, within: 20s}
`, nil, func(b *bench) {
		for _, at := range []time.Duration{5 * time.Second, 10 * time.Second} {
			time.AfterFunc(at, func() {
				o := b.object("prod", "podinfo")
				if o.GetAnnotations()["note"] == "" {
					o.SetAnnotations(map[string]string{"note": "x"})
				} else {
					o.SetAnnotations(nil)
				}
				b.update("prod", o)
			})
		}
		r := b.play()
		b.want(r, scenario.Failed)
		if step, _ := r.FailedStep(); step.Unmet == nil || step.Unmet.Unchanged < 19*time.Second {
			t.Errorf("unchanged for %s", step.Unmet.Unchanged)
		}
	})
}

// Changes of others are reported, other changes restored.
func TestRestoreReportsForeignChanges(t *testing.T) {
	const prod, dev = "clusters/prod/addons/podinfo/values.yaml", "environments/dev/addons/podinfo/values.yaml"
	stage(t, `
  steps:
    - title: a commit
      commit: {message: m, set: {`+prod+`: {replicaCount: 3}, `+dev+`: {replicaCount: 3}}}
    - title: time for another user
      wait: {for: 10s}
`, nil, func(b *bench) {
		time.AfterFunc(5*time.Second, func() {
			_, err := b.Forge.Commit(context.Background(), scenario.Change{Branch: scenario.Branch, Author: "other", Message: "theirs", Files: map[string]*scenario.File{dev: {Content: []byte("replicaCount: 5\n")}}})
			if err != nil {
				b.t.Error(err)
			}
		})
		r := b.play()
		if r.Verdict != scenario.Failed || !strings.Contains(strings.Join(r.Left, "\n"), "others changed "+dev+" meanwhile") {
			t.Errorf("%s\nleft: %q", story(r), r.Left)
		}
		tree, err := b.Forge.Tree(b.t.Context(), scenario.Branch)
		if err != nil {
			b.t.Fatal(err)
		}
		if text, err := scenario.Local(tree.FS, prod); err == nil && strings.Contains(string(text), "3") {
			t.Errorf("%s is %q", prod, text)
		}
	})
}

// Registrations are compared, too; an unreadable one is a failure.
func TestRegistrationCompared(t *testing.T) {
	x := "x"
	for name, c := range map[string]struct {
		spoil func(b *bench, e *forgetful)
		left  string
	}{
		"changed": {func(b *bench, _ *forgetful) {
			if err := b.Engine.Mark(context.Background(), "dev", scenario.Marks{Labels: map[string]*string{"team": &x}}); err != nil {
				b.t.Error(err)
			}
		}, "registration of dev: labels.team: (none) -> x"},
		"unreadable": {func(_ *bench, e *forgetful) { e.fails.Store(true) }, "registration of dev: no such secret"},
	} {
		t.Run(name, func(t *testing.T) {
			stage(t, "  steps:\n    - {title: time for another user, wait: {for: 10s}}\n", nil, func(b *bench) {
				e := &forgetful{Engine: b.Engine}
				b.player.World.Engine = e
				time.AfterFunc(5*time.Second, func() { c.spoil(b, e) })
				r := b.play()
				if r.Verdict != scenario.Failed || !slices.Contains(r.Left, c.left) {
					t.Errorf("%s\nleft: %q", story(r), r.Left)
				}
			})
		})
	}
}

// forgetful is an engine with temporarily unreadable registrations.
type forgetful struct {
	*scenariotest.Engine
	fails atomic.Bool
}

func (e *forgetful) Registration(ctx context.Context, cluster string) (scenario.Marks, error) {
	if e.fails.Load() {
		return scenario.Marks{}, errors.New("no such secret")
	}
	return e.Engine.Registration(ctx, cluster)
}

// An interrupted expectation is not met.
func TestInterruptDuringExpectation(t *testing.T) {
	stage(t, "  steps:\n    - {title: never, expect: {object: {"+podinfo+"}, has: {spec.replicas: 99}, within: 5m}}\n", nil, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		time.AfterFunc(30*time.Second, cancel)
		r := b.player.Play(ctx, b.story)
		b.want(r, scenario.Interrupted)
		if step := r.Steps[0]; step.Verdict != scenario.Interrupted {
			t.Error(story(r))
		}
	})
}

// Events from before the story stay ignored when the watch restarts.
func TestEventsBeforeStory(t *testing.T) {
	stage(t, `
  steps:
    - {title: time for the watch to break off, wait: {for: 10s}}
    - title: nothing is reported
      expect: {event: {cluster: prod, namespace: podinfo, reason: Failed}, within: 10s}
`, nil, func(b *bench) {
		b.report("failed", "Failed")
		time.AfterFunc(5*time.Second, func() { b.Clusters.BreakOff("prod") })
		if r := b.play(); r.Steps[1].Verdict != scenario.Failed {
			t.Error(story(r))
		}
	})
}

// Consecutive events satisfy an expectation of several.
func TestSeveralEvents(t *testing.T) {
	stage(t, `
  steps:
    - title: both are reported
      expect: {that: [{event: {cluster: prod, namespace: podinfo, reason: Pulling}}, {event: {cluster: prod, namespace: podinfo, reason: Failed}}], within: 20s}
`, nil, func(b *bench) {
		for reason, at := range map[string]time.Duration{"Pulling": 3 * time.Second, "Failed": 6 * time.Second} {
			time.AfterFunc(at, func() { b.report(strings.ToLower(reason), reason) })
		}
		if r := b.play(); r.Verdict != scenario.Passed || r.Steps[0].Took < 6*time.Second {
			t.Error(story(r))
		}
	})
}

// report creates an event of a pod. It may be called from other goroutines, so it must not end the test.
func (b *bench) report(name, reason string) { b.event("", name, reason) }

func (b *bench) event(kind, name, reason string) {
	b.t.Helper()
	c, err := b.Clusters.Client("prod")
	if err != nil {
		b.t.Error(err)
	}
	events, err := c.Resource(scenario.EventsIn("prod", "podinfo"))
	if err != nil {
		b.t.Error(err)
	}
	_, err = events.Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": name, "namespace": "podinfo"},
		"involvedObject": map[string]any{"kind": "Pod", "name": "podinfo-1"}, "reason": reason, "message": "no image", "type": kind,
	}}, metav1.CreateOptions{})
	if err != nil {
		b.t.Error(err)
	}
}

// A state that is met after the deadline is late, even if it is met when checked.
func TestMetAfterDeadline(t *testing.T) {
	stage(t, `
  steps:
    - id: edit
      title: by hand
      patch: {`+podinfo+`, set: {metadata.annotations.note: x}}
    - title: it stays
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 2}, for: 15s}
    - title: true from the beginning, but checked too late
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 2}, within: 5s, since: edit}
`, nil, func(b *bench) {
		r := b.play()
		b.want(r, scenario.Failed)
		if step, _ := r.FailedStep(); step.Number != 3 {
			t.Error(story(r))
		}
	})
}

// refusing has a cluster that answers with an error.
type refusing struct {
	scenario.Clusters
	which string
}

func (r refusing) Client(cluster string) (scenario.Client, error) {
	c, err := r.Clusters.Client(cluster)
	if cluster == r.which {
		c.Dynamic = forbidding{c.Dynamic}
	}
	return c, err
}

type forbidding struct{ dynamic.Interface }

func (f forbidding) Resource(r kube.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return forbiddingResource{f.Interface.Resource(r)}
}

type forbiddingResource struct {
	dynamic.NamespaceableResourceInterface
}

func (forbiddingResource) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return nil, errors.New("namespaces is forbidden")
}

func TestForbiddingCluster(t *testing.T) {
	stage(t, requiresProd, nil, func(b *bench) {
		b.player.World.Clusters = refusing{b.Clusters, "prod"}
		r := b.play()
		b.want(r, scenario.Broken)
		if !strings.Contains(r.Reason, "cluster prod does not answer") || !strings.Contains(r.Reason, "namespaces is forbidden") {
			t.Error(r.Reason)
		}
	})
}

// Limits are inclusive.
func TestLimits(t *testing.T) {
	files := fstest.MapFS{"most": {Data: make([]byte, strict.MaxFile)}, "more": {Data: make([]byte, strict.MaxFile+1)}}
	if data, err := scenario.Local(files, "most"); err != nil || len(data) != strict.MaxFile {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if _, err := scenario.Local(files, "more"); err == nil {
		t.Error("a larger file is read")
	}
	for spec, allowed := range map[string]bool{
		"  timeout: 10s\n  steps: [{title: t, wait: {for: 10s}}]\n":                                true,
		"  timeout: 10s\n  steps: [{title: t, wait: {for: 10s}}, {title: u, wait: {for: 1ms}}]\n":  false,
		"  vars: {v: " + strings.Repeat("x", 4096) + "}\n  steps: [{title: t, wait: {for: 1s}}]\n": true,
		"  vars: {v: " + strings.Repeat("x", 4097) + "}\n  steps: [{title: t, wait: {for: 1s}}]\n": false,
		"  steps:\n" + strings.Repeat("    - {title: t, wait: {for: 1ms}}\n", 100):                 true,
		"  steps:\n" + strings.Repeat("    - {title: t, wait: {for: 1ms}}\n", 101):                 false,
	} {
		_, err := scenario.Load(fstest.MapFS{"scenarios/test/scenario.yaml": {Data: []byte(head + spec)}}, "test", verb.All())
		if (err == nil) != allowed {
			t.Errorf("%.60s: %v", spec, err)
		}
	}
}

// A paused hub's engine is unknown because of the pause, until it is seen again.
func TestPausedHub(t *testing.T) {
	stage(t, `
  steps:
    - {title: a pause, pause: {cluster: hub}}
    - title: nothing is seen
      expect: {application: {cluster: prod, addon: podinfo}, sync: synced, within: 5s}
`, nil, func(b *bench) {
		b.player.OnStep = func(r scenario.StepResult) {
			switch {
			case r.Number == 1 && r.Verdict == "":
				b.Engine.Shut()
			case r.Number == 2 && r.Verdict != "":
				b.Engine.Open()
			}
		}
		r := b.play()
		if s := r.Steps[1]; s.Verdict != scenario.Failed || s.Unmet == nil || !strings.HasSuffix(s.Unmet.LastSeen, "nothing seen from the engine any more: it is paused") {
			t.Error(story(r))
		}
	})
}
