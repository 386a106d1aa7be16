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
		{"the versions are pinned by environment", must, 2, pinned},
		{"the values are layered", must, 2, layered},
		{"a spoke carries its bridge", must, 1, bridged},
		{"what the engine brings is recorded", must, 2, record("argocd")},
		{"up again does nothing", must, 5, untouched},
		{"every command of the documents works", must, 10, documented},
		{"a broken estate is refused", must, 2, brokenEstate},
		{"every story is played", must, 200, stories},
		{"a reboot is survived", must, 60, rebooted},
		{"a spoiled lab is restored", tail, 120, restored},
		{"another lab beside it", tail, 95, secondLab},
		{"a story is played on a fresh lab", tail, 122, fresh},
		{"every verb is played", tail, 140, everyVerb},
		{"an interrupted story leaves the lab as it was", tail, 60, interrupted},
		{"a story with an image of its own", tail, 260, ordering},
		{"sabotage is noticed", tail, 250, sabotage},
		{"a story of both engines", tail, 500, engineSwitch},
		{"a version is promoted", tail, 60, promoted},
		{"commits in the forge are kept", tail, 40, commitsInTheForge},
		{"commits in the forge are pulled", tail, 60, pulls},
		{"a region, a label, a replica count", tail, 60, edits},
		{"a fault is repaired", tail, 60, repaired},
		{"an addon comes from elsewhere", tail, 60, fromElsewhere},
		{"the root application is renamed", tail, 40, renamed},
		{"a cluster leaves the estate", tail, 150, left},
		{"what was removed by hand comes back", tail, 120, removedByHand},
		{"a removed engine is made again", tail, 60, engineRemoved},
		{"down leaves nothing", must, 10, finalDown},
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
	l.play(t, append(parts, part{"nothing is removed without a word", tail, 200, func(t *testing.T, l *testLab) { unconfirmed(t, l, canaries) }},
		part{"down leaves nothing", must, 10, finalDown}))
}

// TestDefaultEstateOnFlux covers a lab from creation to removal, and compares the deployed objects with Argo CD's. The lab has the same name, as generated ids depend
// on it.
func TestDefaultEstateOnFlux(t *testing.T) { fluxEstate(t, lab.ShapeHub) }

func fluxEstate(t *testing.T, shape lab.Shape) {
	l := newLab(t, "e2e")
	tail(t, l.fluxBuild()+780)
	parts := []part{
		{"up", must, 130, onFlux(shape)},
		{"the versions are pinned by environment", must, 2, pinned},
		{"the values are layered", must, 2, layered},
		{"a spoke carries its bridge", must, 1, fluxBridged(shape)},
		{"the same catalogue", must, 2, record("flux in shape " + string(shape))},
		{"up again does nothing", must, 5, untouched},
		{"another engine is not put over it", must, 2, otherEngine},
		{"every story is played", tail, 420, stories},
		{"a region, a label, a replica count", must, 90, edits},
		{"a reboot is survived", must, 120, rebooted},
		{"the flux command sees a bootstrap", tail, 400, fluxCommand(shape)},
		{"the engine is switched and back", must, 240, switched},
		{"down leaves nothing", must, 10, finalDown},
	}
	if shape == lab.ShapeHub { // otherwise the same
		before := slices.IndexFunc(parts, func(p part) bool { return p.name == "a region, a label, a replica count" }) // stories do not expect its changes
		parts = slices.Insert(parts, before, part{"a story with an image of its own", tail, 260, ordering},
			part{"sabotage is noticed", tail, 400, sabotage}, part{"a story of both engines", tail, 500, engineSwitch}, part{"another lab beside it", tail, 95, secondLab})
	}
	if shape == lab.ShapeStandalone {
		parts = slices.Insert(parts, 1, part{"each cluster has a Flux of its own", must, 2, eachItsOwn}, part{"another shape is not put over it", must, 4, otherShape}, part{"the shape is switched and back", tail, 240, reshaped})
	}
	l.play(t, parts)
}

// TestImageAutomation makes Flux commit a newer image.
func TestImageAutomation(t *testing.T) {
	l := newLab(t, "e2e-images", "hub", "dev")
	tail(t, l.fluxBuild(lab.FluxImageReflector, lab.FluxImageAutomation)+200)
	l.play(t, []part{{"up", must, 120, imageUp}, {"a newer image is committed", must, 60, imageCommitted}, {"down leaves nothing", must, 10, finalDown}})
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
		{"values alone", must, 10, exampleMetrics},
		{"values, infrastructure and secrets", must, 5, exampleValues},
		{"infrastructure changes as a whole", must, 40, exampleBridge},
		{"a changed ConfigMap restarts what reads it", must, 70, exampleReloader},
		{"nodes appear when pods wait", must, 20, exampleNodes},
		{"down leaves nothing", must, 10, finalDown},
	})
}

// TestFaultsOnFlux is like TestFaults with Flux.
func TestFaultsOnFlux(t *testing.T) { withFaults(t, lab.EngineFlux) }
