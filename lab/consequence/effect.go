package consequence

import (
	"slices"

	"homelab/lab"
	"homelab/lab/desired"
)

// Action is what happens to an object.
type Action string

// The actions, most severe first.
const (
	Delete   Action = "delete"
	Recreate Action = "recreate" // deleted, and created again
	Refuse   Action = "refuse"   // the engine cannot apply it, and its sync fails
	Unknown  Action = "unknown"
	Orphan   Action = "orphan" // stays, and nothing manages it any more
	Stay     Action = "stay"   // stays, and is still managed as before
	Restart  Action = "restart"
	Rerun    Action = "rerun" // a hook
	Update   Action = "update"
	Create   Action = "create"
)

var actions = []Action{Delete, Recreate, Refuse, Unknown, Orphan, Stay, Restart, Rerun, Update, Create}

// Rank orders actions, the most severe first.
func (a Action) Rank() int { return slices.Index(actions, a) }

// Effect is what happens to an object.
type Effect struct {
	Cluster     string
	Application string // whose engine's object does it; empty for a cluster
	Release     string // HelmRelease; empty for others
	Object      string // "Deployment web/web"; empty for a cluster or an application as a whole
	Action      Action
	Reason      string
	To          string // application or release that has it afterwards, if it moves
	Loses       string // what is lost with it: "everything in the namespace"; empty for nothing
	Cure        string // how nothing is lost; may be empty
	At          lab.Position
}

// State is an estate as its engine will have it.
type State struct {
	Engine   lab.EngineType
	Each     bool // each cluster has an engine of its own
	Clusters []string
	Apps     []desired.App     // those of clusters that left, too, if the engine still has them
	Unknown  map[string]string // cluster that left -> why it is not known what becomes of its applications
	Sets     map[string]string // ApplicationSet whose output only the running engine knows -> why
}
