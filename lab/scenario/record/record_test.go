package record_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"homelab/lab/estate"
	"homelab/lab/promote"
	"homelab/lab/scenario"
	"homelab/lab/scenario/record"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/verb"
)

const values = "clusters/prod/addons/podinfo/values.yaml"

func root() fs.FS { return os.DirFS(filepath.Join("..", "..", "..")) }

// person works on a lab.
type person struct {
	*scenariotest.Lab
	t *testing.T
}

func (p person) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// lets gives the lab the time to follow.
func (p person) lets() { time.Sleep(20 * time.Second) }

func (p person) commits(message string, files map[string]string) {
	p.t.Helper()
	change := scenario.Change{Branch: scenario.Branch, Author: "ann", Message: message, Files: map[string]*scenario.File{}}
	for name, text := range files {
		change.Files[name] = &scenario.File{Content: []byte(text)}
	}
	_, err := p.Forge.Commit(p.t.Context(), change)
	p.must(err)
	p.lets()
}

func (p person) client(cluster, apiVersion, kind string) dynamic.ResourceInterface {
	p.t.Helper()
	c, err := p.Clusters.Client(cluster)
	p.must(err)
	r, err := c.Resource(scenario.Subject{APIVersion: apiVersion, Kind: kind, Namespace: "podinfo"})
	p.must(err)
	return r
}

func (p person) edits(cluster, name string, change func(*unstructured.Unstructured)) {
	p.t.Helper()
	r := p.client(cluster, "apps/v1", "Deployment")
	o, err := r.Get(p.t.Context(), name, metav1.GetOptions{})
	p.must(err)
	change(o)
	_, err = r.Update(p.t.Context(), o, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
	p.must(err)
	p.lets()
}

func (p person) deletes(cluster, apiVersion, kind, name string) {
	p.t.Helper()
	p.must(p.client(cluster, apiVersion, kind).Delete(p.t.Context(), name, metav1.DeleteOptions{}))
	p.lets()
}

func (p person) labels(cluster, key string, value *string) {
	p.t.Helper()
	p.must(p.Engine.Mark(p.t.Context(), cluster, scenario.Marks{Labels: map[string]*string{key: value}}))
	p.lets()
}

func (p person) promotes(from, to string) {
	p.t.Helper()
	tree, err := p.Forge.Tree(p.t.Context(), scenario.Branch)
	p.must(err)
	est, err := estate.Load(tree.FS, "", p.Estate.Name, estate.EveryEngine())
	p.must(err)
	plan, err := promote.Plan(est, "podinfo", from, to)
	p.must(err)
	files := map[string]string{}
	for name, data := range plan.Changed() {
		files[name] = string(data)
	}
	p.commits(plan.Message(), files)
}

// ten works through ten actions.
func (p person) ten() {
	on := "true"
	p.commits("prod has 4 replicas", map[string]string{values: "replicaCount: 4\n"})
	p.edits("prod", "podinfo", func(o *unstructured.Unstructured) {
		p.must(unstructured.SetNestedField(o.Object, int64(7), "spec", "replicas"))
	})
	p.edits("prod", "podinfo", func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"note": "mine ${x}"}) })
	p.deletes("prod", "apps/v1", "Deployment", "podinfo")
	p.labels("dev", "enable_podinfo", nil)
	p.labels("dev", "enable_podinfo", &on)
	p.promotes("dev", "staging")
	_, err := p.client("dev", "v1", "ConfigMap").Create(p.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "notice", "namespace": "podinfo"}, "data": map[string]any{"text": "closed"},
	}}, metav1.CreateOptions{FieldManager: "kubectl-create"})
	p.must(err)
	p.lets()
	p.deletes("dev", "v1", "ConfigMap", "notice")
	p.commits("prod has 2 replicas", map[string]string{values: "replicaCount: 2\n"})
}

// recorded records a person's work on the default estate.
func recorded(t *testing.T, work func(person)) map[string][]byte {
	t.Helper()
	var out map[string][]byte
	synctest.Test(t, func(t *testing.T) {
		l := scenariotest.New(t, root())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var r *record.Recording
		var said []string
		ended := make(chan error, 1)
		go func() {
			var err error
			r, err = record.Watch(ctx, l.World, func(line string) { said = append(said, line) })
			ended <- err
		}()
		time.Sleep(10 * time.Second)
		work(person{l, t})
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		t.Log(strings.Join(said, "\n"))
		var err error
		if out, err = r.Files("recorded"); err != nil {
			t.Fatal(err)
		}
	})
	return out
}

