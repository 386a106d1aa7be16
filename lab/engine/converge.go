package engine

import (
	"fmt"
	"strings"
	"time"

	"homelab/lab"
)

// Pending is an application that has not converged, and why.
type Pending struct {
	Application string
	Sync        string // Synced, OutOfSync, Unknown; empty if the application does not exist
	Health      string // Healthy, Progressing, Degraded, ...; likewise
	Reason      string // one line
}

// State returns the application's worst status.
func (p Pending) State() string {
	switch {
	case p.Sync == "" && p.Health == "":
		return "Missing"
	case p.Health != "" && p.Health != "Healthy":
		return p.Health
	case p.Sync != "" && p.Sync != "Synced":
		return p.Sync
	}
	return "Waiting"
}

func (p Pending) String() string {
	if p.Reason == "" {
		return p.Application + " is " + p.State()
	}
	return fmt.Sprintf("%s: %s", p.Application, p.Reason)
}

// Moves notices what moves during a wait. A repeated state, such as that of a release that is retried, is not progress.
type Moves struct {
	seen map[Pending]bool
	left int // fewest so far
}

// Look calls want.Moved if an application is in a state in which it was not before, or if fewer are pending than ever.
func (m *Moves) Look(want Want, pending []Pending) {
	if m.seen == nil {
		m.seen, m.left = map[Pending]bool{}, len(pending)
	}
	moved := len(pending) < m.left
	m.left = min(m.left, len(pending))
	for _, p := range pending {
		p.Reason = lab.Uncounted(p.Health, p.Reason)
		moved = moved || !m.seen[p]
		m.seen[p] = true
	}
	if moved && want.Moved != nil {
		want.Moved()
	}
}

// Doubted returns a pending application with what it lacks, as far as the estate's files show, before the engine's reason.
func (w Want) Doubted(p Pending) Pending {
	if doubt := w.Doubts[p.Application]; doubt != "" {
		p.Reason = strings.TrimSuffix(doubt+"; "+p.Reason, "; ")
	}
	return p
}

// ValidSince returns the later of a cluster's registration and last start: an earlier status is about another cluster, or none. Times in the future predate a change
// of the clock, and are ignored.
func (w Want) ValidSince(cluster string, registrations []Registered) time.Time {
	var since time.Time
	now := time.Now()
	later := func(at time.Time) {
		if at.After(since) && !at.After(now) {
			since = at
		}
	}
	later(w.Since[cluster])
	for _, r := range registrations {
		if r.Cluster == cluster {
			later(r.Since)
		}
	}
	return since
}

// Tally counts the applications that have not converged.
type Tally struct {
	Bad, Total         int
	Unhealthy, Staying int // of Bad; Staying should not exist any more
}

// After returns the message of a failed wait: "1 of 11 applications is not healthy after 5m 0s".
func (t Tally) After(waited time.Duration) string {
	is, state := "are", "in sync"
	if t.Bad == 1 {
		is = "is"
	}
	switch t.Bad {
	case t.Unhealthy:
		state = "healthy"
	case t.Staying:
		state = "removed"
	}
	return fmt.Sprintf("%d of %d applications %s not %s after %s", t.Bad, t.Total, is, state, lab.WholeSeconds(waited))
}

// NotConverged returns the error of a failed wait.
func NotConverged(message string, details []string, seen error) error {
	return &lab.Error{
		Exit: lab.ExitTimeout, Code: "not_converged", Message: message, Details: details, Err: seen,
		Cure: "nothing is rolled back. fix the cause and run lab up again; lab diagnose collects details",
	}
}
