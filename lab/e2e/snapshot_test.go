//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/ui"
)

// identities returns the uids of objects by cluster, kind and name, without volatile ones such as events, leases and endpoints.
func (l *testLab) identities(clusters ...string) map[string]string {
	l.t.Helper()
	found := map[string]string{}
	for _, cluster := range clusters {
		for _, resource := range []schema.GroupVersionResource{
			{Version: "v1", Resource: "namespaces"},
			{Version: "v1", Resource: "configmaps"},
			{Version: "v1", Resource: "secrets"},
			{Version: "v1", Resource: "pods"},
			{Version: "v1", Resource: "services"},
			{Version: "v1", Resource: "serviceaccounts"},
			{Group: "apps", Version: "v1", Resource: "deployments"},
		} {
			list, err := l.dynamic(cluster).Resource(resource).List(l.t.Context(), metav1.ListOptions{})
			if err != nil {
				l.t.Fatal(err)
			}
			for _, o := range list.Items {
				found[cluster+" "+resource.Resource+" "+o.GetNamespace()+"/"+o.GetName()] = string(o.GetUID())
			}
		}
	}
	if len(found) < 30*len(clusters) {
		l.t.Fatalf("only %d objects in %v", len(found), clusters)
	}
	return found
}

// sameIdentities fails the test if two sets of identities differ.
func sameIdentities(t *testing.T, was, is map[string]string) {
	t.Helper()
	if maps.Equal(was, is) {
		return
	}
	for _, what := range slices.Sorted(maps.Keys(was)) {
		if is[what] != was[what] {
			t.Errorf("identity of %s was %s, is %q", what, was[what], is[what])
		}
	}
	for _, what := range slices.Sorted(maps.Keys(is)) {
		if was[what] == "" {
			t.Errorf("%s was added", what)
		}
	}
}

// checkIdle fails the test if lab up has anything to do.
func (l *testLab) checkIdle() {
	l.t.Helper()
	for _, s := range decode[ui.PlanResult](l, "up", "--dry-run").Steps {
		if s.Action != "none" {
			l.t.Errorf("up would %+v", s)
		}
	}
	if up := decode[ui.UpResult](l, "up"); len(up.Changed) > 0 {
		l.t.Errorf("up changed %v", up.Changed)
	}
}

func (l *testLab) snapshots() []string {
	l.t.Helper()
	names := []string{}
	for _, s := range decode[ui.SnapshotListResult](l, "snapshot", "ls").Snapshots {
		names = append(names, s.Name)
	}
	return names
}

// restored saves a lab, changes it in every way and restores it; then takes it down, and restores it again.
func restored(t *testing.T, l *testLab) {
	all := []string{"hub", "dev", "staging", "prod"}
	was := l.identities(all...)
	saved := decode[ui.SnapshotSaveResult](l, "snapshot", "save")
	name := saved.Snapshot.Name
	t.Logf("SNAPSHOT saved in %.1fs, %d MB", saved.Seconds, saved.Snapshot.Bytes/1e6)
	l.checkIdle()
	l.fails(lab.ExitInvalid, "exists", "snapshot", "save", name)
	l.fails(lab.ExitInvalid, "exists", "up", "--from", name)
	l.fails(lab.ExitInvalid, "no_snapshot", "snapshot", "restore", name+"x")

	story := l.background("self-heal is switched off", "scenario", "run", "drift")
	if err := story.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	story.end()
	if err := l.kube("dev").CoreV1().Namespaces().Delete(t.Context(), "podinfo", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	docker(t, "rm", "--force", "--volumes", l.node("staging"))
	halt(t, "kill", l.node("prod"))
	out := l.must("snapshot", "restore") // the newest
	t.Logf("SNAPSHOT restored in %.1fs", out.took.Seconds())
	l.checkIdle()
	sameIdentities(t, was, l.identities(all...))

	if down := decode[ui.DownResult](l, "down"); !slices.Equal(down.Kept, []string{name}) {
		t.Errorf("down kept %v", down.Kept)
	}
	out = l.must("up", "--from", name)
	t.Logf("SNAPSHOT up from it in %.1fs", out.took.Seconds())
	l.checkIdle()
	sameIdentities(t, was, l.identities(all...))
	l.must("snapshot", "rm", name)
	if names := l.snapshots(); len(names) > 0 {
		t.Errorf("left over: %v", names)
	}
	l.checkIdle()
}

// moments are times during save and restore: a printed text, and the delay after it.
var moments = []struct {
	command string
	text    string
	after   time.Duration
	both    bool // with either engine; the others do not depend on it
}{
	{"save", "copying their volumes", 500 * time.Millisecond, false},
	{"save", "saving metadata", 300 * time.Millisecond, false},
	{"restore", "removing the current lab", 500 * time.Millisecond, false},
	{"restore", "filling their volumes", 300 * time.Millisecond, true},
}

// killedWithSnapshots kills lab at moments of save and restore. Neither the lab nor the complete snapshot may be lost.
func killedWithSnapshots(t *testing.T, l *testLab, canaries map[string]string) {
	l.must("snapshot", "save", "ready")
	for i, m := range moments {
		if !m.both && l.engine() != lab.EngineArgoCD {
			continue
		}
		args := []string{"snapshot", m.command, "ready"}
		if m.command == "save" {
			args[2] = fmt.Sprintf("torn%d", i)
		}
		cmd := l.background(m.text, args...)
		pause(t.Context(), m.after)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.end()
		l.must("up")
		l.converged(2, 4)
		l.checkCanaries(canaries, "hub", "dev")
		names := l.snapshots()
		if names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, "torn") }); !slices.Equal(names, []string{"ready"}) {
			t.Fatalf("killed %s after %q: snapshots %v", m.after, m.text, names)
		}
	}
	l.must("snapshot", "restore", "ready")
	l.checkCanaries(canaries, "hub", "dev")
	l.checkIdle()
	l.must(append([]string{"snapshot", "rm"}, l.snapshots()...)...)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
