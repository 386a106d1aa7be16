package ui

import (
	"time"
)

// ScenarioList is `lab scenario ls -o json`.
type ScenarioList struct {
	Scenarios List[ScenarioSummary] `json:"scenarios"`
}

// ScenarioSummary is a scenario of an estate.
type ScenarioSummary struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Teaches string `json:"teaches"`
	Steps   int    `json:"steps"`
}

// ScenarioShow is `lab scenario show NAME -o json`.
type ScenarioShow struct {
	Name     string             `json:"name"`
	Title    string             `json:"title"`
	Teaches  string             `json:"teaches"`
	File     string             `json:"file"`
	Engines  List[string]       `json:"engines"`  // supported engines; empty for any
	Clusters List[string]       `json:"clusters"` // required clusters
	Steps    List[ScenarioStep] `json:"steps"`
}

// ScenarioStep is a step of a scenario.
type ScenarioStep struct {
	Number  int          `json:"number"`
	ID      string       `json:"id"`
	Title   string       `json:"title"`
	Engines List[string] `json:"engines"` // that have the step; empty for all
	Verb    string       `json:"verb"`
	Always  bool         `json:"always"`
	Line    int          `json:"line"`
}

// ScenarioRun is `lab scenario run -o json`.
type ScenarioRun struct {
	Lab       string               `json:"lab"`
	Verdict   string               `json:"verdict"` // the most severe: passed, skipped, failed, timeout, error, interrupted
	Seconds   float64              `json:"seconds"`
	Scenarios List[ScenarioResult] `json:"scenarios"`
}

// ScenarioResult is the result of a scenario.
type ScenarioResult struct {
	Name     string                   `json:"name"`
	Title    string                   `json:"title"`
	Verdict  string                   `json:"verdict"`
	Reason   string                   `json:"reason"` // why it was skipped, or an error outside of steps
	Began    time.Time                `json:"began"`
	Seconds  float64                  `json:"seconds"`
	Steps    List[ScenarioStepResult] `json:"steps"`
	Measures List[ScenarioMeasure]    `json:"measures"`
	Left     List[string]             `json:"left"`     // remaining differences
	Timeline string                   `json:"timeline"` // path of the HTML page
}

// ScenarioStepResult is the result of a step.
type ScenarioStepResult struct {
	Number    int          `json:"number"`
	ID        string       `json:"id"`
	Title     string       `json:"title"`
	Verb      string       `json:"verb"`
	Always    bool         `json:"always"`
	Verdict   string       `json:"verdict"` // passed, failed, timeout, error, interrupted or not played
	Since     float64      `json:"since"`   // seconds from the start of the story
	Seconds   float64      `json:"seconds"`
	Did       string       `json:"did"`
	Error     string       `json:"error"`
	Expected  string       `json:"expected"`  // unmet expectation
	LastSeen  string       `json:"last_seen"` // actual state
	Unchanged float64      `json:"unchanged"` // seconds since it last changed
	Notes     List[string] `json:"notes"`

	Evidence List[ScenarioEvidence] `json:"evidence"` // of a failed step
}

// ScenarioEvidence is what a namespace of a failed step's subjects says, without secrets.
type ScenarioEvidence struct {
	Cluster   string       `json:"cluster"`
	Namespace string       `json:"namespace"`
	Source    string       `json:"source"` // events, or log of POD/CONTAINER
	Lines     List[string] `json:"lines"`
}

// ScenarioMeasure is the time from a change to its effect.
type ScenarioMeasure struct {
	Name    string  `json:"name"`
	From    string  `json:"from"`
	Seconds float64 `json:"seconds"`
}

// PromoteResult is `lab promote -o json`.
type PromoteResult struct {
	Addon   string       `json:"addon"`
	From    string       `json:"from"`
	To      string       `json:"to"`
	Was     string       `json:"was"`
	Version string       `json:"version"`
	File    string       `json:"file"`    // with the pin for the lab's engine
	Files   List[string] `json:"files"`   // that change, those of the other engine too
	Changed bool         `json:"changed"` // false if there was nothing to promote
	Written bool         `json:"written"` // false with --dry-run
	Diff    string       `json:"diff"`
	Commit  string       `json:"commit"` // in the forge; empty if nothing was pushed
	Notes   List[string] `json:"notes"`  // on the other engine's pin
}
