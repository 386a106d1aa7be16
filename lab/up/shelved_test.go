package up_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/forge"
	"homelab/lab/up"
)

// shelved returns a lab with a snapshot of a colleague's commit and issue, which its forge has lost.
func shelved(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	converge(t, s)
	s.commitOnly(t, "clusters/NOTES.md", "mind the gap\n")
	s.forge.AddItem(forge.Item{Kind: "issue", Repository: "lab/estate", Title: "#8 It breaks", Author: "ann"})
	l := (&process{stage: s}).lab()
	_, err := l.SaveSnapshot(t.Context(), "one", false, up.Consent{}, silent)
	must(t, err)
	return s
}

// forget makes the forge lose everything, as lab down does.
func forget(t *testing.T, s *stage) {
	t.Helper()
	must(t, removals["down"](s, up.Consent{Given: true}))
}

// spending are the ways to remove a snapshot.
var spending = map[string]func(*stage, up.Consent) error{
	"rm": func(s *stage, c up.Consent) error {
		return (&process{stage: s}).lab().RemoveSnapshots(s.t.Context(), []string{"one"}, c, silent)
	},
	"down": func(s *stage, c up.Consent) error {
		_, err := (&process{stage: s}).lab().Remove(s.t.Context(), up.DownOptions{Existed: true, Snapshots: true, Lose: c}, silent)
		return err
	},
}

// What others put into the forge and only a snapshot has is listed before it is lost, and lost only with a word. No forge is started for that.
func TestLosingSnapshots(t *testing.T) {
	for name, remove := range spending {
		t.Run(name, func(t *testing.T) {
			s := shelved(t)
			forget(t, s)
			left := func() int {
				list, err := s.shelf.List(t.Context())
				must(t, err)
				return len(list)
			}
			wants := func(lines []string) bool {
				return len(lines) == 2 && strings.HasPrefix(lines[0], "commit ") && strings.HasSuffix(lines[0], theirs+", in snapshot one") &&
					lines[1] == "issue of lab/estate: #8 It breaks (ann), in snapshot one"
			}
			no := func(_ context.Context, _ string, loses []string) (bool, error) {
				if !wants(loses) {
					t.Errorf("asked to lose %q", loses)
				}
				return false, nil
			}
			for _, c := range []up.Consent{{By: "lab snapshot rm one --lose-commits"}, {By: "lab snapshot rm one --lose-commits", Ask: no}} {
				var e *lab.Error
				if err := remove(s, c); !errors.As(err, &e) || e.Exit != lab.ExitInvalid || e.Code != "would_lose" || !strings.HasSuffix(e.Cure, c.By) || len(e.Message) > 80 {
					t.Fatalf("%+v, want a refusal", err)
				}
				var lines []string
				for _, d := range e.Details[:len(e.Details)-1] {
					lines = append(lines, strings.TrimPrefix(d, "would lose "))
				}
				if !wants(lines) || left() != 1 {
					t.Errorf("%q, %d snapshots", e.Details, left())
				}
			}
			must(t, remove(s, up.Consent{Given: true}))
			if left() != 0 {
				t.Error("not removed")
			}
		})
	}
}

// What the forge or another snapshot has is not lost with a snapshot, and neither is anything if others put nothing there.
func TestShelvedElsewhere(t *testing.T) {
	s := shelved(t)
	must(t, spending["rm"](s, up.Consent{})) // the forge has it

	s = shelved(t)
	_, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "two", false, up.Consent{}, silent)
	must(t, err)
	forget(t, s)
	must(t, spending["rm"](s, up.Consent{})) // the snapshot has it
	if lines, err := (&process{stage: s}).lab().Shelved(t.Context()); err != nil || len(lines) != 2 {
		t.Errorf("%q, %v", lines, err)
	}

	s = newStage(t)
	saved(t, s)
	for _, remove := range []string{"rm", "down"} {
		must(t, spending[remove](s, up.Consent{}))
	}
}

// A snapshot without a record, or of a forge that did not answer, may have anything. --replace removes one, too.
func TestShelvedUnknown(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	s.forge.Stop()
	l := (&process{stage: s}).lab()
	_, err := l.SaveSnapshot(t.Context(), "one", false, up.Consent{}, silent)
	must(t, err)
	want := "whatever others had put into the forge of snapshot one: it does not run"
	if lines, err := l.Shelved(t.Context(), "one"); err != nil || !slices.Equal(lines, []string{want}) {
		t.Errorf("%q, %v", lines, err)
	}
	var e *lab.Error
	if _, err := l.SaveSnapshot(t.Context(), "one", true, up.Consent{}, silent); !errors.As(err, &e) || e.Code != "would_lose" {
		t.Errorf("%v, want a refusal", err)
	}
	_, err = l.SaveSnapshot(t.Context(), "one", true, up.Consent{Given: true}, silent)
	must(t, err)
}
