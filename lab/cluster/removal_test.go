package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/state"
)

// engineOf replaces docker by a script that first appends its arguments to the returned file.
func engineOf(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\necho \"$*\" >>"+calls+"\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return calls
}

// callsIn returns the calls so far.
func callsIn(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return line == "" })
}

// remove removes the given containers with their volumes. A container that is gone or being removed is neither an error nor retried.
func TestRemove(t *testing.T) {
	nodes := []docker.Container{{ID: "1"}, {ID: "2"}}
	for message, ends := range map[string]bool{
		"":                                    true,
		"Error: No such container: 1":         true,
		"removal of 1 is already in progress": true,
		"Could not kill: tried to kill container, but did not receive an exit event": false,
	} {
		exit := "exit 0"
		if message != "" {
			exit = "echo '" + message + "' >&2; exit 1"
		}
		calls := engineOf(t, exit)
		err := (&Kind{docker: docker.WithWrapper(""), lab: "demo"}).remove(t.Context(), nodes)
		if (err == nil) != ends {
			t.Errorf("%q: %v", message, err)
		}
		if got := callsIn(t, calls); !slices.Equal(got, []string{"rm --force --volumes 1 2"}) {
			t.Errorf("%q: %q", message, got)
		}
	}
}

// The start of a removal is recorded first, with all containers: it is irreversible once the first container is gone.
func TestRemoveNodesRecord(t *testing.T) {
	nodes := []docker.Container{{ID: "2"}, {ID: "1"}}
	for name, c := range map[string]struct{ had, want state.Cluster }{
		"whole":     {state.Cluster{Whole: true, Nodes: []string{"old"}, Inputs: "i"}, state.Cluster{Whole: true, Nodes: []string{"1", "2"}, Inputs: "i"}},
		"unknown":   {state.Cluster{}, state.Cluster{Nodes: []string{"1", "2"}}},
		"half made": {state.Cluster{Nodes: []string{"1", "2", "3"}}, state.Cluster{Nodes: []string{"1", "2", "3"}}}, // one is already gone
	} {
		t.Run(name, func(t *testing.T) {
			dir := &state.Dir{Lab: "demo", Path: t.TempDir()}
			if err := dir.SaveCluster("dev", c.had); err != nil {
				t.Fatal(err)
			}
			seen := filepath.Join(t.TempDir(), "seen")
			engineOf(t, "cat '"+filepath.Join(dir.Path, "clusters", "dev.json")+"' >"+seen)
			if err := (&Kind{docker: docker.WithWrapper(""), lab: "demo", state: dir}).removeNodes(t.Context(), "dev", nodes); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(seen); err != nil || !strings.Contains(string(text), `"removing": true`) {
				t.Errorf("record during removal: %s, %v", text, err)
			}
			got := dir.Cluster("dev")
			if !got.Removing || got.Whole != c.want.Whole || got.Inputs != c.want.Inputs || !slices.Equal(got.Nodes, c.want.Nodes) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// A stuck node is thawed and removed; its cgroup is that of its id, accessed from its own image.
func TestRemoveNodesStuck(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "thawed")
	calls := engineOf(t, `case $1 in
run) touch `+marker+` ;;
*) [ -e `+marker+` ] || { echo 'did not receive an exit event' >&2; exit 1; } ;;
esac
`)
	k := &Kind{docker: docker.WithWrapper(""), lab: "demo", state: &state.Dir{Lab: "demo", Path: t.TempDir()}}
	if err := k.removeNodes(t.Context(), "dev", []docker.Container{{ID: "1", Name: "demo-dev-control-plane", ImageID: "sha256:0"}}); err != nil {
		t.Fatal(err)
	}
	got := callsIn(t, calls)
	if len(got) != 3 || got[0] != "rm --force --volumes 1" || got[2] != got[0] {
		t.Fatalf("%q", got)
	}
	for _, want := range []string{"run --rm ", " --privileged --network=none ", lab.LabelName + "=demo", "source=/sys/fs/cgroup/freezer", " sha256:0 -c ", " sh 1"} {
		if !strings.Contains(got[1], want) {
			t.Errorf("%q is not in %q", want, got[1])
		}
	}
}

// A full disk does not prevent freeing space, and is reported if the removal fails, too.
func TestRemoveNodesRecordError(t *testing.T) {
	dir := &state.Dir{Lab: "demo", Path: filepath.Join(t.TempDir(), "file")}
	if err := os.WriteFile(dir.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k := &Kind{docker: docker.WithWrapper(""), lab: "demo", state: dir}
	nodes := []docker.Container{{ID: "1", Name: "n"}}
	calls := engineOf(t, "exit 0")
	if err := k.removeNodes(t.Context(), "dev", nodes); err != nil || len(callsIn(t, calls)) != 1 {
		t.Errorf("%v", err)
	}
	engineOf(t, "echo 'did not receive an exit event' >&2; exit 1")
	var e *lab.Error
	if err := k.removeNodes(t.Context(), "dev", nodes); !errors.As(err, &e) || e.Code != "stuck" || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("%v", err)
	}
}

// A node killed while partly frozen is thawed and started; one that was only busy is left alone.
func TestWakeDeadNode(t *testing.T) {
	node := docker.Container{ID: "1", Name: "demo-dev-control-plane", ImageID: "sha256:0", Running: true, Status: "running", Addresses: map[string]string{lab.NetworkName("demo"): "10.0.0.2"}}
	for _, c := range []struct {
		name, script string
		started      bool
	}{
		{"dead", `case $1 in exec) echo 'error executing setns process' >&2; exit 126 ;; esac`, true},
		{"busy", `case $1 in exec) [ -e DIR/thawed ] || exit 126 ;; esac`, false},
		{"alive", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			calls := engineOf(t, strings.ReplaceAll(c.script, "DIR", dir)+`
case "$1 $2" in
"run --rm") touch `+dir+`/thawed ;;
"ps --all") echo 1 ;;
"container inspect")
	running=true
	[ '`+c.name+`' = busy ] || [ ! -e `+dir+`/thawed ] || running=false
	echo '[{"ID": "1", "Name": "/demo-dev-control-plane", "State": {"Running": '$running', "Status": "x"}}]' ;;
esac
`)
			k := &Kind{docker: docker.WithWrapper(""), lab: "demo"}
			if err := k.wake(t.Context(), node, func(string) {}); err != nil {
				t.Fatal(err)
			}
			started := slices.ContainsFunc(callsIn(t, calls), func(call string) bool { return strings.HasPrefix(call, "start ") })
			if started != c.started {
				t.Errorf("started: %v\n%q", started, callsIn(t, calls))
			}
		})
	}
}

func TestWakeStuckNode(t *testing.T) {
	engineOf(t, `case "$1 $2" in
"ps --all") echo 1 ;;
"container inspect") echo '[{"ID": "1", "State": {"Running": true, "Status": "running"}}]' ;;
"exec 1") exit 126 ;;
"run --rm") echo 'no freezer' >&2; exit 1 ;;
esac
`)
	synctest.Test(t, func(t *testing.T) {
		k := &Kind{docker: docker.WithWrapper(""), lab: "demo"}
		err := k.wake(t.Context(), docker.Container{ID: "1", Name: "n", Running: true, Status: "running"}, func(string) {})
		var e *lab.Error
		if !errors.As(err, &e) || e.Code != "stuck" || e.Cure == "" || !strings.Contains(err.Error(), "no freezer") {
			t.Errorf("%v", err)
		}
	})
}
