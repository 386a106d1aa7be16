package scenario_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/scenario"
)

func TestPassedStoryCompared(t *testing.T) {
	theirs := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "theirs", "namespace": "podinfo"}, "data": map[string]any{"a": "b"},
	}}
	for name, c := range map[string]struct {
		meanwhile func(b *bench)
		left      string
	}{
		"watched object": {func(b *bench) {
			o := theirs.DeepCopy()
			_ = unstructured.SetNestedField(o.Object, "c", "data", "a")
			b.update("prod", o)
		}, "theirs in prod"},
		"a branch": {func(b *bench) {
			_, err := b.Forge.Commit(context.Background(), scenario.Change{Branch: "mine", Author: "other", Message: "m", Files: map[string]*scenario.File{"x": {Content: []byte("x")}}})
			if err != nil {
				b.t.Error(err)
			}
		}, "branch mine was not in the forge before"},
	} {
		t.Run(name, func(t *testing.T) {
			stage(t, `
  steps:
    - title: it is there
      expect: {object: {cluster: prod, apiVersion: v1, kind: ConfigMap, namespace: podinfo, name: theirs}}
    - title: time for another user
      wait: {for: 10s}
`, nil, func(b *bench) {
				b.create("prod", theirs.DeepCopy())
				time.AfterFunc(5*time.Second, func() { c.meanwhile(b) })
				r := b.play()
				if r.Verdict != scenario.Failed || r.Exit() != lab.ExitUnmet || !strings.Contains(strings.Join(r.Left, "\n"), c.left) {
					t.Errorf("%s\nleft: %q", story(r), r.Left)
				}
				if last := r.Steps[len(r.Steps)-1]; last.Unmet == nil || last.Unmet.LastSeen != r.Left[0] || !slices.Contains(last.Unmet.Notes, "lab up restores the lab's estate") {
					t.Errorf("last step %+v, left: %q", last.Unmet, r.Left)
				}
			})
		})
	}
}
