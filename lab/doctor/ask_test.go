package doctor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"homelab/lab"
	"homelab/lab/docker"
)

// silent is an engine that stops answering at one kind of question, with a client that ignores interrupts.
type silent struct {
	engineOf
	at string // "info", or the first word of a docker command
}

const forEver = time.Hour

func (s silent) Info(ctx context.Context) (docker.Info, error) {
	if s.at == "info" {
		time.Sleep(forEver) // instant under synctest
		return docker.Info{}, ctx.Err()
	}
	return s.engineOf.Info(ctx)
}

func (s silent) Endpoint(ctx context.Context) (string, error) {
	if s.at == "context" {
		time.Sleep(forEver)
		return "", ctx.Err()
	}
	return s.engineOf.Endpoint(ctx)
}

func (s silent) Output(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	if s.at == args[0] {
		time.Sleep(forEver)
		return nil, ctx.Err()
	}
	return s.engineOf.Output(ctx, stdin, args...)
}

// doubtful returns a machine on which privileged containers must be probed.
func doubtful(t *testing.T) *machine {
	m := newMachine(t)
	m.Info = docker.Info{ServerVersion: "28.3.0", NCPU: 2, MemTotal: 8 << 30, DefaultRuntime: "runc", CgroupVersion: "2", Architecture: "x86_64"}
	m.Free, m.BuildFromSource, m.Needs = 1<<40, true, []Need{{Program: "go"}}
	m.Programs, m.Go = []string{"go"}, "go1.26.8"
	write(t, m.path("proc/meminfo"), "MemTotal: 8388608 kB\nMemAvailable: 8000000 kB\n")
	write(t, m.path("proc/self/status"), "CapBnd:\t000001fffeffffff\n")
	return m
}

func TestSilentEngine(t *testing.T) {
	for at, want := range map[string]struct{ check, found string }{
		"info":    {CheckDocker, "no answer at unix:///var/run/docker.sock within 10s"},
		"context": {CheckDocker, "28.3.0 at , 2 cores"}, // the engine answers, only its address is unknown
		"ps":      {CheckPrivileged, "docker ps: no answer within 10s"},
		"import":  {CheckPrivileged, "docker import: no answer within 10s"},
		"run":     {CheckPrivileged, "docker run: no answer within 10s"},
		"image":   {CheckPrivileged, "docker image: no answer within"},
	} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Setenv("DOCKER_HOST", "")
				m := doubtful(t)
				d := m.doctor()
				d.o.Docker = patient{silent{engineOf{m}, at}}
				began := time.Now()
				r := d.Run(t.Context())
				if took := time.Since(began); took > 12*time.Second {
					t.Errorf("took %s", took)
				}
				c := r.Check(want.check)
				if !strings.Contains(c.Found, want.found) || (c.Status == StatusFail) == (at == "context") || c.Status == StatusFail && c.Cure == "" {
					t.Errorf("%+v", c)
				}
				if n := utf8.RuneCountInString(c.Found); n > 61 {
					t.Errorf("%d columns: %s", n, c.Found)
				}
				if b := r.Check(CheckBuild); b.Status != StatusOK {
					t.Errorf("independent of the engine: %+v", b)
				}
				time.Sleep(forEver)
			})
		})
	}
}

// A killed client may leave a child that holds its output open, such as a docker plug-in.
func TestInterruptSilentEngine(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	bin := t.TempDir()
	write(t, filepath.Join(bin, "docker"), "#!/bin/sh\nsleep 60 & wait\n")
	if err := os.Chmod(filepath.Join(bin, "docker"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	began := time.Now()
	New(Options{Docker: docker.New()}).Run(ctx)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("ended after %s", took)
	}
}

func TestCertificatesEnding(t *testing.T) {
	t.Setenv("DOCKER_HOST", "")
	m := doubtful(t)
	d := m.doctor()
	d.o.Ending = []lab.ClusterState{{Name: "dev", CertificatesEnd: time.Unix(0, 0), Renew: "it does"}, {Name: "prod"}}
	want := Check{ID: CheckCertificates, Title: "certificates", Status: StatusWarn, Found: "those of dev expired on 1970-01-01, 1 more", Cure: "lab up renews them"}
	if c := d.Run(t.Context()).Check(CheckCertificates); c != want {
		t.Errorf("%+v", c)
	}
	if c := m.doctor().Run(t.Context()).Check(CheckCertificates); c.Status != "" {
		t.Errorf("%+v without any", c)
	}
}

func TestImagesUnavailable(t *testing.T) {
	t.Setenv("DOCKER_HOST", "")
	m := doubtful(t)
	d := m.doctor()
	d.o.Images = &lab.Error{Message: "registry mirror x could not be listed", Cure: "start it", Err: errors.New("connection refused")}
	c := d.Run(t.Context()).Check(CheckImages)
	if c.Status != StatusFail || c.Cure != "start it" || !strings.Contains(c.Found, "connection refused") {
		t.Errorf("%+v", c)
	}
	if c := m.doctor().Run(t.Context()).Check(CheckImages); c.Status != "" {
		t.Errorf("%+v without an error", c)
	}
}
