//go:build e2e

package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab/ui"
)

// git runs the git command line in a folder.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=Test User", "-c", "user.email=person@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// commitsInTheForge commits to the forge as another user: Argo CD syncs it, lab up does not overwrite it, and after a pull everything is in sync.
func commitsInTheForge(t *testing.T, l *testLab) {
	l.must("up")
	clone := filepath.Join(t.TempDir(), "clone")
	url := strings.TrimSpace(l.must("git", "url", "--credentials").stdout)
	git(t, t.TempDir(), "clone", "--quiet", url, clone)
	other := &testLab{t: t, estate: clone}
	other.edit("environments/dev/addons/podinfo/values.yaml", "ui:", "replicaCount: 2\nui:")
	git(t, clone, "commit", "--quiet", "--all", "--message", "two replicas in dev")
	pushed := time.Now()
	git(t, clone, "push", "--quiet")

	w, err := l.kube("dev").AppsV1().Deployments("podinfo").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=podinfo"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	deadline := time.After(60 * time.Second)
	for seen := false; !seen; {
		select {
		case e := <-w.ResultChan():
			raw, err := json.Marshal(e.Object)
			if err != nil {
				t.Fatal(err)
			}
			seen = strings.Contains(string(raw), `"replicas":2`)
		case <-deadline:
			t.Fatal("commit not deployed to dev within 60s, is there a webhook?")
		}
	}
	t.Logf("a commit in the forge reached dev after %.1fs", time.Since(pushed).Seconds())

	l.edit("environments/prod/environment.yaml", "cost_center: retail", "cost_center: wholesale")
	refused := l.run("up", "-o", "json")
	var e ui.ErrorResult
	if err := json.Unmarshal([]byte(refused.stdout), &e); err != nil {
		t.Fatalf("%v in %q", err, refused.stdout)
	}
	if refused.code != 1 || e.Error.Code != "diverged" || e.Error.Cure != "lab git pull" {
		t.Errorf("exit %d, %+v, want 1, diverged, and a cure", refused.code, e.Error)
	}
	if log := l.must("git", "log").stdout; !strings.Contains(log, "two replicas in dev") {
		t.Errorf("commit missing:\n%s", log)
	}

	l.edit("environments/dev/addons/podinfo/values.yaml", "ui:", "replicaCount: 2\nui:") // as a pull would
	l.must("up")
	l.converged(4, 10)
	if log := l.must("git", "log").stdout; !strings.Contains(log, "two replicas in dev") {
		t.Errorf("commit missing:\n%s", log)
	}
}
