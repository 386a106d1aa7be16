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
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/flux"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// stage is a stage of an up, recognized by the state of the machine: reached is true from its start, passed after its end.
type stage struct {
	name            string
	reached, passed func(l *testLab) bool
}

// rootOf is an engine's root and namespace.
var rootOf = map[lab.EngineType]struct {
	resource        schema.GroupVersionResource
	namespace, name string
}{
	lab.EngineArgoCD: {schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}, "argocd", "addons"},
	lab.EngineFlux:   {schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}, flux.Namespace, flux.Namespace},
}

// beforeEngine is the number of stages that do not depend on the engine.
const beforeEngine = 3

func stagesOf(engine lab.EngineType) []stage {
	made := func(l *testLab) bool { return l.record("hub").Whole }
	installing := func(l *testLab) bool { return made(l) && l.hasNamespace(rootOf[engine].namespace) }
	handedOver := func(l *testLab) bool { return made(l) && l.hasRoot(engine) }
	return []stage{
		{"a cluster is being made", func(l *testLab) bool { return len(l.record("dev").Nodes) > 0 }, func(l *testLab) bool { return l.record("dev").Whole }},
		{"the forge is up", func(l *testLab) bool { return dockerQuiet("exec", "lab-"+l.name+"-forge", "true") == nil }, made},
		{"the hub is up", made, handedOver},
		{"the engine is being installed", installing, handedOver},
		{"addons are on their way", handedOver, func(l *testLab) bool { return l.quietlyWell() }},
	}
}

// record returns lab's record of a cluster, or zero if it is unreadable.
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

// hasNamespace reports whether the hub answers and has a namespace.
func (l *testLab) hasNamespace(name string) bool {
	if !l.hubKnown() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := l.kube("hub").CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	return err == nil
}

// hasRoot reports whether the hub answers and has the engine's root.
func (l *testLab) hasRoot(engine lab.EngineType) bool {
	if !l.hubKnown() {
		return false
	}
	root := rootOf[engine]
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := l.dynamic("hub").Resource(root.resource).Namespace(root.namespace).Get(ctx, root.name, metav1.GetOptions{})
	return err == nil
}

func (l *testLab) hubKnown() bool {
	_, err := os.Stat(filepath.Join(l.state, "lab", l.name, "kubeconfigs", "hub.yaml"))
	return err == nil
}

func (l *testLab) quietlyWell() bool {
	return l.command(context.Background(), "status", "--check").Run() == nil
}

// killed kills lab up at a stage; the next run completes, and keeps complete clusters.
func killed(t *testing.T, l *testLab, at stage) {
	l.killAt(at)
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
			t.Errorf("complete cluster %s was replaced: %s, then %s", cluster, was, is)
		}
	}
	finalDown(t, l)
}

// born returns an identity of a cluster, which changes when it is recreated.
func (l *testLab) born(cluster string) string {
	l.t.Helper()
	n, err := l.kube(cluster).CoreV1().Namespaces().Get(l.t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return fmt.Sprint(n.UID, " of ", n.CreationTimestamp)
}

// killAt starts an up and kills it at a stage. Running docker commands continue, as after an out-of-memory kill.
func (l *testLab) killAt(at stage) {
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
	for !at.reached(l) {
		select {
		case err := <-ended:
			l.t.Fatalf("up ended with %v before it was killed:\n%s", err, stderr.String())
		case <-tick.C:
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		l.t.Fatal(err)
	}
	<-ended
	if at.passed(l) {
		l.t.Errorf("killed too late: %s has passed", at.name)
	}
	l.t.Logf("killed after %.1fs", time.Since(began).Seconds())
}

// ofContainer matches the freezer of a pod's container, as kubelet names it with either driver of cgroups.
var ofContainer = regexp.MustCompile(`/(cri-|pod[0-9a-f-]+/)[^/]+/freezer\.state$`)

// killFrozen kills a node with a frozen container, as runc freezes one during creation: the engine keeps reporting the node as running.
func killFrozen(t *testing.T, l *testLab) func() {
	const freezer = "/sys/fs/cgroup/freezer"
	if _, err := os.Stat(freezer); err != nil { // cgroup v2 kills what is frozen
		halt(t, "kill", l.node("dev"))
		return nil
	}
	id, frozen := docker(t, "inspect", "--format", "{{.Id}}", l.node("dev")), ""
	_ = filepath.WalkDir(freezer, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.Contains(path, id) && ofContainer.MatchString(path) {
			frozen = path
			return fs.SkipAll
		}
		return err
	})
	if frozen == "" {
		t.Fatal("no container of a pod in " + freezer)
	}
	if err := os.WriteFile(frozen, []byte("FROZEN"), 0o600); err != nil {
		t.Fatal(err)
	}
	halt(t, "kill", l.node("dev"))
	if out := docker(t, "inspect", "--format", "{{.State.Running}}", l.node("dev")); out != "true" {
		t.Errorf("node exited: running %s", out)
	}
	return nil
}

// killEngine kills dockerd while lab up starts a cluster, and checks the error of lab up.
func killEngine(t *testing.T, l *testLab) func() {
	onlyHere(t)
	pid, err := os.ReadFile("/var/run/docker.pid")
	if err != nil || os.Getuid() != 0 {
		t.Skipf("needs a dockerd to kill: %v", err)
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
		t.Errorf("lab up with killed engine: exit %d\n%s", out.code, out.stderr)
	}
	return nil
}
