package promote

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
	"homelab/lab/estate"
)

// load reads a copy of the default estate with replacements in podinfo's ApplicationSet.
func load(t *testing.T, replace ...string) *lab.Estate {
	t.Helper()
	return read(t, edited(t, "addons/podinfo/applicationset.yaml", replace...), lab.EngineArgoCD)
}

func read(t *testing.T, dir string, engine lab.EngineType) *lab.Estate {
	t.Helper()
	est, err := estate.Load(os.DirFS(dir), dir, "homelab", estate.WithEngine(engine), estate.EveryEngine())
	if err != nil {
		t.Fatal(err)
	}
	return est
}

// edited copies the default estate, with replacements in a file.
func edited(t *testing.T, name string, replace ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{"addons", "clusters", "environments"} {
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join("..", "..", folder))); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, name)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(replace...).Replace(string(data))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPromote(t *testing.T) {
	est := load(t)
	p, err := Plan(est, "podinfo", "dev", "staging")
	if err != nil {
		t.Fatal(err)
	}
	const want = `--- a/addons/podinfo/applicationset.yaml
+++ b/addons/podinfo/applicationset.yaml
@@ -22,7 +22,7 @@
               values: {addonChartVersion: 6.9.2}
           - clusters:
               selector: {matchLabels: {environment: staging}}
-              values: {addonChartVersion: 6.7.0}
+              values: {addonChartVersion: 6.9.2}
           - clusters:
               selector: {matchLabels: {environment: prod}}
               values: {addonChartVersion: 6.7.0}
--- a/addons/podinfo/flux/versions/staging.yaml
+++ b/addons/podinfo/flux/versions/staging.yaml
@@ -4,4 +4,4 @@
 spec:
   chart:
     spec:
-      version: 6.7.0
+      version: 6.9.2
`
	if diff := cmp.Diff(want, p.Diff()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := p.Summary(); got != "staging: podinfo 6.7.0 -> 6.9.2" || len(p.Notes) > 0 {
		t.Error(got, p.Notes)
	}
	if err := p.Write(est.Dir); err != nil {
		t.Fatal(err)
	}
	again := read(t, est.Dir, lab.EngineFlux)
	a, _ := again.Addon("podinfo")
	for _, versions := range []map[string]string{a.Versions, a.Elsewhere.Versions} {
		if versions["staging"] != "6.9.2" || versions["prod"] != "6.7.0" {
			t.Errorf("after: %v", versions)
		}
	}
	p, err = Plan(again, "podinfo", "dev", "staging")
	if err != nil || p.Changes() || p.Diff() != "" || p.Summary() != "staging: podinfo is already at 6.9.2, like dev" {
		t.Errorf("second call: %v, %q", err, p.Summary())
	}
	for _, pattern := range []string{"*", "flux/*", "flux/versions/*"} {
		if left, err := filepath.Glob(filepath.Join(est.Dir, "addons", "podinfo", pattern, "*.lab-*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestWriteConflict(t *testing.T) {
	est := load(t)
	p, err := Plan(est, "podinfo", "dev", "staging")
	if err != nil {
		t.Fatal(err)
	}
	last := p.Edits[1]
	if err := os.WriteFile(filepath.Join(est.Dir, last.File), append(last.Before, "# edited\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(est.Dir); err == nil {
		t.Error("overwrote an edit")
	}
	if now, err := os.ReadFile(filepath.Join(est.Dir, p.Edits[0].File)); err != nil || string(now) != string(p.Edits[0].Before) {
		t.Errorf("partly written: %v", err)
	}
}

// The pins of both engines are changed; a note reports it if the other's cannot be.
func TestPromoteForOtherEngine(t *testing.T) {
	const set, pin = "addons/podinfo/applicationset.yaml", "addons/podinfo/flux/versions/staging.yaml"
	for name, c := range map[string]struct {
		engine  lab.EngineType
		file    string
		replace []string
		remove  string
		changed []string
		summary string
		notes   []string
	}{
		"Flux": {engine: lab.EngineFlux, file: set, changed: []string{set, pin}, summary: "staging: podinfo 6.7.0 -> 6.9.2"},
		"Flux, comments": {
			engine: lab.EngineFlux, file: pin, replace: []string{"version: 6.7.0", "version: 6.7.0 # as prod"}, changed: []string{set, pin}, summary: "staging: podinfo 6.7.0 -> 6.9.2",
		},
		"no pin for Flux": {
			engine: lab.EngineArgoCD, file: set, remove: pin, changed: []string{set}, summary: "staging: podinfo 6.7.0 -> 6.9.2",
			notes: []string{"not changed for Flux: podinfo has no pinned version in environment staging; pin one like environment dev at addons/podinfo/flux/versions/dev.yaml:7:16, and run lab generate"},
		},
		"nothing for Flux": {engine: lab.EngineArgoCD, file: set, remove: "addons/podinfo/flux", changed: []string{set}, summary: "staging: podinfo 6.7.0 -> 6.9.2"},
		"nothing for Argo CD": {
			engine: lab.EngineFlux, file: pin, remove: set, changed: []string{pin}, summary: "staging: podinfo 6.7.0 -> 6.9.2",
		},
		"broken for Argo CD": {
			engine: lab.EngineFlux, file: set, replace: []string{"kind: ApplicationSet", "kind: [ApplicationSet"}, changed: []string{pin}, summary: "staging: podinfo 6.7.0 -> 6.9.2",
		},
		"shared by Argo CD": {
			engine: lab.EngineFlux, file: set, changed: []string{pin}, summary: "staging: podinfo 6.7.0 -> 6.9.2",
			replace: []string{"{matchLabels: {environment: staging}}", "{matchExpressions: [{key: environment, operator: In, values: [staging, prod]}]}", `          - clusters:
              selector: {matchLabels: {environment: prod}}
              values: {addonChartVersion: 6.7.0}
`, ""},
			notes: []string{"not changed for Argo CD: staging and prod share one version of podinfo, at addons/podinfo/applicationset.yaml:25:43; pin a separate version for staging there"},
		},
		"other versions in Flux": {
			engine: lab.EngineArgoCD, file: pin, replace: []string{"6.7.0", "6.6.0"}, changed: []string{set, pin}, summary: "staging: podinfo 6.7.0 -> 6.9.2",
			notes: []string{"for Flux, staging had podinfo 6.6.0"},
		},
		"promoted for Argo CD only": {
			engine: lab.EngineArgoCD, file: set, replace: []string{"environment: staging}}\n              values: {addonChartVersion: 6.7.0", "environment: staging}}\n              values: {addonChartVersion: 6.9.2"},
			changed: []string{pin}, summary: "staging: podinfo is already at 6.9.2, like dev, now for Flux too", notes: []string{"for Flux, staging had podinfo 6.7.0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := edited(t, c.file, c.replace...)
			if c.remove != "" {
				if err := os.RemoveAll(filepath.Join(dir, c.remove)); err != nil {
					t.Fatal(err)
				}
			}
			est, err := estate.Load(os.DirFS(dir), dir, "homelab", estate.WithEngine(c.engine), estate.Ungenerated(), estate.EveryEngine())
			if err != nil {
				t.Fatal(err)
			}
			p, err := Plan(est, "podinfo", "dev", "staging")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.changed, slices.Sorted(maps.Keys(p.Changed()))); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.notes, p.Notes); diff != "" || p.Summary() != c.summary {
				t.Errorf("%s\nnotes (-want +got):\n%s", p.Summary(), diff)
			}
			if len(c.replace) > 0 && strings.Contains(c.replace[1], "#") && !strings.Contains(string(p.Changed()[c.file]), "version: 6.9.2 # as prod") {
				t.Errorf("comment missing:\n%s", p.Changed()[c.file])
			}
		})
	}
}

func TestPlanErrors(t *testing.T) {
	for name, c := range map[string]struct {
		addon, from, to string
		replace         []string
		want            string
	}{
		"downwards":      {"podinfo", "prod", "dev", nil, "promotion goes upwards: prod has order 3, dev has 1"},
		"itself":         {"podinfo", "dev", "dev", nil, "cannot promote from dev to dev"},
		"no environment": {"podinfo", "dev", "stagin", nil, `"stagin" is not an environment to promote between`},
		"default":        {"podinfo", "default", "dev", nil, `"default" is not an environment to promote between`},
		"no addon":       {"podinf", "dev", "prod", nil, "the estate has no addon podinf"},
		"no version":     {"identity", "dev", "prod", nil, "identity pins no version in addons/identity/applicationset.yaml"},
		"no own pin": {"podinfo", "dev", "staging", []string{`          - clusters:
              selector: {matchLabels: {environment: staging}}
              values: {addonChartVersion: 6.7.0}
`, ""}, "podinfo has no pinned version in environment staging"},
		"shared pin": {
			"podinfo", "dev", "staging",
			[]string{`          - clusters:
              selector: {matchLabels: {environment: staging}}
              values: {addonChartVersion: 6.7.0}
          - clusters:
              selector: {matchLabels: {environment: prod}}`, `          - clusters:
              selector: {matchExpressions: [{key: environment, operator: In, values: [staging, prod]}]}`},
			"staging and prod share one version of podinfo, at addons/podinfo/applicationset.yaml:25:43",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Plan(load(t, c.replace...), c.addon, c.from, c.to)
			var e *lab.Error
			if !errors.As(err, &e) || e.Message != c.want || e.Exit != lab.ExitInvalid || e.Cure == "" {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// A version from a template is rejected.
func TestPlanTemplatedVersion(t *testing.T) {
	est := load(t)
	a, _ := est.Addon("podinfo")
	pin := a.Positions["version.prod"]
	pin.Column = 0
	a.Positions["version.prod"] = pin
	_, err := Plan(est, "podinfo", "dev", "prod")
	var e *lab.Error
	if !errors.As(err, &e) || !strings.HasPrefix(e.Message, "the version of podinfo in prod comes from a template, at addons/podinfo/applicationset.yaml:") {
		t.Errorf("%v", err)
	}
}

func TestErrorsListNames(t *testing.T) {
	est := load(t)
	for _, c := range []struct{ addon, from, to, cure string }{
		{"podinf", "dev", "prod", "there are: identity, metrics-server, podinfo"},
		{"podinfo", "dev", "stagin", "there are: dev, staging, prod"},
		{"podinfo", "dev", "dev", "there are: dev, staging, prod"},
	} {
		_, err := Plan(est, c.addon, c.from, c.to)
		var e *lab.Error
		if !errors.As(err, &e) || e.Cure != c.cure {
			t.Errorf("%s from %s to %s: %+v", c.addon, c.from, c.to, e)
		}
	}
}

// Environments of equal order cannot be promoted to each other.
func TestPlanEqualOrder(t *testing.T) {
	est := load(t)
	for i := range est.Environments {
		est.Environments[i].Order = 1
	}
	for _, way := range [][2]string{{"dev", "prod"}, {"prod", "dev"}} {
		if _, err := Plan(est, "podinfo", way[0], way[1]); err == nil {
			t.Errorf("promoted from %s to %s", way[0], way[1])
		}
	}
}

func TestWriteFollowsNoLink(t *testing.T) {
	est := load(t)
	p, err := Plan(est, "podinfo", "dev", "staging")
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside.yaml")
	if err := os.WriteFile(outside, p.Edits[0].Before, 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(est.Dir, p.Edits[0].File)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, file); err != nil {
		t.Fatal(err)
	}
	var changed *lab.Error
	if err := p.Write(est.Dir); err == nil || errors.Is(err, fs.ErrNotExist) || errors.As(err, &changed) {
		t.Errorf("wrote through a link: %v", err)
	}
}

// If one of two files cannot be written, neither is changed, and no temporary file remains.
func TestWriteAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	p := Promotion{Addon: "podinfo", Was: "1", Version: "2", Edits: []Edit{
		{File: "a.yaml", Before: []byte("1\n"), After: []byte("2\n")}, {File: "b.yaml", Before: []byte("1\n"), After: []byte("2\n")},
	}}
	inTheWay := filepath.Join(dir, p.Edits[1].temporary())
	write := func(name string) error { return os.WriteFile(filepath.Join(dir, name), []byte("1\n"), 0o600) }
	if err := errors.Join(write("a.yaml"), write("b.yaml"), os.Mkdir(inTheWay, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(inTheWay, "full"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	requireText := func(want string) {
		t.Helper()
		for _, e := range p.Edits {
			if text, err := os.ReadFile(filepath.Join(dir, e.File)); err != nil || string(text) != want {
				t.Errorf("%s is %q, %v", e.File, text, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(dir, p.Edits[0].temporary())); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left over: %v", err)
		}
	}
	if err := p.Write(dir); err == nil {
		t.Error("written over a folder")
	}
	requireText("1\n")
	if err := errors.Join(os.RemoveAll(inTheWay), p.Write(dir)); err != nil {
		t.Error(err)
	}
	requireText("2\n")
}

// lab does not write to mounted repositories.
func TestPromoteMounted(t *testing.T) {
	est := load(t)
	i := slices.IndexFunc(est.Addons, func(a lab.Addon) bool { return a.Name == "podinfo" })
	for name, at := range est.Addons[i].Positions {
		at.File = "../gitops/" + at.File
		est.Addons[i].Positions[name] = at
	}
	est.Repositories = []lab.Repository{{Name: "gitops", URL: "https://github.com/acme/gitops", Dir: "../gitops"}}
	_, err := Plan(est, "podinfo", "dev", "staging")
	var refused *lab.Error
	if !errors.As(err, &refused) || refused.Code != "promotion" {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"https://github.com/acme/gitops", "../gitops/addons/podinfo/applicationset.yaml:"} {
		if !strings.Contains(refused.Message, part) {
			t.Errorf("%q has no %s", refused.Message, part)
		}
	}
	if !strings.Contains(refused.Cure, "lab git url gitops") {
		t.Errorf("cure: %s", refused.Cure)
	}
}
