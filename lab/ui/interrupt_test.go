package ui

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
)

// After Ctrl-C the screen shows the steps waited for, then the stopped ones; no unfinished step looks done.
func TestInterrupt(t *testing.T) {
	for _, tty := range []bool{true, false} {
		t.Run(fmt.Sprint("tty=", tty), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVT(t, 100, 24)
				u := New(Options{Err: v, TTY: tty, Width: 80, Size: func() (int, int) { return 80, 24 }})
				began := time.Now()
				s := upSteps()
				u.Begin(header, s)
				play(u, began, halfWay())
				play(u, began, []lab.Event{
					event(s[7], lab.StepStopped, "argo cd 3.2.11", 20*time.Second, 1700*ms),
					event(s[8], lab.StepSkipped, "", 20*time.Second, 0),
					event(s[5], lab.StepStopping, "control plane is starting", 20500*ms, 20*time.Second),
				})
				until(began, 22*time.Second)
				golden(t, fmt.Sprintf("finishing-tty-%v.txt", tty), v.screen())
				u.Event(event(s[5], lab.StepStopping, "removing the nodes", 23*time.Second, 22500*ms))
				until(began, 23*time.Second)
				if got := v.screen(); tty && !strings.Contains(got, "removing the nodes") {
					t.Errorf("current activity missing:\n%s", got)
				}
				u.Event(event(s[5], lab.StepStopped, "removing the nodes", 24*time.Second, 23500*ms))
				u.End()
				golden(t, fmt.Sprintf("stopped-tty-%v.txt", tty), v.screen())
				for line := range strings.Lines(v.all()) {
					if strings.Contains(line, "✓") && (strings.Contains(line, "staging") || strings.Contains(line, "engine") || strings.Contains(line, "bridge")) {
						t.Errorf("reads as done: %s", line)
					}
				}
			})
		})
	}
}

func TestInterruptTallPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVT(t, 80, 12)
		u := New(Options{Err: v, TTY: true, Size: func() (int, int) { return 80, 12 }})
		var steps []lab.Step
		for i := range 40 {
			steps = append(steps, step("cluster", fmt.Sprintf("c%02d", i), lab.ActionCreate))
		}
		u.Begin("lab big", steps)
		u.Event(event(steps[7], lab.StepRunning, "", 0, 0))
		u.Event(event(steps[7], lab.StepStopping, "", 0, 0))
		time.Sleep(2 * frameEvery)
		synctest.Wait()
		if got := v.screen(); !strings.Contains(got, "finishing what cannot be stopped: cluster c07") || len(v.scrolled) > 0 {
			t.Errorf("got\n%s", got)
		}
		u.End()
	})
}
