package scenario_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kube "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

// mute never becomes ready.
type mute struct{ *scenariotest.Engine }

func (mute) Watch(ctx context.Context, _ func(scenario.Application), _ func()) error {
	<-ctx.Done()
	return nil
}

// Unknown is not absent: the story does not start.
func TestMuteEngine(t *testing.T) {
	stage(t, "  steps:\n    - {title: x, expect: {application: {cluster: prod, addon: nothing}, absent: true}}\n", nil, func(b *bench) {
		b.player.World.Engine = mute{b.Engine}
		r := b.play()
		b.want(r, scenario.TimedOut)
		if !strings.Contains(r.Reason, "nothing seen from the engine yet") || len(r.Steps) != 0 {
			t.Error(story(r))
		}
	})
}

// expectations returns every kind of expectation. All of them are met by a settled lab, or if silence counted as absence.
func expectations() map[string]string {
	return map[string]string{
		"application, absent":      "expect: {application: {cluster: hub, addon: podinfo}, absent: true, within: 10s}",
		"application, synced":      "expect: {application: {cluster: prod, addon: podinfo}, sync: synced, within: 10s}",
		"application, captured":    "expect: {application: {cluster: prod, addon: podinfo}, capture: {v: version}, within: 10s}",
		"promotion, gate":          "promote: {addon: podinfo, from: staging, to: prod, within: 10s}",
		"object":                   "expect: {object: {" + podinfo + "}, within: 10s}",
		"object, absent":           "expect: {object: {cluster: prod, kind: ConfigMap, namespace: podinfo, name: none}, absent: true, within: 10s}",
		"object, of unknown kind":  "expect: {object: {cluster: prod, kind: ConfigMap, namespace: podinfo, name: none}, absent: true, within: 10s, for: 1s}",
		"field":                    "expect: {object: {" + podinfo + "}, has: {spec.replicas: 2}, within: 10s}",
		"field, not":               "expect: {object: {" + podinfo + "}, has: {spec.replicas: {not: 9}}, within: 10s}",
		"absent field":             "expect: {object: {" + podinfo + "}, has: {spec.none: {exists: false}}, within: 10s}",
		"field, null":              "expect: {object: {" + podinfo + "}, has: {spec.none: null}, within: 10s}",
		"field, at least":          "expect: {object: {" + podinfo + "}, has: {spec.replicas: {atLeast: 1}}, within: 10s}",
		"field, at most":           "expect: {object: {" + podinfo + "}, has: {spec.replicas: {atMost: 9}}, within: 10s}",
		"several, absent":          "expect: {that: [{application: {cluster: hub, addon: podinfo}, absent: true}, {object: {" + podinfo + "}}], within: 10s}",
		"several, that stay":       "expect: {that: [{application: {cluster: prod, addon: podinfo}, sync: synced}, {object: {" + podinfo + "}}], within: 10s, for: 3s}",
		"promotion, to be refused": "promote: {addon: podinfo, from: dev, to: staging, outcome: refused}",
	}
}

func TestUnknownMeetsNothing(t *testing.T) {
	silences := map[string]struct {
		shut, open func(*bench)
	}{
		"engine":  {func(b *bench) { b.Engine.Shut() }, func(b *bench) { b.Engine.Open() }},
		"cluster": {func(b *bench) { b.Clusters.Shut("prod") }, func(b *bench) { b.Clusters.Open("prod") }},
	}
	for name, step := range expectations() {
		about := "cluster"
		if strings.Contains(name, "application") || strings.Contains(name, "promotion") || strings.Contains(name, "several") {
			about = "engine"
		}
		for _, again := range []bool{false, true} {
			spec := "  steps:\n    - {title: silence, wait: {for: 30s}}\n    - title: it\n      " + step + "\n"
			stage(t, spec, nil, func(b *bench) {
				silence := silences[about]
				b.player.OnStep = func(r scenario.StepResult) {
					switch {
					case r.Number == 1 && r.Verdict == "":
						silence.shut(b)
					case r.Number == 2 && r.Verdict == "" && again:
						time.AfterFunc(2*time.Second, func() { silence.open(b) })
					case r.Number == 2 && r.Verdict != "":
						silence.open(b)
					}
				}
				r := b.play()
				it := r.Steps[1]
				if !again {
					if it.Verdict != scenario.Failed || it.Unmet == nil || !strings.Contains(it.Unmet.LastSeen, "nothing seen from") {
						t.Errorf("%s: %s", name, story(r))
					}
					return
				}
				refused := strings.Contains(name, "refused") // dev is healthy, so the promotion is not refused
				if refused != (it.Verdict == scenario.Failed) || it.Took < 2*time.Second {
					t.Errorf("%s, seen again: %s", name, story(r))
				}
			})
		}
	}
}

