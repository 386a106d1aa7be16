package ui

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
)

// play sends events at their times.
func play(u *UI, began time.Time, events []lab.Event) {
	for _, e := range events {
		until(began, e.Since)
		u.Event(e)
	}
}

// until advances the synctest clock to d after began and lets the view draw.
func until(began time.Time, d time.Duration) {
	time.Sleep(time.Until(began.Add(d)))
	synctest.Wait()
}

func TestHalfWayTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVT(t, 80, 24)
		u := New(Options{Err: v, TTY: true, Color: true, Width: 80})
		began := time.Now()
		u.Begin(header, upSteps())
		play(u, began, halfWay())
		until(began, 19700*ms)
		golden(t, "half-way.txt", v.screen())
		if !v.hidden {
			t.Error("the cursor blinks within the block")
		}
		if limit := 199; v.writes > limit {
			t.Errorf("%d writes in 19.7 s at 10 frames a second", v.writes)
		}
		u.End()
		golden(t, "interrupted.txt", v.screen())
		if v.hidden {
			t.Error("the cursor is not restored")
		}
		writes := v.writes
		u.End()
		u.Event(halfWay()[0])
		if v.writes != writes {
			t.Error("drawn after End")
		}
	})
}

func TestHalfWayPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		u := New(Options{Err: &b})
		began := time.Now()
		u.Begin(header, upSteps())
		play(u, began, halfWay())
		s := upSteps()
		play(u, began, []lab.Event{
			event(s[5], lab.StepRunning, "control plane is ready", 19600*ms, 19100*ms),
			event(s[5], lab.StepRunning, "storage class is ready", 20*time.Second, 19500*ms),
			event(s[5], lab.StepDone, "v1.36.3", 21*time.Second, 20500*ms),
			event(s[7], lab.StepFailed, "chart argo-cd: no such value", 30*time.Second, 11700*ms),
			event(s[8], lab.StepSkipped, "", 30*time.Second, 0),
			event(s[9], lab.StepSkipped, "", 30*time.Second, 0),
		})
		u.End()
		golden(t, "plain.txt", b.String())
		if strings.Contains(b.String(), "\x1b") {
			t.Error("escape sequences where no terminal is")
		}
	})
}

func TestPlainReminds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		u := New(Options{Err: &b})
		began := time.Now()
		s := step("images", "", lab.ActionCreate)
		u.Begin("", []lab.Step{s})
		u.Event(event(s, lab.StepRunning, "argocd: 0 of 900 packages", 0, 0))
		for i := 1; i <= 35; i++ {
			until(began, time.Duration(i)*time.Second)
			u.Event(event(s, lab.StepRunning, fmt.Sprintf("argocd: %d of 900 packages, about 15m left", i), time.Duration(i)*time.Second, 0))
		}
		until(began, 2*time.Minute) // silent from here on
		u.End()
		golden(t, "plain-long.txt", b.String())
	})
}

func TestOneEdit(t *testing.T) {
	steps := upSteps()
	for i := range steps {
		steps[i].Action = lab.ActionNone
	}
	prod := step("bridge", "prod", lab.ActionUpdate, "engine")
	prod.Reason = "annotation aws_region: eu-west-1 -> eu-central-1"
	steps = append(steps, prod)
	for _, tty := range []bool{true, false} {
		t.Run(fmt.Sprint("tty=", tty), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				columns := map[bool]int{true: 80, false: 200}[tty] // lines in a log have any length
				v := newVT(t, columns, 24)
				u := New(Options{Err: v, TTY: tty, Width: 80})
				began := time.Now()
				u.Begin(header, steps)
				for _, s := range steps[:len(steps)-1] {
					u.Event(event(s, lab.StepDone, "as it should be", 0, 0))
				}
				u.Event(event(prod, lab.StepRunning, "", 0, 0))
				until(began, 300*ms)
				u.Event(event(prod, lab.StepDone, "1 change", 300*ms, 300*ms))
				u.End()
				golden(t, fmt.Sprintf("one-edit-tty-%v.txt", tty), v.screen())
			})
		})
	}
}

