package scenario

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"homelab/lab"
)

// pace notices progress during a wait: a state of what concerns it that was not seen before. A repeated state is not progress.
type pace struct {
	seen  map[[sha256.Size]byte]bool
	moved time.Time
}

func newPace(w Wish, v View) *pace {
	p := &pace{seen: map[[sha256.Size]byte]bool{}}
	for s, state := range v {
		p.see(w, observation{subject: s, state: state})
	}
	p.moved = time.Now()
	return p
}

func (p *pace) see(w Wish, o observation) {
	if w.Patience == 0 || !o.state.Known || !w.Concerns(o.subject, o.state) {
		return
	}
	news := false
	for _, state := range traits(o.state) {
		text, err := json.Marshal(state)
		if key := sha256.Sum256(append(text, o.subject.String()...)); err == nil && !p.seen[key] {
			p.seen[key], news = true, true
		}
	}
	if news && o.at.After(p.moved) {
		p.moved = o.at
	}
}

// traits returns what counts of a state: not the time, and only events other than warnings, which repeat without progress.
func traits(s State) []any {
	if s.Application != nil {
		a := *s.Application
		a.Message = lab.Uncounted(a.Health, a.Message)
		return []any{a}
	}
	if s.Object == nil && s.Events == nil {
		return []any{"absent"}
	}
	var list []any
	if s.Object != nil {
		list = append(list, timeless(s.Object))
	}
	for _, e := range s.Events {
		if e["type"] != "Warning" {
			about, _ := e["involvedObject"].(map[string]any)
			list = append(list, fmt.Sprint(e["reason"], " ", about["kind"], " ", about["name"], " ", e["message"]))
		}
	}
	return list
}

// timeless returns an object without times and versions, which change while nothing else does.
func timeless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if k != "resourceVersion" {
				out[k] = timeless(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = timeless(e)
		}
		return out
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return ""
		}
	}
	return v
}

// anything concerns a wait for the whole lab.
func anything(Subject, State) bool { return true }

// concerning returns what moves for a wait for subjects: themselves, the applications that they belong to, and the events around them. A wait without
// subjects is for applications.
func concerning(subjects []Subject) func(Subject, State) bool {
	return func(one Subject, state State) bool {
		for _, s := range subjects {
			a := state.Application
			switch {
			case s.includes(one), one.isEvents() && one.Cluster == s.Cluster:
				return true
			case a != nil && !s.isApplication() && (a.Addon == s.Name || a.Cluster == s.Cluster && a.Namespace == s.Namespace):
				return true
			}
		}
		return len(subjects) == 0 && one.isApplication()
	}
}

// around starts to watch the events of subjects, among them those of their pods, without waiting for the watches.
func (r *Recorder) around(subjects []Subject) {
	for _, place := range r.places(subjects) {
		r.start(place)
	}
}