func TestChangesBetweenWatches(t *testing.T) {
	stage(t, `
  steps:
    - title: the watches break off
      wait: {for: 10s}
    - title: it is there
      expect: {object: {cluster: prod, kind: ConfigMap, namespace: podinfo, name: new}, has: {data.a: b}}
    - title: it is gone
      expect: {object: {cluster: prod, kind: ConfigMap, namespace: podinfo, name: new}, absent: true}
`, nil, func(b *bench) {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "new", "namespace": "podinfo"}, "data": map[string]any{"a": "b"},
		}}
		time.AfterFunc(5*time.Second, func() {
			b.Clusters.BreakOff("prod")
			if _, err := b.resource("prod", o).Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
				b.t.Error(err)
			}
		})
		time.AfterFunc(15*time.Second, func() {
			b.Clusters.BreakOff("prod")
			if err := b.resource("prod", o).Delete(context.Background(), "new", metav1.DeleteOptions{}); err != nil {
				b.t.Error(err)
			}
		})
		b.want(b.play(), scenario.Passed)
	})
}

// An invalid path is not an absent field.
func TestInvalidPathNotAbsent(t *testing.T) {
	stage(t, `
  vars: {path: "spec[", }
  steps:
    - {title: x, expect: {object: {`+podinfo+`}, has: {"${path}": {exists: false}}, within: 1s}}
`, nil, func(b *bench) { b.want(b.play(), scenario.Failed) })
}

func TestMissingStep(t *testing.T) {
	for _, c := range []struct{ only, from int }{{99, 0}, {0, 99}, {1, 2}, {-1, 0}} {
		stage(t, "  steps:\n    - {title: one, wait: {for: 1s}}\n    - {title: two, wait: {for: 1s}}\n", nil, func(b *bench) {
			b.player.Only, b.player.From = c.only, c.from
			r := b.play()
			b.want(r, scenario.NotPlayed)
			if r.Exit() != lab.ExitFailed || r.Reason == "" || len(r.Steps) != 0 {
				t.Errorf("step %d, from %d: exit %d, %s", c.only, c.from, r.Exit(), story(r))
			}
		})
	}
}

const requiresProd = "  requires: {clusters: [prod]}\n  steps:\n    - {title: never, pause: {cluster: dev}}\n"

func TestInterruptDuringRequirements(t *testing.T) {
	for _, at := range []time.Duration{0, time.Second, 5 * time.Second} {
		stage(t, requiresProd, nil, func(b *bench) {
			b.player.World.Clusters = silent{b.Clusters, "prod"}
			ctx, cancel := context.WithTimeoutCause(b.t.Context(), at, context.Canceled)
			defer cancel()
			if at == 0 {
				cancel()
			}
			r := b.player.Play(interrupt(ctx), b.story)
			b.want(r, scenario.Interrupted)
			if r.Exit() != lab.ExitInterrupted || len(r.Steps) != 0 {
				t.Errorf("after %s: exit %d, %s", at, r.Exit(), story(r))
			}
		})
	}
}

// interrupt returns a context that is cancelled as if by Ctrl-C when ctx ends.
func interrupt(ctx context.Context) context.Context {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, cancel)
	if ctx.Err() != nil {
		cancel()
	}
	return out
}

func TestUnreachableCluster(t *testing.T) {
	for name, c := range map[string]struct {
		clusters func(*bench) scenario.Clusters
		message  string
	}{
		"silent": {func(b *bench) scenario.Clusters { return silent{b.Clusters, "prod"} }, "no answer within 10s"},
		"down":   {func(b *bench) scenario.Clusters { return down{b.Clusters, "prod"} }, "connection refused"},
	} {
		stage(t, requiresProd, nil, func(b *bench) {
			b.player.World.Clusters = c.clusters(b)
			r := b.play()
			b.want(r, scenario.Broken)
			if r.Exit() != lab.ExitFailed || !strings.Contains(r.Reason, "cluster prod does not answer") || !strings.Contains(r.Reason, c.message) || !strings.Contains(r.Reason, "lab up") {
				t.Errorf("%s: exit %d, %s", name, r.Exit(), story(r))
			}
		})
	}
}

// silent has a cluster that accepts calls and never answers.
type silent struct {
	scenario.Clusters
	which string
}

func (s silent) Client(cluster string) (scenario.Client, error) {
	c, err := s.Clusters.Client(cluster)
	if cluster == s.which {
		c.Dynamic = hanging{c.Dynamic}
	}
	return c, err
}

type hanging struct{ dynamic.Interface }

func (h hanging) Resource(r kube.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return hangingResource{h.Interface.Resource(r)}
}

type hangingResource struct {
	dynamic.NamespaceableResourceInterface
}

func (hangingResource) List(ctx context.Context, _ metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// down has a cluster that refuses connections.
type down struct {
	scenario.Clusters
	which string
}

func (d down) Client(cluster string) (scenario.Client, error) {
	if cluster == d.which {
		return scenario.Client{}, errors.New("dial tcp 127.0.0.1:6443: connection refused")
	}
	return d.Clusters.Client(cluster)
}
