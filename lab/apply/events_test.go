package apply

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
)

// runEvents runs steps and returns their events in order.
func runEvents(t *testing.T, steps []lab.Step, ex map[string]Executor) ([]string, Result, error) {
	t.Helper()
	var list []string
	res, err := Runner{Executors: ex, Events: func(e lab.Event) { list = append(list, e.Step.ID+" "+string(e.State)+" "+e.Detail) }}.Run(t.Context(), steps)
	return list, res, err
}

// Every step has events, even without an action: its reason, its progress and its result.
func TestEvents(t *testing.T) {
	steps := []lab.Step{{ID: "a", Kind: "a", Action: lab.ActionNone, Reason: "runs"}, {ID: "b", Kind: "b", Action: lab.ActionCreate, Reason: "absent", Needs: []string{"a"}}}
	got, _, err := runEvents(t, steps, map[string]Executor{"b": func(_ context.Context, _ lab.Step, p lab.Progress) (Outcome, error) {
		p("working")
		return Outcome{Detail: "v1"}, nil
	}})
	if want := []string{"a done runs", "b running absent", "b running working", "b done v1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPanicEvents(t *testing.T) {
	got, _, err := runEvents(t, []lab.Step{step("a")}, map[string]Executor{"a": func(context.Context, lab.Step, lab.Progress) (Outcome, error) { panic("nil map") }})
	if len(got) != 2 || err == nil || got[1] != "a failed "+firstLine(err) {
		t.Errorf("%q, %v", got, err)
	}
}

// The earliest failure is returned, in any order of the plan, and durations are recorded.
func TestFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func(after time.Duration, err error) Executor {
			return func(context.Context, lab.Step, lab.Progress) (Outcome, error) {
				time.Sleep(after) // synctest
				return Outcome{}, err
			}
		}
		first, second := errors.New("disk full"), errors.New("and so this failed")
		_, res, err := runEvents(t, []lab.Step{step("late"), step("early")}, map[string]Executor{"late": fails(3*time.Second, second), "early": fails(time.Second, first)})
		if !errors.Is(err, first) {
			t.Errorf("%v", err)
		}
		if res.Steps[0].Seconds != 3 || res.Steps[1].Seconds != 1 {
			t.Errorf("%+v", res.Steps)
		}
	})
}

// The cause of a cancellation is returned, not the resulting errors of steps.
func TestCancellationCause(t *testing.T) {
	reason := errors.New("the terminal went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := Runner{Executors: map[string]Executor{"a": func(ctx context.Context, _ lab.Step, _ lab.Progress) (Outcome, error) {
		cancel(reason)
		return Outcome{}, errors.New("broken pipe")
	}}}.Run(ctx, []lab.Step{step("a")})
	if !errors.Is(err, reason) {
		t.Errorf("%v", err)
	}
}
