package job_test

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/runner/job"
)

// column matches a line with its column.
var column = regexp.MustCompile(`^(\S+:\d+):\d+: `)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       job.Job
	}{
		{"empty", "", job.Default()},
		{"comments", "# nothing\n", job.Default()},
		{"limits", "limits: {time: 30s, memory: 128}\n", job.Job{Checks: job.Default().Checks, Time: 30 * time.Second, Memory: 128}},
		{"checks", "checks:\n- render\n- kustomize: apps/web/\n- lint\n", job.Job{
			Checks: []job.Check{{Kind: job.Render}, {Kind: job.Kustomize, Path: "apps/web"}, {Kind: job.Lint}}, Time: 2 * time.Minute, Memory: 512,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := job.Read([]byte(c.text))
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// Every mistake has its line, and all are reported at once.
func TestReadProblems(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"unknown", "check: [lint]\n", []string{`.lab/runner.yaml:1: unknown key "check": did you mean "checks"?`}},
		{"all", "checks:\n- lnt\n- kustomize\n- kustomize: ../up\n- lint: x\nlimits:\n  time: 1h\n  memory: 9000\n", []string{
			`.lab/runner.yaml:2: checks[0] cannot be "lnt": did you mean "lint"?`,
			`.lab/runner.yaml:3: checks[1] has no folder: kustomize: PATH`,
			`.lab/runner.yaml:4: "../up" is not a folder of the repository: a path without .., relative to the repository`,
			`.lab/runner.yaml:5: checks[3] cannot have "lint": only kustomize has a folder`,
			`.lab/runner.yaml:7: limits.time cannot be 1h: at most 5m`,
			`.lab/runner.yaml:8: limits.memory cannot be 9000: at most 768`,
		}},
		{"option", "checks: [{kustomize: --load-restrictor=none}]\n", []string{`.lab/runner.yaml:1: "--load-restrictor=none" is not a folder of the repository: a path without .., relative to the repository`}},
		{"control", "checks: [{kustomize: \"a\\e[2Jb\"}]\n", []string{`.lab/runner.yaml:1: "a\x1b[2Jb" is not a folder of the repository: a path without .., relative to the repository`}},
		{"two", "checks: [{kustomize: a, render: b}]\n", []string{
			`.lab/runner.yaml:1: checks[0] cannot have "render": only kustomize has a folder`, `.lab/runner.yaml:1: checks[0] is not one check: write one per line: - kustomize: PATH`,
		}},
		{"again", "checks: [lint, diff, lint]\n", []string{`.lab/runner.yaml:1: a second check lint: remove the line`}},
		{"many", "checks:" + strings.Repeat("\n- kustomize: a", 13), []string{".lab/runner.yaml:2: 13 checks are too many: at most 12"}},
		{"little", "limits: {memory: 5}\n", []string{".lab/runner.yaml:1: limits.memory is too little: at least 64"}},
		{"short", "limits: {time: 1ms}\n", []string{".lab/runner.yaml:1: limits.time is too short: at least 1s"}},
		{"documents", "checks: [lint]\n---\nchecks: [diff]\n", []string{".lab/runner.yaml:3: a second document: one per file"}},
		{"shell", "checks: [{run: 'xmrig'}]\n", []string{`.lab/runner.yaml:1: checks[0] cannot have "run": lint, diff, render or kustomize: PATH`}},
		{"large", strings.Repeat("#", job.MaxBytes+1), []string{".lab/runner.yaml:1: 65537 bytes is too large: at most 65536"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := job.Read([]byte(c.text))
			var e *lab.Error
			if !errors.As(err, &e) || e.Exit != lab.ExitInvalid {
				t.Fatalf("%v", err)
			}
			for i, want := range c.want {
				if i >= len(e.Problems) || column.ReplaceAllString(e.Problems[i].String(), "$1: ") != want {
					t.Errorf("problems\n%v\nwant\n%s", e.Problems, want)
				}
			}
			if len(e.Problems) != len(c.want) {
				t.Errorf("%d problems\n%v\nwant %d", len(e.Problems), e.Problems, len(c.want))
			}
		})
	}
}

// Whatever a file says, a job stays within the limits, and its names are plain.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"", "checks: [lint, {kustomize: a/b}]\nlimits: {time: 1m, memory: 5}\n", "checks: [{kustomize: '../..'}]", "a: &a [*a]", "limits: {time: -1s}", "checks: {lint: }"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		j, err := job.Read([]byte(text))
		if err != nil {
			var e *lab.Error
			if !errors.As(err, &e) || len(e.Problems) == 0 {
				t.Fatalf("an error without problems: %v", err)
			}
			return
		}
		if len(j.Checks) == 0 || len(j.Checks) > job.MaxChecks || j.Time < time.Second || j.Time > job.MaxTime || j.Memory < 1 || j.Memory > job.MaxMemory {
			t.Fatalf("%+v", j)
		}
		for _, c := range j.Checks {
			if (c.Kind == job.Kustomize) != (c.Path != "") || strings.HasPrefix(c.Path, "..") || strings.HasPrefix(c.Path, "/") || strings.ContainsFunc(c.Context(), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("%q", c)
			}
		}
	})
}
