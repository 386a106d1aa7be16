package scenario_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

// Every mutating verb, then a failing step.
func TestRestoreAfterFailure(t *testing.T) {
	stage(t, `
  timeout: 5m
  steps:
    - title: a commit
      commit: {message: m, files: {new/file: beside.txt}, remove: [environments/dev/addons/podinfo/values.yaml], set: {`+set+`: {spec.template.spec.syncPolicy.automated.selfHeal: false}}}
    - title: another on a branch
      commit: {message: m, branch: feature/x, files: {y: beside.txt}}
    - title: a label
      label: {cluster: dev, addons: {podinfo: false}, labels: {team: x}, annotations: {aws_region: null}, cloud: {accountID: "111111111111"}}
    - title: a patch
      patch: {`+podinfo+`, set: {spec.replicas: 7, metadata.annotations.note: x}, unset: [metadata.labels]}
    - title: objects by hand
      apply: {cluster: prod, file: objects.yaml, namespace: podinfo}
    - title: one is deleted
      delete: {cluster: staging, apiVersion: apps/v1, kind: Deployment, namespace: podinfo, name: podinfo}
    - title: a cluster is paused
      pause: {cluster: hub}
    - title: it fails
      expect: {object: {`+podinfo+`}, absent: true, within: 1s}
    - title: not played
      wait: {for: 1s}
`, map[string]string{"beside.txt": "text\n", "objects.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: mine}
data: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: podinfo}
spec: {replicas: 9}
`}, func(b *bench) {
		r := b.play()
		b.want(r, scenario.Failed)
		step, _ := r.FailedStep()
		if step.Number != 8 || step.Unmet == nil || step.Unmet.Expected != "deployment podinfo in prod: not there within 1s" || step.Unmet.LastSeen != "there" {
			t.Error(story(r))
		}
		if last := r.Steps[8]; last.Verdict != scenario.NotPlayed || r.Exit() != lab.ExitUnmet {
			t.Error(story(r))
		}
		if b.Clusters.IsPaused("hub") {
			t.Error("the hub is paused still")
		}
	})
}

func TestRestoreAfterInterrupt(t *testing.T) {
	stage(t, `
  steps:
    - title: self-heal off
      commit: {message: m, set: {`+set+`: {spec.template.spec.syncPolicy.automated.selfHeal: false}, clusters/prod/addons/podinfo/values.yaml: {replicaCount: 4}}}
    - title: four
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 4}}
    - title: by hand
      patch: {`+podinfo+`, set: {spec.replicas: 7}}
    - title: wait
      wait: {for: 4m}
  always:
    - title: always
      wait: {for: 1s}
`, nil, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		time.AfterFunc(30*time.Second, cancel)
		began := time.Now()
		r := b.player.Play(ctx, b.story)
		b.want(r, scenario.Interrupted)
		if r.Exit() != lab.ExitInterrupted || time.Since(began) > 2*time.Minute {
			t.Errorf("exit %d after %s", r.Exit(), time.Since(began))
		}
		if s := r.Steps[4]; !s.Always || s.Verdict != scenario.Passed {
			t.Errorf("the always step: %+v", s)
		}
	})
}

// resource returns the client of an object's kind. It may be called from other goroutines, so it must not end the test.
func (b *bench) resource(cluster string, o *unstructured.Unstructured) dynamic.ResourceInterface {
	b.t.Helper()
	c, err := b.Clusters.Client(cluster)
	if err != nil {
		b.t.Error(err)
	}
	r, err := c.Resource(scenario.Subject{Cluster: cluster, APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()})
	if err != nil {
		b.t.Error(err)
	}
	return r
}

// object returns the Deployment of an addon.
func (b *bench) object(cluster, name string) *unstructured.Unstructured {
	b.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("apps/v1")
	o.SetKind("Deployment")
	o.SetNamespace(name)
	o, err := b.resource(cluster, o).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Error(err)
	}
	return o
}

func (b *bench) create(cluster string, o *unstructured.Unstructured) {
	b.t.Helper()
	if _, err := b.resource(cluster, o).Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) update(cluster string, o *unstructured.Unstructured) {
	b.t.Helper()
	if _, err := b.resource(cluster, o).Update(context.Background(), o, metav1.UpdateOptions{}); err != nil {
		b.t.Error(err)
	}
}

func TestRestoreKeepsForeignChanges(t *testing.T) {
	const file = "clusters/prod/addons/podinfo/values.yaml"
	stage(t, `
  steps:
    - title: a commit
      commit: {message: m, set: {`+file+`: {replicaCount: 3}}}
    - title: time for another user
      wait: {for: 10s}
