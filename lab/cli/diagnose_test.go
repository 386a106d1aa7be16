package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"homelab/lab"
	"homelab/lab/state"
	"homelab/lab/workspace"
)

// Only clusters that lab is known to have created are read without being asked to.
func TestOthers(t *testing.T) {
	dir := &state.Dir{Lab: "demo", Path: t.TempDir()}
	for name, c := range map[string]state.Cluster{
		"hub": {Nodes: []string{"id"}, Whole: true}, "half": {Nodes: []string{"id"}}, "theirs": {Attached: true}, "became": {Nodes: []string{"id"}, Whole: true},
	} {
		if err := dir.SaveCluster(name, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir.Path, "clusters", "garbled.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	ws := &workspace.Workspace{Name: "demo", Dir: dir}
	est := &lab.Estate{Clusters: []lab.Cluster{{Name: "hub"}, {Name: "became", Provider: lab.ProviderExisting}}}
	all := []string{"became", "garbled", "half", "hub", "theirs", "unrecorded"}
	if got := others(ws, est, all); !slices.Equal(got, []string{"became", "garbled", "theirs", "unrecorded"}) {
		t.Errorf("%q", got)
	}
	if got := others(ws, nil, all); !slices.Equal(got, []string{"garbled", "theirs", "unrecorded"}) {
		t.Errorf("without an estate: %q", got)
	}
}
