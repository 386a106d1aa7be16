package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"homelab/lab"
)

// Verdict is how a scenario or a step ended.
type Verdict string

// The verdicts.
const (
	Passed      Verdict = "passed"
	Failed      Verdict = "failed"      // an expectation was not met, or the lab is not as it was
	TimedOut    Verdict = "timeout"     // the time of the whole story was over
	Broken      Verdict = "error"       // something that should work did not
	Interrupted Verdict = "interrupted" // by a user
	Skipped     Verdict = "skipped"     // the lab lacks what it requires; nothing was touched
	NotPlayed   Verdict = "not played"  // a step after one that failed, or left out on request; a scenario of which no step was chosen
)

// Result is a played scenario.
type Result struct {
	Scenario string
	Title    string
	Teaches  string
	Lab      string
	Engine   lab.EngineType
	Began    time.Time
	Took     time.Duration
	Verdict  Verdict
	Reason   string // why it was skipped, or what went wrong outside of a step
	Steps    []StepResult
	Measures []Measure
	Marks    []Mark
	Left     []string // what is not as it was, one line each
}

// StepResult is a played step. The last one of a scenario that touched the lab is that the lab is as it was.
type StepResult struct {
	Number  int
	ID      string
	Title   string
	Verb    string
	Always  bool // played however the others ended
	Verdict Verdict
	Began   time.Duration // since the scenario began
	Took    time.Duration
	Did     string   // what it changed
	Back    []string // what is to be put back, of the last step when it begins
	Error   string
	Unmet   *Unmet
}

// Measure is a span of time that the story is about: from a change to what followed from it.
type Measure struct {
	Name string // title of the expectation
	From string // title of the step that it is measured from
	Took time.Duration
}

// Lane is where a mark belongs on the timeline.
type Lane struct {
	Cluster string // empty for the forge
	Name    string // "application podinfo", "deployment podinfo", "git main"
}

// Mark is a moment on the timeline: from then on the lane was so.
type Mark struct {
	Lane  Lane
	At    time.Duration // since the scenario began
	Text  string
	State string // good, busy, bad, gone or plain, until the next mark of the lane; event for what the story did at that moment
}

// Exit is the code that the program ends with.
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

// WorstVerdict is the one of several results that tells most: an interrupt, then what failed to work, then what was not as expected. No result at all, and one
// that is no verdict, are failures.
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

// Worst is the exit code of several results.
func Worst(results []*Result) lab.Exit { return (&Result{Verdict: WorstVerdict(results)}).Exit() }

// FailedStep is the first step that did not end well.
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

// mark notes on the timeline what an observation changed. The recorder's lock is held.
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

// note puts something that the story did on the timeline.
func (r *Recorder) note(lane Lane, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks = append(r.marks, Mark{Lane: lane, At: time.Since(r.began), Text: text, State: "event"})
}

// timeline is every mark so far, those of one lane together.
func (r *Recorder) timeline() []Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	marks := slices.Clone(r.marks)
	for i := range marks {
		marks[i].At = max(0, marks[i].At) // what was so before the story began
	}
	slices.SortStableFunc(marks, func(a, b Mark) int {
		return cmp.Or(cmp.Compare(a.Lane.Cluster, b.Lane.Cluster), cmp.Compare(a.Lane.Name, b.Lane.Name), cmp.Compare(a.At, b.At))
	})
	return marks
}

func laneOf(s Subject) Lane {
	if s.isApplication() {
		return Lane{Cluster: s.Cluster, Name: "application " + s.Addon}
	}
	return Lane{Cluster: s.Cluster, Name: Subject{Kind: s.Kind, Name: s.Name}.short()}
}

// describe is what the timeline says of a state.
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
