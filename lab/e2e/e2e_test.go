//go:build e2e

package e2e

import (
	"slices"
	"testing"
)

// The tests, in order of value: where time is short, what must run goes first, and of the rest as much as there is time for. Seconds are what each takes on a
// quiet machine of two cores.

// part of a test: a subtest on the lab that all of them share. Any of the long tail may be left out, so none relies on what another one did.
type part struct {
	name    string
	share   func(*testing.T, int) // must or tail
	seconds int
	run     func(*testing.T, *testLab)
}

// play plays parts, and ends the test with the first that fails: the next would find another lab than it is about.
func (l *testLab) play(t *testing.T, parts []part) {
	t.Helper()
	for _, p := range parts {
		if !t.Run(p.name, func(t *testing.T) { p.share(t, p.seconds); l.within(t, p.run) }) {
			t.FailNow()
		}
	}
}

// TestDefaultEstate follows one lab from nothing to gone.
func TestDefaultEstate(t *testing.T) {
	l := newLab(t, "e2e")
	l.play(t, []part{
		{"up", must, 125, firstUp},
		{"the versions are pinned by environment", must, 2, pinned},
		{"the values are layered", must, 2, layered},
		{"a spoke carries its bridge", must, 1, bridged},
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
		{"sabotage is noticed", tail, 250, sabotage},
		{"a version is promoted", tail, 60, promoted},
		{"commits in the forge are kept", tail, 40, commitsInTheForge},
		{"commits in the forge are pulled", tail, 60, pulls},
		{"a region, a label, a replica count", tail, 60, edits},
		{"a fault is mended", tail, 60, mended},
		{"an addon comes from elsewhere", tail, 60, fromElsewhere},
		{"the root application is renamed", tail, 40, renamed},
		{"a cluster leaves the estate", tail, 150, left},
		{"what was removed by hand comes back", tail, 120, removedByHand},
		{"a removed engine is made again", tail, 60, engineRemoved},
		{"down leaves nothing", must, 10, downAtLast},
	})
}

// TestFaults gives one lab one bad day after the other. After each, the next lab up converges, and the canaries sing as before.
func TestFaults(t *testing.T) {
	l := newLab(t, "e2e-faults", "hub", "dev")
	var songs map[string]string
	parts := []part{{"up", must, 110, func(t *testing.T, l *testLab) {
		l.must("up", "--fix")
		for _, c := range []string{"hub", "dev"} {
			l.canary(c)
		}
		songs = l.songs("hub", "dev")
	}}}
	for i, f := range faults {
		share := tail
		if i == 0 {
			share = must
		}
		parts = append(parts, part{f.name, share, f.seconds, func(t *testing.T, l *testLab) { songs = suffered(t, l, f, songs) }})
	}
	for _, p := range beside {
		parts = append(parts, part{p.name, tail, p.seconds, func(t *testing.T, l *testLab) {
			p.run(t, l, songs)
			l.sing(songs, "hub", "dev")
		}})
	}
	parts = append(parts, part{"killed with snapshots", tail, 300, func(t *testing.T, l *testLab) { killedWithSnapshots(t, l, songs) }})
	l.play(t, append(parts, part{"nothing is removed without a word", tail, 200, func(t *testing.T, l *testLab) { withoutAWord(t, l, songs) }},
		part{"down leaves nothing", must, 10, downAtLast}))
}

// TestKilledAtAnyStage kills `lab up` without warning at five stages.
func TestKilledAtAnyStage(t *testing.T) {
	l := newLab(t, "e2e-kill", "hub", "dev")
	var parts []part
	for i, stage := range stages {
		share := tail
		if i == len(stages)-1 { // when there is most to lose
			share = must
		}
		parts = append(parts, part{stage.name, share, stage.seconds, func(t *testing.T, l *testLab) { killed(t, l, i) }})
	}
	slices.Reverse(parts)
	l.play(t, parts)
}

// TestForeignEstates brings estates that know nothing of lab, each in a shape that is common in public.
func TestForeignEstates(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			tail(t, s.seconds)
			foreign(t, s)
		})
	}
}

// TestExistingCluster attaches a cluster that lab did not make, and releases it.
func TestExistingCluster(t *testing.T) {
	tail(t, 150)
	existing(t)
}

// TestBundle saves a bundle, forgets everything that was built, and brings a lab up from the bundle: without Go, without a network.
func TestBundle(t *testing.T) {
	tail(t, 120)
	bundled(t)
}

// TestRegistry fills a real registry, forgets everything that was built, and brings a lab up from that registry alone.
func TestRegistry(t *testing.T) {
	tail(t, 140)
	mirrored(t)
}

// TestBuiltinEstate brings the built-in estate up in a folder that holds something else, which takes a word.
func TestBuiltinEstate(t *testing.T) {
	tail(t, 90)
	builtin(t)
}
