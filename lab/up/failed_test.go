package up_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var errFull = errors.New("no space left on device")

// A call that fails is told of by the run that made it: none says that all is well where something was not done. Where a lab is up already, what cannot be looked at
// is done once more, or is not needed.
func TestAFailureIsToldOf(t *testing.T) {
	for name, j := range journeys {
		if j.next != nil {
			continue // its first run is another journey's
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
			up := slices.Contains([]string{"up that prunes", "up after an edit", "down of one that lives on"}, name)
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
