package source

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab/supply/store"
)

func TestEstimate(t *testing.T) {
	for name, tc := range map[string]struct {
		done  span
		doing []span
		todo  float64
		want  float64
	}{
		"everything present":                      {done: span{500, 500}, want: 0},
		"nothing done yet":                        {todo: 1000, want: 1000},
		"nothing done yet, first started":         {doing: []span{{100, 0}}, todo: 900, want: 1000},
		"first half done":                         {doing: []span{{100, 50}}, todo: 900, want: 950},
		"as fast as the recipe's machine":         {done: span{300, 300}, doing: []span{{100, 40}}, todo: 600, want: 660},
		"2.5 times slower":                        {done: span{400, 1000}, todo: 600, want: 1500},
		"2.5 times slower, one in progress":       {done: span{400, 1000}, doing: []span{{100, 100}}, todo: 500, want: 150 + 1250},
		"2.5 times faster":                        {done: span{1000, 400}, todo: 600, want: 240},
		"2.5 times faster, one in progress":       {done: span{1000, 400}, doing: []span{{100, 30}}, todo: 500, want: 10 + 200},
		"two side by side":                        {done: span{100, 100}, doing: []span{{100, 40}, {60, 30}}, todo: 10, want: 60 + 30 + 10},
		"4 times its estimate":                    {doing: []span{{100, 400}}, todo: 900, want: 100 + 5*900},
		"4 times its estimate, after others":      {done: span{400, 400}, doing: []span{{100, 400}}, todo: 500, want: 100 + 900./500*500},
		"last takes 4 times its estimate":         {done: span{900, 900}, doing: []span{{100, 400}}, want: 100},
		"a short item that took 10 times as long": {doing: []span{{1, 10}}, todo: 900, want: 2.5 + 900},
		"one without an estimate":                 {doing: []span{{0, 40}}, todo: 10, want: 10 + 10},
	} {
		if got := remaining(tc.done, tc.doing, tc.todo); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, got, tc.want)
		}
	}
}

// For work that takes four times its estimate, the estimate changes steadily and covers the work in progress.
func TestEstimateMoves(t *testing.T) {
	for name, done := range map[string]span{"first": {}, "slow machine": {100, 250}, "fast machine": {250, 100}} {
		const predicted, todo = 100, 900
		before := remaining(done, []span{{predicted, 0}}, todo)
		grows := false
		for s := 1.; s <= 4*predicted; s++ {
			now := remaining(done, []span{{predicted, s}}, todo)
			if step := now - before; math.Abs(step) < 1e-9 || math.Abs(step) > (1+doubt)*(predicted+todo)/predicted {
				t.Errorf("%s: from %g to %g at second %g", name, before, now, s)
			} else if grows && step < 0 {
				t.Errorf("%s: it decreases to %g at second %g", name, now, s)
			} else {
				grows = step > 0
			}
			if inFlight := remaining(done, []span{{predicted, s}}, 0); now < inFlight {
				t.Errorf("%s: %g is below the work in progress, %g", name, now, inFlight)
			}
			before = now
		}
		if !grows {
			t.Errorf("%s: it does not grow", name)
		}
	}
}

// Build times of stored results are known before the first build of a run.
func TestBoardLearnsFromStore(t *testing.T) {
	const recipes = `components:
- {name: slow, kind: programs, module: example.com/slow, version: v1, packages: [.], seconds: 100}
- {name: brought, kind: programs, module: example.com/brought, version: v1, packages: [.], seconds: 100}
- {name: next, kind: programs, module: example.com/next, version: v1, packages: [.], seconds: 200}
- {name: last, kind: programs, module: example.com/last, version: v1, packages: [.], seconds: 40}
`
	synctest.Test(t, func(t *testing.T) {
		r, err := Parse("recipes.yaml", []byte(recipes))
		if err != nil {
			t.Fatal(err)
		}
		s := newStore(t)
		for name, meta := range map[string]store.Meta{"slow": {Seconds: 250}, "brought": {Seconds: 1, Origin: "engine"}} {
			key, err := r.Key(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Make(t.Context(), name, key, nil, func(context.Context, string) (store.Meta, error) { return meta, nil }); err != nil {
				t.Fatal(err)
			}
		}
		b := New(r, s)
		if err := b.Expect("slow", "brought", "next", "last"); err != nil {
			t.Fatal(err)
		}
		var said []string
		w := b.board.watch(func(line string) { said = append(said, line) })
		next, _ := r.Get("next")
		b.board.say(next, "downloading next")
		time.Sleep(30 * time.Second) // on its own, a download moves the estimate too
		b.board.say(next, "compiling next")
		time.Sleep(100 * time.Second)
		b.board.made(next, 100) // 350 s for 300 s of the recipes
		last, _ := r.Get("last")
		b.board.say(last, "compiling last")
		w.stop()
		for _, line := range []string{
			"downloading next, 0 of 2 made, 0s so far, about 10m00s left",
			"downloading next, 0 of 2 made, 25s so far, about 10m06s left",
			"compiling next, 0 of 2 made, 30s so far, about 10m00s left",
			"compiling last, 1 of 2 made, 2m10s so far, about 46s left",
		} {
			if !slices.Contains(said, line) {
				t.Errorf("%q is not among\n%s", line, strings.Join(said, "\n"))
			}
		}
	})
}

// A watcher may start before anything is to be built.
func TestWatchBeforeExpect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBoard()
		var said []string
		w := d.watch(func(line string) { said = append(said, line) })
		defer w.stop()
		c := &Component{Name: "a"}
		d.expect(map[string]*Component{"a": c})
		d.say(c, "compiling a")
		if !slices.Equal(said, []string{"compiling a, 0 of 1 made, 0s so far"}) {
			t.Errorf("%q", said)
		}
	})
}
