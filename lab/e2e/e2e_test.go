//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

// Tests are ordered by value: those that call must always run, those that call tail run if time permits. seconds is the duration on a quiet machine with two cores.

// part is a subtest on the shared lab. A tail part may be skipped, so no part depends on another.
type part struct {
	name    string
	share   func(*testing.T, int) // must or tail
	seconds int
	run     func(*testing.T, *testLab)
}

// play runs parts until the first failure, which leaves the lab in an unknown state.
func (l *testLab) play(t *testing.T, parts []part) {
	t.Helper()
	for _, p := range parts {
		if !t.Run(p.name, func(t *testing.T) { p.share(t, p.seconds); l.within(t, p.run) }) {
			t.FailNow()
		}
	}
}

// TestDefaultEstate covers a lab from creation to removal.
func TestDefaultEstate(t *testing.T) {
	l := newLab(t, "e2e")
	l.play(t, []part{
		{"up", must, 125, firstUp},
		{"versions pinned by environment", must, 2, pinned},
		{"layered values", must, 2, layered},
		{"bridge of a spoke", must, 1, bridged},
		{"record deployed objects", must, 2, record("argocd")},
		{"second up is idle", must, 5, untouched},
		{"documented commands", must, 10, documented},
		{"broken estate rejected", must, 2, brokenEstate},
		{"scenarios", must, 200, stories},
		{"reboot", must, 60, rebooted},
		{"snapshot and restore", tail, 120, restored},
		{"second lab", tail, 95, secondLab},
		{"scenario on a new lab", tail, 122, fresh},
		{"scenario with every verb", tail, 140, everyVerb},
		{"interrupted scenario restores the lab", tail, 60, interrupted},
		{"scenario with its own image", tail, 260, ordering},
		{"sabotage detected", tail, 250, sabotage},
		{"scenario for both engines", tail, 500, engineSwitch},
		{"promote", tail, 60, promoted},
		{"commits in the forge kept", tail, 40, commitsInTheForge},
		{"commits in the forge pulled", tail, 60, pulls},
		{"edit region, label and replicas", tail, 60, edits},
		{"repair a rejected manifest", tail, 60, repaired},
		{"foreign addon", tail, 60, fromElsewhere},
		{"rename the root application", tail, 40, renamed},
		{"cluster leaves the estate", tail, 150, left},
		{"manually removed objects restored", tail, 120, removedByHand},
		{"removed engine reinstalled", tail, 60, engineRemoved},
		{"down leaves no remains", must, 10, finalDown},
	})
}

// TestFaults injects faults into a lab. After each, the next lab up converges, and the canaries survive.
func TestFaults(t *testing.T) { withFaults(t, lab.EngineArgoCD) }

func withFaults(t *testing.T, engine lab.EngineType) {
	l := newLab(t, "e2e-faults", "hub", "dev")
	first := must
	if engine == lab.EngineFlux {
		tail(t, l.fluxBuild()+110)
		first = tail
		l.runs("flux")
	}
	var canaries map[string]string
	parts := []part{{"up", must, 110, func(t *testing.T, l *testLab) {
		l.must("up", "--fix")
		for _, c := range []string{"hub", "dev"} {
			l.canary(c)
		}
		canaries = l.canaryIdentities("hub", "dev")
	}}}
	for i, f := range faults {
		share := tail
		if i == 0 {
			share = first
		}
		parts = append(parts, part{f.name, share, f.seconds, func(t *testing.T, l *testLab) { canaries = injectFault(t, l, f, canaries) }})
	}
	for _, p := range otherParts {
		if p.engine != "" && p.engine != engine {
			continue
		}
		parts = append(parts, part{p.name, tail, p.seconds, func(t *testing.T, l *testLab) {
			p.run(t, l, canaries)
			l.checkCanaries(canaries, "hub", "dev")
		}})
	}
	parts = append(parts, part{"killed with snapshots", tail, 300, func(t *testing.T, l *testLab) { killedWithSnapshots(t, l, canaries) }})
	l.play(t, append(parts, part{"unconfirmed removals rejected", tail, 200, func(t *testing.T, l *testLab) { unconfirmed(t, l, canaries) }},
		part{"down leaves no remains", must, 10, finalDown}))
}

// TestDefaultEstateOnFlux covers a lab from creation to removal, and compares the deployed objects with Argo CD's. The lab has the same name, as generated ids depend
// on it.
func TestDefaultEstateOnFlux(t *testing.T) { fluxEstate(t, lab.ShapeHub) }

