package lab

import "time"

// Action is the action of a step.
type Action string

// The actions of a step.
const (
	ActionNone     Action = "none"     // up to date
	ActionCreate   Action = "create"   // absent: created
	ActionUpdate   Action = "update"   // different: changed
	ActionRepair   Action = "repair"   // half created, stopped or unreachable: repaired, keeping its contents
	ActionRecreate Action = "recreate" // deleted and created: its contents are lost
	ActionDelete   Action = "delete"   // no longer desired: deleted
)

// Step is a step of a plan. It is data, not a closure, so that it can be printed.
type Step struct {
	ID      string // kind, or kind/cluster: "engine", "cluster/hub"
	Kind    string // selects the executor
	Cluster string // affected cluster; may be empty
	Action  Action
	Reason  string   // human-readable
	Needs   []string // IDs of the steps that it depends on
	Loses   string   // data that the step destroys, human-readable; may be empty
}

// Title returns the human-readable name of the step: "cluster hub".
func (s Step) Title() string {
	if s.Cluster == "" {
		return s.Kind
	}
	return s.Kind + " " + s.Cluster
}

// StepState is the state of a step.
type StepState string

// The states of a step.
const (
	StepWaiting  StepState = "waiting"
	StepRunning  StepState = "running"
	StepStopping StepState = "stopping" // the run was interrupted and waits for this step
	StepDone     StepState = "done"
	StepFailed   StepState = "failed"
	StepStopped  StepState = "stopped" // ended by the interrupt
	StepSkipped  StepState = "skipped" // a dependency failed, or the run was interrupted before it began
)

// Event is an event of a running plan.
type Event struct {
	Step    Step
	State   StepState
	Detail  string        // current activity or final result; one line
	Since   time.Duration // since the run began
	Elapsed time.Duration // since the step began
}

// Progress reports the current activity of a long operation: one lower-case line without a full stop.
type Progress func(detail string)

// StepResult is the result of a step in machine-readable reports.
type StepResult struct {
	Name    string // Step.Kind
	Cluster string
	Seconds float64
	Result  string // Event.Detail of the last event
}
