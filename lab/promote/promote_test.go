package promote

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
	"homelab/lab/estate"
)

// load reads a copy of the default estate with replacements in podinfo's ApplicationSet.
func load(t *testing.T, replace ...string) *lab.Estate {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{"addons", "clusters", "environments"} {
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join("..", "..", folder))); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "addons", "podinfo", "applicationset.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(replace...).Replace(string(data))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	est, err := estate.Load(os.DirFS(dir), dir, "homelab")
	if err != nil {
		t.Fatal(err)
	}
	return est
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
`
	if diff := cmp.Diff(want, p.Diff()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := p.Summary(); got != "staging: podinfo 6.7.0 -> 6.9.2" {
		t.Error(got)
	}
	if err := p.Write(est.Dir); err != nil {
		t.Fatal(err)
	}
	again, err := estate.Load(os.DirFS(est.Dir), est.Dir, "homelab")
	if err != nil {
		t.Fatal(err)
	}
	a, _ := again.Addon("podinfo")
	if a.Versions["staging"] != "6.9.2" || a.Versions["prod"] != "6.7.0" {
		t.Errorf("after: %v", a.Versions)
	}
	p, err = Plan(again, "podinfo", "dev", "staging")
	if err != nil || p.Changes() || p.Diff() != "" || p.Summary() != "staging: podinfo is at 6.9.2 already, as dev" {
		t.Errorf("again: %v, %q", err, p.Summary())
	}
	left, err := filepath.Glob(filepath.Join(est.Dir, "addons", "podinfo", "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWriteConflict(t *testing.T) {
	est := load(t)
	p, err := Plan(est, "podinfo", "dev", "staging")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(est.Dir, p.File)
	if err := os.WriteFile(file, append(p.Before, "# edited\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(est.Dir); err == nil {
		t.Error("an edit was written over")
	}
}

func TestPlanErrors(t *testing.T) {
	for name, c := range map[string]struct {
		addon, from, to string
		replace         []string
		want            string
	}{
		"downwards":      {"podinfo", "prod", "dev", nil, "promotion goes upwards: prod has order 3, dev has 1"},
		"itself":         {"podinfo", "dev", "dev", nil, "from dev to dev is no promotion"},
		"no environment": {"podinfo", "dev", "stagin", nil, `"stagin" is no environment to promote between`},
		"default":        {"podinfo", "default", "dev", nil, `"default" is no environment to promote between`},
		"no addon":       {"podinf", "dev", "prod", nil, "the estate has no addon podinf"},
		"no version":     {"identity", "dev", "prod", nil, "identity pins no version in addons/identity/applicationset.yaml"},
		"no own pin": {"podinfo", "dev", "staging", []string{`          - clusters:
              selector: {matchLabels: {environment: staging}}
              values: {addonChartVersion: 6.7.0}
`, ""}, "podinfo has no version of its own in environment staging"},
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

// The version may not come from a template.
func TestPlanTemplatedVersion(t *testing.T) {
	est := load(t)
	a, _ := est.Addon("podinfo")
	pin := a.Positions["version.prod"]
	pin.Column = 0
	a.Positions["version.prod"] = pin
	_, err := Plan(est, "podinfo", "dev", "prod")
	var e *lab.Error
	if !errors.As(err, &e) || !strings.HasPrefix(e.Message, "the version of podinfo in prod comes out of a template, at addons/podinfo/applicationset.yaml:") {
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

func TestWriteStaysInTheEstate(t *testing.T) {
	est := load(t)
	p, err := Plan(est, "podinfo", "dev", "staging")
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside.yaml")
	if err := os.WriteFile(outside, p.Before, 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(est.Dir, p.File)
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
