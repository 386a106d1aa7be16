package scenario

import (
	"context"
	"maps"
	"time"
)

// Judgement is what an expectation says of a view.
type Judgement struct {
	Met      bool
	Unknown  bool // what it is about is not known, so it is not met, and its opposite is not either
	Expected string
	Seen     string // of what is not met
	Subject  Subject
}

// Wish is what is waited for.
type Wish struct {
	Judge func(View) Judgement
	From  Cursor
	By    time.Time     // no later than this
	Stays time.Duration // and then for so long
}

// Outcome is how a wait ended.
type Outcome struct {
	Judgement
	View   View      // when it was met
	At     time.Time // when it became true
	Cursor Cursor    // the moment at which it was met, or after its stay
	Since  time.Time // when Seen became what it is
}

// await looks for a wish in what was seen from a moment on, and waits for more as long as there is time. An error is that of ctx.
//
// What was so for a moment and was seen to pass counts, whoever looks later. What was last seen before who tells of it fell silent does not, for who begins to look
// while nobody tells: it need not be so any more.
func (r *Recorder) await(ctx context.Context, w Wish) (Outcome, error) {
	r.mu.Lock()
	v := r.viewLocked(w.From)
	next := max(w.From.n, r.first)
	past := r.first + len(r.log)
	unknown := w.Judge(r.viewLocked(Cursor{n: past})).Unknown
	r.mu.Unlock()
	events := map[Subject][]map[string]any{}

	a := attempt{wish: w}
	a.look(v, next, w.From.at)
	for {
		r.mu.Lock()
		for {
			if a.done && a.met && unknown && next < past && r.standsLocked(w, v, next, past) {
				a = attempt{wish: w, over: true}
			}
			if a.done || next-r.first >= len(r.log) {
				break
			}
			o := r.log[next-r.first]
			if a.elapsed(o.at, next); a.done {
				continue
			}
			next++
			if o.subject.isEvents() { // since the moment from which on is looked
				events[o.subject] = append(events[o.subject], o.state.Events...)
				o.state.Events = events[o.subject]
			}
			v.take(o, r.floors)
			a.look(v, next, o.at)
		}
		changed := r.changed
		r.mu.Unlock()
		if !a.done {
			a.elapsed(time.Now(), next)
		}
		if a.done {
			return a.outcome, nil
		}
		timer := time.NewTimer(a.until())
		select {
		case <-ctx.Done():
			timer.Stop()
			return a.outcome, context.Cause(ctx)
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// standsLocked reports whether what a view meets was so until it was not known any more.
func (r *Recorder) standsLocked(w Wish, v View, next, past int) bool {
	v = maps.Clone(v)
	for ; next < past; next++ {
		o := r.log[next-r.first]
		if o.subject.isEvents() { // what happened has happened
			continue
		}
		v.take(o, r.floors)
		if j := w.Judge(v); !j.Met {
			return j.Unknown
		}
	}
	return true
}

// attempt is one wait under way.
type attempt struct {
	wish    Wish
	outcome Outcome
	met     bool
	done    bool
	over    bool // what is met does not count until it was not met once
}

// look judges a view as of a moment.
func (a *attempt) look(v View, at int, when time.Time) {
	if when.After(a.wish.By) && !a.met {
		return // too late to become true
	}
	j := a.wish.Judge(v)
	if a.over = a.over && j.Met; a.over {
		return
	}
	if a.outcome.Since.IsZero() || j.Seen != a.outcome.Seen || j.Met != a.outcome.Met {
		a.outcome.Since = when
	}
	a.outcome.Judgement = j
	switch {
	case !j.Met:
		a.met = false
	case !a.met:
		a.met, a.outcome.At, a.outcome.View = true, when, maps.Clone(v)
		if a.wish.Stays == 0 {
			a.done, a.outcome.Cursor = true, Cursor{at, when}
		}
	}
}

// elapsed ends the wait when time has: met for long enough, or not met in time.
func (a *attempt) elapsed(now time.Time, at int) {
	switch {
	case a.met && now.Sub(a.outcome.At) >= a.wish.Stays:
		a.done, a.outcome.Cursor = true, Cursor{at, a.outcome.At.Add(a.wish.Stays)}
	case !a.met && !now.Before(a.wish.By):
		a.done = true
	}
}

func (a *attempt) until() time.Duration {
	if a.met {
		return time.Until(a.outcome.At.Add(a.wish.Stays))
	}
	return time.Until(a.wish.By)
}
