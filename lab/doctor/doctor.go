// Package doctor reports whether this machine can run a lab, what is in the way, and how to cure it; asked to, it cures what can be cured safely.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
)

// Status is how a check ended.
type Status string

// The statuses. A warning lets a lab run, a failure does not; a skipped check could not be made here and says why.
const (
	StatusOK   Status = "ok"
	StatusWarn Status = "warn"
	StatusFail Status = "fail"
	StatusSkip Status = "skip"
)

// The ids of the checks, in the order of a report; they are part of the JSON contract.
const (
	CheckDocker     = "docker"
	CheckPrivileged = "privileged"
	CheckCgroup     = "cgroup"
	CheckInotify    = "inotify"
	CheckMemory     = "memory"
	CheckDisk       = "disk"
	CheckBuild      = "build"
	CheckImages     = "images" // reported where they cannot be had
)

// Check is one thing that was looked at: what was found, and what cures it.
type Check struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Status  Status `json:"status"`
	Found   string `json:"found"`   // one line, at most 61 columns: it stands beside a title on 80
	Cure    string `json:"cure"`    // one line; empty when nothing is to be done
	Fixable bool   `json:"fixable"` // `lab doctor --fix`, as root, cures it
}

// Traits are what a cluster must know about the machine that it runs on.
type Traits struct {
	CgroupV1    bool `json:"cgroupV1"`    // kubelet must be told to accept cgroup v1
	NoOOMAdjust bool `json:"noOOMAdjust"` // CAP_SYS_RESOURCE is out of reach: no process may lower its OOM score
}

// Report is every check, in a fixed order. It is a stable contract: fields are added, never renamed.
type Report struct {
	Checks []Check `json:"checks"`
	Traits Traits  `json:"traits"`

	summary string
}

// Summary is the report in a few words for a line of its own: "docker 28.3, 8 cores, 21 GiB free".
func (r Report) Summary() string { return r.summary }

// Count returns how many checks ended with the status.
func (r Report) Count(s Status) int {
	n := 0
	for _, c := range r.Checks {
		if c.Status == s {
			n++
		}
	}
	return n
}

// Check returns the check with the id; its zero value where the report has none.
func (r Report) Check(id string) Check {
	for _, c := range r.Checks {
		if c.ID == id {
			return c
		}
	}
	return Check{ID: id}
}

// Fixable reports whether `--fix` has anything to cure.
func (r Report) Fixable() bool {
	for _, c := range r.Checks {
		if c.Fixable && c.Status != StatusOK {
			return true
		}
	}
	return false
}

// Err is nil when nothing failed; else it tells every failure with its cure. Warnings are not errors.
func (r Report) Err() error {
	var failed []string
	e := &lab.Error{Exit: lab.ExitFailed, Code: "host_unfit"}
	fixable := true
	for _, c := range r.Checks {
		if c.Status != StatusFail {
			continue
		}
		failed = append(failed, c.Title)
		fixable = fixable && c.Fixable
		e.Details = append(e.Details, c.Title+": "+c.Found, "  "+c.Cure)
	}
	if len(failed) == 0 {
		return nil
	}
	if r.Check(CheckDocker).Status == StatusFail {
		e.Code = "no_engine"
	}
	e.Message = "this machine cannot run the lab yet: " + strings.Join(failed, ", ")
	e.Cure = "lab doctor shows all checks"
	if fixable {
		e.Cure = "as root, lab up --fix cures it and goes on"
	}
	return e
}

// Docker is what the doctor asks of the container engine; lab/docker is the real one.
type Docker interface {
	Info(ctx context.Context) (docker.Info, error)
	Endpoint(ctx context.Context) (string, error)
	Output(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error)
}

// Need is a program or library that building images from source takes.
type Need struct {
	Program string // looked for on PATH; empty for a library, whose package is looked for
	Package string // Debian's package that brings it; empty where Debian's is too old and a user must install it
}

