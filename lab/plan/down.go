package plan

import (
	"maps"
	"slices"
	"strings"

	"homelab/lab"
)

// Remains is the observed state of a lab to be taken down.
type Remains struct {
	Clusters map[string]lab.ClusterState
	Forge    bool
	Parts    []Part // that exist
	Network  bool
	Abandon  []string // attached clusters to leave unchanged
	Loses    string   // what only the forge has; may be empty
}

// Down returns the steps that take down a lab. While the hub still exists, the engine removes its objects from attached
// clusters, and these are released.
func Down(o Remains) []lab.Step {
	var steps []lab.Step
	var all []string
	remove := func(id, kind, cluster, reason string, needs []string) {
		steps = append(steps, lab.Step{ID: id, Kind: kind, Cluster: cluster, Action: lab.ActionDelete, Reason: reason, Needs: needs})
		all = append(all, id)
	}
	var withdrawn []string
	if attached := Attached(o); len(attached) > 0 {
		remove(KindEngine, KindEngine, "", "removes its objects from "+strings.Join(attached, ", "), nil)
		withdrawn = []string{KindEngine}
	}
	names := slices.Sorted(maps.Keys(o.Clusters))
	var released []string
	for _, name := range names {
		if !o.Clusters[name].Attached {
			continue
		}
		if slices.Contains(o.Abandon, name) {
			remove(id(KindCluster, name), KindCluster, name, "abandoned unchanged", nil)
		} else {
			remove(id(KindCluster, name), KindCluster, name, "released, keeps running", withdrawn)
		}
		released = append(released, id(KindCluster, name))
	}
	for _, name := range names {
		if !o.Clusters[name].Attached {
			remove(id(KindCluster, name), KindCluster, name, "removed", released)
		}
	}
	if o.Forge {
		remove(KindForge, KindForge, "", "removed, with its volume", released)
		steps[len(steps)-1].Loses = o.Loses
	}
	for _, part := range o.Parts {
		remove(part.Name, part.Name, "", "removed", released)
		if part.Keeps != "" {
			steps[len(steps)-1].Reason = "removed, with its volume"
		}
	}
	if o.Network {
		remove(KindNetwork, KindNetwork, "", "removed", all)
	}
	return steps
}

// Attached returns the attached clusters, except those to abandon.
func Attached(o Remains) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(o.Clusters)) {
		if o.Clusters[name].Attached && !slices.Contains(o.Abandon, name) {
			names = append(names, name)
		}
	}
	return names
}
