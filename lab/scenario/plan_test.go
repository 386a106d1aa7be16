package scenario_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

const twoEngines = `  vars: {replicas: 3}
  engines:
    flux: {vars: {replicas: 4, patience: 2m}}
    argocd: {vars: {patience: 30s}}
  steps:
    - id: change
      title: labelled
      engine: [argocd]
      label: {cluster: prod, labels: {x: y}}
    - id: change
      title: committed
      engine: [flux]
      commit: {message: m, set: {clusters/prod/addons/podinfo/values.yaml: {replicaCount: "${replicas}"}}}
    - title: scaled
      engine: [argocd]
      patch: {` + podinfo + `, set: {spec.template.spec.replicas: "${replicas}"}}
    - title: followed
      expect: {application: {cluster: prod, addon: podinfo}, sync: synced, health: healthy, since: change, within: "${patience}"}
  always:
    - title: at last
      engine: [flux]
      wait: {for: 1s}
`

// A lab plays the steps of its engine, with the engine's variables. Steps keep their numbers.
func TestPlaysOnEngine(t *testing.T) {
	for on, want := range map[lab.EngineType][]string{
		lab.EngineArgoCD: {"1 labelled", "3 scaled", "4 followed", "6 the lab is as it was"},
		lab.EngineFlux:   {"2 committed", "4 followed", "5 at last", "6 the lab is as it was"},
	} {
		t.Run(string(on), func(t *testing.T) {
			files := scenariotest.Files(t, root(), map[string]string{"scenarios/test/scenario.yaml": head + twoEngines})
			synctest.Test(t, func(t *testing.T) {
				l, s := scenariotest.NewOn(t, files, on), load(t, files, "test")
				r := scenario.Player{World: l.World}.Play(t.Context(), s)
				var got []string
				for _, step := range r.Steps {
					got = append(got, string(rune('0'+step.Number))+" "+step.Title)
				}
				if diff := cmp.Diff(want, got); diff != "" || r.Verdict != scenario.Passed {
					t.Fatalf("(-want +got):\n%s\n%s", diff, story(r))
				}
				if log := l.Forge.Log(scenario.Branch); on == lab.EngineFlux && !strings.HasPrefix(log[1].Message, "m") {
					t.Errorf("committed %q", log[1].Message)
				}
				if s.For(lab.EngineFlux).Vars["replicas"] != int64(4) || s.For(lab.EngineArgoCD).Vars["replicas"] != int64(3) || s.Vars["patience"] != nil {
					t.Errorf("variables: %v, with flux %v", s.Vars, s.For(lab.EngineFlux).Vars)
				}
			})
		})
	}
}

// A step of another engine cannot be selected.
func TestStepOfOtherEngine(t *testing.T) {
	files := scenariotest.Files(t, root(), map[string]string{"scenarios/test/scenario.yaml": head + twoEngines})
	synctest.Test(t, func(t *testing.T) {
		l := scenariotest.New(t, files)
		p := scenario.Player{World: l.World, Only: 2}
		s := load(t, files, "test")
		if err := p.Has(s); err != nil {
			t.Errorf("the story has step 2: %v", err)
		}
		r := p.Play(t.Context(), s)
		if r.Verdict != scenario.NotPlayed || !strings.Contains(r.Reason, "step 2 of scenario test is for another engine") || slices.ContainsFunc(r.Steps, func(s scenario.StepResult) bool { return s.Verdict == scenario.Passed }) {
			t.Errorf("%s: %s", r.Verdict, r.Reason)
		}
	})
}

// ${engine.NAME} is the cluster where the engine of a cluster runs.
func TestEngineVariable(t *testing.T) {
	const spec = `  requires: {clusters: [prod]}
  steps:
    - title: a notice is applied
      apply: {cluster: "${engine.prod}", file: notice.yaml}
`
	notice := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notice, namespace: kube-system}\n"
	for shape, want := range map[lab.Shape]string{"": "hub", lab.ShapeHub: "hub", lab.ShapeStandalone: "prod"} {
		for on, want := range map[lab.EngineType]string{lab.EngineArgoCD: "hub", lab.EngineFlux: want} {
			files := scenariotest.Files(t, root(), map[string]string{"scenarios/test/scenario.yaml": head + spec, "scenarios/test/notice.yaml": notice})
			synctest.Test(t, func(t *testing.T) {
				l, s := scenariotest.NewOn(t, files, on), load(t, files, "test")
				there := *l.Estate
				there.Clusters = slices.Clone(there.Clusters)
				for i, c := range there.Clusters {
					if c.Role == lab.RoleHub {
						there.Clusters[i].Engine.Shape = shape
					}
				}
				l.World.Estate = &there
				r := scenario.Player{World: l.World}.Play(t.Context(), s)
				in := func(m scenario.Mark) bool { return m.Lane == scenario.Lane{Cluster: want, Name: "configmap notice"} }
				if r.Verdict != scenario.Passed || !slices.ContainsFunc(r.Marks, in) {
					t.Errorf("%s %q: want it in %s\n%s", on, shape, want, story(r))
				}
			})
		}
	}
}

func TestRequiredClusters(t *testing.T) {
	est := &lab.Estate{Clusters: []lab.Cluster{{Name: "hub", Role: lab.RoleHub}, {Name: "dev"}, {Name: "staging"}, {Name: "prod"}}}
	list := []*scenario.Scenario{{Requires: scenario.Requires{Clusters: []string{"prod", "nowhere"}}}, {Requires: scenario.Requires{Clusters: []string{"dev"}}}}
	var got []string
	for _, c := range scenario.RequiredClusters(list, est) {
		got = append(got, c.Name)
	}
	if want := []string{"hub", "dev", "prod"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
