package cluster

import (
	"slices"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/state"
)

// What decides over a cluster's life: nothing is taken for half made, which is removed, but what lab's own record proves to be.
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
		"the API's mark":                          {state.Cluster{}, []string{"1"}, mark, none, lab.MadeWhole, "mark"},
		"the API's mark, begun":                   {begun, []string{"1", "2"}, mark, none, lab.MadeWhole, "mark"},
		"the record":                              {made, []string{"1", "2"}, none, absent, lab.MadeWhole, "record"},
		"the record, one container less":          {made, []string{"1"}, none, absent, lab.MadeWhole, "record"},
		"the record of other containers":          {made, []string{"1", "3"}, none, absent, lab.MadeUnknown, ""},
		"the record of others, the node's mark":   {made, []string{"1", "3"}, none, mark, lab.MadeWhole, "mark"},
		"the node's mark":                         {state.Cluster{}, []string{"1"}, absent, mark, lab.MadeWhole, "mark"},
		"begun":                                   {begun, []string{"1", "2"}, absent, absent, lab.MadeHalf, ""},
		"begun, in part":                          {begun, []string{"2"}, absent, absent, lab.MadeHalf, ""},
		"begun before any container was known":    {state.Cluster{Began: began}, []string{"1"}, absent, absent, lab.MadeHalf, ""},
		"begun, the node cannot be read":          {begun, []string{"1", "2"}, absent, none, lab.MadeUnknown, ""},
		"begun, other containers":                 {begun, []string{"1", "3"}, absent, absent, lab.MadeUnknown, ""},
		"no proof of anything":                    {state.Cluster{}, []string{"1"}, absent, absent, lab.MadeUnknown, ""},
		"nothing can be read":                     {state.Cluster{}, []string{"1"}, none, none, lab.MadeUnknown, ""},
		"being removed, one is gone":              {removing, []string{"2"}, mark, mark, lab.MadeHalf, ""},
		"being removed, nothing is gone yet":      {removing, []string{"1", "2"}, none, absent, lab.MadeWhole, "record"},
		"being removed, made again by other hand": {removing, []string{"3"}, mark, none, lab.MadeWhole, "mark"},
	} {
		made, inputs := Judge(c.record, c.ids, c.api, func() Evidence { return c.node })
		if made != c.made || inputs != c.inputs {
			t.Errorf("%s: %v of %q, want %v of %q", name, made, inputs, c.made, c.inputs)
		}
	}
	Judge(made, []string{"1"}, none, func() Evidence { t.Error("a node was read although the record decides"); return none })
}

// A cluster's fault says how many of its nodes are what, and its start is that of the node that came last.
func TestGroupTellsHowNodesStand(t *testing.T) {
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
	// The clock was put back since: nothing can be later than that start.
	got := group("demo", []docker.Container{node("a", "running", now.Add(time.Hour))})
	if !got[0].Started.IsZero() {
		t.Errorf("started in the future: %s", got[0].Started)
	}
}

// Clusters are in the order of their names, even where one has no control plane left.
func TestGroupIsInOrder(t *testing.T) {
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
		t.Errorf("nodes start in the order %q", roles)
	}
}
