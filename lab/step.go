package lab

import "time"

// Action is what a step does to its object.
type Action string

// The actions of a step.
const (
	ActionNone     Action = "none"     // as it should be: nothing is done
	ActionCreate   Action = "create"   // absent: it is made
	ActionUpdate   Action = "update"   // different: it is changed
	ActionRepair   Action = "repair"   // half made, stopped or silent: repaired, keeping its contents
	ActionRecreate Action = "recreate" // removed and made again: what it holds is lost
	ActionDelete   Action = "delete"   // no longer wanted: it is removed
)

// Step is one line of a plan: printable data, not a closure.
type Step struct {
	ID      string // kind, or kind/cluster: "engine", "cluster/hub"
	Kind    string // which executor runs it
	Cluster string // the cluster it is about
	Action  Action
	Reason  string   // why, in words
	Needs   []string // IDs of steps that end before it starts
	Loses   string   // what the step destroys for good, in words; empty when nothing
}

// Title is how a user reads the step: "cluster hub".
func (s Step) Title() string {
	if s.Cluster == "" {
		return s.Kind
	}
	return s.Kind + " " + s.Cluster
}

// StepState is where a step stands.
type StepState string

// The states of a step.
const (
	StepWaiting  StepState = "waiting"
	StepRunning  StepState = "running"
	StepStopping StepState = "stopping" // the run was interrupted, and waits for this step to end
	StepDone     StepState = "done"
	StepFailed   StepState = "failed"
	StepStopped  StepState = "stopped" // the interrupt ended it
	StepSkipped  StepState = "skipped" // a step that it needs failed, or the run was interrupted before it began
)

// Event is one thing that happened while a plan ran.
type Event struct {
	Step    Step
	State   StepState
	Detail  string        // what it does now, or what it ended with; one line
	Since   time.Duration // since the run began
	Elapsed time.Duration // since the step began
}

// Progress reports what long work is doing: one lower-case line, without a full stop.
type Progress func(detail string)

// StepResult is how a step ended, for the machine-readable report.
type StepResult struct {
	Name    string // Step.Kind
	Cluster string
	Seconds float64
	Result  string // Event.Detail of the last event
}
