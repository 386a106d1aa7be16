package up_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/up"
)

// kindEdited returns a converged lab in which spec.kind of dev has changed.
func kindEdited(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	converge(t, s)
	edit(s.files, lab.ClusterFile("dev"), "{role: control-plane}", "{role: control-plane}, {role: worker}")
	s.load()
	return s
}

func TestFollowRecreate(t *testing.T) {
	for name, c := range map[string]struct {
		o    up.Options
		yes  bool
		made bool
	}{
		"unconfirmed":   {},
		"other cluster": {o: up.Options{Recreate: []string{"prod"}}},
		"flag":          {o: up.Options{Recreate: []string{"dev"}}, made: true},
		"confirmed":     {yes: true, made: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := kindEdited(t)
			was := s.clusters.Whole()
			c.o.Timeout = time.Second
			_, err := (&process{stage: s}).lab().Follow(t.Context(), c.o, &audience{yes: c.yes})
			for cluster, id := range was {
				if now := s.clusters.Identity(cluster); (now != id) != (c.made && cluster == "dev") {
					t.Errorf("cluster %s: identity was %s, is %s", cluster, id, now)
				}
			}
			var e *lab.Error
			switch {
			case c.made:
				must(t, err)
			case !errors.As(err, &e) || e.Code != "recreate" || !strings.HasSuffix(e.Cure, "lab up --recreate dev") || len(e.Details) != 1 || !strings.Contains(e.Details[0], "everything in cluster dev"):
				t.Errorf("error = %+v, want recreate with cure and losses", e)
			}
		})
	}
}

// Apply does not trust a plan: steps that the options do not allow delete nothing.
func TestApplyUnconfirmedSteps(t *testing.T) {
	for name, asked := range map[string]up.Options{"recreate": {Recreate: []string{"dev"}}, "prune": {Prune: true}} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			converge(t, s)
			if asked.Prune {
				s.leave("dev")
			}
			was, l := s.clusters.Whole(), (&process{stage: s}).lab()
			seen, err := l.Observe(t.Context(), asked)
			must(t, err)
			steps := l.Plan(t.Context(), asked, seen)
			steps = slices.DeleteFunc(steps, func(st lab.Step) bool { return st.Cluster != "dev" })
			for i := range steps {
				steps[i].Needs = nil // run each step alone
			}
			if _, err := l.Apply(t.Context(), up.Options{}, seen, steps, nil); err == nil || !strings.Contains(err.Error(), "not requested") {
				t.Errorf("Apply with unconfirmed steps = %v", err)
			}
			s.requireKept(t, was, "after unconfirmed steps")
			again, err := l.Observe(t.Context(), asked)
			must(t, err)
			if !slices.Contains(again.Registered, "dev") {
				t.Error("dev was unregistered")
			}
		})
	}
}
