// Package work runs the checks of a pull request, in a container that has nothing else: no network, no secret, no other program. A check is a process of its own, which is
// killed when it exceeds a limit. Its caller is connected through a Unix socket and sends the files with the order, so that nothing stays.
package work

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"homelab/lab/runner/job"
)

// Limits of the worker, in bytes
const (
	MaxPack   = 64 << 20 // of an order, as packed by git
	MaxOutput = 8 << 20  // of one check
	MaxSaid   = 64 << 10 // of what a check says on stderr
)

// Order is what a worker is asked for.
type Order struct {
	Job        job.Job `json:"job"`
	Base, Head string  // commits that are compared, of the pack
	Lab        string  // name of the lab
	Engine     string  // of the lab, and its version; empty for the estate's
	Version    string
}

// Result is the result of a check.
type Result struct {
	Check job.Check     `json:"check"`
	Exit  int           `json:"exit"`            // of lab; -1 if it was ended
	Ended string        `json:"ended,omitempty"` // by which limit, or how
	Out   []byte        `json:"out"`
	Said  string        `json:"said"` // on stderr
	Took  time.Duration `json:"took"`
}

var (
	commit = regexp.MustCompile(`^[0-9a-f]{40}$`)
	name   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
)

// check returns an error for an order that no supervisor of lab's gives.
func (o Order) check() error {
	switch {
	case !commit.MatchString(o.Base), !commit.MatchString(o.Head):
		return errors.New("an order without commits")
	case !name.MatchString(o.Lab), o.Engine != "" && !name.MatchString(o.Engine), o.Version != "" && !name.MatchString(o.Version):
		return errors.New("an order with a strange name")
	case o.Job.Time <= 0 || o.Job.Time > job.MaxTime, o.Job.Memory <= 0 || o.Job.Memory > job.MaxMemory, len(o.Job.Checks) == 0 || len(o.Job.Checks) > job.MaxChecks:
		return errors.New("an order beyond the limits")
	}
	for _, c := range o.Job.Checks {
		if !slices.Contains(job.Kinds(), c.Kind) || (c.Kind == job.Kustomize) != (c.Path != "") {
			return fmt.Errorf("an order of an unknown check %q", c.Kind)
		}
	}
	return nil
}

// Task is the input of a check's process, as JSON in its last argument.
type Task struct {
	Order
	Check job.Check
	Pack  string // file
}
