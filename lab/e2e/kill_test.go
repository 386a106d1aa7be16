//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"homelab/lab"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// stages are moments of an up, each known by what there is on the machine then. reached is true from that moment on, passed once it is over.
var stages = []struct {
	name            string
	seconds         int
	reached, passed func(l *testLab) bool
}{
	{"a cluster is being made", 70, func(l *testLab) bool { return len(l.record("dev").Nodes) > 0 }, func(l *testLab) bool { return l.record("dev").Whole }},
	{"the forge is up", 80, func(l *testLab) bool { return dockerQuiet("exec", "lab-"+l.name+"-forge", "true") == nil }, func(l *testLab) bool { return l.record("hub").Whole }},
	{"the hub is up", 90, func(l *testLab) bool { return l.record("hub").Whole }, func(l *testLab) bool { return l.has("applications", "addons") }},
	{"the engine is being installed", 90, func(l *testLab) bool { return l.record("hub").Whole && l.has("", "argocd") }, func(l *testLab) bool { return l.has("applications", "addons") }},
	{"addons are on their way", 90, func(l *testLab) bool { return l.record("hub").Whole && l.has("applications", "addons") }, func(l *testLab) bool { return l.quietlyWell() }},
}

// record is lab's own record of a cluster, as far as it can be read.
func (l *testLab) record(cluster string) (r struct {
	Nodes []string
	Whole bool
},
) {
	data, err := os.ReadFile(filepath.Join(l.state, "lab", l.name, "clusters", cluster+".json"))
	if err == nil {
		_ = json.Unmarshal(data, &r)
	}
	return r
}

// has reports whether the hub has a namespace, or one of Argo CD's objects.
func (l *testLab) has(resource, name string) bool {
	if _, err := os.Stat(filepath.Join(l.state, "lab", l.name, "kubeconfigs", "hub.yaml")); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if resource == "" {
		_, err := l.kube("hub").CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		return err == nil
	}
	_, err := l.dynamic("hub").Resource(schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: resource}).Namespace("argocd").Get(ctx, name, metav1.GetOptions{})
	return err == nil
}

func (l *testLab) quietlyWell() bool {
	return l.command(context.Background(), "status", "--check").Run() == nil
}

// killed kills lab up at a stage; the next goes on to the end, and what was whole stays what it was.
func killed(t *testing.T, l *testLab, stage int) {
	l.killAt(stage)
	whole := map[string]string{}
	for _, cluster := range []string{"hub", "dev"} {
		if l.record(cluster).Whole {
			whole[cluster] = l.born(cluster)
		}
	}
	l.must("up", "--fix")
	l.converged(2, 4)
	for cluster, was := range whole {
		if is := l.born(cluster); is != was {
			t.Errorf("cluster %s was whole, and was made again: %s, then %s", cluster, was, is)
		}
	}
	downAtLast(t, l)
}

// born is what a cluster made again would have another of.
func (l *testLab) born(cluster string) string {
	l.t.Helper()
	n, err := l.kube(cluster).CoreV1().Namespaces().Get(l.t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return fmt.Sprint(n.UID, " of ", n.CreationTimestamp)
}

// killAt starts an up and kills it without warning at a stage; the docker commands that it had begun go on by themselves, as they would after an out-of-memory kill.
func (l *testLab) killAt(i int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Minute)
	defer cancel()
	cmd := l.command(ctx, "up", "--fix")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !stages[i].reached(l) {
		select {
		case err := <-ended:
			l.t.Fatalf("up ended by itself (%v) before it could be killed:\n%s", err, stderr.String())
		case <-tick.C:
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		l.t.Fatal(err)
	}
	<-ended
	if stages[i].passed(l) {
		l.t.Errorf("killed too late: %s is over", stages[i].name)
	}
	l.t.Logf("killed after %.1fs", time.Since(began).Seconds())
}

// killFrozen kills a node one of whose containers is frozen, as runc freezes one while it makes it: the engine takes the node for running ever after.
func killFrozen(t *testing.T, l *testLab) func() {
	id, frozen := docker(t, "inspect", "--format", "{{.Id}}", l.node("dev")), ""
	_ = filepath.WalkDir("/sys/fs/cgroup/freezer", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.Contains(path, id) && strings.Contains(path, "/cri-") && filepath.Base(path) == "freezer.state" {
			frozen = path
			return fs.SkipAll
		}
		return err
	})
	if frozen == "" || os.WriteFile(frozen, []byte("FROZEN"), 0o600) != nil {
		t.Skip("no cgroup v1 freezer here")
	}
	halt(t, "kill", l.node("dev"))
	if out := docker(t, "inspect", "--format", "{{.State.Running}}", l.node("dev")); out != "true" {
		t.Errorf("the node ended: running %s", out)
	}
	return nil
}

// killEngine kills dockerd while lab up starts a cluster, and sees what lab up makes of it.
func killEngine(t *testing.T, l *testLab) func() {
	pid, err := os.ReadFile("/var/run/docker.pid")
	if err != nil || os.Getuid() != 0 {
		t.Skipf("no dockerd here that could be killed: %v", err)
	}
	halt(t, "stop", l.node("dev"))
	up := l.background("stopped", "up")
	eventually(t, time.Minute, func() error {
		if out := docker(t, "inspect", "--format", "{{.State.Running}}", l.node("dev")); out != "true" {
			return errors.New("lab up has not started dev")
		}
		return nil
	})
	n, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if out := up.end(); out.code != int(lab.ExitFailed) || !strings.Contains(out.stderr, "lab up --fix") {
		t.Errorf("lab up whose engine was killed: exit %d\n%s", out.code, out.stderr)
	}
	return nil
}
