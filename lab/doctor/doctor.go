// Package doctor checks whether this machine can run a lab and, on request, applies the safe fixes.
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

// Status is the result of a check.
type Status string

// Statuses. A warning does not prevent a lab, a failure does; a skipped check has a reason.
const (
	StatusOK   Status = "ok"
	StatusWarn Status = "warn"
	StatusFail Status = "fail"
	StatusSkip Status = "skip"
)

// Ids of the checks, in the order of a report; part of the JSON contract.
const (
	CheckDocker     = "docker"
	CheckPlatform   = "platform"
	CheckPrivileged = "privileged"
	CheckCgroup     = "cgroup"
	CheckInotify    = "inotify"
	CheckMemory     = "memory"
	CheckDisk       = "disk"
	CheckBuild      = "build"
	CheckImages     = "images" // only reported if unavailable

	CheckCertificates = "certificates" // only reported if they have expired or soon will
)

// Check is the result of a check.
type Check struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Status  Status `json:"status"`
	Found   string `json:"found"`   // one line of at most 61 columns, which with a title makes 80
	Cure    string `json:"cure"`    // one line; may be empty
	Fixable bool   `json:"fixable"` // fixed by `lab doctor --fix`, as root
}

// Traits are properties of the machine that clusters must adapt to.
type Traits struct {
	CgroupV1    bool `json:"cgroupV1"`    // kubelet must be configured to accept cgroup v1
	NoOOMAdjust bool `json:"noOOMAdjust"` // CAP_SYS_RESOURCE is unavailable: OOM scores cannot be lowered
}

// Report lists all checks in a fixed order. It is a stable contract: fields are added, never renamed.
type Report struct {
	Checks []Check `json:"checks"`
	Traits Traits  `json:"traits"`

	summary string
}

// Summary returns a short line: "docker 28.3, 8 cores, 21 GiB free".
func (r Report) Summary() string { return r.summary }

// Count returns the number of checks with a status.
func (r Report) Count(s Status) int {
	n := 0
	for _, c := range r.Checks {
		if c.Status == s {
			n++
		}
	}
	return n
}

// Check returns the check with an id, or the zero value.
func (r Report) Check(id string) Check {
	for _, c := range r.Checks {
		if c.ID == id {
			return c
		}
	}
	return Check{ID: id}
}

// Fixable reports whether `--fix` has anything to do.
func (r Report) Fixable() bool {
	for _, c := range r.Checks {
		if c.Fixable && c.Status != StatusOK {
			return true
		}
	}
	return false
}

// Err returns an error with all failures and their cures, or nil. Warnings are not errors.
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
		e.Cure = "as root, lab up --fix cures it and continues"
	}
	return e
}

// Docker is the doctor's view of the container engine, implemented by lab/docker.
type Docker interface {
	Info(ctx context.Context) (docker.Info, error)
	Endpoint(ctx context.Context) (string, error)
	Output(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error)
}

// Need is a program or library required to build images from source.
type Need struct {
	Program string // on PATH; empty for a library, whose package is checked
	Package string // Debian package; empty if Debian's is too old
}

// Options describe the intended use of the machine.
type Options struct {
	Docker          Docker
	Host            Host   // zero: this machine
	Clusters        int    // number of clusters to create; running ones already use their memory
	Engines         int64  // memory of the GitOps engines that are not installed yet, in bytes
	BuildFromSource bool   // images are built here
	Needs           []Need // requirements of builds
	CacheDir        string // of built images
	Images          error  // why images are unavailable, or nil

	Ending []lab.ClusterState // clusters whose certificates have expired or soon will
}

// Doctor checks a machine.
type Doctor struct{ o Options }

// New returns a Doctor.
func New(o Options) *Doctor {
	o.Host = o.Host.withDefaults()
	o.Docker = patient{o.Docker}
	return &Doctor{o: o}
}

const (
	// Timeout of all checks, generous for a busy machine
	checkTimeout = 10 * time.Second
	// Further timeout for cleaning up
	cleanupTimeout = time.Second
)

// seen holds findings that several checks share.
type seen struct {
	endpoint string
	info     docker.Info
	err      error // why the engine does not answer
	local    bool  // the engine runs on this machine
	memory   memory
	caps     capabilities
}

// Run runs all checks: the engine's first, as others depend on it, then the rest concurrently. It does not change the
// host. If privileged containers are in doubt, it creates a labelled temporary image of a few hundred bytes.
func (d *Doctor) Run(ctx context.Context) Report {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var build Check
	if d.o.BuildFromSource {
		wg.Go(func() { build = d.build(ctx) }) // independent of the engine
	}
	s := d.look(ctx)
	platform := func(_ context.Context, s seen) Check { return d.platform(s) }
	checks := []func(context.Context, seen) Check{d.engine, platform, d.privileged, d.cgroup, d.inotify, d.memory, d.disk}
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
	if len(d.o.Ending) > 0 {
		r.Checks = append(r.Checks, certificates(d.o.Ending))
	}
	return r
}

// look gathers the shared findings.
func (d *Doctor) look(ctx context.Context) seen {
	var s seen
	var wg sync.WaitGroup
	wg.Go(func() { s.endpoint, _ = d.o.Docker.Endpoint(ctx) })
	wg.Go(func() { s.info, s.err = d.o.Docker.Info(ctx) })
	wg.Wait()
	if s.err == nil && s.info.ServerVersion == "" {
		// Since 28 the client exits with 0 and an empty answer if there is no engine.
		s.err = fmt.Errorf("no response from %s", s.endpoint)
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

// here reports whether the engine is, or would be, on this machine. One in a virtual machine or behind a forwarded
// socket has other resources.
func (d *Doctor) here(s seen) bool {
	if platformOf(s).machine {
		return false
	}
	if s.err != nil {
		return s.endpoint == "" || localEndpoint(s.endpoint)
	}
	return localEndpoint(s.endpoint) && s.info.MemTotal == s.memory.total
}
