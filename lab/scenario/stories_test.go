package scenario_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/verb"
)

// root is the default estate: the repository itself.
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

// Every story of the default estate passes on an in-memory lab and restores it.
func TestStories(t *testing.T) {
	names, err := scenario.List(root())
	if err != nil || len(names) < 6 {
		t.Fatalf("stories: %v, %v", names, err)
	}
	for _, name := range names {
		t.Run(name, eachEngine(func(t *testing.T, on lab.EngineType) {
			synctest.Test(t, func(t *testing.T) {
				l := scenariotest.NewOn(t, root(), on)
				s := load(t, root(), name)
				r := scenario.Player{World: l.World}.Play(t.Context(), s)
				if want := expected(s, on); r.Verdict != want {
					t.Fatalf("want %s: %s", want, story(r))
				}
				unchanged(t, l)
			})
		}))
	}
}

// onClusters are the stories of operators and parts that an in-memory lab does not have; task stories plays them.
var onClusters = []string{"beyond-kubernetes", "canary", "drift-reported", "engine-upgrade", "image-update", "pr-preview", "pr-workflow", "secrets-in-git", "secrets-outside"}

func expected(s *scenario.Scenario, on lab.EngineType) scenario.Verdict {
	if slices.Contains(onClusters, s.Name) || len(s.Requires.Engine) > 0 && !slices.Contains(s.Requires.Engine, on) {
		return scenario.Skipped
	}
	return scenario.Passed
}

func eachEngine(test func(*testing.T, lab.EngineType)) func(*testing.T) {
	return func(t *testing.T) {
		for _, on := range []lab.EngineType{lab.EngineArgoCD, lab.EngineFlux} {
			t.Run(string(on), func(t *testing.T) { test(t, on) })
		}
	}
}

// unchanged checks the lab's own state against its state before the story.
func unchanged(t *testing.T, l *scenariotest.Lab) {
	t.Helper()
	log := l.Forge.Log(scenario.Branch)
	if first, last := log[0], log[len(log)-1]; first.Tree() != last.Tree() {
		t.Errorf("the forge has other files than before: %d commits, the last %q", len(log), last.Message)
	}
	if branches, err := l.Forge.Branches(t.Context()); err != nil || len(branches) != 1 {
		t.Errorf("branches: %v, %v", branches, err)
	}
	if urls := l.Repositories.URLs(); len(urls) > 0 {
		t.Errorf("repositories: %q", urls)
	}
	if diff := cmp.Diff(l.Found, l.Objects(t)); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
}

// Every way to break the estate fails its story at the expected step.
func TestSabotage(t *testing.T) {
	t.Run("argocd", func(t *testing.T) { sabotaged(t, lab.EngineArgoCD, "testdata/sabotage/*.txtar") })
	t.Run("flux", func(t *testing.T) { sabotaged(t, lab.EngineFlux, "testdata/sabotage-flux/*.txtar") })
}

func sabotaged(t *testing.T, on lab.EngineType, pattern string) {
	cases, err := filepath.Glob(pattern)
	if err != nil || len(cases) < 6 {
		t.Fatal("no cases", err)
	}
	for _, file := range cases {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sabotage, err := scenariotest.ReadSabotage(name, data, root())
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(onClusters, sabotage.Story) { // played by task stories; here it is only read
				story := load(t, scenariotest.Files(t, root(), sabotage.Files), sabotage.Story).For(on)
				if !slices.ContainsFunc(story.Steps, func(s scenario.Step) bool { return s.Title == sabotage.Unmet }) {
					t.Errorf("%s has no step %q", sabotage.Story, sabotage.Unmet)
				}
				return
			}
			synctest.Test(t, func(t *testing.T) {
				files := scenariotest.Files(t, root(), sabotage.Files)
				l := scenariotest.NewOn(t, files, on)
				r := scenario.Player{World: l.World}.Play(t.Context(), load(t, files, sabotage.Story))
				failed, ok := r.FailedStep()
				if r.Exit() != lab.ExitUnmet || !ok || failed.Title != sabotage.Unmet || !strings.Contains(story(r), sabotage.Message) {
					t.Fatalf("exit %d at %q, want %q with %q\n%s", r.Exit(), failed.Title, sabotage.Unmet, sabotage.Message, story(r))
				}
				if len(r.Left) > 0 {
					t.Errorf("left: %q", r.Left)
				}
				unchanged(t, l)
			})
		})
	}
}