// Options say what the machine must bear.
type Options struct {
	Docker          Docker
	Host            Host   // zero: this machine
	Clusters        int    // clusters still to be made: those that run already hold their memory
	Engine          bool   // the hub's engine is still to be installed
	BuildFromSource bool   // images must be built here
	Needs           []Need // what building them takes
	CacheDir        string // where built images are kept
	Images          error  // why images cannot be had; nil where nothing is known against it
}

// Doctor examines one machine.
type Doctor struct{ o Options }

// New returns a doctor.
func New(o Options) *Doctor {
	o.Host = o.Host.withDefaults()
	o.Docker = patient{o.Docker}
	return &Doctor{o: o}
}

const (
	// patience is how long all checks may take together. It is long for them, so that a busy machine is not called a broken one.
	patience = 10 * time.Second
	// tidying is how long after that what a check has left may take to go.
	tidying = time.Second
)

// seen is what several checks rest on.
type seen struct {
	endpoint string
	info     docker.Info
	err      error // why the engine does not answer
	local    bool  // the engine runs on this machine, so that what holds here holds for it
	memory   memory
	caps     capabilities
}

// Run makes every check. The engine is asked first, since the others rest on it; the rest run side by side. It changes nothing on the host: all that it
// may leave for a moment is a labelled image of some hundred bytes in the engine, and only where privileged containers are in doubt.
func (d *Doctor) Run(ctx context.Context) Report {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var wg sync.WaitGroup
	var build Check
	if d.o.BuildFromSource {
		wg.Go(func() { build = d.build(ctx) }) // rests on no engine, and waits for none
	}
	s := d.look(ctx)
	checks := []func(context.Context, seen) Check{d.engine, d.privileged, d.cgroup, d.inotify, d.memory, d.disk}
	r := Report{Checks: make([]Check, len(checks)), Traits: d.traits(s), summary: summary(s)}
	for i, check := range checks {
		wg.Go(func() { r.Checks[i] = check(ctx, s) })
	}
	wg.Wait()
	if d.o.BuildFromSource {
		r.Checks = append(r.Checks, build)
	}
	if d.o.Images != nil {
		r.Checks = append(r.Checks, images(d.o.Images))
	}
	return r
}

// look asks the engine and the host what every check wants to know.
func (d *Doctor) look(ctx context.Context) seen {
	var s seen
	var wg sync.WaitGroup
	wg.Go(func() { s.endpoint, _ = d.o.Docker.Endpoint(ctx) })
	wg.Go(func() { s.info, s.err = d.o.Docker.Info(ctx) })
	wg.Wait()
	if s.err == nil && s.info.ServerVersion == "" {
		// Since 28 the client ends with 0 and an empty answer when no engine is there.
		s.err = fmt.Errorf("no engine answers at %s", s.endpoint)
	}
	s.memory = d.o.Host.memory()
	s.caps = d.o.Host.capabilities()
	s.local = d.o.Host.OS == "linux" && d.here(s)
	return s
}

func (d *Doctor) traits(s seen) Traits {
	return Traits{CgroupV1: s.info.CgroupVersion == "1", NoOOMAdjust: s.local && s.caps.known && !s.caps.sysResource}
}

func summary(s seen) string {
	if s.err != nil {
		return "no docker engine"
	}
	out := fmt.Sprintf("docker %s, %s", shortVersion(s.info.ServerVersion), count(s.info.NCPU, "core"))
	if s.local {
		out += fmt.Sprintf(", %s free", size(s.memory.available))
	}
	return out
}

// here reports whether the engine is, or would be, on this machine. An engine in a virtual machine, or behind a forwarded socket, counts another memory.
func (d *Doctor) here(s seen) bool {
	if s.err != nil {
		return s.endpoint == "" || localEndpoint(s.endpoint)
	}
	return localEndpoint(s.endpoint) && s.info.MemTotal == s.memory.total
}
