package scenario

import (
	"context"
	"maps"
	"time"
)

// Judgement is the verdict of an expectation on a view.
type Judgement struct {
	Met      bool
	Unknown  bool // the subject is unknown: neither the expectation nor its opposite is met
	Expected string
	Seen     string // the unmet state
	Subject  Subject
}

// Wish is a condition to wait for.
type Wish struct {
	Judge    func(View) Judgement
	From     Cursor
	By       time.Time                 // deadline
	Stays    time.Duration             // how long it must hold
	Patience time.Duration             // how long nothing that concerns it may move; 0 for any time
	Concerns func(Subject, State) bool // with Patience
}

// progressing reports whether an application that a wish concerns is progressing.
func (w Wish) progressing(v View) bool {
	for s, state := range v {
		if state.Application != nil && state.Application.Health == "Progressing" && w.Concerns(s, state) {
			return true
		}
	}
	return false
}

// Outcome is the result of a wait.
type Outcome struct {
	Judgement
	View   View          // when met
	At     time.Time     // when it became true
	Cursor Cursor        // when it was met, or the end of Stays
	Since  time.Time     // when Seen last changed
	Still  time.Duration // how long nothing had moved, if it ended for that
}

// await searches the log from w.From on, then waits for new observations until w.By. It only returns errors of ctx.
//
// A state that held briefly counts, even if it is looked for later. A state last seen before its source fell silent
// does not count for a wait that starts during the silence: it may be stale.
func (r *Recorder) await(ctx context.Context, w Wish) (Outcome, error) {
	r.mu.Lock()
	v := r.viewLocked(w.From)
	next := max(w.From.n, r.first)
	past := r.first + len(r.log)
	unknown := w.Judge(r.viewLocked(Cursor{n: past})).Unknown
	r.mu.Unlock()
	events := map[Subject][]map[string]any{}

	a := attempt{wish: w, pace: newPace(w, v)}
	a.look(v, next, w.From.at)
	for {
		r.mu.Lock()
		for {
			if a.done && a.met && unknown && next < past && r.holdsLocked(w, v, next, past) {
				a = attempt{wish: w, pace: a.pace, over: true}
			}
			if a.done || next-r.first >= len(r.log) {
				break
			}
			o := r.log[next-r.first]
			if a.elapsed(o.at, next); a.done {
				continue
			}
			next++
			a.pace.see(w, o)
			if o.subject.isEvents() { // events since w.From
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

// holdsLocked reports whether v stays met by the observations next to past, or until its subject becomes unknown.
func (r *Recorder) holdsLocked(w Wish, v View, next, past int) bool {
	v = maps.Clone(v)
	for ; next < past; next++ {
		o := r.log[next-r.first]
		if o.subject.isEvents() { // events never become untrue
			continue
		}
		v.take(o, r.floors)
		if j := w.Judge(v); !j.Met {
			return j.Unknown
		}
	}
	return true
}

type attempt struct {
	wish    Wish
	pace    *pace
	outcome Outcome
	met     bool
	done    bool
	over    bool // ignore a met state until it was unmet once

	progressing bool // an application that the wish concerns, by its last known state
}

// resync is after how long an engine has surely looked again at an application, whose health is that of its last look: Argo CD's interval is two minutes.
const resync = 150 * time.Second

func (a *attempt) patience() time.Duration {
	if a.progressing {
		return max(a.wish.Patience, resync)
	}
	return a.wish.Patience
}

func (a *attempt) look(v View, at int, when time.Time) {
	if when.After(a.wish.By) && !a.met {
		return
	}
	j := a.wish.Judge(v)
	a.progressing = !j.Met && a.wish.Patience > 0 && a.wish.progressing(v)
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

// elapsed ends the attempt once w.Stays or w.By has passed.
func (a *attempt) elapsed(now time.Time, at int) {
	switch {
	case a.met && now.Sub(a.outcome.At) >= a.wish.Stays:
		a.done, a.outcome.Cursor = true, Cursor{at, a.outcome.At.Add(a.wish.Stays)}
	case !a.met && !now.Before(a.wish.By):
		a.done = true
	case !a.met && a.wish.Patience > 0 && now.Sub(a.pace.moved) >= a.patience():
		a.done, a.outcome.Still = true, a.patience()
	}
}

func (a *attempt) until() time.Duration {
	if a.met {
		return time.Until(a.outcome.At.Add(a.wish.Stays))
	}
	if end := a.pace.moved.Add(a.patience()); a.wish.Patience > 0 && end.Before(a.wish.By) {
		return time.Until(end)
	}
	return time.Until(a.wish.By)
}
