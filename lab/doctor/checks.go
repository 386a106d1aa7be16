package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/version"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
)

const (
	mib = 1 << 20
	gib = 1 << 30

	// clusterMemory is the measured need of a single-node Kind cluster with ready pods.
	clusterMemory = 520 * mib

	// Each node has a copy of its images in a volume, in addition to the engine's. Compiling Kubernetes, Argo CD and
	// others fills Go's caches.
	clusterDisk = 1200 * mib
	imagesDisk  = 3 * gib
	buildDisk   = 16 * gib

	// Kind's recommendation: https://kind.sigs.k8s.io/docs/user/known-issues/#pod-errors-due-to-too-many-open-files
	inotifyWatches   = 524288
	inotifyInstances = 512

	// oldestGo is the first Go that downloads toolchains as needed.
	oldestGo = "go1.21"
)

func (d *Doctor) engine(ctx context.Context, s seen) Check {
	c := Check{ID: CheckDocker, Title: "docker"}
	if s.err == nil {
		return c.ok(fmt.Sprintf("%s at %s, %s", shortVersion(s.info.ServerVersion), s.endpoint, count(s.info.NCPU, "core")))
	}
	_, noClient := d.o.Host.LookPath("docker")
	usual := s.endpoint == "" && os.Getenv("DOCKER_HOST") == "" || s.endpoint == "unix://"+d.o.Host.Socket
	p := platformOf(s)
	switch {
	case errors.Is(s.err, context.DeadlineExceeded):
		return c.fail(fmt.Sprintf("no answer at %s within %s", cmp.Or(s.endpoint, "the engine"), checkTimeout), cureSilence, false)
	case !usual && p.start != "" && p.support == untested:
		return c.fail(p.name+" does not answer", p.start, false)
	case !usual:
		return c.fail("no response from "+cmp.Or(s.endpoint, os.Getenv("DOCKER_HOST")), p.start, false)
	case refused(ctx, d.o.Host.Socket):
		return c.fail("this user may not use "+d.o.Host.Socket, "run lab as root, or join the group: usermod -aG docker $USER", false)
	}
	_, noApt := d.o.Host.LookPath("apt-get")
	_, noDaemon := d.o.Host.LookPath("dockerd")
	switch {
	case d.o.Host.OS != "linux":
		return c.fail("no engine answers", "start Docker Desktop, or another engine", false)
	case noClient == nil && noDaemon == nil:
		return c.fail("docker is installed, but no engine runs", "lab doctor --fix starts it", true)
	case noApt == nil:
		return c.fail("no docker engine on this machine", "lab doctor --fix installs Debian's docker.io and starts it", true)
	}
	return c.fail("no docker engine on this machine", "install docker and start it; --fix can only do so on Debian", false)
}

const cureSilence = "check what the engine waits for, or restart it"

// refused reports whether the user lacks permission for the engine's socket.
func refused(ctx context.Context, socket string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, fs.ErrPermission)
}

func (d *Doctor) cgroup(_ context.Context, s seen) Check {
	c := Check{ID: CheckCgroup, Title: "cgroup"}
	switch {
	case s.err != nil:
		return c.skip("not checked: no engine responds")
	case s.info.CgroupVersion == "2":
		return c.ok("v2")
	case s.info.CgroupVersion == "1":
		return c.ok("v1: works, kubelet accepts it (failCgroupV1: false)")
	}
	return c.skip(fmt.Sprintf("the engine does not report its version (%q)", s.info.CgroupVersion))
}

func (d *Doctor) memory(_ context.Context, s seen) Check {
	c := Check{ID: CheckMemory, Title: "memory"}
	if c, ok := c.skipRemote(s); ok {
		return c
	}
	need := int64(d.o.Clusters)*clusterMemory + d.o.Engines
	return c.enough(s.memory.available, need, "stop other programs, or lab up --only NAME for fewer clusters")
}

func (d *Doctor) disk(_ context.Context, s seen) Check {
	c := Check{ID: CheckDisk, Title: "disk"}
	if c, ok := c.skipRemote(s); ok {
		return c
	}
	need := int64(d.o.Clusters) * clusterDisk
	if need > 0 {
		need += imagesDisk
	}
	if d.o.BuildFromSource {
		// The caches may be on another disk; requiring the sum of each is conservative.
		need += buildDisk
	}
	where := cmp.Or(s.info.DockerRootDir, "/var/lib/docker")
	got, err := d.o.Host.Free(where)
	if err == nil && d.o.BuildFromSource && d.o.CacheDir != "" {
		var other int64
		if other, err = d.o.Host.Free(d.o.CacheDir); err == nil && other < got {
			got, where = other, d.o.CacheDir
		}
	}
	if err != nil {
		return c.skip("not checked: " + err.Error())
	}
	return c.enough(got, need, "free space at "+where+": docker system df")
}

// enough compares free with needed. Too little is a warning, as the need is an estimate; less than half is a failure.
func (c Check) enough(got, need int64, cure string) Check {
	found := size(got) + " free"
	if need > 0 {
		found += ", this estate needs about " + size(need)
	}
	switch {
	case got >= need:
		return c.ok(found)
	case got >= need/2:
		return c.warn(found, cure, false)
	}
	return c.fail(found, cure, false)
}

