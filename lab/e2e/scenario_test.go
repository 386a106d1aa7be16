//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/ui"
)

// Stories that are separate parts: they may have to build an image or the other engine's images, which takes minutes.
const (
	needsImage  = "ordering"
	needsEngine = "engine-switch"
)

// basics are the other stories that each engine plays in CI. The practices are played by task stories.
var basics = []string{"addon-toggle", "bridge-metadata", "drift", "environment-pin", "promotion"}

// stories plays the basic scenarios of the estate on real clusters, LAB_E2E_ROUNDS times (default once).
func stories(t *testing.T, l *testLab) {
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv("LAB_E2E_ROUNDS")); err == nil {
		rounds = n
	}
	for range rounds {
		played(t, l, basics, 8)
	}
	t.Run("unreachable clusters fail", func(t *testing.T) { l.within(t, unseen) })
}

// sabotages are the cases that are detected soonest on the default estate, of more stories than the basic ones. Package scenario plays most in memory.
var sabotages = map[lab.EngineType][]string{
	lab.EngineArgoCD: {"addon-toggle-label-missing", "bridge-metadata-annotation-not-passed", "drift-self-heal-off", "environment-pin-wrong-pin", "promotion-gate-removed", "set-promotion-one-by-one"},
	lab.EngineFlux:   {"bridge-metadata-variable-not-read", "environment-pin-wrong-pin", "set-promotion-one-by-one", "unwritten-key-with-a-default"},
}

// sabotage plays stories on estates broken for them.
func sabotage(t *testing.T, l *testLab) {
	folder := map[lab.EngineType]string{lab.EngineArgoCD: "sabotage", lab.EngineFlux: "sabotage-flux"}[l.engine()]
	for _, name := range sabotages[l.engine()] {
		file := filepath.Join("..", "scenario", "testdata", folder, name+".txtar")
		t.Run(name, func(t *testing.T) { l.within(t, func(t *testing.T, l *testLab) { sabotaged(t, l, name, file) }) })
	}
	l.must("up") // deploys the restored estate
}

// within lends the lab to a subtest.
func (l *testLab) within(t *testing.T, f func(*testing.T, *testLab)) {
	outer := l.t
	l.t = t
	defer func() { l.t = outer }()
	f(t, l)
}

