package ui

import "time"

func scenarioShow() ScenarioShow {
	return ScenarioShow{
		Name: "drift", Title: "a human edits prod, and Git wins", Teaches: "What is changed by hand lasts as long as self-heal takes.",
		File: "scenarios/drift/scenario.yaml", Engines: []string{"argocd"}, Clusters: []string{"prod"},
		Steps: []ScenarioStep{
			{Number: 2, ID: "scale", Title: "a human scales podinfo in prod to 5", Verb: "patch", Line: 21},
			{Number: 4, Title: "the engine sees it, when it looks: drift is detected", Engines: []string{"flux"}, Verb: "expect", Line: 42},
		},
	}
}

func scenarioRun() ScenarioRun {
	return ScenarioRun{
		Lab: "homelab", Verdict: "failed", Seconds: 31.2, Scenarios: []ScenarioResult{{
			Name: "drift", Title: "a human edits prod, and Git wins", Verdict: "failed", Began: time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC), Seconds: 31.2,
			Steps: []ScenarioStepResult{
				{Number: 2, ID: "scale", Title: "a human scales podinfo in prod to 5", Verb: "patch", Verdict: "passed", Since: .1, Seconds: .2, Did: "spec.replicas: 2 -> 5"},
				{
					Number: 4, Title: "it is healed: 2 replicas again", Verb: "expect", Verdict: "failed", Since: .9, Seconds: 30,
					Expected: "deployment podinfo in prod: spec.replicas = 2 within 30s", LastSeen: "spec.replicas = 5", Unchanged: 29.8,
					Notes: []string{"application prod-podinfo has selfHeal: false (addons/podinfo/applicationset.yaml:44)"},
					Evidence: []ScenarioEvidence{
						{"prod", "podinfo", "events", []string{"14:02:01 ScalingReplicaSet deployment/podinfo: Scaled up replica set podinfo-5d8 from 2 to 5"}},
						{"prod", "podinfo", "log of podinfo-5d8-x7x/podinfo", []string{`{"level":"info","msg":"Starting HTTP Server."}`}},
					},
				},
			},
			Measures: []ScenarioMeasure{{"the engine sees it: out of sync", "a human scales podinfo in prod to 5", .312}},
			Timeline: "/home/me/.local/state/lab/homelab/scenarios/drift.html",
		}},
	}
}
