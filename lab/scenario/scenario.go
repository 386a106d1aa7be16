// Package scenario reads stories about an estate and plays them on a running lab: each step does something or expects something, and the lab is left as it was
// found. What steps can do is in package verb; how a result is written, in package report.
package scenario

import (
	"context"
	"io/fs"
	"time"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
)

// Scenario is one scenarios/NAME/scenario.yaml.
type Scenario struct {
	Name     string
	File     string // path within the estate
	Title    string // the story in one line
	Teaches  string // what one takes home
	Requires Requires
	Timeout  time.Duration // of all steps together
	Vars     map[string]any
	Steps    []Step
	Always   []Step // played after the steps however they ended
	Files    fs.FS  // the scenario's folder
}

// Requires is what a lab must have for the scenario to be played on it.
type Requires struct {
	Engine   []string            `yaml:"engine" enum:"argocd,flux" doc:"engines that the story is for; any when left out"`
	Clusters []string            `yaml:"clusters" doc:"clusters that must be there and answer"`
	Addons   map[string][]string `yaml:"addons" doc:"addon -> clusters that must have it"`
}

// Step is one line of a story.
type Step struct {
	Number int // from 1; always steps count on
	ID     string
	Title  string // what a user would read aloud
	Verb   string
	Action Action // with variables not filled in yet
	At     lab.Position

	verb Verb
	node *yaml.Node
	path string
}

// Verb is one kind of step. Package verb has those that there are.
type Verb struct {
	Name string        // the key in the file
	Doc  string        // one line for the documentation
	New  func() Action // the type that the key's value is read into, by package strict
}

// Action is what stands behind a verb in one step.
type Action interface {
	// Check finds what types alone do not tell: files that are not there, paths that make no sense. Variables are not filled in yet.
	Check(*Checker)
	// Do does it. Where that changes something, it first tells the call how to undo it.
	Do(context.Context, *Call) error
}

// Watcher is an action that speaks of objects or applications, which are then watched from the beginning: a state that lasts for a moment is not missed.
type Watcher interface {
	Subjects() []Subject
}

// Capturer is an action that sets variables.
type Capturer interface {
	Captures() []string
}

// Changer reports whether an action changes the world. What is expected is looked for from the last change on.
type Changer interface {
	Changes() bool
}

// Unmet is the error of an expectation that did not come true.
type Unmet struct {
	Expected  string
	LastSeen  string
	Unchanged time.Duration // how long LastSeen had been so; 0 when it is not known
	Notes     []string
}

func (u *Unmet) Error() string { return "expected " + u.Expected + ", last seen " + u.LastSeen }
