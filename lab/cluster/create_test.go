package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/state"

	"sigs.k8s.io/kind/pkg/exec"
)

// A Create that was not cancelled removes nothing and returns its own error.
func TestKindCreate(t *testing.T) {
	for name, want := range map[string]error{"done": nil, "failed": errors.New("no space left on device")} {
		synctest.Test(t, func(t *testing.T) {
			remove := func(context.Context) error { t.Errorf("%s: removed", name); return nil }
			err := kindCreate(t.Context(), remove, func() error { time.Sleep(time.Minute); return want })
			if !errors.Is(err, want) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A cancelled Create is waited for until it ends, with a limit.
func TestKindCreateHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		busy := errors.New("busy")
		began := time.Now()
		goOn := make(chan struct{})
		defer close(goOn)
		err := kindCreate(ctx, func(context.Context) error { return busy }, func() error { <-goOn; return nil })
		if !errors.Is(err, context.Canceled) || !errors.Is(err, busy) || !strings.Contains(err.Error(), "did not stop") || time.Since(began) != cleanUpLimit {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		began = time.Now()
		err = kindCreate(ctx, func(context.Context) error { return nil }, func() error { time.Sleep(time.Second); return nil })
		if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "did not stop") || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// A taken port is reported with a cure, regardless of docker's other output.
func TestExplainPortTaken(t *testing.T) {
	text := "docker: driver failed programming external connectivity on endpoint demo-dev-control-plane: Bind for 127.0.0.1:80 failed: port is already allocated.\n"
	var e *lab.Error
	err := explain(&exec.RunError{Command: []string{"docker", "run"}, Output: []byte(text), Inner: errors.New("exit status 125")})
	if !errors.As(err, &e) || e.Code != "port_taken" || e.Cure == "" {
		t.Errorf("%v", err)
	}
}

func TestExplainOutput(t *testing.T) {
	var e *lab.Error
	err := explain(&exec.RunError{Command: []string{"kubeadm", "init"}, Output: []byte("[preflight]\nno route to host\n"), Inner: errors.New("exit status 1")})
	if !errors.As(err, &e) || e.Code != "kind" || !slices.Equal(e.Details, []string{"[preflight]", "no route to host"}) {
		t.Errorf("%v", err)
	}
	if err := explain(nil); err != nil {
		t.Errorf("explain(nil) = %v", err)
	}
	plain := errors.New("another")
	if err := explain(plain); err != plain {
		t.Errorf("%v", err)
	}
}

func TestLastLinesUncut(t *testing.T) {
	line := strings.Repeat("x", 80)
	if got := lastLines(line+"\n"+line+"x\n", 2); got[0] != line || got[1] != line[:79]+"…" {
		t.Errorf("%q", got)
	}
}

// Before the first container, a failure removes neither containers nor the record of what was there before.
func TestCreateFailsEarly(t *testing.T) {
	for name, script := range map[string]string{
		"unanswered":    `echo 'Cannot connect to the Docker daemon' >&2; exit 1`,
		"network":       `case "$1 $2" in "ps --all") ;; "network ls") ;; *) echo 'no space left' >&2; exit 1 ;; esac`,
		"image":         `case "$1 $2" in "ps --all") ;; "network ls") echo lab-demo ;; "network inspect") echo '[{"Name": "lab-demo", "Labels": {"lab.homelab/name": "demo"}}]' ;; *) echo 'overloaded' >&2; exit 1 ;; esac`,
		"configuration": `exit 0`,
	} {
		for _, known := range []bool{false, true} {
			calls := engineOf(t, script)
			k := NewKind(&state.Dir{Lab: "demo", Path: t.TempDir()}, docker.WithWrapper(""), Host{})
			was := state.Cluster{Nodes: []string{"1"}, Whole: true, Inputs: "inputs", Began: time.Now().UTC().Truncate(time.Second)}
			if known {
				if err := k.state.SaveCluster("dev", was); err != nil {
					t.Fatal(err)
				}
			}
			spec := Spec{Cluster: lab.Cluster{Name: "dev"}, NodeRef: "lab/node:x"}
			if name == "configuration" {
				spec.Cluster.Kind = []byte("nodes: 3")
			}
			if err := k.Create(t.Context(), spec, nil); err == nil {
				t.Fatalf("%s: no error", name)
			}
			for _, call := range callsIn(t, calls) {
				if strings.HasPrefix(call, "rm ") {
					t.Errorf("%s: docker %s", name, call)
				}
			}
			if now := k.state.Cluster("dev"); known != now.Whole || !known && !now.Began.IsZero() {
				t.Errorf("%s: record %+v", name, now)
			}
		}
	}
}

func TestFavor(t *testing.T) {
	for role, want := range map[lab.Role][]string{
		lab.RoleHub:   {"update --cpu-shares 4096 1 2"},
		lab.RoleSpoke: nil,
	} {
		calls := engineOf(t, "echo 'NanoCPUs can not be set' >&2; exit 1") // ignored
		dir := &state.Dir{Lab: "demo", Path: t.TempDir()}
		if err := dir.SaveCluster("prod", state.Cluster{Nodes: []string{"1", "2"}}); err != nil {
			t.Fatal(err)
		}
		k := &Kind{docker: docker.WithWrapper(""), lab: "demo", state: dir}
		k.favor(t.Context(), lab.Cluster{Name: "prod", Role: role})
		k.favor(t.Context(), lab.Cluster{Name: "unrecorded", Role: role})
		if got := callsIn(t, calls); !slices.Equal(got, want) {
			t.Errorf("%s: %q", role, got)
		}
	}
}

// kind runs the docker command on PATH: lab's own, if lab doctor --fix installed it, once.
func TestWrapped(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", "/usr/bin:/bin")
	for range 2 {
		if err := wrapped(filepath.Join(dir, "docker")); err != nil || os.Getenv("PATH") != "/usr/bin:/bin" {
			t.Fatalf("%v, PATH %s", err, os.Getenv("PATH"))
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "docker"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := wrapped(filepath.Join(dir, "docker")); err != nil || os.Getenv("PATH") != dir+":/usr/bin:/bin" {
			t.Fatalf("%v, PATH %s", err, os.Getenv("PATH"))
		}
	}
}
