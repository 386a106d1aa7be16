//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/ui"
)

// fault is a fault of a converged lab.
type fault struct {
	name    string
	do      func(t *testing.T, l *testLab) (undo func()) // undo may be nil
	message string                                       // expected in the output of the next lab up; empty for anything
	cure    bool                                         // no plan is available until lab up has repaired lab's own files
	fix     bool                                         // the container engine is stopped, and lab up needs --fix to start it
	once    bool                                         // does not depend on the engine
	keys    bool                                         // the fault destroys what only lab's own files have: the key of the door's authority
	lost    []string                                     // clusters whose canaries the fault destroys
}

// partsOf are objects of the engines for kubectl to delete: parts of the release, and objects that lab adds.
var partsOf = map[lab.EngineType][]string{
	lab.EngineArgoCD: {
		"-n argocd secret/argocd-secret service/argocd-repo-server secret/repo-estate appproject/default serviceaccount/argocd-application-controller",
		"clusterrolebinding/argocd-application-controller",
	},
	lab.EngineFlux: {
		"-n flux-system deployment/kustomize-controller service/source-controller serviceaccount/helm-controller secret/lab-webhook receiver/lab-webhook",
		"-n cluster-dev secret/cluster-kubeconfig configmap/cluster-vars",
		"clusterrolebinding/cluster-reconciler-flux-system",
	},
}

