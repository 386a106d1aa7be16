package verb_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/verb"
)

const (
	podinfo = "cluster: prod, apiVersion: apps/v1, kind: Deployment, namespace: podinfo, name: podinfo"
	values  = "clusters/prod/addons/podinfo/values.yaml"
)

// stage is an in-memory lab in the middle of a story.
type stage struct {
	*scenariotest.Lab
	t *testing.T
}

// object returns an object of a cluster, or nil.
func (s stage) object(cluster, apiVersion, kind, name string) *unstructured.Unstructured {
	s.t.Helper()
	subject := scenario.Subject{Cluster: cluster, APIVersion: apiVersion, Kind: kind, Namespace: "podinfo", Name: name}
	c, err := s.Clusters.Client(cluster)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := c.Resource(subject)
	if err != nil {
		s.t.Fatal(err)
	}
	o, err := r.Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return o
}

// file returns a file on a branch of the forge, or "".
func (s stage) file(branch, name string) string {
	s.t.Helper()
	tree, err := s.Forge.Tree(s.t.Context(), branch)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := fs.ReadFile(tree.FS, name)
	if err != nil {
		return ""
	}
	return string(text)
}

// play plays the steps of a story and calls then with the result of each, before anything is restored.
func play(t *testing.T, steps string, more map[string]string, then func(s stage, r scenario.StepResult)) *scenario.Result {
	t.Helper()
	files := map[string]string{"scenarios/test/scenario.yaml": "apiVersion: lab/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  title: t\n  teaches: t\n  steps:\n" + steps}
	for name, text := range more {
		files["scenarios/test/"+name] = text
	}
	fsys := scenariotest.Files(t, os.DirFS(filepath.Join("..", "..", "..")), files)
	story, err := scenario.Load(fsys, "test", verb.All())
	if err != nil {
		t.Fatal(err)
	}
	var result *scenario.Result
	synctest.Test(t, func(t *testing.T) {
		l := scenariotest.New(t, fsys)
		p := scenario.Player{World: l.World, OnStep: func(r scenario.StepResult) {
			if r.Verdict != "" && r.Number <= len(story.Steps) && then != nil {
				then(stage{l, t}, r)
			}
		}}
		result = p.Play(t.Context(), story)
	})
	if len(result.Left) > 0 {
		t.Errorf("left is %q", result.Left)
	}
	return result
}

