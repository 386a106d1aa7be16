package scenario_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/verb"
)

// problems returns the problems of a scenario, one per line.
func problems(t *testing.T, err error) string {
	t.Helper()
	var e *lab.Error
	if !errors.As(err, &e) || e.Exit != lab.ExitInvalid {
		t.Fatalf("not an invalid scenario: %v", err)
	}
	if len(e.Problems) == 0 {
		return e.Error() + "\n"
	}
	return e.Problems.Error() + "\n"
}

// Each archive has an invalid scenario and its expected problems.
func TestLoadInvalid(t *testing.T) {
	cases, err := filepath.Glob("testdata/broken/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fsys := fstest.MapFS{}
			want := ""
			for _, f := range archive.Files {
				if f.Name == "problems" {
					want = string(f.Data)
					continue
				}
				fsys["scenarios/test/"+f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o644}
			}
			_, err = scenario.Load(fsys, "test", verb.All())
			if err == nil {
				t.Fatal("accepted")
			}
			got := problems(t, err)
			if *update {
				archive.Files[len(archive.Files)-1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

const head = "apiVersion: lab/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  title: t\n  teaches: t\n"

func TestLoadHostile(t *testing.T) {
	bomb := head + "  vars:\n    a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("    a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10))
	}
	for name, text := range map[string]string{
		"huge":        head + strings.Repeat("#", 2<<20),
		"alias bomb":  bomb + "  steps: [{title: t, wait: {for: 1s}}]\n",
		"deep":        head + "  steps: " + strings.Repeat("[", 5000),
		"many steps":  head + "  steps:\n" + strings.Repeat("    - {title: t, wait: {for: 1ms}}\n", 101),
		"a long path": head + "  steps: [{title: t, patch: {cluster: a, kind: b, name: c, set: {\"" + strings.Repeat("a.", 4000) + "a\": 1}}}]\n",
		"a pattern":   head + "  steps: [{title: t, expect: {object: {cluster: a, kind: b, name: c}, has: {a: {matches: \"" + strings.Repeat("(a*)*", 1000) + "\"}}}}]\n",
	} {
		began := time.Now()
		_, err := scenario.Load(fstest.MapFS{"scenarios/test/scenario.yaml": {Data: []byte(text)}}, "test", verb.All())
		if err == nil {
			t.Errorf("%s accepted", name)
			continue
		}
		if all := problems(t, err); len(all) > 2000 {
			t.Errorf("%s: %d characters reported", name, len(all))
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s took %s", name, took)
		}
	}
}

// A folder without a scenario is one that is not written yet, not an unknown one.
func TestLoadMissing(t *testing.T) {
	fsys := fstest.MapFS{"scenarios/test/notes.md": {}}
	if _, err := scenario.Load(fsys, "test", verb.All()); err == nil || problems(t, err) != "scenarios/test/scenario.yaml: does not exist: write it, or remove the folder\n" {
		t.Error(err)
	}
	var e *lab.Error
	if _, err := scenario.Load(fsys, "tests", verb.All()); !errors.As(err, &e) || e.Code != "no_scenario" || e.Cure != `did you mean "test"?` {
		t.Error(err)
	}
}

func TestSymlinksRejected(t *testing.T) {
	const text = head + "  steps: [{title: t, commit: {message: m, files: {a: file}}}]\n"
	outside := filepath.Join(t.TempDir(), "secret")
	write(t, outside, "secret")
	for name, link := range map[string]func(dir string) (from, to string){
		"a sibling file":      func(dir string) (string, string) { return filepath.Join(dir, "scenarios/test/file"), outside },
		"a file within":       func(dir string) (string, string) { return filepath.Join(dir, "scenarios/test/file"), "scenario.yaml" },
		"the scenario itself": func(dir string) (string, string) { return filepath.Join(dir, "scenarios/test/scenario.yaml"), outside },
		"its folder":          func(dir string) (string, string) { return filepath.Join(dir, "scenarios/test"), filepath.Dir(outside) },
		"all scenarios":       func(dir string) (string, string) { return filepath.Join(dir, "scenarios"), filepath.Dir(outside) },
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "scenarios/test/scenario.yaml"), text)
		write(t, filepath.Join(dir, "scenarios/test/file"), "x")
		if _, err := scenario.Load(os.DirFS(dir), "test", verb.All()); err != nil {
			t.Fatal(err)
		}
		from, to := link(dir)
		if err := os.RemoveAll(from); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
		_, err := scenario.Load(os.DirFS(dir), "test", verb.All())
		if err == nil || !strings.Contains(problems(t, err), "is a link") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Variables are bounded when expanded, and paths are checked again after expansion.
func TestVariablesBounded(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for name, c := range map[string]struct{ spec, want string }{
		"a bomb": {
			"  vars: {v: " + long + "}\n  steps: [{title: t, patch: {" + podinfo + ", set: {metadata.annotations.a: \"" + strings.Repeat("${v}", 1000) + "\"}}}]\n",
			"longer than 65536 bytes",
		},
		"many": {
			"  vars: {v: " + long + "}\n  steps: [{title: t, patch: {" + podinfo + ", set: {metadata.annotations: [" + strings.Repeat(`"${v}",`, 100) + "]}}}]\n",
			"variables make this step longer than 262144 bytes",
		},
		"too long a variable": {
			"  steps: [{title: t, expect: {object: {cluster: prod, kind: ConfigMap, namespace: identity, name: big}, capture: {v: data.big}}}]\n",
			"${v} is longer than 4096 bytes",
		},
		"out of the estate": {"  vars: {up: ..}\n  steps: [{title: t, commit: {message: m, set: {\"${up}/x\": {a: 1}}}}]\n", `"../x" leaves the estate`},
	} {
		t.Run(name, func(t *testing.T) {
			stage(t, c.spec, nil, func(b *bench) {
				big := b.object("prod", "podinfo")
				big.SetAPIVersion("v1")
				big.SetKind("ConfigMap")
				big.SetNamespace("identity")
				big.SetName("big")
				big.Object = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": big.Object["metadata"], "data": map[string]any{"big": strings.Repeat("y", 5000)}}
				b.create("prod", big)
				b.Found = b.Objects(b.t)
				r := b.play()
				b.want(r, scenario.Broken)
				if !strings.Contains(story(r), c.want) {
					t.Errorf("want %s\n%s", c.want, story(r))
				}
			})
		})
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(head + "  steps: [{title: t, wait: {for: 1s}}]\n")
	f.Add(head + "  vars: {a: 1}\n  steps: [{title: \"${a}\", expect: {object: {cluster: a, kind: b, name: c}, has: {\"a[b=c]\": {matches: \"x${a}\"}}}}]\n")
	for _, name := range []string{"drift", "promotion"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "scenarios", name, "scenario.yaml"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.Replace(string(data), "name: "+name, "name: test", 1))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scenario.Load(fstest.MapFS{"scenarios/test/scenario.yaml": {Data: []byte(text)}}, "test", verb.All())
		if err != nil {
			problems(t, err) // the error must be lab.Problems
			return
		}
		if len(s.Steps) == 0 || s.Title == "" {
			t.Errorf("accepted without steps or title: %q", text)
		}
	})
}
