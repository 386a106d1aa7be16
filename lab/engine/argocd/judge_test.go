package argocd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/words"
)

// Each file of testdata/judge is a case: the wanted state, Argo CD's objects and the resulting messages.
func TestJudge(t *testing.T) {
	files, err := filepath.Glob("testdata/judge/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]*txtar.File{}
			for i := range archive.Files {
				parts[archive.Files[i].Name] = &archive.Files[i]
			}
			var want engine.Want
			if err := yaml.UnmarshalStrict(parts["want.yaml"].Data, &want); err != nil {
				t.Fatal(err)
			}
			a := &ArgoCD{lab: "homelab"}
			if names := parts["names.yaml"]; names != nil {
				if err := yaml.UnmarshalStrict(names.Data, &a.names); err != nil {
					t.Fatal(err)
				}
			}
			v := parseView(t, a.names, parts["objects.yaml"].Data)

			var got strings.Builder
			pending := judge(v, want)
			for _, p := range pending {
				fmt.Fprintf(&got, "%s is %s: %s\n", p.Application, p.State(), p.Reason)
			}
			for _, app := range a.summarise(values(v.apps)) {
				fmt.Fprintf(&got, "= %s: %s %s %s %s/%s %q\n", app.Name, app.Cluster, app.Addon, app.Version, app.Sync, app.Health, app.Message)
			}
			if len(pending) > 0 {
				var e *lab.Error
				if err := a.notConverged(t.Context(), v, want, pending, 5*time.Minute, nil); !errors.As(err, &e) {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "%s\n", e.Message)
				for _, d := range e.Details {
					fmt.Fprintf(&got, "  %s\n", d)
					if len([]rune(d)) > 78 {
						t.Errorf("line of %d columns: %s", len([]rune(d)), d)
					}
				}
				if line := progressLine(v, want, pending); len([]rune(line)) > words.Width {
					t.Errorf("progress too wide: %s", line)
				}
			}
			if *update {
				parts["summary"].Data = []byte(got.String())
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(parts["summary"].Data), got.String()); d != "" {
				t.Errorf("(-update rewrites the case)\n%s", d)
			}
		})
	}
}

func parseView(t *testing.T, names aliases, manifest []byte) view {
	t.Helper()
	objects, err := kube.Decode(manifest)
	if err != nil {
		t.Fatal(err)
	}
	apps, sets := objects[:0:0], objects[:0:0]
	since := map[string]time.Time{}
	for _, o := range objects {
		switch o.GetKind() {
		case "ApplicationSet":
			sets = append(sets, o)
		case "Secret":
			since[kube.SecretField(o, "name")] = kube.CredentialsSince(o)
		default:
			apps = append(apps, o)
		}
	}
	v, err := newView(names, apps, sets)
	if err != nil {
		t.Fatal(err)
	}
	v.since = since
	return v
}

func TestCompared(t *testing.T) {
	is := map[string]any{"repoURL": "u", "helm": map[string]any{"valueFiles": []any{"a"}, "parameters": []any{}}, "directory": map[string]any{"recurse": false}}
	was := map[string]any{"repoURL": "u", "helm": map[string]any{"valueFiles": []any{"a"}}}
	if !equalIgnoringEmpty(is, was) {
		t.Error("empty fields compared")
	}
	was["helm"].(map[string]any)["valueFiles"] = []any{"a", "b"}
	if equalIgnoringEmpty(is, was) {
		t.Error("difference not detected")
	}
}

func TestCause(t *testing.T) {
	for message, want := range map[string]string{
		`one or more synchronization tasks completed unsuccessfully, reason: namespaces "podinfo" is forbidden. Retrying attempt #3 at 11:28PM.`: `namespaces "podinfo" is forbidden`,
		"one or more objects failed to apply, reason: no such kind":                                                                              "no such kind",
		"Failed last sync attempt to [a1b2c3]: one or more objects failed to apply, reason: no such kind (retried 10 times).":                    "no such kind (retried 10 times).",
		"one or more synchronization tasks are not valid. Retrying attempt #3 at 11:28PM.":                                                       "one or more synchronization tasks are not valid",
		"waiting for healthy state of apps/Deployment/podinfo":                                                                                   "waiting for healthy state of apps/Deployment/podinfo",
	} {
		if got := cause(message); got != want {
			t.Errorf("%q of %q", got, message)
		}
	}
}

// A source reads a repository by any of its addresses.
func TestWantedOfRepository(t *testing.T) {
	want := engine.Want{Revision: "e", Heads: []engine.Head{{Addresses: []string{"http://forge/lab/gitops.git", "https://github.com/acme/gitops"}, Branch: "main", Commit: "c"}}}
	for address, commit := range map[string]string{
		"https://github.com/acme/gitops.git": "c", "git@github.com:Acme/gitops.git": "c", "ssh://git@github.com:22/acme/gitops": "c", "http://forge/lab/gitops": "c",
		"git@gitlab.com:acme/gitops.git": "", "http://forge/lab/estate.git": "e",
	} {
		if got := parseSource("http://forge/lab/estate.git main").wanted(map[string]any{"repoURL": address, "targetRevision": "main"}, want); got != commit {
			t.Errorf("%s: %q, want %q", address, got, commit)
		}
	}
}
