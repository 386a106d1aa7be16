package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"homelab/lab"
)

// Verdict is the result of a scenario or a step.
type Verdict string

const (
	Passed      Verdict = "passed"
	Failed      Verdict = "failed"      // an expectation was not met, or the lab was not restored
	TimedOut    Verdict = "timeout"     // the story's timeout has passed
	Broken      Verdict = "error"       // an operation failed
	Interrupted Verdict = "interrupted" // Ctrl-C
	Skipped     Verdict = "skipped"     // a requirement is missing; nothing was changed
	NotPlayed   Verdict = "not played"  // a step after a failed one or not selected; a scenario without selected steps
)

// Result is the result of a scenario.
type Result struct {
	Scenario string
	Title    string
	Teaches  string
	Lab      string
	Engine   lab.EngineType
	Began    time.Time
	Took     time.Duration
	Verdict  Verdict
	Reason   string // why it was skipped, or an error outside of steps
	Steps    []StepResult
	Measures []Measure
	Marks    []Mark
	Left     []string // remaining differences, one per line
	Moved    *World   // the lab with the parts that the story replaced; nil if it replaced none
}

// StepResult is the result of a step. The last one of a scenario that changed the lab is the restoring.
type StepResult struct {
	Number  int
	ID      string
	Title   string
	Verb    string
	Always  bool // an always step
	Verdict Verdict
	Began   time.Duration // since the start of the scenario
	Took    time.Duration
	Did     string   // summary of the change
	Back    []string // pending undos; set when the last step begins
	Error   string
	Unmet   *Unmet

	Evidence []Evidence // of a failed step
}

// Measure is the time from a change to its effect.
type Measure struct {
	Name string // title of the expectation
	From string // title of the step measured from
	Took time.Duration
}

// Lane is a row of the timeline.
type Lane struct {
	Cluster string // empty for the forge
	Name    string // "application podinfo", "deployment podinfo", "git main"
}

// Mark is a state change or an event on a lane.
type Mark struct {
	Lane  Lane
	At    time.Duration // since the start of the scenario
	Text  string
	State string // good, busy, bad, gone or plain, valid until the lane's next mark; event for an action of the story
}

// Unplayed returns the result of a scenario that is not played, for a reason.
func (p Player) Unplayed(s *Scenario, reason string) *Result {
	s = s.For(p.World.Engines)
	return &Result{Scenario: s.Name, Title: s.Title, Teaches: s.Teaches, Lab: p.World.Lab, Engine: p.World.Engines, Began: time.Now(), Verdict: NotPlayed, Reason: reason}
}

// Exit returns the exit code.
func (r *Result) Exit() lab.Exit {
	switch r.Verdict {
	case Passed, Skipped:
		return lab.ExitDone
	case Failed:
		return lab.ExitUnmet
	case TimedOut:
		return lab.ExitTimeout
	case Interrupted:
		return lab.ExitInterrupted
	}
	return lab.ExitFailed
}

// WorstVerdict returns the most severe verdict: interrupts, then errors, then unmet expectations. No results and
// unknown verdicts are failures.
func WorstVerdict(results []*Result) Verdict {
	order := []Verdict{Interrupted, Broken, Failed, TimedOut, NotPlayed, Passed, Skipped}
	if len(results) == 0 {
		return Broken
	}
	worst := len(order) - 1
	for _, r := range results {
		at := slices.Index(order, r.Verdict)
		if at < 0 {
			at = slices.Index(order, Broken)
		}
		worst = min(worst, at)
	}
	return order[worst]
}

// Worst returns the exit code of several results.
func Worst(results []*Result) lab.Exit { return (&Result{Verdict: WorstVerdict(results)}).Exit() }

// FailedStep returns the first step that did not pass.
func (r *Result) FailedStep() (StepResult, bool) {
	for _, s := range r.Steps {
		if s.Verdict != Passed && s.Verdict != NotPlayed && s.Verdict != Skipped {
			return s, true
		}
	}
	return StepResult{}, false
}

// maxMarks bounds the timeline.
const maxMarks = 5000

// mark adds the change that an observation made to the timeline. r.mu is held.
func (r *Recorder) mark(s Subject, state State, now time.Time) {
	if s.isEvents() || s == Applications() || len(r.marks) >= maxMarks {
		return
	}
	m := Mark{Lane: laneOf(s), At: now.Sub(r.began)}
	m.Text, m.State = describe(state, r.facets[s])
	if r.last[s] == m.Text {
		return
	}
	r.last[s] = m.Text
	r.marks = append(r.marks, m)
}

// note adds an action of the story to the timeline.
func (r *Recorder) note(lane Lane, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks = append(r.marks, Mark{Lane: lane, At: time.Since(r.began), Text: text, State: "event"})
}

// timeline returns the marks, grouped by lane.
func (r *Recorder) timeline() []Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	marks := slices.Clone(r.marks)
	for i := range marks {
		marks[i].At = max(0, marks[i].At) // state from before the story
	}
	slices.SortStableFunc(marks, func(a, b Mark) int {
		return cmp.Or(cmp.Compare(a.Lane.Cluster, b.Lane.Cluster), cmp.Compare(a.Lane.Name, b.Lane.Name), cmp.Compare(a.At, b.At))
	})
	return marks
}

func laneOf(s Subject) Lane {
	if s.isApplication() {
		if s.Name != "" && s.Name != lab.ApplicationName(s.Cluster, s.Addon) {
			return Lane{Cluster: s.Cluster, Name: s.String()}
		}
		return Lane{Cluster: s.Cluster, Name: "application " + s.Addon}
	}
	return Lane{Cluster: s.Cluster, Name: Subject{Kind: s.Kind, Name: s.Name}.short()}
}

// describe returns the timeline's text and state.
func describe(state State, facets []string) (text, kind string) {
	switch {
	case state.Application != nil:
		a := state.Application
		text = fmt.Sprintf("%s, %s", SyncWord(a.Sync), HealthWord(a.Health))
		if a.Version != "" {
			text += ", " + a.Version
		}
		return text, applicationKind(a)
	case !state.Known:
		return "not seen", "gone"
	case state.Object == nil:
		return "not there", "gone"
	}
	for _, f := range facets {
		if text != "" {
			text += ", "
		}
		text += shownField(state.Object, f)
	}
	return cmp.Or(text, "there"), "plain"
}

func applicationKind(a *Application) string {
	switch {
	case a.Converged():
		return "good"
	case HealthWord(a.Health) == "degraded" || SyncWord(a.Sync) == "unknown":
		return "bad"
	}
	return "busy"
}