// junit is the part of a JUnit file that CI systems read.
type junit struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Skipped  int `xml:"skipped,attr"`
	Suites   []struct {
		Name  string `xml:"name,attr"`
		Time  string `xml:"time,attr"`
		Cases []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Text string `xml:",chardata"`
			} `xml:"failure"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func readJUnit(t *testing.T, file string) junit {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var j junit
	if err := xml.Unmarshal(data, &j); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return j
}

// artifacts returns the folder for CI's artifacts.
func artifacts(t *testing.T) string {
	if dir := os.Getenv("LAB_E2E_ARTIFACTS"); dir != "" {
		return dir
	}
	return t.TempDir()
}

// drift plays a short story.
func drift(t *testing.T, l *testLab) { played(t, l, []string{"drift"}, 5) }

// ordering plays the story of that name, whose image is built first.
func ordering(t *testing.T, l *testLab) { played(t, l, []string{needsImage}, 8) }

func engineSwitch(t *testing.T, l *testLab) { played(t, l, []string{needsEngine}, 6) }

// played plays scenarios with at least steps steps in total. The verdict is read from the JUnit file, as in CI.
func played(t *testing.T, l *testLab, names []string, steps int) {
	before := l.resourceVersions(t.Context())
	dir := artifacts(t)
	file := filepath.Join(dir, "scenarios.xml")
	out := l.run(append([]string{"scenario", "run", "--junit", file, "--report", dir, "-o", "json"}, names...)...)
	j := readJUnit(t, file)
	if out.code != 0 || len(j.Suites) != len(names) || j.Tests < steps*len(names) || j.Failures+j.Errors+j.Skipped != 0 {
		t.Errorf("exit %d, %d stories, %d steps, %d failed, %d broken, %d skipped\n%s%s", out.code, len(j.Suites), j.Tests, j.Failures, j.Errors, j.Skipped, out.stdout, out.stderr)
	}
	var r ui.ScenarioRun
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil {
		t.Fatalf("%v in %q", err, out.stdout)
	}
	for _, s := range r.Scenarios {
		t.Logf("%-16s %7.1fs  %s", s.Name, s.Seconds, s.Verdict)
		for _, m := range s.Measures {
			t.Logf("%16s %7.1fs  from %q to %q", "", m.Seconds, m.From, m.Name)
		}
	}
	l.converged(4, 10)
	if up := decode[ui.UpResult](l, "up"); len(up.Changed) > 0 {
		t.Errorf("lab up after the scenarios changed %v", up.Changed)
	}
	after := l.resourceVersions(t.Context())
	if diff := cmp.Diff(keys(before), keys(after)); diff != "" {
		t.Errorf("objects (-before +after the scenarios):\n%s", diff)
	}
}

// keys returns the names of objects; the player itself has compared their contents.
func keys(m map[string]string) map[string]bool {
	names := map[string]bool{}
	for name := range m {
		if !strings.Contains(name, "/sh.helm.release.") {
			names[name] = true
		}
	}
	return names
}

// sabotaged breaks the estate and plays the scenario that must detect it: exit 4, with the right expectation.
func sabotaged(t *testing.T, l *testLab, name, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenariotest.ReadSabotage(name, data, os.DirFS(l.estate))
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range s.Files {
		was, err := os.ReadFile(filepath.Join(l.estate, path))
		if err != nil {
			t.Fatal(err)
		}
		l.write(path, content)
		defer l.write(path, string(was))
	}
	if up := l.run("up"); up.code != 0 {
		t.Fatalf("lab up: exit %d\n%s", up.code, up.stderr)
	}
	report := filepath.Join(t.TempDir(), "junit.xml")
	out := l.run("scenario", "run", s.Story, "--junit", report, "-o", "json")
	if out.code != int(lab.ExitUnmet) {
		t.Fatalf("exit %d, want %d\n%s%s", out.code, lab.ExitUnmet, out.stdout, out.stderr)
	}
	unmet, message := "", ""
	for _, suite := range readJUnit(t, report).Suites {
		for _, c := range suite.Cases {
			if c.Failure != nil && unmet == "" {
				_, unmet, _ = strings.Cut(c.Name, " ") // strip the number of the step
				message = c.Failure.Text
			}
		}
	}
	t.Logf("unmet: %s\n%s", unmet, message)
	if unmet != s.Unmet || !strings.Contains(message, s.Message) {
		t.Errorf("unmet %q, want %q; message %q, want %q", unmet, s.Unmet, message, s.Message)
	}
	var r ui.ScenarioRun
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil {
		t.Fatalf("%v in %q", err, out.stdout)
	}
	for _, one := range r.Scenarios {
		if len(one.Left) > 0 {
			t.Errorf("left over: %q", one.Left)
		}
	}
}

// interrupted sends an interrupt during a scenario: it exits with 130, and the lab is restored.
func interrupted(t *testing.T, l *testLab) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := l.command(ctx, "scenario", "run", "drift")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for s := bufio.NewScanner(stderr); s.Scan(); {
		all.WriteString(s.Text() + "\n")
		if strings.Contains(s.Text(), "✓ self-heal is switched off") { // after the commit
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != int(lab.ExitInterrupted) || !strings.Contains(all.String(), "✓ the lab is as it was") {
		t.Errorf("exit %d\n%s", code, all.String())
	}
	l.converged(4, 10)
	if up := decode[ui.UpResult](l, "up"); len(up.Changed) > 0 {
		t.Errorf("lab up after the scenario: %v\n%+v", up.Changed, up.Steps)
	}
}

// unseen pauses a required cluster: the scenario is not skipped, and objects do not count as absent. It also selects a missing step.
func unseen(t *testing.T, l *testLab) {
	if out := l.run("scenario", "run", "--step", "99", "drift"); out.code != int(lab.ExitInvalid) || !strings.Contains(out.stderr, "its steps are 1 to") {
		t.Errorf("step 99: exit %d\n%s", out.code, out.stderr)
	}
	node := lab.KindName(l.name, "prod") + "-control-plane"
	docker(t, "pause", node)
	out := l.run("scenario", "run", "drift", "-o", "json")
	docker(t, "unpause", node)
	if out.code != int(lab.ExitFailed) || !strings.Contains(out.stdout, "cluster prod does not answer") || !strings.Contains(out.stdout, "lab up") {
		t.Errorf("paused cluster: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	l.converged(4, 10)
}

// everyVerb plays a scenario with the verbs and expectations that need no further parts, so that none is tested on the in-memory lab only: TestEveryVerb of
// package verb names the stories of the others.
func everyVerb(t *testing.T, l *testLab) {
	copyTree(t, "testdata/every-verb", filepath.Join(l.estate, "scenarios", "every-verb"))
	defer l.remove("scenarios/every-verb")
	if out := l.run("scenario", "run", "every-verb"); out.code != 0 {
		t.Errorf("exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	l.remove("scenarios/every-verb")
	l.restored(t)
}

// moreScenarios plays what was imported and recorded, and stories side by side.
func moreScenarios(t *testing.T, l *testLab) {
	l.chainsaw(t)
	l.beside(t)
	l.recorded(t)
	l.restored(t)
}

// restored checks that scenarios have left nothing to do.
func (l *testLab) restored(t *testing.T) {
	t.Helper()
	l.converged(4, 10)
	if up := decode[ui.UpResult](l, "up"); len(up.Changed) > 0 {
		t.Errorf("lab up after scenarios changed %v", up.Changed)
	}
}

// chainsaw imports a test of Chainsaw and plays it: as it is, and with an assertion that is not met.
func (l *testLab) chainsaw(t *testing.T) {
	t.Helper()
	test, err := filepath.Abs("testdata/chainsaw/chainsaw-test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l.must("scenario", "import", test, "--cluster", "dev")
	defer l.remove("scenarios/imported")
	if out := l.run("scenario", "run", "imported"); out.code != 0 {
		t.Errorf("a test of Chainsaw: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	l.edit("scenarios/imported/scenario.yaml", "mode: fast", "mode: slow")
	l.edit("scenarios/imported/scenario.yaml", "within: 1m", "within: 2s")
	if out := l.run("scenario", "run", "imported"); out.code != int(lab.ExitUnmet) || !strings.Contains(out.stdout+out.stderr, "data.mode") {
		t.Errorf("a test of Chainsaw that is not met: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}
