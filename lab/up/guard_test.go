package up_test

import (
	"context"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"homelab/lab/engine"
	"homelab/lab/up"
)

// guarded is an engine that implements engine.Guard.
type guarded struct {
	up.Engine
	guard func(engine.Root)
}

func (g guarded) Guard(_ context.Context, root engine.Root) error {
	g.guard(root)
	return nil
}

// A running engine is guarded before an Application that would replace it is pushed.
func TestGuardBeforePush(t *testing.T) {
	s := newStage(t)
	heads := map[string][]string{} // forge's head -> guarded Applications
	run := func() {
		t.Helper()
		l := (&process{stage: s}).lab()
		connect := l.Connect
		l.Connect = func(hub string) (up.Engine, error) {
			e, err := connect(hub)
			return guarded{e, func(root engine.Root) { heads[s.head(t)] = root.Replaces }}, err
		}
		_, err := l.Follow(t.Context(), up.Options{Timeout: time.Second}, &audience{})
		must(t, err)
	}
	run()
	before := s.head(t)
	s.files["addons/own/applicationset.yaml"] = &fstest.MapFile{Data: []byte(`
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: own}
spec:
  generators: [{list: {elements: [{name: own-argocd}]}}]
  template:
    metadata: {name: '{{name}}'}
    spec:
      project: default
      destination: {server: https://kubernetes.default.svc, namespace: argocd}
      source: {repoURL: https://charts.example.com, chart: argo-cd, targetRevision: 9.0.0}
      syncPolicy: {automated: {}}
`)}
	s.load()
	run()
	if len(heads) != 1 || !slices.Equal(heads[before], []string{"own-argocd"}) {
		t.Errorf("guarded %q, want own-argocd at %s", heads, before)
	}
	if s.head(t) == before {
		t.Error("nothing was pushed")
	}
}