// build checks the requirements of builds.
func (d *Doctor) build(ctx context.Context) Check {
	c := Check{ID: CheckBuild, Title: "build"}
	var present, missing, packages, byHand []string
	for _, n := range d.o.Needs {
		lack := d.unmet(ctx, n)
		switch {
		case lack == "":
			present = append(present, n.String())
			continue
		case n.Package == "":
			byHand = append(byHand, n.String())
		default:
			packages = append(packages, n.Package)
		}
		missing = append(missing, lack)
	}
	found := "lacks " + strings.Join(missing, ", ")
	switch {
	case len(missing) == 0:
		return c.ok(strings.Join(present, ", "))
	case len(packages) > 0 && d.apt():
		cure := "apt-get install " + strings.Join(packages, " ")
		if len(byHand) > 0 {
			cure += "; manually: " + strings.Join(byHand, ", ")
		}
		return c.fail(found, cure, true)
	}
	return c.fail(found, "install "+strings.Join(append(byHand, packages...), ", ")+"; or use --images bundle=FILE", false)
}

// String returns the name for users.
func (n Need) String() string { return cmp.Or(n.Program, n.Package) }

func (d *Doctor) apt() bool {
	_, err := d.o.Host.LookPath("apt-get")
	return err == nil && d.o.Host.OS == "linux"
}

// unmet describes an unmet need, or returns "".
func (d *Doctor) unmet(ctx context.Context, n Need) string {
	if n.Program == "" {
		out, err := d.hostOutput(ctx, nil, "dpkg-query", "--show", "--showformat", "${db:Status-Status}", n.Package)
		if err != nil || string(out) != "installed" {
			return n.Package
		}
		return ""
	}
	if _, err := d.o.Host.LookPath(n.Program); err != nil {
		return n.Program
	}
	if n.Program != "go" {
		return ""
	}
	// With another GOTOOLCHAIN, go might download the toolchain of a module in the working folder.
	out, err := d.hostOutput(ctx, []string{"GOTOOLCHAIN=local"}, "go", "env", "GOVERSION")
	got := strings.TrimSpace(string(out))
	if err != nil || got == "" {
		return "a working go command (go env fails)"
	}
	if version.IsValid(got) && version.Compare(got, oldestGo) < 0 {
		return "a newer go than " + strings.TrimPrefix(got, "go")
	}
	return ""
}

// hostOutput returns the output of a host program that exits immediately.
func (d *Doctor) hostOutput(ctx context.Context, env []string, program string, args ...string) ([]byte, error) {
	return ask(ctx, program, func(ctx context.Context) ([]byte, error) { return d.o.Host.Run(ctx, env, program, args...) })
}

// images reports why images are unavailable.
func images(err error) Check {
	c := Check{ID: CheckImages, Title: "images"}
	var labErr *lab.Error
	if !errors.As(err, &labErr) {
		return c.fail(firstLine(err.Error()), "", false)
	}
	found := labErr.Message
	if labErr.Err != nil {
		found += ": " + labErr.Err.Error()
	}
	return c.fail(firstLine(found), labErr.Cure, false)
}

// certificates reports that those of clusters have expired or soon will.
func certificates(ending []lab.ClusterState) Check {
	first := ending[0]
	found := strings.Replace(first.Ending(time.Now()), "its certificates", "those of "+first.Name, 1)
	if more := len(ending) - 1; more > 0 {
		found += fmt.Sprintf(", %d more", more)
	}
	return Check{ID: CheckCertificates, Title: "certificates"}.warn(found, first.EndingCure(), false)
}

// skipRemote skips a host check if the engine is remote.
func (c Check) skipRemote(s seen) (Check, bool) {
	switch {
	case s.local:
		return c, false
	case s.err != nil:
		return c.skip("not checked: no engine responds"), true
	}
	return c.skip("not checked: the engine runs on another machine"), true
}

func (c Check) ok(found string) Check {
	c.Status, c.Found = StatusOK, found
	return c
}

func (c Check) skip(found string) Check {
	c.Status, c.Found = StatusSkip, found
	return c
}

func (c Check) warn(found, cure string, fixable bool) Check {
	c.Status, c.Found, c.Cure, c.Fixable = StatusWarn, found, cure, fixable
	return c
}

func (c Check) fail(found, cure string, fixable bool) Check {
	c.Status, c.Found, c.Cure, c.Fixable = StatusFail, found, cure, fixable
	return c
}

// size formats bytes: "21 GiB", "1.5 GiB", "300 MiB".
func size(n int64) string {
	switch {
	case n >= 10*gib:
		return fmt.Sprintf("%.0f GiB", float64(n)/gib)
	case n >= gib:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/gib), ".0") + " GiB"
	}
	return fmt.Sprintf("%d MiB", n/mib)
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// shortVersion drops distribution suffixes: "20.10.24+dfsg1" is 20.10.24.
func shortVersion(v string) string {
	v, _, _ = strings.Cut(v, "+")
	return v
}