func TestNothingToDo(t *testing.T) {
	for _, tty := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var b bytes.Buffer
			u := New(Options{Err: &b, TTY: tty})
			steps := []lab.Step{step("engine", "", lab.ActionNone)}
			u.Begin(header, steps)
			u.Event(event(steps[0], lab.StepDone, "as it should be", 0, 0))
			time.Sleep(time.Second)
			u.End()
			if b.Len() > 0 {
				t.Errorf("tty=%v: %q", tty, b.String())
			}
		})
	}
}

func TestUnchangedStepFails(t *testing.T) {
	for _, tty := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			v := newVT(t, 80, 10)
			u := New(Options{Err: v, TTY: tty})
			s := step("addons", "", lab.ActionNone)
			u.Begin("", []lab.Step{s})
			u.Event(event(s, lab.StepRunning, "3 of 11 healthy", 0, 0))
			u.Event(event(s, lab.StepFailed, "podinfo is degraded", time.Second, time.Second))
			u.End()
			if got := v.screen(); !strings.Contains(got, "✗ addons") || !strings.Contains(got, "podinfo is degraded") {
				t.Errorf("tty=%v:\n%s", tty, got)
			}
		})
	}
}

func TestTallPlan(t *testing.T) {
	var steps []lab.Step
	for i := range 40 {
		steps = append(steps, step("cluster", fmt.Sprintf("c%02d", i), lab.ActionCreate))
	}
	for _, height := range []int{3, 5, 6, 12, 24, 41, 42, 43, 44} {
		t.Run(fmt.Sprint(height), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVT(t, 60, height)
				u := New(Options{Err: v, TTY: true, Size: func() (int, int) { return 60, height }})
				began := time.Now()
				u.Begin("lab big", steps)
				for i, s := range steps {
					until(began, time.Duration(i)*time.Second)
					u.Event(event(s, lab.StepRunning, "node is starting", 0, 0))
					if i >= 4 {
						u.Event(event(steps[i-4], lab.StepDone, "v1.36.3", 0, 4*time.Second))
					}
					if i == 20 && height == 12 {
						until(began, 20*time.Second+frameEvery)
						golden(t, "folded.txt", v.screen())
					}
				}
				for _, s := range steps[36:] {
					u.Event(event(s, lab.StepDone, "v1.36.3", 0, 4*time.Second))
				}
				synctest.Wait()
				if len(v.scrolled) > 0 {
					t.Errorf("the block left the screen: %q", v.scrolled)
				}
				u.End()
				if got := v.all(); strings.Count(got, "✓ cluster c") != 40 || strings.Contains(got, " done\n") || strings.Count(got, "lab big") != 1 {
					t.Errorf("at the end:\n%s", got)
				}
			})
		})
	}
}

func TestResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVT(t, 80, 30)
		u := New(Options{Err: v, TTY: true, Size: func() (int, int) { return v.width, v.height }})
		began := time.Now()
		u.Begin(header, upSteps())
		play(u, began, halfWay())
		for _, w := range []int{60, 41, 30, 20} {
			u.mu.Lock() // the ticker must not draw during the resize
			v.resize(w)
			u.mu.Unlock()
			time.Sleep(2 * frameEvery)
			synctest.Wait()
			if got := v.screen(); strings.Count(got, "cluster sta") != 1 || strings.Count(got, "lab homelab") != 1 {
				t.Errorf("at %d columns:\n%s", w, got)
			}
		}
		u.End()
	})
}

