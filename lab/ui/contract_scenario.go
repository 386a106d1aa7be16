package ui

import (
	"time"
)

// ScenarioList is `lab scenario ls -o json`.
type ScenarioList struct {
	Scenarios List[ScenarioSummary] `json:"scenarios"`
}

// ScenarioSummary is one scenario of an estate; `lab scenario show -o json` is one ScenarioShow.
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
	Engines  List[string]       `json:"engines"`  // that it is for; any when empty
	Clusters List[string]       `json:"clusters"` // that it requires
	Steps    List[ScenarioStep] `json:"steps"`
}

// ScenarioStep is one step of a scenario.
type ScenarioStep struct {
	Number int    `json:"number"`
	ID     string `json:"id"`
	Title  string `json:"title"`
	Verb   string `json:"verb"`
	Always bool   `json:"always"`
	Line   int    `json:"line"`
}

// ScenarioRun is `lab scenario run -o json`.
type ScenarioRun struct {
	Lab       string               `json:"lab"`
	Verdict   string               `json:"verdict"` // the worst of the scenarios': passed, skipped, failed, timeout, error, interrupted
	Seconds   float64              `json:"seconds"`
	Scenarios List[ScenarioResult] `json:"scenarios"`
}

// ScenarioResult is one played scenario.
type ScenarioResult struct {
	Name     string                   `json:"name"`
	Title    string                   `json:"title"`
	Verdict  string                   `json:"verdict"`
	Reason   string                   `json:"reason"` // why it was skipped, or what went wrong outside of a step
	Began    time.Time                `json:"began"`
	Seconds  float64                  `json:"seconds"`
	Steps    List[ScenarioStepResult] `json:"steps"`
	Measures List[ScenarioMeasure]    `json:"measures"`
	Left     List[string]             `json:"left"`     // what is not as it was before
	Timeline string                   `json:"timeline"` // path of the HTML page
}

// ScenarioStepResult is one played step.
type ScenarioStepResult struct {
	Number    int          `json:"number"`
	ID        string       `json:"id"`
	Title     string       `json:"title"`
	Verb      string       `json:"verb"`
	Always    bool         `json:"always"`
	Verdict   string       `json:"verdict"` // passed, failed, timeout, error, interrupted or not played
	Since     float64      `json:"since"`   // seconds from the story's beginning to the step's
	Seconds   float64      `json:"seconds"`
	Did       string       `json:"did"`
	Error     string       `json:"error"`
	Expected  string       `json:"expected"`  // of an expectation that was not met
	LastSeen  string       `json:"last_seen"` // instead
	Unchanged float64      `json:"unchanged"` // seconds that it had been so
	Notes     List[string] `json:"notes"`
}

// ScenarioMeasure is a span of time from a change to what followed from it.
type ScenarioMeasure struct {
	Name    string  `json:"name"`
	From    string  `json:"from"`
	Seconds float64 `json:"seconds"`
}

// PromoteResult is `lab promote -o json`.
type PromoteResult struct {
	Addon   string `json:"addon"`
	From    string `json:"from"`
	To      string `json:"to"`
	Was     string `json:"was"`
	Version string `json:"version"`
	File    string `json:"file"`
	Changed bool   `json:"changed"` // false when there was nothing to promote
	Written bool   `json:"written"` // false with --dry-run
	Diff    string `json:"diff"`
	Commit  string `json:"commit"` // in the forge; empty when nothing was pushed
}
