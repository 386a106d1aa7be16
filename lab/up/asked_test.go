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

// kindEdited is a converged lab of which kind would have to make dev again.
func kindEdited(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	converge(t, s)
	edit(s.files, lab.ClusterFile("dev"), "{role: control-plane}", "{role: control-plane}, {role: worker}")
	s.load()
	return s
}

// A cluster is made again when somebody says so, and by nothing else.
func TestOnlyAWordMakesAClusterAgain(t *testing.T) {
	for name, c := range map[string]struct {
		o    up.Options
		yes  bool
		made bool
	}{
		"nobody asked":  {},
		"another named": {o: up.Options{Recreate: []string{"prod"}}},
		"named":         {o: up.Options{Recreate: []string{"dev"}}, made: true},
		"answered":      {yes: true, made: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := kindEdited(t)
			was := s.clusters.Whole()
			c.o.Timeout = time.Second
			_, err := (&process{stage: s}).lab().Follow(t.Context(), c.o, &audience{yes: c.yes})
			for cluster, id := range was {
				if now := s.clusters.Identity(cluster); (now != id) != (c.made && cluster == "dev") {
					t.Errorf("%s was %s, is %s", cluster, id, now)
				}
			}
			var e *lab.Error
			switch {
			case c.made:
				must(t, err)
			case !errors.As(err, &e) || e.Code != "recreate" || !strings.HasSuffix(e.Cure, "lab up --recreate dev") || len(e.Details) != 1 || !strings.Contains(e.Details[0], "everything in cluster dev"):
				t.Errorf("%+v", e)
			}
		})
	}
}

// What carries a plan out does not take the plan's word for what was asked: one that is older than its options, or came about by a mistake, removes nothing.
func TestAPlanAloneRemovesNothing(t *testing.T) {
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
				steps[i].Needs = nil // each by itself
			}
			if _, err := l.Apply(t.Context(), up.Options{}, seen, steps, nil); err == nil || !strings.Contains(err.Error(), "nobody asked") {
				t.Errorf("%v", err)
			}
			s.keeps(t, was, "after a plan that nobody asked for")
			again, err := l.Observe(t.Context(), asked)
			must(t, err)
			if !slices.Contains(again.Registered, "dev") {
				t.Error("the engine has forgotten dev")
			}
		})
	}
}
