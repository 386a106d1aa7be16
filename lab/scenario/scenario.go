// Package scenario reads stories about an estate and plays them on a running lab. A step changes or expects something,
// and the lab is restored at the end. Package verb has the kinds of steps, package report writes results.
package scenario

import (
	"context"
	"io/fs"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
)

// Scenario is one scenarios/NAME/scenario.yaml.
type Scenario struct {
	Name     string
	File     string // path within the estate
	Title    string // the story in one line
	Teaches  string // the lesson
	Requires Requires
	Timeout  time.Duration // of all steps together
	Vars     map[string]any
	Steps    []Step
	Always   []Step // played after the steps, in any case
	Files    fs.FS  // the scenario's folder

	own variants
}

// Requires are the requirements on the lab.
type Requires struct {
	Engine   []lab.EngineType    `yaml:"engine" doc:"engines that the story is for; default any"`
	Clusters []string            `yaml:"clusters" doc:"clusters that must exist and answer"`
	Addons   map[string][]string `yaml:"addons" doc:"addon -> clusters that must have it"`
	Parts    []Part              `yaml:"parts" doc:"optional parts that the lab must have"`
	Images   map[string][]string `yaml:"images" doc:"image, as listed by lab bundle ls -> clusters to load it into before the first step"`

	components []string // of the engine
}

// Part is an optional part of a lab.
type Part string

// Parts.
const (
	PartDoor     Part = "door"
	PartRegistry Part = "registry"
	PartRunner   Part = "runner"
)

// Words implements strict.Enum.
func (Part) Words() []string {
	return []string{string(PartDoor), string(PartRegistry), string(PartRunner)}
}

// of reports whether an estate asks for the part.
func (p Part) of(hub lab.Cluster) bool {
	switch p {
	case PartDoor:
		return hub.Door
	case PartRegistry:
		return hub.Registry
	case PartRunner:
		return hub.Runner
	}
	return false
}

// Step is one step of a story.
type Step struct {
	Number  int // from 1, including always steps and those of other engines
	ID      string
	Title   string           // title for users
	Engines []lab.EngineType // engines that the step is for; none means all
	Verb    string
	Action  Action // with unexpanded variables
	At      lab.Position

	verb Verb
	node *yaml.Node
	path string
}

// Verb is a kind of step.
type Verb struct {
	Name string        // the key in the file
	Doc  string        // one line for the documentation
	New  func() Action // the type that package strict decodes the key's value into
}

// Action is a verb with its parameters.
type Action interface {
	// Check reports problems that decoding cannot find: missing files, invalid paths. Variables are not expanded yet.
	Check(*Checker)
	// Do runs the action. It registers an undo before it changes anything.
	Do(context.Context, *Call) error
}

// Watcher is an action about objects or applications. These are watched from the start of the story, so that
// short-lived states are seen.
type Watcher interface {
	Subjects() []Subject
}

// Capturer is an action that sets variables.
type Capturer interface {
	Captures() []string
}

// Changer reports whether an action changes the lab. Expectations search the log from the last change on.
type Changer interface {
	Changes() bool
}

// Settler is an action that judges how it ended, such as one that must be refused.
type Settler interface {
	CheckOutcome(*Checker)
	Settle(*Call, error) error
}

// Unmet is the error of an expectation that was not met.
type Unmet struct {
	Expected  string
	LastSeen  string
	Unchanged time.Duration // how long LastSeen had not changed; 0 if unknown
	Notes     []string
}

func (u *Unmet) Error() string { return "expected " + u.Expected + ", last seen " + u.LastSeen }

// RequiredClusters returns the clusters of an estate that scenarios need: the hub, and those that they require.
func RequiredClusters(list []*Scenario, est *lab.Estate) []lab.Cluster {
	return slices.DeleteFunc(slices.Clone(est.Clusters), func(c lab.Cluster) bool {
		return c.Role != lab.RoleHub && !slices.ContainsFunc(list, func(s *Scenario) bool { return slices.Contains(s.Requires.Clusters, c.Name) })
	})
}
