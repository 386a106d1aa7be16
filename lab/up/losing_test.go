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

const theirs = " notes (ann), on main of estate: clusters/NOTES.md"

// colleague returns a converged lab with a snapshot, and a commit after it that only the forge has.
func colleague(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	saved(t, s)
	s.commitOnly(t, "clusters/NOTES.md", "mind the gap\n")
	return s
}

// removals are the ways to remove a forge.
var removals = map[string]func(*stage, up.Consent) error{
	"down": func(s *stage, c up.Consent) error {
		_, err := (&process{stage: s}).lab().Remove(s.t.Context(), up.DownOptions{Existed: true, Lose: c}, silent)
		return err
	},
	"restore": func(s *stage, c up.Consent) error {
		_, err := (&process{stage: s}).lab().Restore(s.t.Context(), "one", c, silent)
		return err
	},
}

// Commits of others are listed before they are lost, and lost only with a word.
func TestLosingCommits(t *testing.T) {
	for name, remove := range removals {
		t.Run(name, func(t *testing.T) {
			s := colleague(t)
			before, head := s.contents(t), s.head(t)
			var e *lab.Error
			for _, c := range []up.Consent{
				{By: "lab down --lose-commits"},
				{By: "lab down --lose-commits", Ask: func(_ context.Context, _ string, loses []string) (bool, error) {
					if len(loses) != 1 || !strings.HasSuffix(loses[0], theirs) {
						t.Errorf("asked to lose %q", loses)
					}
					return false, nil
				}},
			} {
				if err := remove(s, c); !errors.As(err, &e) || e.Exit != lab.ExitInvalid || e.Code != "would_lose" || !strings.HasSuffix(e.Cure, c.By) || !strings.HasSuffix(e.Details[0], theirs) {
					t.Fatalf("%+v, want a refusal with the commit", err)
				}
			}
			if after := s.contents(t); !slices.Equal(after, before) {
				t.Errorf("%q, was %q", after, before)
			}
			must(t, remove(s, up.Consent{Ask: func(context.Context, string, []string) (bool, error) { return true, nil }}))
			if _, err := s.forge.Wake(t.Context()); err != nil || s.head(t) == head {
				t.Errorf("not removed: %v", err)
			}
			s = colleague(t)
			must(t, remove(s, up.Consent{Given: true}))
		})
	}
}

// Status and the plan of down list what would be lost.
func TestLosingListed(t *testing.T) {
	s := colleague(t)
	s.forge.Add(forge.PullRequest{Repository: "lab/estate", Number: 7, Title: "Try it", Author: "ann"}, "ann/notes")
	s.forge.AddItem(forge.Item{Kind: "issue", Repository: "lab/estate", Title: "#8 It breaks", Author: "ann"})
	l := (&process{stage: s}).lab()
	st, err := l.Status(t.Context())
	must(t, err)
	steps, losing, err := l.Leaving(t.Context(), up.DownOptions{})
	must(t, err)
	if !slices.Equal(st.Losing.Lines(), losing.Lines()) {
		t.Errorf("status %q, down %q", st.Losing.Lines(), losing.Lines())
	}
	if lines := losing.Lines(); len(lines) != 4 || !strings.HasSuffix(lines[0], theirs) ||
		!slices.Equal(lines[1:], []string{"pull request lab/estate#7 Try it (ann)", "issue of lab/estate: #8 It breaks (ann)", "repository ann/notes"}) {
		t.Errorf("%q", lines)
	}
	i := slices.IndexFunc(steps, func(s lab.Step) bool { return s.Kind == "forge" })
	if want := "1 commit, 1 pull request, 1 issue, release or wiki page, 1 repository"; steps[i].Loses != want {
		t.Errorf("the step loses %q, want %q", steps[i].Loses, want)
	}
	s.forge.Silence(true)
	if st, err = l.Status(t.Context()); err != nil || st.Losing.Unknown == "" || st.Losing.None() {
		t.Errorf("%+v, %v", st.Losing, err)
	}
}

// A forge that is stopped or paused is started to be asked; one that does not answer is not taken for empty.
func TestLosingUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		halt    func(*stage)
		unknown bool
	}{
		"stopped": {func(s *stage) { s.forge.Stop() }, false},
		"paused":  {func(s *stage) { s.forge.Pause() }, false},
		"silent":  {func(s *stage) { s.forge.Silence(true) }, true},
	} {
		for removal, remove := range removals {
			t.Run(name+"/"+removal, func(t *testing.T) {
				s := colleague(t)
				c.halt(s)
				var e *lab.Error
				if err := remove(s, up.Consent{}); !errors.As(err, &e) || e.Code != "would_lose" || strings.Contains(e.Message, "unknown") != c.unknown {
					t.Fatalf("%+v", err)
				}
				must(t, remove(s, up.Consent{Given: true}))
			})
		}
	}
}

// A commit that a snapshot has, too, is not lost by its restore.
func TestLosingNotInSnapshot(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	s.commitOnly(t, "clusters/NOTES.md", "mind the gap\n")
	_, _ = (&process{stage: s}).up(t.Context(), up.Options{}) // diverged: it only records the commit
	_, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "one", false, up.Consent{}, silent)
	must(t, err)
	must(t, removals["restore"](s, up.Consent{}))
	var e *lab.Error
	must(t, s.forge.Start(t.Context(), gitea, 0, silent))
	if err := removals["down"](s, up.Consent{}); !errors.As(err, &e) || e.Code != "would_lose" {
		t.Errorf("%v, want the commit kept by the restore", err)
	}
}

// A removal of the forge that had begun continues, though the forge cannot be asked any more.
func TestLosingGoesOn(t *testing.T) {
	for name, begun := range map[string]bool{"begun": true, "not begun": false} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			converge(t, s)
			must(t, s.dir.SaveLosing(begun))
			s.forge.Silence(true)
			if err := removals["down"](s, up.Consent{}); (err == nil) != begun {
				t.Errorf("%v", err)
			}
		})
	}
	s := newStage(t)
	must(t, s.dir.SaveLosing(true))
	converge(t, s)
	if s.dir.Losing() {
		t.Error("lab up keeps the record")
	}
}