// replay plays a recording on a new lab, whose files may be changed.
func replay(t *testing.T, files map[string][]byte, sabotage func(fstest.MapFS)) *scenario.Result {
	t.Helper()
	more := map[string]string{}
	for name, data := range files {
		more["scenarios/recorded/"+name] = string(data)
	}
	fsys := scenariotest.Files(t, root(), more)
	if sabotage != nil {
		sabotage(fsys)
	}
	s, err := scenario.Load(fsys, "recorded", verb.All())
	if err != nil {
		t.Fatalf("%v\n%s", err, files["scenario.yaml"])
	}
	var r *scenario.Result
	synctest.Test(t, func(t *testing.T) {
		r = scenario.Player{World: scenariotest.New(t, fsys).World}.Play(t.Context(), s)
	})
	return r
}

func report(r *scenario.Result) string {
	lines := []string{string(r.Verdict), r.Reason}
	for _, s := range r.Steps {
		line := string(s.Verdict) + " " + s.Title + ": " + s.Did + s.Error
		if s.Unmet != nil {
			line += s.Unmet.Error()
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, r.Left...), "\n")
}

// Ten actions are recorded, replay, and fail if their effects do not follow.
func TestTenActions(t *testing.T) {
	files := recorded(t, person.ten)
	text := string(files["scenario.yaml"])
	t.Log(text)
	for what, count := range map[string]int{"\n      commit:": 2, "\n      patch:": 2, "\n      delete:": 2, "\n      label:": 2, "\n      promote:": 1, "\n      apply:": 1, "\n      expect:": 10} {
		if got := strings.Count(text, what); got != count {
			t.Errorf("%d of %q, want %d", got, strings.TrimSpace(what), count)
		}
	}
	for _, want := range []string{values + ": {replicaCount: 4}", "promote: {addon: podinfo, from: dev, to: staging}", "spec.replicas: 7", "author: ann"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if r := replay(t, files, nil); r.Verdict != scenario.Passed || len(r.Left) > 0 {
		t.Errorf("as it was: %s", report(r))
	}
	for name, c := range map[string]struct{ file, old, new, unmet string }{
		"drift is not reverted": {"addons/podinfo/applicationset.yaml", "selfHeal: true", "selfHeal: false", "deployment podinfo in prod"},
		"nothing is deployed":   {"addons/podinfo/applicationset.yaml", `values: ["true"]}`, "values: [\"true\"]}\n                  - {key: ring, operator: Exists}", "deployment podinfo in prod"},
	} {
		r := replay(t, files, func(fsys fstest.MapFS) {
			data := string(fsys[c.file].Data)
			if !strings.Contains(data, c.old) {
				t.Fatalf("%s: no %q", name, c.old)
			}
			fsys[c.file] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(data, c.old, c.new)), Mode: 0o644}
		})
		step, failed := r.FailedStep()
		if r.Verdict != scenario.Failed || !failed || step.Unmet == nil || !strings.Contains(step.Unmet.Expected, c.unmet) {
			t.Errorf("%s: %s", name, report(r))
		}
	}
}

// What an engine does by itself is not an action, and without actions there is no scenario.
func TestNothingDone(t *testing.T) {
	files := recorded(t, func(p person) {
		p.Engine.Restart()
		p.lets()
		p.Clusters.BreakOff("prod")
		p.lets()
	})
	if files != nil {
		t.Errorf("%s", files["scenario.yaml"])
	}
}

// What is deleted while a watch is interrupted is seen afterwards.
func TestDeletedWhileInterrupted(t *testing.T) {
	files := recorded(t, func(p person) {
		p.Clusters.BreakOff("prod")
		p.deletes("prod", "apps/v1", "Deployment", "podinfo")
	})
	if text := string(files["scenario.yaml"]); !strings.Contains(text, "delete: {cluster: prod, apiVersion: apps/v1, kind: Deployment, namespace: podinfo, name: podinfo}") {
		t.Errorf("%s", text)
	}
}

// New, removed and non-YAML files are kept as files; a removal by a commit is not a manual deletion.
func TestFiles(t *testing.T) {
	files := recorded(t, func(p person) {
		_, err := p.Forge.Commit(p.t.Context(), scenario.Change{Branch: scenario.Branch, Author: "ann", Message: "files", Files: map[string]*scenario.File{
			"notes.txt": {Content: []byte("text\n")}, "environments/dev/addons/podinfo/values.yaml": nil,
		}})
		p.must(err)
		p.lets()
		p.labels("dev", "enable_podinfo", nil)
	})
	text := string(files["scenario.yaml"])
	if string(files["action-1/files/notes.txt"]) != "text\n" || !strings.Contains(text, "notes.txt: action-1/files/notes.txt") || !strings.Contains(text, "remove: [environments/dev/addons/podinfo/values.yaml]") {
		t.Errorf("%s\n%v", text, maps.Keys(files))
	}
	if strings.Contains(text, "delete:") || !strings.Contains(text, "absent: true") {
		t.Errorf("%s", text)
	}
	if r := replay(t, files, nil); r.Verdict != scenario.Passed {
		t.Errorf("%s", report(r))
	}
}
