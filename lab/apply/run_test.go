package apply

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
)

func step(id string, needs ...string) lab.Step {
	return lab.Step{ID: id, Kind: id, Action: lab.ActionCreate, Needs: needs}
}

// recorder runs steps of a second each, and records their order of completion.
type recorder struct {
	mu    sync.Mutex
	order []string
	fail  map[string]error
}

func (r *recorder) executors(steps []lab.Step) map[string]Executor {
	m := map[string]Executor{}
	for _, s := range steps {
		m[s.Kind] = func(ctx context.Context, s lab.Step, p lab.Progress) (Outcome, error) {
			p("working")
			select {
			case <-ctx.Done():
				return Outcome{}, ctx.Err()
			case <-time.After(time.Second):
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.order = append(r.order, s.ID)
			return Outcome{Detail: "ok", Changes: []string{"made"}}, r.fail[s.ID]
		}
	}
	return m
}

func TestRunConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := []lab.Step{step("a"), step("b"), step("c", "a", "b")}
		r := &recorder{}
		began := time.Now()
		res, err := Runner{Executors: r.executors(steps)}.Run(t.Context(), steps)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("took %s, want 2s: a and b concurrently, then c", d)
		}
		if r.order[2] != "c" {
			t.Errorf("order %v", r.order)
		}
		if want := []string{"a: made", "b: made", "c: made"}; !slices.Equal(res.Changes, want) {
			t.Errorf("changes %v, want %v", res.Changes, want)
		}
	})
}

func TestFailureSkipsDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := []lab.Step{step("a"), step("b"), step("c", "a"), step("d", "b"), step("e", "c")}
		boom := errors.New("boom")
		r := &recorder{fail: map[string]error{"a": boom}}
		states := map[string]lab.StepState{}
		res, err := Runner{Executors: r.executors(steps), Events: func(e lab.Event) { states[e.Step.ID] = e.State }}.Run(t.Context(), steps)
		if !errors.Is(err, boom) {
			t.Errorf("err %v", err)
		}
		want := map[string]lab.StepState{"a": lab.StepFailed, "b": lab.StepDone, "c": lab.StepSkipped, "d": lab.StepDone, "e": lab.StepSkipped}
		for id, st := range want {
			if states[id] != st {
				t.Errorf("%s is %s, want %s", id, states[id], st)
			}
		}
		if res.Steps[2].Result != "skipped" {
			t.Errorf("step c: %+v", res.Steps[2])
		}
	})
}

func TestCancelWaitsForRunningSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := []lab.Step{step("a"), step("b", "a")}
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		ex := map[string]Executor{
			"a": func(ctx context.Context, _ lab.Step, _ lab.Progress) (Outcome, error) {
				<-ctx.Done()
				time.Sleep(3 * time.Second) // synctest: a slow clean-up
				ended = true
				return Outcome{}, ctx.Err()
			},
			"b": func(context.Context, lab.Step, lab.Progress) (Outcome, error) {
				t.Error("b started after cancellation")
				return Outcome{}, nil
			},
		}
		time.AfterFunc(time.Second, cancel)
		_, err := Runner{Executors: ex}.Run(ctx, steps)
		if !errors.Is(err, context.Canceled) || !ended {
			t.Errorf("err %v, ended %v", err, ended)
		}
	})
}

func TestActionNone(t *testing.T) {
	steps := []lab.Step{{ID: "a", Kind: "a", Action: lab.ActionNone, Reason: "as it was"}, step("b", "a")}
	r := &recorder{}
	res, err := Runner{Executors: r.executors(steps[1:])}.Run(t.Context(), steps)
	if err != nil || !slices.Equal(r.order, []string{"b"}) || res.Steps[0].Result != "as it was" {
		t.Errorf("%v, order %v, %+v", err, r.order, res.Steps)
	}
}

func TestCheck(t *testing.T) {
	ex := (&recorder{}).executors([]lab.Step{step("a"), step("b")})
	for name, steps := range map[string][]lab.Step{
		"twice":       {step("a"), step("a")},
		"later need":  {step("a", "b"), step("b")},
		"no executor": {step("z")},
	} {
		if err := Check(steps, ex); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A panic fails only its step: concurrent steps finish and clean up.
func TestPanic(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("nil map") },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				steps := []lab.Step{step("a"), step("b"), step("c", "a")}
				steps[0].Cluster = "dev"
				cleaned := false
				ex := map[string]Executor{
					"a": func(context.Context, lab.Step, lab.Progress) (Outcome, error) { end(); return Outcome{}, nil },
					"b": func(context.Context, lab.Step, lab.Progress) (Outcome, error) {
						defer func() { cleaned = true }()
						time.Sleep(time.Second)
						return Outcome{Detail: "ok"}, nil
					},
					"c": func(context.Context, lab.Step, lab.Progress) (Outcome, error) {
						t.Error("c started without a")
						return Outcome{}, nil
					},
				}
				res, err := Runner{Executors: ex, Events: func(lab.Event) {}}.Run(t.Context(), steps)
				var e *lab.Error
				if !errors.As(err, &e) || e.Code != "fault" || e.Exit != lab.ExitFailed || e.Cure == "" || !strings.Contains(e.Message, "a dev") {
					t.Fatalf("err %v", err)
				}
				if name == "panic" && (!strings.Contains(e.Message, "nil map") || !strings.Contains(strings.Join(e.Details, "\n"), "run_test.go:")) {
					t.Errorf("%q, details %q", e.Message, e.Details)
				}
				if got := results(res); !slices.Equal(got, []string{"failed", "ok", "skipped"}) || !cleaned {
					t.Errorf("results %q, cleaned %v", got, cleaned)
				}
			})
		})
	}
}

func results(r Result) []string {
	var list []string
	for _, s := range r.Steps {
		list = append(list, s.Result)
	}
	return list
}

// After an interrupt, unfinished steps are reported, and completed ones kept.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := []lab.Step{step("ended"), step("obeys"), step("deaf"), step("late", "deaf"), step("never", "obeys")}
		work := func(d time.Duration, stop bool) Executor {
			return func(ctx context.Context, _ lab.Step, p lab.Progress) (Outcome, error) {
				p("working")
				if !stop {
					time.Sleep(d) // synctest: a call without context
					p("cleaning up")
					return Outcome{Detail: "ok", Changes: []string{"made"}}, nil
				}
				<-ctx.Done()
				return Outcome{}, fmt.Errorf("interrupted: %w", ctx.Err())
			}
		}
		ex := map[string]Executor{"ended": work(time.Second, false), "deaf": work(time.Minute, false), "obeys": work(0, true), "late": work(0, false), "never": work(0, false)}
		var got []string
		events := func(e lab.Event) {
			if e.Since >= 2*time.Second {
				got = append(got, strings.TrimSpace(e.Step.ID+" "+string(e.State)+" "+e.Detail))
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		res, err := Runner{Executors: ex, Events: events}.Run(ctx, steps)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("err %v", err)
		}
		if got := results(res); !slices.Equal(got, []string{"ok", "stopped", "ok", "skipped", "skipped"}) {
			t.Errorf("results %q", got)
		}
		if want := []string{"ended: made", "deaf: made"}; !slices.Equal(res.Changes, want) {
			t.Errorf("changes %q", res.Changes)
		}
		want := []string{"obeys stopped working", "never skipped", "deaf stopping working", "deaf stopping cleaning up", "deaf done ok", "late skipped"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q\nwant   %q", got, want)
		}
	})
}
