package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/docker"

	"sigs.k8s.io/kind/pkg/exec"
)

// A node that can be neither killed nor thawed is reported with a cure and all attempts.
func TestRemoveFrozenFails(t *testing.T) {
	dir := t.TempDir()
	const program = "#!/bin/sh\n" + `case $1 in
run) echo 'no such file: /sys/fs/cgroup/freezer' ;;
*) echo 'Could not kill running container 1, cannot remove - tried to kill container, but did not receive an exit event' ;;
esac >&2
exit 1
`
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	k := &Kind{docker: docker.WithWrapper(""), lab: "homelab"}
	nodes := []docker.Container{{ID: "1", Name: "homelab-dev-control-plane", ImageID: "sha256:0"}}
	if err := k.remove(t.Context(), nodes); !stuck(err) {
		t.Fatalf("error = %v, want a stuck node", err)
	}
	var e *lab.Error
	if err := k.removeFrozen(t.Context(), nodes); !errors.As(err, &e) || e.Code != "stuck" || e.Cure == "" {
		t.Fatalf("%v, want an error with a cure", err)
	}
	for _, want := range []string{"thaw homelab-dev-control-plane", "did not receive an exit event"} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%q is not in %q", want, e.Error())
		}
	}
}

// Nodes of a killed run may appear between lab's check and kind's.
func TestExplainLeftOver(t *testing.T) {
	var e *lab.Error
	err := explain(errors.New(`node(s) already exist for a cluster with the name "demo-dev"`))
	if !errors.As(err, &e) || e.Code != CodeLeftOver {
		t.Errorf("%v, want the code %s", err, CodeLeftOver)
	}
	if err := explain(errors.New("another")); errors.As(err, &e) && e.Code == CodeLeftOver && err == error(e) {
		t.Errorf("unrelated error has the code of a left over: %v", err)
	}
}

// A container removed while starting may leave its endpoint behind, which is removed before the next attempt.
func TestExplainOccupied(t *testing.T) {
	text := "docker: Error response from daemon: endpoint with name demo-dev-control-plane already exists in network lab-demo.\n"
	err := explain(&exec.RunError{Command: []string{"docker", "run"}, Output: []byte(text), Inner: errors.New("exit status 125")})
	var e *lab.Error
	var o *staleEndpoint
	if !errors.As(err, &e) || e.Code != CodeLeftOver || !errors.As(err, &o) || *o != (staleEndpoint{"demo-dev-control-plane", "lab-demo"}) {
		t.Fatalf("%v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\necho \"$*\" >>"+dir+"/calls\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	k := &Kind{docker: docker.WithWrapper(""), lab: "demo"}
	for _, err := range []error{err, errors.New("another")} {
		if err := k.removeEndpoint(t.Context(), err); err != nil {
			t.Fatal(err)
		}
	}
	if calls, err := os.ReadFile(filepath.Join(dir, "calls")); err != nil || string(calls) != "network disconnect --force lab-demo demo-dev-control-plane\n" {
		t.Errorf("%q, %v", calls, err)
	}
}

func TestVacateError(t *testing.T) {
	engineOf(t, "echo 'permission denied' >&2; exit 1")
	if err := (&Kind{docker: docker.WithWrapper(""), lab: "demo"}).removeEndpoint(t.Context(), &staleEndpoint{"demo-dev-control-plane", "lab-demo"}); err == nil {
		t.Error("no error")
	}
}

// A removal that fails temporarily, as for a container that is being started, is retried.
func TestRemoveRetry(t *testing.T) {
	dir := t.TempDir()
	program := "#!/bin/sh\necho >>" + dir + "/calls\n[ $(wc -l <" + dir + "/calls) -ge 2 ] || { echo 'driver failed to remove root filesystem: busy' >&2; exit 1; }\n"
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	k := &Kind{docker: docker.WithWrapper(""), lab: "demo"}
	if err := k.remove(t.Context(), []docker.Container{{ID: "1"}}); err != nil {
		t.Error(err)
	}
}

// A network of the lab's name without its label is not the lab's.
func TestHasNetworkForeign(t *testing.T) {
	for labels, ours := range map[string]bool{`{"` + lab.LabelName + `":"demo"}`: true, `{"` + lab.LabelName + `":"other"}`: false, `{}`: false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\necho '[{\"Labels\":"+labels+"}]'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		has, err := (&Kind{docker: docker.WithWrapper(""), lab: "demo"}).HasNetwork(t.Context())
		var e *lab.Error
		if has != ours || !ours && (!errors.As(err, &e) || e.Code != "not_ours" || e.Cure == "") {
			t.Errorf("labels %s: %t, %v", labels, has, err)
		}
	}
}
