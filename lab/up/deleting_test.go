package up_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/up"
)

// What the engine would delete for good is pushed only with consent, whether or not the forge answers when a run begins.
func TestFollowDeletes(t *testing.T) {
	const volume = "PersistentVolumeClaim web/data in dev: its data"
	for name, silent := range map[string]bool{"forge answers": false, "forge stopped": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			foreseen, loses, unknown := 0, []string(nil), ""
			run := func(given bool, a *audience) error {
				_, err := (&process{stage: s}).lab().Follow(t.Context(), up.Options{Timeout: time.Second, Deleting: up.Deleting{
					Given: given, By: "lab up --lose-data -C there",
					Foresee: func(context.Context) ([]string, string) { foreseen++; return loses, unknown },
				}}, a)
				return err
			}
			must(t, run(false, &audience{}))
			if must(t, run(false, &audience{})); foreseen != 1 { // when the forge was filled
				t.Errorf("foreseen %d times", foreseen)
			}
			s.edit()
			prepare := func() {
				foreseen = 0
				if silent {
					s.forge.Stop()
				}
			}
			before := s.forge.Tree()
			prepare()
			loses = []string{volume}
			no := &audience{}
			err := run(false, no)
			var e *lab.Error
			if !errors.As(err, &e) || e.Code != "would_lose" || e.Exit != lab.ExitInvalid || !slices.Contains(e.Details, "would lose "+volume) || !strings.HasSuffix(e.Cure, "lab up --lose-data -C there") {
				t.Fatalf("%+v", err)
			}
			if after := s.forge.Tree(); after != before {
				t.Errorf("pushed %s", after)
			}
			if asked := len(no.asked) == 1; asked == silent || foreseen != 1 {
				t.Errorf("questions %q, foreseen %d times", no.asked, foreseen)
			}
			prepare()
			if !silent {
				must(t, run(false, &audience{yes: true}))
			} else {
				must(t, run(true, &audience{}))
			}
			if s.forge.Tree() == before || foreseen > 1 {
				t.Errorf("not pushed, or foreseen %d times", foreseen)
			}
			edit(s.files, "clusters/prod/cluster.yaml", "us-east-2", "us-west-1")
			s.load()
			prepare()
			loses, unknown = nil, "web cannot be rendered"
			a := &audience{}
			must(t, run(false, a))
			if said := slices.Contains(a.lines, "what the engine will delete is unknown: "+unknown); said == silent { // else by the step
				t.Errorf("%q", a.lines)
			}
		})
	}
}
