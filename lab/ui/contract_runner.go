package ui

import (
	"cmp"
	"fmt"
	"strings"

	"homelab/lab"
)

// RunnerLogResult is `lab runner log -o json`, the oldest first.
type RunnerLogResult struct {
	Lab     string               `json:"lab"`
	Entries List[RunnerLogEntry] `json:"entries"`
}

// RunnerLogEntry is a line of the runner's log.
type RunnerLogEntry struct {
	Time    string  `json:"time"`
	Level   string  `json:"level"` // info, warn or error
	Message string  `json:"message"`
	Request int     `json:"request"` // number; 0 if it is about none, and then the following are empty
	Title   string  `json:"title"`
	Head    string  `json:"head"`  // commit
	Check   string  `json:"check"` // empty if it is about all
	State   string  `json:"state"` // success, failure or error; empty before it ends
	Said    string  `json:"said"`
	Seconds float64 `json:"seconds"` // that the check took
}

// String returns the entry as one line.
func (e RunnerLogEntry) String() string {
	words := []string{cmp.Or(e.Time, "-")}
	if e.Level != "info" {
		words = append(words, e.Level)
	}
	if words = append(words, e.Message); e.Request != 0 {
		words = append(words, fmt.Sprintf("#%d (%s) at %s", e.Request, e.Title, lab.Abbreviate(e.Head)))
	}
	if e.Check != "" {
		words = append(words, e.Check+":", e.State)
	}
	if e.Said != "" {
		words = append(words, "- "+e.Said)
	}
	if e.Seconds > 0 {
		words = append(words, fmt.Sprintf("(%.1fs)", e.Seconds))
	}
	return clean(strings.Join(strings.Fields(strings.Join(words, " ")), " "))
}

// RunnerLog prints `lab runner log`.
func (u *UI) RunnerLog(res RunnerLogResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	for _, e := range res.Entries {
		u.Print(e.String())
	}
	return nil
}
