package cluster

import (
	"slices"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/state"
)

// Judge returns MadeHalf, which leads to removal, only if lab's own record proves it.
func TestJudge(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	none, absent, mark := Evidence{}, Evidence{Known: true}, Evidence{Known: true, Found: true, Inputs: "mark"}
	made := state.Cluster{Nodes: []string{"1", "2"}, Whole: true, Inputs: "record", Began: began}
	begun := state.Cluster{Nodes: []string{"1", "2"}, Began: began}
	removing := made
	removing.Removing = true
	for name, c := range map[string]struct {
		record    state.Cluster
		ids       []string
		api, node Evidence
		made      lab.Made
		inputs    string
	}{
		"API mark":                      {state.Cluster{}, []string{"1"}, mark, none, lab.MadeWhole, "mark"},
		"API mark, begun":               {begun, []string{"1", "2"}, mark, none, lab.MadeWhole, "mark"},
		"record":                        {made, []string{"1", "2"}, none, absent, lab.MadeWhole, "record"},
		"record, container missing":     {made, []string{"1"}, none, absent, lab.MadeWhole, "record"},
		"record of other containers":    {made, []string{"1", "3"}, none, absent, lab.MadeUnknown, ""},
		"record of others, node mark":   {made, []string{"1", "3"}, none, mark, lab.MadeWhole, "mark"},
		"node mark":                     {state.Cluster{}, []string{"1"}, absent, mark, lab.MadeWhole, "mark"},
		"begun":                         {begun, []string{"1", "2"}, absent, absent, lab.MadeHalf, ""},
		"begun, partly removed":         {begun, []string{"2"}, absent, absent, lab.MadeHalf, ""},
		"begun, no known containers":    {state.Cluster{Began: began}, []string{"1"}, absent, absent, lab.MadeHalf, ""},
		"begun, node unreadable":        {begun, []string{"1", "2"}, absent, none, lab.MadeUnknown, ""},
		"begun, other containers":       {begun, []string{"1", "3"}, absent, absent, lab.MadeUnknown, ""},
		"no evidence":                   {state.Cluster{}, []string{"1"}, absent, absent, lab.MadeUnknown, ""},
		"nothing readable":              {state.Cluster{}, []string{"1"}, none, none, lab.MadeUnknown, ""},
		"removing, one gone":            {removing, []string{"2"}, mark, mark, lab.MadeHalf, ""},
		"removing, none gone":           {removing, []string{"1", "2"}, none, absent, lab.MadeWhole, "record"},
		"removing, recreated by others": {removing, []string{"3"}, mark, none, lab.MadeWhole, "mark"},
	} {
		made, inputs := Judge(c.record, c.ids, c.api, func() Evidence { return c.node })
		if made != c.made || inputs != c.inputs {
			t.Errorf("%s: Judge = %v, %q, want %v, %q", name, made, inputs, c.made, c.inputs)
		}
	}
	Judge(made, []string{"1"}, none, func() Evidence { t.Error("node read, want record only"); return none })
}

// Fault counts the nodes by state, and Started is that of the node started last.
func TestGroupFault(t *testing.T) {
	now := time.Now()
	node := func(name, status string, started time.Time) docker.Container {
		return docker.Container{
			ID: name, Name: name, Status: status, Running: status != "exited", Started: started,
			Labels: map[string]string{kindClusterLabel: "demo-dev", kindRoleLabel: "worker"},
		}
	}
	early, late := now.Add(-time.Hour), now.Add(-time.Minute)
	for _, c := range []struct {
		statuses []string
		running  bool
		fault    string
	}{
		{[]string{"running", "running"}, true, ""},
		{[]string{"exited", "exited"}, false, "stopped"},
		{[]string{"paused", "paused"}, false, "paused"},
		{[]string{"paused", "running"}, false, "1 of 2 nodes paused"},
		{[]string{"paused", "exited"}, false, "1 of 2 nodes stopped"},
	} {
		got := group("demo", []docker.Container{node("a", c.statuses[0], late), node("b", c.statuses[1], early)})
		if len(got) != 1 || got[0].Running != c.running || got[0].Fault != c.fault || !got[0].Started.Equal(late) {
			t.Errorf("%q: %+v", c.statuses, got)
		}
	}
	// The clock was set back.
	got := group("demo", []docker.Container{node("a", "running", now.Add(time.Hour))})
	if !got[0].Started.IsZero() {
		t.Errorf("started in the future: %s", got[0].Started)
	}
}

// Clusters are ordered by name, even without a control plane.
func TestGroupOrder(t *testing.T) {
	node := func(cluster, role string) docker.Container {
		return docker.Container{Name: cluster + "-" + role, Labels: map[string]string{kindClusterLabel: "demo-" + cluster, kindRoleLabel: role}}
	}
	var names []string
	for _, s := range group("demo", []docker.Container{node("b", "control-plane"), node("c", "control-plane"), node("a", "worker")}) {
		names = append(names, s.Name)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	list := []docker.Container{node("a", "worker"), node("a", loadBalancer), node("a", "control-plane")}
	sortNodes(list)
	var roles []string
	for _, n := range list {
		roles = append(roles, n.Labels[kindRoleLabel])
	}
	if want := []string{"control-plane", loadBalancer, "worker"}; !slices.Equal(roles, want) {
		t.Errorf("start order %q", roles)
	}
}
