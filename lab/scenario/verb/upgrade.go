package verb

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"homelab/lab/scenario"
)

// upgrade brings up the engine with other values until the end of the story.
type upgrade struct {
	changes `yaml:",inline"`
	Values  map[string]any `yaml:"values" need:"true" doc:"Helm values, merged over spec.engine.values"`
	Expect  []string       `yaml:"changed" enum:"outOfSync,gone,new,replaced,deleted,orphaned,retracked,restarted,unknown" doc:"what it must change, and nothing else; default nothing"`
}

func (u *upgrade) Check(*scenario.Checker) {}

// Alone returns why it is not played beside other stories.
func (*upgrade) Alone() string { return "upgrades the engine" }

// Lacks returns why it cannot be played, or "".
func (*upgrade) Lacks(w scenario.World) string {
	if w.Upgrade == nil {
		return "the engine of lab " + w.Lab + " cannot be upgraded here"
	}
	return ""
}

func (u *upgrade) Do(ctx context.Context, c *scenario.Call) error {
	changed, err := c.Upgrade(ctx, u.Values)
	if err != nil {
		return err
	}
	c.Note(scenario.Lane{Cluster: c.Estate.Hub().Name, Name: "engine"}, "upgraded")
	seen, err := u.judge(changed)
	c.Did("%s", seen)
	return err
}

// judge counts what changed, and returns an *Unmet if that is not what it must change.
func (u *upgrade) judge(changed map[string][]string) (string, error) {
	kinds, want := slices.Sorted(maps.Keys(changed)), slices.Compact(slices.Sorted(slices.Values(u.Expect)))
	var counts, notes []string
	for _, kind := range kinds {
		counts = append(counts, fmt.Sprintf("%d %s", len(changed[kind]), kind))
		if !slices.Contains(want, kind) {
			notes = append(notes, changed[kind]...)
		}
	}
	const nothing = "nothing changed"
	seen, expected := cmp.Or(strings.Join(counts, ", "), nothing), nothing
	if len(want) > 0 {
		expected = "changed: " + strings.Join(want, ", ")
	}
	if !slices.Equal(kinds, want) {
		return seen, &scenario.Unmet{Expected: expected, LastSeen: seen, Notes: notes}
	}
	return seen, nil
}