// faults are ordered by value. Each expects a converged lab.
var faults = []fault{
	{name: "all containers stopped", do: func(t *testing.T, l *testLab) func() { stopAll(t, l); return nil }},
	{name: "one cluster stopped", once: true, do: func(t *testing.T, l *testLab) func() { halt(t, "stop", l.node("dev")); return nil }},
	{name: "node killed while creating a pod", once: true, do: killFrozen},
	{name: "container engine killed during up", once: true, do: killEngine, fix: true},
	{name: "one node paused", once: true, do: func(t *testing.T, l *testLab) func() { docker(t, "pause", l.node("dev")); return nil }},
	{name: "hub paused", once: true, do: func(t *testing.T, l *testLab) func() { docker(t, "pause", l.node("hub")); return nil }},
	{name: "an API server hangs for 10 s", once: true, do: func(t *testing.T, l *testLab) func() { return hang(t, l, "dev", 10*time.Second) }},
	{name: "the hub's API server hangs for 60 s", do: func(t *testing.T, l *testLab) func() { return hang(t, l, "hub", time.Minute) }},
	{name: "invalid kubeconfigs", once: true, do: func(t *testing.T, l *testLab) func() {
		for _, c := range []string{"hub", "dev"} {
			replace(t, filepath.Join(l.state, "lab", l.name, "kubeconfigs", c+".yaml"), "{")
		}
		return nil
	}},
	{name: "invalid record", once: true, do: func(t *testing.T, l *testLab) func() {
		replace(t, filepath.Join(l.state, "lab", l.name, "lab.json"), "{")
		replace(t, filepath.Join(l.state, "lab", l.name, "credentials.json"), "")
		return nil
	}, message: "unreadable, kept as", cure: true, keys: true},
	{name: "state folder removed", once: true, do: func(t *testing.T, l *testLab) func() {
		if err := os.RemoveAll(filepath.Join(l.state, "lab")); err != nil {
			t.Fatal(err)
		}
		return nil
	}, keys: true},
	{name: "state folder removed, all containers stopped", once: true, do: func(t *testing.T, l *testLab) func() {
		if err := os.RemoveAll(filepath.Join(l.state, "lab")); err != nil {
			t.Fatal(err)
		}
		stopAll(t, l)
		return nil
	}, keys: true},
	{name: "forge's container removed", once: true, do: func(t *testing.T, l *testLab) func() {
		docker(t, "rm", "--force", "lab-"+l.name+"-forge")
		return nil
	}},
	{name: "forge's volume removed", do: func(t *testing.T, l *testLab) func() {
		committed(t, l, "environments/dev/environment.yaml", "only in the forge", func(text string) string { return text + "# theirs\n" })
		l.write("NOTES.md", "ours\n")
		l.refused("diverged", "up")
		docker(t, "rm", "--force", "lab-"+l.name+"-forge")
		docker(t, "volume", "rm", "lab-"+l.name+"-forge")
		return nil
	}, message: "only in the forge (Another Person)"},
	{name: "forge without webhook and a chart", do: func(t *testing.T, l *testLab) func() {
		for _, hook := range forgeAPI[[]struct{ ID int }](t, l, http.MethodGet, "/repos/lab/estate/hooks") {
			forgeAPI[struct{}](t, l, http.MethodDelete, fmt.Sprintf("/repos/lab/estate/hooks/%d", hook.ID))
		}
		forgeAPI[struct{}](t, l, http.MethodDelete, "/packages/lab/helm/podinfo/6.9.2")
		return nil
	}, message: "is not in the forge and 1 more"},
	{name: "parts of the engine removed", do: func(t *testing.T, l *testLab) func() {
		for _, object := range partsOf[l.engine()] {
			docker(t, append([]string{"exec", l.node("hub"), "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "delete"}, strings.Fields(object)...)...)
		}
		if out := l.run("status", "--check"); out.code != int(lab.ExitUnmet) || !strings.Contains(out.stdout, "is gone") {
			t.Errorf("lab status --check: exit %d\n%s", out.code, out.stdout)
		}
		return nil
	}},
	{name: "forge disconnected", do: func(t *testing.T, l *testLab) func() {
		docker(t, "network", "disconnect", "lab-"+l.name, "lab-"+l.name+"-forge")
		return nil
	}},
	{name: "spoke disconnected", do: func(t *testing.T, l *testLab) func() {
		docker(t, "network", "disconnect", "lab-"+l.name, l.node("dev"))
		return nil
	}},
	{name: "all containers stopped, network pruned", once: true, do: func(t *testing.T, l *testLab) func() {
		stopAll(t, l)
		docker(t, "network", "rm", "lab-"+l.name)
		return nil
	}},
	{name: "full disk", once: true, do: fullDisk},
	{name: "hub removed", do: func(t *testing.T, l *testLab) func() {
		docker(t, "rm", "--force", "--volumes", l.node("hub"))
		return nil
	}, lost: []string{"hub"}},
}

// injectFault injects a fault and returns the identities of the canaries, which differ if the fault destroyed any.
func injectFault(t *testing.T, l *testLab, f fault, canaries map[string]string) map[string]string {
	undo := f.do(t, l)
	up := []string{"up"}
	switch {
	case f.fix:
		up = append(up, "--fix")
	case f.cure:
		for _, command := range [][]string{{"status"}, {"up", "--dry-run"}} {
			if out := l.run(command...); out.code != int(lab.ExitFailed) || !strings.Contains(out.stderr, "lab up keeps a copy") {
				t.Errorf("lab %v: exit %d\n%s", command, out.code, out.stderr)
			}
		}
	default:
		for _, s := range decode[ui.PlanResult](l, "up", "--dry-run").Steps {
			if s.Loses != "" || s.Action == "delete" || s.Action == "recreate" {
				t.Errorf("plan loses data: %+v", s)
			}
		}
	}
	out := l.run(up...)
	if undo != nil {
		undo()
	}
	if f.message != "" && !strings.Contains(out.stderr, f.message) {
		t.Errorf("lab up does not print %q:\n%s", f.message, out.stderr)
	}
	if out.code != 0 {
		t.Fatalf("lab up: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	t.Logf("FAULT %-45s converged in %5.1fs", f.name, out.took.Seconds())
	keep := slices.DeleteFunc([]string{"hub", "dev"}, func(c string) bool { return slices.Contains(f.lost, c) })
	l.checkCanaries(canaries, keep...)
	kept := map[string]string{}
	if hasParts(canaries) {
		kept = l.keptByParts()
	}
	for what, got := range kept {
		if f.keys && strings.HasPrefix(what, "door") {
			canaries[what] = got
		} else if got != canaries[what] {
			t.Errorf("%s was %s, is %s", what, canaries[what], got)
		}
	}
	l.converged(2, 4)
	for _, s := range decode[ui.PlanResult](l, "up", "--dry-run").Steps {
		if s.Action != "none" {
			t.Errorf("second up would %+v", s)
		}
	}
	if again := decode[ui.UpResult](l, "up"); len(again.Changed) > 0 {
		t.Errorf("second up changed %v", again.Changed)
	}
	for _, c := range f.lost {
		l.canary(c)
	}
	if len(f.lost) > 0 {
		maps.Copy(canaries, l.canaryIdentities("hub", "dev"))
	}
	return canaries
}

// otherParts are further tests of a converged lab, which do not depend on the engine.
var otherParts = []struct {
	name string
	run  func(*testing.T, *testLab, map[string]string)
}{
	{"signals", signals},
	{"concurrent commands", twoAtOnce},
	{"status --check", withoutCanaries(checked)},
	{"kubeconfig --merge", withoutCanaries(merged)},
	{"diagnose", withoutCanaries(diagnosed)},
	{"occupied port", withoutCanaries(portTaken)},
	{"down without an engine", withoutCanaries(withoutEngine)},
	{"azure and gcp", withoutCanaries(clouds)},
}

// withoutCanaries adapts a test that needs no canaries.
func withoutCanaries(run func(*testing.T, *testLab)) func(*testing.T, *testLab, map[string]string) {
	return func(t *testing.T, l *testLab, _ map[string]string) { run(t, l) }
}

// forgeAPI sends a request to the forge with its credentials.
func forgeAPI[T any](t *testing.T, l *testLab, method, path string) (answer T) {
	t.Helper()
	c := decode[ui.Credential](l, "creds", "forge")
	req, err := http.NewRequestWithContext(t.Context(), method, c.URL+"/api/v1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(c.User, c.Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
	if method == http.MethodGet {
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
	}
	return answer
}

// stopAll stops all containers of the lab, as a machine shutdown does.
func stopAll(t *testing.T, l *testLab) {
	t.Helper()
	halt(t, append([]string{"stop"}, strings.Fields(docker(t, "ps", "--quiet", "--filter", "network=lab-"+l.name))...)...)
}

// hang freezes an API server for some time.
func hang(t *testing.T, l *testLab, cluster string, d time.Duration) func() {
	t.Helper()
	l.inNode(cluster, "pkill -STOP kube-apiserver")
	done := make(chan struct{})
	node := l.node(cluster)
	timer := time.AfterFunc(d, func() {
		defer close(done)
		_ = dockerQuiet("exec", node, "pkill", "-CONT", "kube-apiserver") // kubelet may have started another one
	})
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}

func replace(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fullDisk moves lab's files to a full file system and checks that lab up fails with a cure, before freeing space.
func fullDisk(t *testing.T, l *testLab) func() {
	dir := filepath.Join(l.state, "lab", l.name)
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	if err := os.CopyFS(dir, os.DirFS(kept)); err != nil {
		t.Fatal(err)
	}
	halt(t, "stop", l.node("dev"))
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	_ = filler.Close()
	out := l.run("up")
	if out.code != int(lab.ExitFailed) || !strings.Contains(out.stderr, "no space left on device") || !strings.Contains(out.stderr, "free space") {
		t.Errorf("lab up with a full disk: exit %d\n%s", out.code, out.stderr)
	}
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	return nil
}

// signals interrupts lab up in three ways; the next run resumes.
func signals(t *testing.T, l *testLab, canaries map[string]string) {
	hangups := make(chan os.Signal, 1) // under nohup, lab would inherit an ignored SIGHUP
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for _, s := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, int(lab.ExitInterrupted)}, {syscall.SIGTERM, int(lab.ExitInterrupted)}, {syscall.SIGHUP, int(lab.ExitInterrupted)}, {syscall.SIGKILL, -1}} {
		end := hang(t, l, "dev", time.Minute)
		up := l.background("its API does not answer", "up")
		if err := up.Process.Signal(s.signal); err != nil {
			t.Fatal(err)
		}
		out := up.end()
		l.inNode("dev", "pkill -CONT kube-apiserver")
		end()
		if out.code != s.code || s.code > 0 && !strings.Contains(out.stderr, "interrupted") {
			t.Errorf("%v: exit %d\n%s", s.signal, out.code, out.stderr)
		}
		l.must("up")
		l.checkCanaries(canaries, "hub", "dev")
	}
}

// twoAtOnce runs two modifying commands: the second is rejected, and does not disturb the first.
func twoAtOnce(t *testing.T, l *testLab, canaries map[string]string) {
	for _, second := range [][]string{{"up"}, {"down"}, {"scenario", "run", "addon-toggle"}} {
		end := hang(t, l, "dev", 8*time.Second)
		up := l.background("its API does not answer", "up")
		if out := l.run(second...); out.code != int(lab.ExitFailed) || !strings.Contains(out.stderr, "is being changed by another lab command") {
			t.Errorf("lab %s during lab up: exit %d\n%s", strings.Join(second, " "), out.code, out.stderr)
		}
		if out := up.end(); out.code != 0 {
			t.Errorf("lab up during lab %s: exit %d\n%s", strings.Join(second, " "), out.code, out.stderr)
		}
		end()
		l.checkCanaries(canaries, "hub", "dev")
	}
}

// hasParts reports whether the lab of canaries has the optional parts.
func hasParts(canaries map[string]string) bool { return canaries["door authority"] != "" }

// unconfirmed makes changes that would destroy a cluster, first without and then with the required flag.
func unconfirmed(t *testing.T, l *testLab, canaries map[string]string) {
	const kind = "clusters/dev/cluster.yaml"
	before, err := os.ReadFile(filepath.Join(l.estate, kind))
	if err != nil {
		t.Fatal(err)
	}
	engine := l.engine()
	generate := func() {
		if engine == lab.EngineFlux {
			l.must("generate")
		}
	}
	restore := func() { l.write(kind, string(before)); generate() }

	l.edit(kind, "{role: control-plane}", "{role: control-plane, labels: {spare: \"yes\"}}")
	if out := l.run("up"); out.code != int(lab.ExitFailed) || !strings.Contains(out.stderr, "--recreate dev") || !strings.Contains(out.stderr, "would lose everything in cluster dev") {
		t.Errorf("spec.kind changed: exit %d\n%s", out.code, out.stderr)
	}
	restore()
	l.checkCanaries(canaries, "hub", "dev")

	l.remove("clusters/dev")
	generate()
	dry := decode[ui.PlanResult](l, "up", "--dry-run")
	if !slices.ContainsFunc(dry.Effects, func(e ui.Consequence) bool { return e.Cluster == "dev" && e.Object == "" && e.Action == "stay" }) {
		t.Errorf("lab up --dry-run without dev: %+v", dry.Effects)
	}
	runs := l.workloads("dev")
	stay := maps.Clone(runs)
	for _, e := range dry.Effects {
		if name, is := strings.CutPrefix(e.Object, "Deployment "); is && e.Cluster == "dev" && e.Action == "delete" {
			delete(stay, name)
		}
	}
	if deleted := len(runs) - len(stay); len(stay) == 0 || (deleted > 0) != (engine == lab.EngineFlux) {
		t.Errorf("lab up --dry-run without dev deletes %d of %d Deployments: %+v", deleted, len(runs), dry.Effects)
	}
	var parts []string // the door knows the clusters, and the runner has the charts that they use
	if hasParts(canaries) {
		parts = []string{"door", "runner"}
	}
	only(t, decode[ui.UpResult](l, "up"), append(parts, "estate", "addons")...)
	l.checkCanaries(canaries, "hub", "dev")
	if d := cmp.Diff(stay, l.workloads("dev")); d != "" {
		t.Errorf("not as lab up --dry-run said: %s", d)
	}
	restore()

	elsewhere := l.estate
	l.estate = filepath.Join(t.TempDir(), "estate")
	copyTree(t, elsewhere, l.estate)
	if out := l.run("up"); out.code != int(lab.ExitInvalid) || !strings.Contains(out.stderr, elsewhere) || !strings.Contains(out.stderr, l.estate) {
		t.Errorf("estate in another folder: exit %d\n%s", out.code, out.stderr)
	}
	l.must("up", "--adopt")
	l.estate = elsewhere
	l.must("up", "--adopt")
	l.checkCanaries(canaries, "hub", "dev")

	l.must("up", "--recreate", "dev")
	if got := l.canaryIdentities("hub"); got["hub namespace"] != canaries["hub namespace"] {
		t.Error("--recreate dev replaced the hub")
	}
	l.canary("dev")
	l.remove("clusters/dev")
	generate()
	only(t, decode[ui.UpResult](l, "up", "--prune"), append(parts, "estate", "bridge dev", "cluster dev", "addons")...)
	l.converged(1, 1)
	if out := docker(t, "ps", "--all", "--quiet", "--filter", "name="+l.node("dev")); out != "" {
		t.Error("--prune kept the node")
	}
	if engine != lab.EngineFlux { // TestDefaultEstate does it with Argo CD
		return
	}
	restore()
	dry = decode[ui.PlanResult](l, "up", "--dry-run")
	l.must("up")
	cameAsPlanned(t, l, "dev", dry)
}

// workloads returns the uids of a cluster's Deployments, by name.
func (l *testLab) workloads(cluster string) map[string]string {
	l.t.Helper()
	list, err := l.kube(cluster).AppsV1().Deployments("").List(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	of := map[string]string{}
	for _, d := range list.Items {
		of[d.Namespace+"/"+d.Name] = string(d.UID)
	}
	return of
}
