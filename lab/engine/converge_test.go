package engine_test

import (
	"testing"

	"homelab/lab/engine"
)

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
