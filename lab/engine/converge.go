package engine

import "fmt"

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