// Each verb acts and summarizes its change.
func TestVerbs(t *testing.T) {
	files := map[string]string{"beside.txt": "text\n", "new.yaml": "a: 1 # one\n", "objects.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: mine}
data: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: podinfo}
spec: {replicas: 9}
`}
	for name, c := range map[string]struct {
		step, did string
		check     func(s stage) bool
	}{
		"commit": {
			`commit: {message: why, files: {new/file: beside.txt}, remove: [environments/dev/addons/podinfo/values.yaml], set: {` + values + `: {replicaCount: 4}}}`,
			" on main: " + values + ", environments/dev/addons/podinfo/values.yaml, new/file",
			func(s stage) bool {
				log := s.Forge.Log(scenario.Branch)
				last := log[len(log)-1]
				return last.Author == "a developer" && last.Message == "why" && s.file(scenario.Branch, "new/file") == "text\n" &&
					s.file(scenario.Branch, "environments/dev/addons/podinfo/values.yaml") == "" && s.file(scenario.Branch, values) == "replicaCount: 4\n"
			},
		},
		"commit of an edited file": {
			`commit: {message: why, files: {new.yaml: new.yaml}, set: {new.yaml: {a: 2}}}`,
			" on main: new.yaml",
			func(s stage) bool { return s.file(scenario.Branch, "new.yaml") == "a: 2 # one\n" },
		},
		"commit with generated files": {
			`commit: {message: why, set: {clusters/dev/cluster.yaml: {spec.addons.podinfo: false}}, generate: true}`,
			" on main: clusters/dev/addons/podinfo/kustomization.yaml, clusters/dev/cluster.yaml, clusters/dev/flux.yaml",
			func(s stage) bool {
				flux := s.file(scenario.Branch, "clusters/dev/flux.yaml")
				return s.file(scenario.Branch, "clusters/dev/addons/podinfo/kustomization.yaml") == "" && !strings.Contains(flux, "podinfo") && strings.Contains(flux, "name: identity")
			},
		},
		"commit on a branch": {
			`commit: {message: why, author: ann, branch: feature/x, set: {` + values + `: {replicaCount: 4}}}`, " on feature/x: " + values,
			func(s stage) bool {
				log := s.Forge.Log("feature/x")
				return log[len(log)-1].Author == "ann" && s.file("feature/x", values) == "replicaCount: 4\n" && s.file(scenario.Branch, values) == "replicaCount: 2\n"
			},
		},
		"apply": {
			`apply: {cluster: prod, file: objects.yaml, namespace: podinfo}`, "configmap mine, deployment podinfo applied",
			func(s stage) bool {
				replicas, _, _ := unstructured.NestedInt64(s.object("prod", "apps/v1", "Deployment", "podinfo").Object, "spec", "replicas")
				return replicas == 9 && s.object("prod", "v1", "ConfigMap", "mine") != nil && s.object("dev", "v1", "ConfigMap", "mine") == nil
			},
		},
		"delete": {
			`delete: {` + podinfo + `}`, "deployment podinfo in prod deleted",
			func(s stage) bool { return s.object("prod", "apps/v1", "Deployment", "podinfo") == nil },
		},
		"patch": {
			`patch: {` + podinfo + `, set: {spec.replicas: 7, metadata.annotations.note: x}, unset: [spec.template]}`, "metadata.annotations.note: (none) -> x, spec.replicas: 2 -> 7, spec.template: ",
			func(s stage) bool {
				o := s.object("prod", "apps/v1", "Deployment", "podinfo")
				replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
				_, template, _ := unstructured.NestedMap(o.Object, "spec", "template")
				return replicas == 7 && o.GetAnnotations()["note"] == "x" && !template
			},
		},
		"label": {
			`label: {cluster: prod, labels: {team: x}, annotations: {note: null, motto: y}}`, "label team: (none) -> x, annotation motto: (none) -> y",
			func(s stage) bool {
				r, err := s.Engine.Registration(s.t.Context(), "prod")
				return err == nil && *r.Labels["team"] == "x" && *r.Annotations["motto"] == "y"
			},
		},
		"label by the bridge": {
			`label: {cluster: prod, addons: {podinfo: false}, cloud: {accountID: "111111111111", region: eu-north-1, vpcID: vpc-1, subnets: [subnet-1]}}`, "label enable_podinfo: true -> ",
			func(s stage) bool {
				r, err := s.Engine.Registration(s.t.Context(), "prod")
				if err != nil || r.Labels["enable_podinfo"] != nil && *r.Labels["enable_podinfo"] == "true" {
					return false
				}
				var all []string
				for _, v := range r.Annotations {
					all = append(all, *v)
				}
				text := strings.Join(all, " ")
				return strings.Contains(text, "111111111111") && strings.Contains(text, "eu-north-1") && strings.Contains(text, "vpc-1") && strings.Contains(text, "subnet-1")
			},
		},
		"pause": {`pause: {cluster: dev}`, "dev paused", func(s stage) bool { return s.Clusters.IsPaused("dev") && !s.Clusters.IsPaused("prod") }},
		"wait":  {`wait: {for: 90s}`, "1m30s passed", func(stage) bool { return true }},
	} {
		t.Run(name, func(t *testing.T) {
			seen := false
			r := play(t, "    - title: it\n      "+c.step+"\n", files, func(s stage, r scenario.StepResult) {
				seen = true
				if r.Verdict != scenario.Passed || !strings.Contains(r.Did, c.did) {
					t.Errorf("%s %q %s, want %q", r.Verdict, r.Did, r.Error, c.did)
				}
				if !c.check(s) {
					t.Error("no effect")
				}
			})
			if r.Verdict != scenario.Passed || !seen {
				t.Errorf("%s: %s", r.Verdict, r.Reason)
			}
		})
	}
}

// A step that fails reports why, and changes nothing.
func TestVerbErrors(t *testing.T) {
	files := map[string]string{
		"list.yaml": "[a, b]\n", "nameless.yaml": "apiVersion: v1\nkind: ConfigMap\n", "torn.yaml": "a: {\n", "unknown.yaml": "apiVersion: nowhere/v1\nkind: Thing\nmetadata: {name: x}\n",
	}
	for name, c := range map[string]struct{ step, want string }{
		"delete nothing":            {"delete: {cluster: prod, apiVersion: v1, kind: ConfigMap, namespace: podinfo, name: none}", "no configmap none in prod"},
		"patch nothing":             {"patch: {cluster: prod, apiVersion: v1, kind: ConfigMap, namespace: podinfo, name: none, set: {data.a: b}}", "no configmap none in prod"},
		"label unchanged":           {"label: {cluster: prod, addons: {podinfo: true}}", "cluster prod already has all of it"},
		"commit to a missing file":  {"commit: {message: m, set: {clusters/none.yaml: {a: b}}}", "clusters/none.yaml: not in the forge"},
		"restore an unchanged file": {"commit: {message: m, restore: [" + values + "]}", "no step has changed " + values + " on main"},
		"commit into a list":        {"commit: {message: m, set: {" + values + ": {replicaCount.deeper: b}}}", values + ": "},
		"apply a list":              {"apply: {cluster: prod, file: list.yaml}", "list.yaml: a document is not an object"},
		"apply without a name":      {"apply: {cluster: prod, file: nameless.yaml}", "nameless.yaml:1: an object needs apiVersion, kind and metadata.name"},
		"apply invalid YAML":        {"apply: {cluster: prod, file: torn.yaml}", "torn.yaml"},
		"apply an unknown kind":     {"apply: {cluster: prod, file: unknown.yaml}", "thing x: "},
		"promote an unknown addon":  {"promote: {addon: none, from: dev, to: staging}", "none"},
		"promote backwards":         {"promote: {addon: podinfo, from: prod, to: dev}", "prod"},
	} {
		t.Run(name, func(t *testing.T) {
			r := play(t, "    - title: it\n      "+c.step+"\n", files, nil)
			step, failed := r.FailedStep()
			if !failed || r.Verdict != scenario.Broken || !strings.Contains(step.Error, c.want) || step.Did != "" {
				t.Errorf("%s: %q %q, want error %q", r.Verdict, step.Did, step.Error, c.want)
			}
		})
	}
}

func TestCommitRestores(t *testing.T) {
	play(t, `    - title: three files change
      commit: {message: m, files: {new: beside.txt}, remove: [environments/dev/addons/podinfo/values.yaml], set: {`+values+`: {replicaCount: 4}}}
    - title: one continues, two are restored
      commit: {message: m, restore: [new, `+values+`]}
`, map[string]string{"beside.txt": "text\n"}, func(s stage, r scenario.StepResult) {
		if r.Number != 2 {
			return
		}
		if s.file(scenario.Branch, "new") != "" || s.file(scenario.Branch, values) != "replicaCount: 2\n" || s.file(scenario.Branch, "environments/dev/addons/podinfo/values.yaml") != "" {
			t.Errorf("%s: %s", r.Did, s.file(scenario.Branch, values))
		}
	})
}

const badVersion = `    - title: an unpublished version
      commit: {message: m, set: {addons/podinfo/applicationset.yaml: {"spec.generators[0].merge.generators[clusters.selector.matchLabels.environment=dev].clusters.values.addonChartVersion": 9.9.9}}}
    - title: dev cannot have it
      expect: {application: {cluster: dev, addon: podinfo}, version: 9.9.9, sync: unknown}
`

// A promotion waits for its gate, or reports what blocks it.
func TestPromotions(t *testing.T) {
	for name, c := range map[string]struct {
		before, step string
		verdict      scenario.Verdict
		message      string
		promoted     bool
	}{
		"open":                      {"", "", scenario.Passed, "staging: podinfo 6.7.0 -> 6.9.2", true},
		"open, no gate":             {"", ", gate: none", scenario.Passed, "staging: podinfo 6.7.0 -> 6.9.2", true},
		"open, refusal expected":    {"", ", outcome: refused", scenario.Failed, "it was promoted", true},
		"no gate, refusal expected": {"", ", gate: none, outcome: refused", scenario.Failed, "it was promoted", true},
		"shut":                      {badVersion, ", within: 5s", scenario.Failed, "expected podinfo 9.9.9 in sync and healthy in dev, last seen application dev-podinfo: unknown", false},
		"shut, no gate":             {badVersion, ", gate: none", scenario.Passed, "staging: podinfo 6.7.0 -> 9.9.9", true},
		"shut, refusal expected":    {badVersion, ", outcome: refused", scenario.Passed, "refused by gate: application dev-podinfo: unknown, healthy, 9.9.9", false},
		"shut, as it says":          {badVersion, ", outcome: refused, refusal: {by: gate, message: {matches: unknown}}", scenario.Passed, "refused by gate: ", false},
		"shut, and says otherwise":  {badVersion, ", outcome: refused, refusal: {message: {matches: degraded}}", scenario.Failed, "expected refused, message matches degraded, last seen refused by gate: application dev-podinfo: unknown", false},
		"not deployed":              {"    - title: off\n      commit: {message: m, set: {clusters/dev/cluster.yaml: {spec.addons.podinfo: false}}}\n", ", within: 5s", scenario.Failed, "no cluster of dev has podinfo", false},
		"unknown":                   {"    - title: silence\n      wait: {for: 1s}\n    - title: long\n      wait: {for: 1m}\n", ", outcome: refused", scenario.Failed, "healthy in dev, or not, last seen nothing seen from the engine any more", false},
		"no version change":         {"    - title: once\n      promote: {addon: podinfo, from: dev, to: staging, author: ann}\n", ", gate: none", scenario.Passed, "6.9.2", true},
	} {
		t.Run(name, func(t *testing.T) {
			steps := c.before + "    - title: it\n      promote: {addon: podinfo, from: dev, to: staging" + c.step + "}\n"
			reported := false
			r := play(t, steps, nil, func(s stage, r scenario.StepResult) {
				if r.Title == "silence" {
					s.Engine.Shut()
					time.AfterFunc(95*time.Second, s.Engine.Open)
				}
				if r.Title != "it" {
					return
				}
				reported = true
				text := r.Did + r.Error
				if r.Unmet != nil {
					text += r.Unmet.Error()
				}
				if r.Verdict != c.verdict || !strings.Contains(text, c.message) {
					t.Errorf("%s: %q, want %s: %q", r.Verdict, text, c.verdict, c.message)
				}
				author := ""
				for _, commit := range s.Forge.Log(scenario.Branch) {
					if commit.Author == "release bot" || commit.Author == "ann" {
						author = commit.Author
					}
				}
				if (author != "") != c.promoted || author == "ann" != strings.Contains(c.before, "author: ann") {
					t.Errorf("promoted by %q", author)
				}
			})
			if !reported {
				t.Errorf("%s: %s", r.Verdict, r.Reason)
			}
		})
	}
}

// An unmet condition is reported with the value seen.
func TestConditions(t *testing.T) {
	for condition, c := range map[string]struct {
		holds   bool
		message string
	}{
		"spec.replicas: 2":                           {true, "= 2"},
		"spec.replicas: 2.0":                         {true, "= 2"},
		"spec.replicas: 3":                           {false, "= 3"},
		"spec.replicas: two":                         {false, "= two"},
		"spec.replicas: {is: 2}":                     {true, "= 2"},
		"spec.replicas: {not: 2}":                    {false, "is not 2"},
		"spec.replicas: {not: 3}":                    {true, ""},
		"spec.replicas: {atLeast: 2}":                {true, ""},
		"spec.replicas: {atLeast: 3}":                {false, "at least 3"},
		"spec.replicas: {atLeast: 1}":                {true, ""},
		"spec.replicas: {atMost: 2}":                 {true, ""},
		"spec.replicas: {atMost: 1}":                 {false, "at most 1"},
		"spec.replicas: {atMost: 3}":                 {true, ""},
		"metadata.name: {atLeast: 1}":                {false, "at least 1"},
		"spec.replicas: {exists: true}":              {true, ""},
		"spec.replicas: {exists: false}":             {false, "is not set"},
		"spec.none: {exists: false}":                 {true, ""},
		"spec.none: {exists: true}":                  {false, "is set"},
		"spec.none: null":                            {true, ""},
		"spec.none: {not: 1}":                        {true, ""},
		"spec.none: {atMost: 1}":                     {false, "at most 1"},
		"metadata.name: {matches: \"^pod.*o$\"}":     {true, ""},
		"metadata.name: {matches: \"^info\"}":        {false, "matches ^info"},
		"spec.replicas: {matches: \"2\"}":            {false, "matches 2"},
		"spec.selector.matchLabels: {is: {a: b}}":    {false, "= "},
		"metadata.name: {is: podinfo}, spec.none: 1": {false, "spec.none is not set"},
	} {
		t.Run(condition, func(t *testing.T) {
			r := play(t, "    - title: it\n      expect: {object: {"+podinfo+"}, has: {"+condition+"}, within: 1s}\n", nil, nil)
			if c.holds {
				if r.Verdict != scenario.Passed {
					t.Errorf("%s %+v", r.Verdict, r.Steps)
				}
				return
			}
			u := r.Steps[0].Unmet
			if r.Verdict != scenario.Failed || u == nil || !strings.Contains(u.Error(), c.message) {
				t.Errorf("%s %+v %q", r.Verdict, u, r.Steps[0].Error)
			}
		})
	}
}

// TestEveryVerb checks that each verb is played on real clusters: by a story of the end-to-end tests, or by one of the estate.
func TestEveryVerb(t *testing.T) {
	of := map[string]string{
		"switch": "scenarios/engine-switch", "renew": "scenarios/hub-loss", "upgrade": "scenarios/engine-upgrade", "seal": "scenarios/secrets-in-git",
		"push-image": "scenarios/image-update",
	}
	for _, v := range verb.All() {
		story := "lab/e2e/testdata/every-verb"
		if of[v.Name] != "" {
			story = of[v.Name]
		}
		text, err := os.ReadFile(filepath.Join("../../..", story, "scenario.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\n      "+v.Name+":") {
			t.Errorf("%s does not play %s", story, v.Name)
		}
	}
}
