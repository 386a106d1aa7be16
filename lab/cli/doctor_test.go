package cli

import (
	"testing"

	"homelab/lab"
	"homelab/lab/state"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

// Only clusters that a run creates need memory of this machine, so that doctor's cure, lab up --only NAME, works.
func TestDoctorCountsWhatIsCreated(t *testing.T) {
	est := &lab.Estate{Clusters: []lab.Cluster{
		{Name: "hub", Role: lab.RoleHub, Engine: lab.EngineSpec{Type: lab.EngineArgoCD}}, {Name: "dev"}, {Name: "prod"}, {Name: "edge", Provider: lab.ProviderExisting},
	}}
	ws := &workspace.Workspace{Dir: &state.Dir{Lab: "demo", Path: t.TempDir()}}
	var only up.Options
	if err := only.Only(est, []string{"dev"}); err != nil {
		t.Fatal(err)
	}
	check := func(what string, scope []lab.Cluster, want int, engine bool) {
		t.Helper()
		if o := doctorOptions(false, ws, est, scope); o.Clusters != want || (o.Engines > 0) != engine {
			t.Errorf("%s: %d clusters and %d bytes, want %d", what, o.Clusters, o.Engines, want)
		}
	}
	check("all", est.Clusters, 3, true)
	check("--only dev", only.Clusters, 2, true)
	ws.Record.Type = lab.EngineArgoCD
	for _, name := range []string{"hub", "dev"} {
		if err := ws.Dir.SaveCluster(name, state.Cluster{Whole: true}); err != nil {
			t.Fatal(err)
		}
	}
	check("all but two exist", est.Clusters, 1, false)
	check("--only dev, which exists", only.Clusters, 0, false)
}
