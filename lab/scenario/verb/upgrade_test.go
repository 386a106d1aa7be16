package verb

import (
	"errors"
	"strings"
	"testing"

	"homelab/lab/scenario"
)

func TestUpgradeChanged(t *testing.T) {
	for name, c := range map[string]struct {
		expect  []string
		changed map[string][]string
		seen    string // of what is not met
	}{
		"nothing":               {},
		"as expected":           {expect: []string{"retracked"}, changed: map[string][]string{"retracked": {"dev: Service web/web"}}},
		"something":             {changed: map[string][]string{"gone": {"web"}}, seen: "expected nothing changed, last seen 1 gone"},
		"more":                  {expect: []string{"retracked"}, changed: map[string][]string{"retracked": {"a", "b"}, "orphaned": {"c"}}, seen: "expected changed: retracked, last seen 1 orphaned, 2 retracked"},
		"nothing, but should":   {expect: []string{"retracked"}, seen: "expected changed: retracked, last seen nothing changed"},
		"one of two, unsorted":  {expect: []string{"retracked", "new"}, changed: map[string][]string{"new": {"x"}}, seen: "expected changed: new, retracked, last seen 1 new"},
		"both of two, unsorted": {expect: []string{"retracked", "new"}, changed: map[string][]string{"new": {"x"}, "retracked": {"y"}}},
		"named twice":           {expect: []string{"new", "new"}, changed: map[string][]string{"new": {"x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&upgrade{Expect: c.expect}).judge(c.changed)
			if got := new(scenario.Unmet); (err != nil) != (c.seen != "") || c.seen != "" && (!errors.As(err, &got) || got.Error() != c.seen) {
				t.Errorf("%v, want %q", err, c.seen)
			}
		})
	}
	_, err := (&upgrade{Expect: []string{"retracked"}}).judge(map[string][]string{"retracked": {"a"}, "orphaned": {"dev: Service web/web"}})
	if got := new(scenario.Unmet); !errors.As(err, &got) || strings.Join(got.Notes, "") != "dev: Service web/web" {
		t.Errorf("notes of %v", err)
	}
}
