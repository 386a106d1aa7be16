package engine_test

import (
	"testing"

	"homelab/lab/engine"
)

// An application in a new state moves, and one that goes around in circles does not.
func TestMoves(t *testing.T) {
	count := 0
	want := engine.Want{Moved: func() { count++ }}
	installing, failed := engine.Pending{Application: "web", Health: "Progressing"}, engine.Pending{Application: "web", Health: "Degraded", Reason: "install failed"}
	var m engine.Moves
	for i, c := range []struct {
		pending []engine.Pending
		moves   int
	}{
		{[]engine.Pending{installing, {Application: "api"}}, 1},
		{[]engine.Pending{installing, {Application: "api"}}, 1},
		{[]engine.Pending{failed, {Application: "api"}}, 2},
		{[]engine.Pending{installing, {Application: "api"}}, 2},
		{[]engine.Pending{failed, {Application: "api"}}, 2},
		{[]engine.Pending{failed}, 3},
		{[]engine.Pending{failed, {Application: "api"}}, 3},
		{nil, 4},
		{[]engine.Pending{{Application: "api", Health: "Healthy", Sync: "OutOfSync", Reason: "no answer (retried 1 times)"}}, 5},
		{[]engine.Pending{{Application: "api", Health: "Healthy", Sync: "OutOfSync", Reason: "no answer (retried 2 times)"}}, 5},
		{[]engine.Pending{{Application: "api", Health: "Progressing", Reason: "1 of 3 ready"}}, 6},
		{[]engine.Pending{{Application: "api", Health: "Progressing", Reason: "2 of 3 ready"}}, 7},
	} {
		if m.Look(want, c.pending); count != c.moves {
			t.Errorf("look %d: %d moves, want %d", i, count, c.moves)
		}
	}
	m.Look(engine.Want{}, []engine.Pending{{Application: "new"}}) // nobody listens
}

func TestDoubted(t *testing.T) {
	want := engine.Want{Doubts: map[string]string{"web": "nothing in Git creates Secret web/key on dev"}}
	for p, reason := range map[engine.Pending]string{
		{Application: "web", Reason: "0 of 1 ready"}: "nothing in Git creates Secret web/key on dev; 0 of 1 ready",
		{Application: "web"}:                         "nothing in Git creates Secret web/key on dev",
		{Application: "api", Reason: "0 of 1 ready"}: "0 of 1 ready",
	} {
		if got := want.Doubted(p).Reason; got != reason {
			t.Errorf("%+v: %q, want %q", p, got, reason)
		}
	}
}
