//go:build e2e

package e2e

import (
	"maps"
	"slices"
	"testing"

	"homelab/lab"
)

// A suite is a test in parts, each a row of docs/tests.md, which says when it runs.
type suite struct {
	name  string
	lab   func(*testing.T) *testLab // shared by the parts; nil if each part has its own
	parts []part
}

// part is a subtest. Only set-up parts may be what others depend on.
type part struct {
	name string
	run  func(*testing.T, *testLab)
}

// suites are all tests, in the order in which they run.
func suites() []suite {
	return []suite{
		defaultEstate(),
		faultsOf("TestFaults", lab.EngineArgoCD),
		fluxEstate("TestDefaultEstateOnFlux", lab.ShapeHub),
		{name: "TestImageAutomation", lab: shared("e2e-images", "hub", "dev"), parts: []part{
			{"up", imageUp}, {"newer image committed", imageCommitted}, {"down leaves no remains", finalDown},
		}},
		killedAtStages("TestKilledAtAnyStage", lab.EngineArgoCD),
		killedAtStages("TestKilledAtAnyStageOnFlux", lab.EngineFlux),
		foreignEstates(),
		{name: "TestExistingCluster", parts: []part{{"attached and released", alone(existing)}, {"beside its owner's engines", alone(besideOwner)}}},
		{name: "TestBundle", parts: []part{{"up from a bundle", alone(bundled)}}},
		{name: "TestRegistry", parts: []part{{"up from a registry", alone(mirrored)}}},
		{name: "TestBuiltinEstate", parts: []part{{"requires a flag", alone(builtin)}}},
		fluxEstate("TestDefaultEstateStandalone", lab.ShapeStandalone),
		{name: "TestOrder", parts: []part{
			{"argocd", func(t *testing.T, _ *testLab) { ordered(t, lab.EngineArgoCD) }},
			{"flux", func(t *testing.T, _ *testLab) { ordered(t, lab.EngineFlux) }},
		}},
		{name: "TestWorkedExamples", lab: newExamples, parts: []part{ // Karpenter's is last, as its nodes run nothing, so that the lab is not ready
			{"up", examplesUp},
			{"a single manifest", exampleStorageClass},
			{"values only", exampleMetrics},
			{"values, infrastructure and secrets", exampleValues},
			{"infrastructure metadata changes", exampleBridge},
			{"changed ConfigMap restarts its Deployment", exampleReloader},
			{"nodes for pending pods", exampleNodes},
			{"down leaves no remains", finalDown},
		}},
		faultsOf("TestFaultsOnFlux", lab.EngineFlux),
		partsEstate(),
		{name: "TestVersions", lab: newVersions, parts: []part{
			{"up", olderUp}, {"another Kubernetes refused", kubernetesChanged}, {"engine upgrade rehearsed", upgradeRehearsed}, {"engine upgraded and back", engineUpgraded}, {"down leaves no remains", finalDown},
		}},
		catalogueSuite(),
	}
}

// TestDefaultEstate covers a lab from creation to removal.
func TestDefaultEstate(t *testing.T) { play(t) }

// TestFaults injects faults into a lab. After each, the next lab up converges, and the canaries survive.
func TestFaults(t *testing.T) { play(t) }

// TestDefaultEstateOnFlux covers a lab from creation to removal, and compares the deployed objects with Argo CD's. The lab has the same name, as generated ids depend
// on it.
func TestDefaultEstateOnFlux(t *testing.T) { play(t) }

// TestImageAutomation makes Flux commit a newer image.
func TestImageAutomation(t *testing.T) { play(t) }

// TestKilledAtAnyStage kills `lab up` at five stages.
func TestKilledAtAnyStage(t *testing.T) { play(t) }

// TestKilledAtAnyStageOnFlux is like TestKilledAtAnyStage with Flux.
func TestKilledAtAnyStageOnFlux(t *testing.T) { play(t) }

// TestForeignEstates brings up estates that were not written for lab, with typical layouts of public repositories.
func TestForeignEstates(t *testing.T) { play(t) }

// TestExistingCluster attaches and releases an existing cluster.
func TestExistingCluster(t *testing.T) { play(t) }

// TestBundle saves a bundle, deletes all build results, and brings up a lab from the bundle, without Go or a network.
func TestBundle(t *testing.T) { play(t) }

// TestRegistry fills a real registry, deletes all build results, and brings up a lab from the registry only.
func TestRegistry(t *testing.T) { play(t) }

// TestBuiltinEstate brings up the built-in estate in a folder with other contents, which requires a flag.
func TestBuiltinEstate(t *testing.T) { play(t) }

// TestDefaultEstateStandalone is like TestDefaultEstateOnFlux with a Flux on every cluster.
func TestDefaultEstateStandalone(t *testing.T) { play(t) }

// TestOrder orders one addon after another, with both engines.
func TestOrder(t *testing.T) { play(t) }

// TestWorkedExamples covers the examples of docs/examples.md.
func TestWorkedExamples(t *testing.T) { play(t) }

// TestFaultsOnFlux is like TestFaults with Flux.
func TestFaultsOnFlux(t *testing.T) { play(t) }

// TestVersions has an older engine on the hub and an older Kubernetes in the spoke, and upgrades the engine.
func TestVersions(t *testing.T) { play(t) }

// shared returns a function that creates a lab of the default estate for all parts.
func shared(name string, clusters ...string) func(*testing.T) *testLab {
	return func(t *testing.T) *testLab { return newLab(t, name, clusters...) }
}