`, nil, func(b *bench) {
		time.AfterFunc(5*time.Second, func() {
			_, err := b.Forge.Commit(context.Background(), scenario.Change{Branch: scenario.Branch, Author: "other", Message: "theirs", Files: map[string]*scenario.File{file: {Content: []byte("replicaCount: 5\n")}}})
			if err != nil {
				b.t.Error(err)
			}
		})
		r := b.play()
		if r.Verdict != scenario.Failed || r.Exit() != lab.ExitUnmet || len(r.Left) != 1 || !strings.Contains(r.Left[0], "others changed "+file) {
			t.Error(story(r))
		}
		if log := b.Forge.Log(scenario.Branch); log[len(log)-1].Message != "theirs" {
			t.Errorf("their commit was overwritten by %q", log[len(log)-1].Message)
		}
	})
}

// Here, the branch cannot be deleted.
func TestRestoreFails(t *testing.T) {
	stage(t, "  steps:\n    - title: a branch\n      commit: {message: m, branch: mine, files: {x: x.txt}}\n", map[string]string{"x.txt": "x"}, func(b *bench) {
		b.player.World.Branches = stuck{b.Forge}
		r := b.play()
		if r.Verdict != scenario.Failed || len(r.Left) != 1 || !strings.Contains(r.Left[0], "git mine: it is protected") {
			t.Error(story(r))
		}
		last := r.Steps[len(r.Steps)-1]
		if last.Title != "the lab is as it was" || last.Verdict != scenario.Failed {
			t.Error(story(r))
		}
	})
}

type stuck struct{ *scenariotest.Forge }

func (stuck) RemoveBranch(context.Context, string) error { return errors.New("it is protected") }

// following calls back when somebody waits for the engine to follow.
type following struct {
	scenario.Engine
	first func()
}

func (f *following) Follow(ctx context.Context, commit string, but []string, moved func()) error {
	f.first()
	f.first = func() {}
	return f.Engine.Follow(ctx, commit, but, moved)
}

// A definition goes after what is of its kind, and a namespace after what is in it: once the engine has followed what Git was before.
func TestRestoreDefinitionsLast(t *testing.T) {
	stage(t, `
  steps:
    - title: a namespace by hand
      apply: {cluster: prod, file: objects.yaml}
    - title: a commit
      commit: {message: m, set: {clusters/prod/addons/podinfo/values.yaml: {replicaCount: 4}}}
    - title: four
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 4}}
`, map[string]string{"objects.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: mine}\n"}, func(b *bench) {
		asked := false
		there := func() {
			asked = true
			c, err := b.Clusters.Client("prod")
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Resource(scenario.Subject{APIVersion: "v1", Kind: "Namespace", Name: "mine"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Get(t.Context(), "mine", metav1.GetOptions{}); err != nil {
				t.Errorf("before the engine has followed: %v", err)
			}
		}
		b.player.World.Engine = &following{Engine: b.player.World.Engine, first: there}
		b.want(b.play(), scenario.Passed)
		if !asked {
			t.Error("nobody has waited for the engine")
		}
	})
}

// What lab refuses, as other changes wait that it would make too, is not undone: that would make them.
func TestRestoreNothingBegun(t *testing.T) {
	for verb, step := range map[string]string{"renew": "renew: {cluster: hub}", "switch": "switch: {engine: flux}"} {
		stage(t, "\n  steps:\n    - title: refused\n      "+step+"\n", nil, func(b *bench) {
			asked := 0
			refuse := func() (scenario.World, error) {
				asked++
				return scenario.World{}, &lab.Error{Exit: lab.ExitFailed, Code: lab.CodeNotUpToDate, Message: "the lab differs from its estate"}
			}
			b.player.World.Renew = func(context.Context, string) (scenario.World, error) { return refuse() }
			b.player.World.Switch = func(context.Context, lab.EngineType) (scenario.World, error) { return refuse() }
			b.want(b.play(), scenario.Broken)
			if asked != 1 {
				t.Errorf("%s: asked %d times", verb, asked)
			}
		})
	}
}

// What was true when the engine began to be replaced proves nothing about the new one.
func TestReplacedCountsFromItsEnd(t *testing.T) {
	for verb, step := range map[string]string{"renew": "renew: {cluster: hub}", "switch": "switch: {engine: flux}"} {
		stage(t, `
  steps:
    - title: it is red
      expect: {object: &settings {cluster: prod, apiVersion: v1, kind: ConfigMap, namespace: default, name: settings}, has: {data.color: red}}
    - title: replaced
      `+step+`
    - title: a minute passes
      wait: {for: 1m}
    - title: it still is
      expect: {object: *settings, has: {data.color: red}, patience: 1m}
`, nil, func(b *bench) {
			settings := func(color string) *unstructured.Unstructured {
				return &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": "settings"}, "data": map[string]any{"color": color},
				}}
			}
			b.create("prod", settings("red"))
			replace := func(w scenario.World, err error) (scenario.World, error) {
				b.update("prod", settings("blue"))
				synctest.Wait() // until it is seen
				return w, err
			}
			world := b.player.World
			b.player.World.Renew = func(ctx context.Context, cluster string) (scenario.World, error) {
				return replace(world.Renew(ctx, cluster))
			}
			b.player.World.Switch = func(ctx context.Context, to lab.EngineType) (scenario.World, error) {
				return replace(world.Switch(ctx, to))
			}
			if r := b.play(); r.Verdict != scenario.Failed || r.Steps[3].Title != "it still is" || r.Steps[3].Verdict != scenario.Failed {
				t.Errorf("%s:\n%s", verb, story(r))
			}
		})
	}
}
