//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
)

// stages are moments of an up, each known by the first plain line that matches.
var stages = []struct {
	name string
	line *regexp.Regexp
	wait time.Duration // after the line, so that the kill falls in the middle of the work
}{
	{"a cluster is being made", regexp.MustCompile(`cluster dev +\S`), 5 * time.Second},
	{"the forge is up", regexp.MustCompile(`✓ forge`), 0},
	{"the hub is up", regexp.MustCompile(`✓ cluster hub`), 0},
	{"the engine is being installed", regexp.MustCompile(`engine +\S`), 3 * time.Second},
	{"addons are on their way", regexp.MustCompile(`addons +\S`), 1 * time.Second},
}

// TestKilledAtAnyStage kills `lab up` without warning at five stages; each time the next `lab up` goes on to the end.
func TestKilledAtAnyStage(t *testing.T) {
	l := newLab(t, "e2e-kill", "hub", "dev")
	for _, stage := range stages {
		t.Run(strings.ReplaceAll(stage.name, " ", "-"), func(t *testing.T) {
			outer := l.t
			l.t = t
			defer func() { l.t = outer }()
			l.killAt(stage.line, stage.wait)
			l.must("up", "--fix")
			l.converged(2, 4)
			l.must("down")
			if left := l.leftovers(); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

// killAt starts an up and kills it without warning; the docker commands that it had begun go on by themselves, as they would after an out-of-memory kill.
func (l *testLab) killAt(line *regexp.Regexp, wait time.Duration) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Minute)
	defer cancel()
	cmd := l.command(ctx, "up", "--fix")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	began := time.Now()
	killed := false
	var all strings.Builder
	for s := bufio.NewScanner(stderr); s.Scan(); {
		all.WriteString(s.Text() + "\n")
		if !killed && line.MatchString(s.Text()) {
			killed = true
			time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	if !killed || err == nil {
		l.t.Fatalf("up ended by itself (%v) before %v was seen and it could be killed:\n%s", err, line, all.String())
	}
	l.t.Logf("killed after %.1fs", time.Since(began).Seconds())
}
