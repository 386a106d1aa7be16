package up_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"homelab/lab/up"
)

var errFull = errors.New("no space left on device")

// A call that fails is told of by the run that made it: none says that all is well where something was not done. Where a lab is up already, what cannot be looked at
// is done once more, or is not needed.
func TestAFailureIsToldOf(t *testing.T) {
	all := maps.Clone(journeys)
	all["restore"] = journey{first: restore, prepare: func(t *testing.T, s *stage) { spoiled(t, s) }}
	all["up of what is stopped"] = journey{first: plainUp, prepare: stopped}
	for name, j := range all {
		if name == "up after down" {
			continue // its first run is that of "down"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play := func(fails string) (calls []string, err error) {
				s := newStage(t)
				j.prepare(t, s)
				p := &process{stage: s, hit: func(_ int, call string) effect {
					if call == fails {
						return effect{before: errFull}
					}
					return effect{}
				}}
				err = j.first(t.Context(), p)
				slices.Sort(p.calls)
				return slices.Compact(p.calls), err
			}
			up := slices.Contains([]string{"up that prunes", "up that releases", "up after an edit", "down of one that lives on", "up of what is stopped", "up that recreates"}, name)
			calls, err := play("")
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range calls {
				if up && looks(call) {
					continue
				}
				if _, err := play(call); err == nil || !strings.Contains(fmt.Sprint(err), errFull.Error()) {
					t.Errorf("%s fails, and the run says %v", call, err)
				}
			}
		})
	}
}

func restore(ctx context.Context, p *process) error {
	_, err := p.lab().Restore(ctx, "one", silent)
	return err
}

// stopped is a lab after a reboot.
func stopped(t *testing.T, s *stage) {
	converge(t, s)
	for _, name := range []string{"hub", "dev", "prod"} {
		s.clusters.Stop(name)
	}
	s.forge.Stop()
}

// What a snapshot takes the place of goes first: all clusters of the lab, and the forge with what was committed since.
func TestRestoreRemovesWhatIsThere(t *testing.T) {
	s := newStage(t)
	spoiled(t, s)
	p := &process{stage: s}
	must(t, restore(t.Context(), p))
	place := slices.Index(p.calls, "snapshots.place")
	for _, call := range []string{"clusters.delete hub", "clusters.delete dev", "clusters.delete prod", "forge.remove", "snapshots.stage"} {
		if at := slices.Index(p.calls, call); at < 0 || at > place {
			t.Errorf("%s is call %d, and the snapshot takes its place in call %d", call, at, place)
		}
	}
}

// A cluster that runs again keeps the images that it was given before, beside those that it needs now: its mark says so.
func TestMendedClusterKeepsItsImages(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	seen := func() []string {
		t.Helper()
		states, err := s.clusters.Observe(t.Context(), "dev")
		must(t, err)
		return states[0].Images
	}
	states, err := s.clusters.Observe(t.Context(), "dev")
	must(t, err)
	needed := slices.Clone(states[0].Images)
	must(t, s.clusters.Mark(t.Context(), "dev", states[0].Inputs, append(needed, "earlier")))
	s.clusters.Stop("dev")
	must(t, plainUp(t.Context(), &process{stage: s}))
	if got := seen(); !slices.Contains(got, "earlier") || len(got) != len(needed)+1 {
		t.Errorf("%q, needed are %q", got, needed)
	}
}

// refusing is an audience that cannot be asked.
type refusing struct{ audience }

func (*refusing) Ask(context.Context, string, []string) (bool, error) { return false, errFull }

// Who cannot be asked has not agreed.
func TestFollowOfWhoCannotBeAsked(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, s *stage){
		"no longer in the estate": left,
		"to be made again": func(t *testing.T, s *stage) {
			converge(t, s)
			edit(s.files, "clusters/dev/cluster.yaml", "{role: control-plane}", "{role: control-plane}, {role: worker}")
			s.load()
		},
	} {
		s := newStage(t)
		prepare(t, s)
		was := s.clusters.Whole()
		p := &process{stage: s}
		if _, err := p.lab().Follow(t.Context(), up.Options{}, &refusing{}); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
		s.keeps(t, was, name)
		if at := slices.IndexFunc(p.calls, func(call string) bool { return !looks(call) }); at >= 0 {
			t.Errorf("%s: %s was called", name, p.calls[at])
		}
	}
}

// What remains of a lab is told by what it says while it goes.
func TestDownTellsWhatItRemoves(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	var told []string
	_, err := (&process{stage: s}).lab().Remove(t.Context(), up.DownOptions{Existed: true}, func(line string) { told = append(told, line) })
	must(t, err)
	for _, what := range []string{"cluster hub", "cluster dev", "cluster prod", "network"} {
		if !slices.ContainsFunc(told, func(line string) bool { return strings.HasPrefix(line, "removing ") && strings.Contains(line, what) }) {
			t.Errorf("%s is not in %q", what, told)
		}
	}
	if s.dir.Exists() {
		t.Error("the state folder is there")
	}
}