// alone adapts a test that creates its own lab.
func alone(run func(*testing.T)) func(*testing.T, *testLab) {
	return func(t *testing.T, _ *testLab) { run(t) }
}

func defaultEstate() suite {
	return suite{name: "TestDefaultEstate", lab: shared("e2e"), parts: []part{
		{"up", firstUp},
		{"versions pinned by environment", pinned},
		{"layered values", layered},
		{"bridge of a spoke", bridged},
		{"record deployed objects", record("argocd")},
		{"live objects as rendered", liveCompared},
		{"second up is idle", untouched},
		{"forge admits only the engine", forgePrivate},
		{"documented commands", documented},
		{"broken estate rejected", brokenEstate},
		{"scenario drift", drift},
		{"scenarios", stories},
		{"reboot", rebooted},
		{"snapshot and restore", restored},
		{"second lab", secondLab},
		{"scenario on a new lab", fresh},
		{"scenario with every verb", everyVerb},
		{"scenarios imported, side by side and recorded", moreScenarios},
		{"interrupted scenario restores the lab", interrupted},
		{"scenario with its own image", ordering},
		{"sabotage detected", sabotage},
		{"scenario for both engines", engineSwitch},
		{"promote", promoted},
		{"commits in the forge kept", commitsInTheForge},
		{"commits in the forge pulled", pulls},
		{"pull request merged", pullRequests},
		{"promotion by a pull request", promotedByRequest},
		{"edit region, label and replicas", edits},
		{"as lab plan said", foreseen},
		{"repair a rejected manifest", repaired},
		{"foreign addon", fromElsewhere},
		{"rename the root application", renamed},
		{"cluster leaves the estate", left},
		{"manually removed objects restored", removedByHand},
		{"removed engine reinstalled", engineRemoved},
		{"down leaves no remains", colleagueDown},
	}}
}

func faultsOf(name string, engine lab.EngineType) suite {
	var canaries map[string]string
	parts := []part{{"up", func(t *testing.T, l *testLab) {
		if engine == lab.EngineFlux {
			l.runs("flux")
		}
		parts := engine == lab.EngineArgoCD // which they do not depend on
		if parts {
			l.edit("clusters/hub/cluster.yaml", "role: hub", "role: hub\n  registry: {}\n  runner: {}\n  door: {}")
		}
		l.must("up", "--fix")
		for _, c := range []string{"hub", "dev"} {
			l.canary(c)
		}
		canaries = l.canaryIdentities("hub", "dev")
		if parts {
			l.must("registry", "push", pushedImage, "team/podinfo:1")
			maps.Copy(canaries, l.keptByParts())
		}
	}}}
	for _, f := range faults {
		if f.once && engine != lab.EngineArgoCD {
			continue
		}
		parts = append(parts, part{f.name, func(t *testing.T, l *testLab) { canaries = injectFault(t, l, f, canaries) }})
	}
	for _, p := range otherParts {
		if engine != lab.EngineArgoCD {
			break
		}
		parts = append(parts, part{p.name, func(t *testing.T, l *testLab) {
			p.run(t, l, canaries)
			l.checkCanaries(canaries, "hub", "dev")
		}})
	}
	return suite{name: name, lab: shared("e2e-faults", "hub", "dev"), parts: append(
		parts,
		part{"killed with snapshots", func(t *testing.T, l *testLab) { killedWithSnapshots(t, l, canaries) }},
		part{"unconfirmed removals rejected", func(t *testing.T, l *testLab) { unconfirmed(t, l, canaries) }},
		part{"down leaves no remains", finalDown},
	)}
}

func fluxEstate(name string, shape lab.Shape) suite {
	parts := []part{
		{"up", onFlux(shape)},
		{"versions pinned by environment", pinned},
		{"layered values", layered},
		{"bridge of a spoke", fluxBridged(shape)},
		{"same deployed objects", record("flux in shape " + string(shape))},
		{"live objects as rendered", liveCompared},
		{"second up is idle", untouched},
		{"other engine rejected", otherEngine},
		{"reboot", rebooted},
		{"down leaves no remains", finalDown},
	}
	if shape == lab.ShapeHub { // otherwise the same; stories and the like do not expect the changes of edits
		parts = slices.Insert(parts, len(parts)-1, part{"flux command", fluxCommand}, part{"scenarios", stories}, part{"sabotage detected", sabotage},
			part{"edit region, label and replicas", edits}, part{"as lab plan said", foreseen}, part{"switch the engine and back", switched})
	}
	if shape == lab.ShapeStandalone {
		parts = slices.Insert(parts, 1, part{"Flux on each cluster", eachItsOwn}, part{"other shape rejected", otherShape}, part{"switch the shape and back", reshaped})
	}
	return suite{name: name, lab: shared("e2e"), parts: parts}
}

func killedAtStages(name string, engine lab.EngineType) suite {
	s := suite{name: name}
	for i, stage := range slices.Backward(stagesOf(engine)) {
		if i < beforeEngine && engine != lab.EngineArgoCD {
			continue
		}
		s.parts = append(s.parts, part{stage.name, func(t *testing.T, _ *testLab) {
			l := newLab(t, "e2e-kill", "hub", "dev")
			if engine == lab.EngineFlux {
				l.runs("flux")
			}
			killed(t, l, stage)
		}})
	}
	return s
}

func foreignEstates() suite {
	s := suite{name: "TestForeignEstates"}
	for _, shape := range shapes {
		s.parts = append(s.parts, part{shape.name, func(t *testing.T, _ *testLab) { foreign(t, shape) }})
	}
	return s
}
