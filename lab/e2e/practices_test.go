//go:build e2e && practices

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/flux"
	"homelab/lab/ui"
)

// practised are the addons of the catalogue that stories need, and their clusters.
var practised = [][2]string{{"argo-rollouts", "dev"}, {"external-secrets", "dev"}, {"sealed-secrets", "dev"}, {"prometheus", "hub"}, {"tofu", "hub"}}

// TestPractices plays the stories that are not in basics on Argo CD, LAB_E2E_ROUNDS times, and each of their sabotages once. It has no limits; task stories runs it.
func TestPractices(t *testing.T) { practices(t, lab.EngineArgoCD) }

// TestPracticesOnFlux is like TestPractices with Flux.
func TestPracticesOnFlux(t *testing.T) { practices(t, lab.EngineFlux) }

func practices(t *testing.T, engine lab.EngineType) {
	l := newLab(t, "e2e")
	if engine == lab.EngineFlux {
		l.runs("flux, componentsExtra: [" + flux.ImageReflector + ", " + flux.ImageAutomation + "]")
		l.must("addon", "enable", "flux-operator", "--cluster", "hub")
	}
	for _, p := range practised {
		l.must("addon", "enable", p[0], "--cluster", p[1])
	}
	l.edit("clusters/hub/cluster.yaml", "role: hub", "role: hub\n  runner: {}\n  door: {}\n  registry: {}")
	l.must("up", "--fix")
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("LAB_E2E_ROUNDS"), "1"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(l.estate, lab.ScenariosDir))
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || !isPractice(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			l.within(t, func(t *testing.T, l *testLab) { l.practice(&table, name, engine, rounds) })
		})
	}
	t.Run("left as they were", func(t *testing.T) { l.within(t, func(t *testing.T, l *testLab) { l.restored(t) }) })
	t.Run("sabotage", func(t *testing.T) {
		cases, err := filepath.Glob("../scenario/testdata/" + map[lab.EngineType]string{lab.EngineArgoCD: "sabotage", lab.EngineFlux: "sabotage-flux"}[engine] + "/*.txtar")
		if err != nil || len(cases) < 10 {
			t.Fatalf("%d cases, %v", len(cases), err)
		}
		for _, file := range cases {
			name := strings.TrimSuffix(filepath.Base(file), ".txtar")
			if !isPractice(l.storyOf(name)) {
				continue
			}
			t.Run(name, func(t *testing.T) { l.within(t, func(t *testing.T, l *testLab) { sabotaged(t, l, name, file) }) })
		}
	})
	t.Logf("\n| story | engine | seconds | addons | MB |\n|---|---|---|---|---|\n%s", table.String())
}

// isPractice reports whether CI leaves a story to task stories.
func isPractice(name string) bool {
	return !slices.Contains(basics, name) && name != needsImage && name != needsEngine
}

// practice plays a story rounds times, and enters it into the table: the seconds of each round, the applications and the memory of the lab after the last.
func (l *testLab) practice(table *strings.Builder, name string, engine lab.EngineType, rounds int) {
	var took []string
	for range rounds {
		out := l.run("scenario", "run", name, "-o", "json")
		var r ui.ScenarioRun
		if err := json.Unmarshal([]byte(out.stdout), &r); err != nil || len(r.Scenarios) != 1 {
			l.t.Fatalf("exit %d, %v\n%s%s", out.code, err, out.stdout, out.stderr)
		}
		s := r.Scenarios[0]
		if s.Verdict == "skipped" && out.code == 0 { // not for this engine
			return
		}
		if out.code != 0 || len(s.Left) > 0 {
			l.t.Fatalf("exit %d, left %q\n%s", out.code, s.Left, out.stderr)
		}
		for _, m := range s.Measures {
			l.t.Logf("%7.1fs  from %q to %q", m.Seconds, m.From, m.Name)
		}
		took = append(took, fmt.Sprintf("%.0f", s.Seconds))
	}
	fmt.Fprintf(table, "| %s | %s | %s | %d | %d |\n", name, engine.Title(), strings.Join(took, ", "), len(decode[ui.Status](l, "status").Applications), l.megabytes())
}

// megabytes returns the memory of the lab's containers, without their page cache.
func (l *testLab) megabytes() int {
	ids := strings.Fields(docker(l.t, "ps", "-q", "--filter", "network="+lab.NetworkName(l.name)))
	sum := 0.0
	for used := range strings.Lines(docker(l.t, slices.Concat([]string{"stats", "--no-stream", "--format", "{{.MemUsage}}"}, ids)...)) {
		text, _, _ := strings.Cut(used, " ")
		for unit, factor := range map[string]float64{"GiB": 1 << 10, "MiB": 1, "KiB": 1.0 / 1024} {
			if n, err := strconv.ParseFloat(strings.TrimSuffix(text, unit), 64); err == nil {
				sum += n * factor
			}
		}
	}
	return int(sum)
}

// storyOf returns the story of a sabotage: the longest name with which its own begins.
func (l *testLab) storyOf(sabotage string) string {
	l.t.Helper()
	entries, err := os.ReadDir(filepath.Join(l.estate, lab.ScenariosDir))
	if err != nil {
		l.t.Fatal(err)
	}
	story := ""
	for _, e := range entries {
		if strings.HasPrefix(sabotage, e.Name()+"-") && len(e.Name()) > len(story) {
			story = e.Name()
		}
	}
	return story
}
