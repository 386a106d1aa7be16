package scenario_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/verb"
)

// root is the repository, which is the default estate.
func root() fs.FS { return os.DirFS(filepath.Join("..", "..")) }

func load(t *testing.T, files fs.FS, name string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(files, name, verb.All())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func story(r *scenario.Result) string {
	var b strings.Builder
	for _, s := range r.Steps {
		b.WriteString(string(s.Verdict) + " " + s.Title + ": " + s.Did + s.Error)
		if s.Unmet != nil {
			b.WriteString(s.Unmet.Error() + "; " + strings.Join(s.Unmet.Notes, "; "))
		}
		b.WriteString(" (" + s.Took.String() + ")\n")
	}
	return b.String() + string(r.Verdict) + " " + r.Reason
}

// Every story of the default estate is played on a lab in memory, and leaves it as it was.
func TestStories(t *testing.T) {
	names, err := scenario.List(root())
	if err != nil || len(names) < 5 {
		t.Fatalf("stories: %v, %v", names, err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := scenariotest.New(t, root())
				r := scenario.Player{World: lab.World}.Play(t.Context(), load(t, root(), name))
				if r.Verdict != scenario.Passed {
					t.Fatal(story(r))
				}
				t.Log(story(r))
				for _, m := range r.Measures {
					t.Log(m)
				}
			})
		})
	}
}
