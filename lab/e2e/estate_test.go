//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"homelab/lab/ui"
)

// brokenEstate breaks the estate of a running lab in many ways: up reports every fault with file and line, and changes nothing. lab/estate/testdata/broken has a case
// for each kind of fault.
func brokenEstate(t *testing.T, l *testLab) {
	before := l.resourceVersions(t.Context())
	broken := &testLab{t: t, name: l.name, state: l.state, estate: filepath.Join(t.TempDir(), "estate")}
	copyTree(t, l.estate, broken.estate)
	broken.edit("clusters/prod/cluster.yaml", "environment:", "enviroment:")                      // unknown key, and a spoke without environment
	broken.edit("clusters/dev/cluster.yaml", "addons: {podinfo: true", `addons: {podinfo: "yes"`) // wrong type
	broken.edit("clusters/staging/cluster.yaml", "role: spoke", "role: hub")                      // two hubs
	broken.write("clusters/twin/cluster.yaml", "apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec: {role: spoke, environment: dev, provider: kind}\n")
	broken.write("environments/qa/environment.yaml", "apiVersion: lab/v1alpha1\nkind: Environment\n  metadata: {name: qa\n") // bad YAML
	broken.edit("addons/podinfo/applicationset.yaml", "addonChartVersion: 6.9.2", "addonChartVersion: 99.0.0")               // missing chart
	if err := os.Symlink("/etc/hostname", filepath.Join(broken.estate, "environments", "dev", "addons", "podinfo", "leak.yaml")); err != nil {
		t.Fatal(err) // path that leaves the repository
	}
	if err := os.MkdirAll(filepath.Join(broken.estate, "clusters", "empty"), 0o755); err != nil {
		t.Fatal(err)
	}

	out := broken.run("up", "--adopt", "-o", "json")
	var e ui.ErrorResult
	if err := json.Unmarshal([]byte(out.stdout), &e); err != nil {
		t.Fatalf("%v in %q", err, out.stdout)
	}
	if out.code != 2 || e.Error.Code != "invalid_estate" {
		t.Errorf("exit %d, code %s, want 2 and invalid_estate", out.code, e.Error.Code)
	}
	at := map[string]int{}
	for _, p := range e.Error.Problems {
		at[p.File]++
		t.Logf("%s:%d  %s", p.File, p.Line, p.Message)
	}
	for _, file := range []string{
		"clusters/prod/cluster.yaml", "clusters/dev/cluster.yaml", "clusters/staging/cluster.yaml", "clusters/twin/cluster.yaml",
		"environments/qa/environment.yaml", "environments/dev/addons/podinfo/leak.yaml",
		"addons/podinfo/applicationset.yaml",
	} {
		if at[file] == 0 {
			t.Errorf("no problem reported in %s", file)
		}
	}
	if after := l.resourceVersions(t.Context()); len(after) != len(before) {
		t.Errorf("%d objects, then %d", len(before), len(after))
	} else {
		for name, v := range before {
			if after[name] != v {
				t.Errorf("%s changed", name)
			}
		}
	}
}
