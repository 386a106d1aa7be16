package engine

import "fmt"

// Pending is one application that is not as it is wanted, and why.
type Pending struct {
	Application string
	Sync        string // Synced, OutOfSync, Unknown; empty where the application does not exist
	Health      string // Healthy, Progressing, Degraded, ...; likewise
	Reason      string // one line
}

// State is one word for where the application stands: what is worst about it.
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