func TestPrintln(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVT(t, 80, 24)
		u := New(Options{Err: v, TTY: true})
		s := step("engine", "", lab.ActionCreate)
		u.Begin("", []lab.Step{s})
		time.Sleep(frameEvery)
		u.Println("registry answers: images come from it")
		time.Sleep(frameEvery)
		u.Event(event(s, lab.StepDone, "argo cd 3.2.11", 0, time.Second))
		u.End()
		want := "registry answers: images come from it\n ✓ engine            argo cd 3.2.11" + spaces(38) + "1.0s\n"
		if got := v.screen(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

func TestHostileDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVT(t, 80, 24)
		u := New(Options{Err: v, TTY: true})
		s := step("engine", "", lab.ActionCreate)
		u.Begin("", []lab.Step{s})
		u.Event(event(s, lab.StepFailed, "\x1b[2Jhelm:\nout of\r\n\x1b]0;title\x07\tmemory "+strings.Repeat("記憶", 40), 0, time.Second))
		u.End()
		got := v.screen()
		if strings.Count(got, "\n") != 1 || !strings.Contains(got, "helm: out of") || !strings.Contains(got, "… ") || strings.Contains(got, "title") {
			t.Errorf("got %q", got)
		}
	})
}

func TestConcurrentEvents(t *testing.T) {
	for _, tty := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			v := newVT(t, 80, 24)
			u := New(Options{Err: v, TTY: tty})
			steps := upSteps()
			u.Begin(header, steps)
			var wg sync.WaitGroup
			for _, s := range steps {
				wg.Go(func() {
					for i := range 50 {
						u.Event(event(s, lab.StepRunning, fmt.Sprint("part ", i), 0, 0))
						time.Sleep(37 * ms)
						u.Println("still here")
					}
					u.Event(event(s, lab.StepDone, "made", 0, time.Second))
					u.Event(event(s, lab.StepRunning, "late", 0, 0))
				})
			}
			wg.Wait()
			u.End()
			if got := v.all(); strings.Count(got, "✓") != len(steps) || strings.Contains(got, "late") {
				t.Errorf("tty=%v:\n%s", tty, got)
			}
		})
	}
}

func TestBeginTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVT(t, 80, 24)
		u := New(Options{Err: v, TTY: true})
		for _, name := range []string{"one", "two"} {
			s := step(name, "", lab.ActionCreate)
			u.Begin("", []lab.Step{s})
			u.Event(event(s, lab.StepDone, "made", 0, time.Second))
		}
		u.End()
		if got := v.screen(); strings.Count(got, "✓") != 2 || !strings.Contains(got, "\n\n") {
			t.Errorf("got\n%s", got)
		}
	})
}

func TestLongestWay(t *testing.T) {
	took := map[string]time.Duration{
		"preflight": 400 * ms, "images": 100 * ms, "forge": 60 * time.Second, "cluster/hub": 18 * time.Second, "cluster/dev": 25 * time.Second,
		"engine": 31 * time.Second, "bridge": time.Second, "addons": 14 * time.Second,
	}
	got := fmt.Sprint(LongestWay(upSteps(), took))
	want := "[{preflight 400ms} {images 100ms} {cluster hub 18s} {engine 31s} {bridge 1s} {addons 14s}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	circle := []lab.Step{step("a", "", lab.ActionCreate, "b"), step("b", "", lab.ActionCreate, "a")}
	if got := LongestWay(circle, map[string]time.Duration{"a": 1, "b": 1}); len(got) == 0 {
		t.Error("a circle has a critical path too")
	}
}

func TestWaitingStep(t *testing.T) {
	steps := upSteps()
	steps[4].Action = lab.ActionNone // cluster dev exists
	bridge := steps[8]
	r := &run{byID: map[string]*row{}}
	for _, s := range steps {
		r.add(s)
	}
	r.byID["cluster/dev"].state = lab.StepDone
	for _, c := range []struct{ done, want string }{
		{"", "engine, clusters"},
		{"engine", "clusters"},
		{"cluster/hub", "clusters"}, // some are running
		{"cluster/staging", "clusters"},
		{"cluster/prod", ""},
	} {
		if w := r.byID[c.done]; w != nil {
			w.state = lab.StepDone
		}
		if got := r.after(bridge); got != c.want {
			t.Errorf("with %s done: after %q, want %q", c.done, got, c.want)
		}
	}
	alone := step("bridge", "prod", lab.ActionUpdate, "engine", "cluster/prod", "cluster/dev")
	r.byID["cluster/prod"].state = lab.StepRunning
	if got := r.after(alone); got != "cluster prod" {
		t.Errorf("after %q, want no wait for an unchanged step", got)
	}
}