func fluxEstate(t *testing.T, shape lab.Shape) {
	l := newLab(t, "e2e")
	tail(t, l.fluxBuild()+780)
	parts := []part{
		{"up", must, 130, onFlux(shape)},
		{"versions pinned by environment", must, 2, pinned},
		{"layered values", must, 2, layered},
		{"bridge of a spoke", must, 1, fluxBridged(shape)},
		{"same deployed objects", must, 2, record("flux in shape " + string(shape))},
		{"second up is idle", must, 5, untouched},
		{"other engine rejected", must, 2, otherEngine},
		{"scenarios", tail, 420, stories},
		{"edit region, label and replicas", must, 90, edits},
		{"reboot", must, 120, rebooted},
		{"flux command", tail, 400, fluxCommand(shape)},
		{"switch the engine and back", must, 240, switched},
		{"down leaves no remains", must, 10, finalDown},
	}
	if shape == lab.ShapeHub { // otherwise the same
		before := slices.IndexFunc(parts, func(p part) bool { return p.name == "edit region, label and replicas" }) // stories do not expect its changes
		parts = slices.Insert(parts, before, part{"scenario with its own image", tail, 260, ordering},
			part{"sabotage detected", tail, 400, sabotage}, part{"scenario for both engines", tail, 500, engineSwitch}, part{"second lab", tail, 95, secondLab})
	}
	if shape == lab.ShapeStandalone {
		parts = slices.Insert(parts, 1, part{"Flux on each cluster", must, 2, eachItsOwn}, part{"other shape rejected", must, 4, otherShape}, part{"switch the shape and back", tail, 240, reshaped})
	}
	l.play(t, parts)
}

// TestImageAutomation makes Flux commit a newer image.
func TestImageAutomation(t *testing.T) {
	l := newLab(t, "e2e-images", "hub", "dev")
	tail(t, l.fluxBuild(lab.FluxImageReflector, lab.FluxImageAutomation)+200)
	l.play(t, []part{{"up", must, 120, imageUp}, {"newer image committed", must, 60, imageCommitted}, {"down leaves no remains", must, 10, finalDown}})
}

// TestKilledAtAnyStage kills `lab up` at five stages.
func TestKilledAtAnyStage(t *testing.T) { killedAtStages(t, lab.EngineArgoCD) }

// TestKilledAtAnyStageOnFlux is like TestKilledAtAnyStage with Flux.
func TestKilledAtAnyStageOnFlux(t *testing.T) { killedAtStages(t, lab.EngineFlux) }

func killedAtStages(t *testing.T, engine lab.EngineType) {
	l := newLab(t, "e2e-kill", "hub", "dev")
	if engine == lab.EngineFlux {
		tail(t, l.fluxBuild()+100)
		l.runs("flux")
	}
	var parts []part
	for i, stage := range stagesOf(engine) {
		share := tail
		if i == len(stagesOf(engine))-1 { // the most to lose
			share = must
		}
		parts = append(parts, part{stage.name, share, stage.seconds, func(t *testing.T, l *testLab) { killed(t, l, stage) }})
	}
	slices.Reverse(parts)
	l.play(t, parts)
}

// TestForeignEstates brings up estates that were not written for lab, with typical layouts of public repositories.
func TestForeignEstates(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			seconds := s.seconds
			if strings.HasPrefix(s.name, "flux-") {
				l := &testLab{t: t, name: "e2e-foreign", state: t.TempDir(), estate: estateRoot(t)}
				seconds += l.fluxBuild(lab.FluxSourceWatcher)
			}
			tail(t, seconds)
			foreign(t, s)
		})
	}
}

// TestExistingCluster attaches and releases an existing cluster.
func TestExistingCluster(t *testing.T) {
	tail(t, 150)
	existing(t)
}

// TestBundle saves a bundle, deletes all build results, and brings up a lab from the bundle, without Go or a network.
func TestBundle(t *testing.T) {
	tail(t, 120)
	bundled(t)
}

// TestRegistry fills a real registry, deletes all build results, and brings up a lab from the registry only.
func TestRegistry(t *testing.T) {
	tail(t, 140)
	mirrored(t)
}

// TestBuiltinEstate brings up the built-in estate in a folder with other contents, which requires a flag.
func TestBuiltinEstate(t *testing.T) {
	tail(t, 90)
	builtin(t)
}

// TestDefaultEstateStandalone is like TestDefaultEstateOnFlux with a Flux on every cluster.
func TestDefaultEstateStandalone(t *testing.T) { fluxEstate(t, lab.ShapeStandalone) }

// TestOrder orders one addon after another, with both engines.
func TestOrder(t *testing.T) {
	for _, engine := range []lab.EngineType{lab.EngineArgoCD, lab.EngineFlux} {
		t.Run(string(engine), func(t *testing.T) {
			tail(t, 200)
			ordered(t, engine)
		})
	}
}

// TestWorkedExamples covers the examples of docs/examples.md. Karpenter's is last, as its nodes run nothing, so that the lab is not ready.
func TestWorkedExamples(t *testing.T) {
	l := newExamples(t)
	tail(t, examplesSeconds(l))
	l.play(t, []part{
		{"up", must, 180, examplesUp},
		{"a single manifest", must, 1, exampleStorageClass},
		{"values only", must, 10, exampleMetrics},
		{"values, infrastructure and secrets", must, 5, exampleValues},
		{"infrastructure metadata changes", must, 40, exampleBridge},
		{"changed ConfigMap restarts its Deployment", must, 70, exampleReloader},
		{"nodes for pending pods", must, 20, exampleNodes},
		{"down leaves no remains", must, 10, finalDown},
	})
}

// TestFaultsOnFlux is like TestFaults with Flux.
func TestFaultsOnFlux(t *testing.T) { withFaults(t, lab.EngineFlux) }
