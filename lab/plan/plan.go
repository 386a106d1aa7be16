// Package plan is pure: from what an estate wants and what was seen, the steps that lead from one to the other, each with its reason.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"homelab/lab"
)

// The kinds of steps.
const (
	KindPreflight = "preflight"
	KindImages    = "images"
	KindNetwork   = "network"
	KindForge     = "forge"
	KindCluster   = "cluster"
	KindEngine    = "engine"
	KindEstate    = "estate"
	KindBridge    = "bridge"
	KindAddons    = "addons"
)

// Desired is what should be. Digests are of inputs, known before anything is built.
type Desired struct {
	Clusters  []Cluster // hub first
	Forge     string    // digest of what the forge is made from
	Engine    string    // digest of the engine's chart and values
	Prune     bool      // clusters that are not desired are removed; false with --only
	Preflight string    // what the checks found, for the first line
}

// Cluster is one cluster that should be.
type Cluster struct {
	Name   string
	Role   lab.Role
	Inputs string   // digest of the document that it is made from
	Images []string // what stands for the images that it should hold
}

// Observed is what was seen. The zero value is a machine on which the lab was never up.
type Observed struct {
	Missing      []string // images and charts that are not at hand
	Supplied     int      // images and charts that are
	Network      bool
	Forge        Forge
	Clusters     map[string]lab.ClusterState
	Engine       Engine
	Bridge       map[string][]string // cluster -> how its registration differs; a cluster that is not registered is absent
	Registered   []string            // clusters that the hub knows
	Estate       []string            // how the forge differs from the working tree, charts and webhook included
	Root         bool                // the root application stands as wanted
	Applications []lab.Application
	Behind       []string // names of those that were compared with an older commit than the forge's head, or with a cluster that is no more
	Expected     []string // the applications that should be, as lab.ApplicationName has them
}

// Forge is what was seen of the Git server.
type Forge struct {
	Exists  bool
	Running bool
	Inputs  string
}

// Engine is what was seen of the engine.
type Engine struct {
	Installed bool
	Ready     bool
	Inputs    string
	Status    string // status of the Helm release: deployed, failed, pending-install, ...
}

// Build returns the plan: every step, those with nothing to do too, in an order in which each comes after what it needs.
func Build(d Desired, o Observed) []lab.Step {
	steps := []lab.Step{{ID: KindPreflight, Kind: KindPreflight, Action: lab.ActionNone, Reason: d.Preflight}}
	steps = append(steps, imagesStep(o), networkStep(o), forgeStep(d, o))
	hub := ""
	for _, c := range d.Clusters {
		steps = append(steps, clusterStep(c, o))
		if c.Role == lab.RoleHub {
			hub = c.Name
		}
	}
	gone := goneSteps(d, o, hub)
	steps = append(steps, engineStep(d, o, hub), estateStep(o, steps))
	bridged := []string{}
	for _, c := range d.Clusters {
		s := bridgeStep(c, o, hub, steps)
		bridged = append(bridged, s.ID)
		steps = append(steps, s)
	}
	steps = append(steps, gone...)
	return append(steps, addonsStep(o, hub, steps, bridged))
}

// Changes says whether any step of the plan does something.
func Changes(steps []lab.Step) bool {
	return slices.ContainsFunc(steps, func(s lab.Step) bool { return s.Action != lab.ActionNone })
}

func id(kind, cluster string) string { return kind + "/" + cluster }

func imagesStep(o Observed) lab.Step {
	s := lab.Step{ID: KindImages, Kind: KindImages, Action: lab.ActionNone, Reason: fmt.Sprintf("%d at hand", o.Supplied)}
	if len(o.Missing) > 0 {
		s.Action, s.Reason = lab.ActionCreate, fmt.Sprintf("%d of %d to get", len(o.Missing), len(o.Missing)+o.Supplied)
	}
	return s
}

func networkStep(o Observed) lab.Step {
	s := lab.Step{ID: KindNetwork, Kind: KindNetwork, Action: lab.ActionNone, Reason: "as it was"}
	if !o.Network {
		s.Action, s.Reason = lab.ActionCreate, "absent"
	}
	return s
}

func forgeStep(d Desired, o Observed) lab.Step {
	s := lab.Step{ID: KindForge, Kind: KindForge, Needs: []string{KindNetwork}}
	switch {
	case !o.Forge.Exists:
		s.Action, s.Reason = lab.ActionCreate, "absent"
	case !o.Forge.Running:
		s.Action, s.Reason = lab.ActionRepair, "stopped"
	case o.Forge.Inputs != d.Forge:
		s.Action, s.Reason = lab.ActionUpdate, "its image changed"
	default:
		s.Action, s.Reason = lab.ActionNone, "runs"
	}
	return s
}

func clusterStep(c Cluster, o Observed) lab.Step {
	s := lab.Step{ID: id(KindCluster, c.Name), Kind: KindCluster, Cluster: c.Name, Needs: []string{KindNetwork}}
	seen := o.Clusters[c.Name]
	switch {
	case !seen.Exists:
		s.Action, s.Reason = lab.ActionCreate, "absent"
	case !seen.Running:
		s.Action, s.Reason = lab.ActionRepair, "stopped"
	case seen.Inputs == "":
		s.Action, s.Reason = lab.ActionRepair, "half made"
	case seen.Inputs != c.Inputs:
		s.Action, s.Reason = lab.ActionUpdate, ReasonRemake
	case !seen.Ready:
		s.Action, s.Reason = lab.ActionRepair, "not ready"
	case !holds(seen.Images, c.Images):
		s.Action, s.Reason = lab.ActionUpdate, "images changed"
	default:
		s.Action, s.Reason = lab.ActionNone, seen.Kubernetes
	}
	return s
}

// holds says whether all of want is in have. What is there besides does no harm: an addon that was switched off may come back.
func holds(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) })
}

// ReasonRemake is the reason of a cluster step that can only be done by making the cluster anew: kind cannot change a cluster that runs.
const ReasonRemake = "spec.kind changed"

// Remade returns the clusters that the plan would make anew, and so empty.
func Remade(steps []lab.Step) []string {
	var names []string
	for _, s := range steps {
		if s.Kind == KindCluster && s.Action == lab.ActionUpdate && s.Reason == ReasonRemake {
			names = append(names, s.Cluster)
		}
	}
	return names
}

const reasonAsleep = "the hub was stopped"

// asleep says whether the hub is there and cannot be asked, so that what it holds is not known.
func asleep(o Observed, hub string) bool {
	c := o.Clusters[hub]
	return c.Exists && !c.Running
}

func engineStep(d Desired, o Observed, hub string) lab.Step {
	s := lab.Step{ID: KindEngine, Kind: KindEngine, Needs: []string{id(KindCluster, hub)}}
	switch {
	case asleep(o, hub):
		s.Action, s.Reason = lab.ActionRepair, reasonAsleep
	case !o.Engine.Installed:
		s.Action, s.Reason = lab.ActionCreate, "absent"
	case o.Engine.Status != "deployed":
		s.Action, s.Reason = lab.ActionRepair, "its release is "+o.Engine.Status
	case o.Engine.Inputs != d.Engine:
		s.Action, s.Reason = lab.ActionUpdate, "chart or values changed"
	case !o.Engine.Ready:
		s.Action, s.Reason = lab.ActionRepair, "not ready"
	default:
		s.Action, s.Reason = lab.ActionNone, "runs"
	}
	return s
}

func estateStep(o Observed, before []lab.Step) lab.Step {
	s := lab.Step{ID: KindEstate, Kind: KindEstate, Needs: []string{KindForge}}
	switch {
	case !o.Forge.Exists:
		s.Action, s.Reason = lab.ActionCreate, "the forge is empty"
	case changes(before, KindForge):
		s.Action, s.Reason = lab.ActionUpdate, "the forge is new"
	case len(o.Estate) > 0:
		s.Action, s.Reason = lab.ActionUpdate, summary(o.Estate)
	default:
		s.Action, s.Reason = lab.ActionNone, "as the working tree"
	}
	return s
}

func bridgeStep(c Cluster, o Observed, hub string, before []lab.Step) lab.Step {
	s := lab.Step{ID: id(KindBridge, c.Name), Kind: KindBridge, Cluster: c.Name, Needs: []string{id(KindCluster, hub)}}
	if c.Name != hub {
		s.Needs = append(s.Needs, id(KindCluster, c.Name))
	}
	diff, registered := o.Bridge[c.Name]
	switch {
	case asleep(o, hub):
		s.Action, s.Reason = lab.ActionRepair, reasonAsleep
	case !registered:
		s.Action, s.Reason = lab.ActionCreate, "not registered"
	case changes(before, id(KindCluster, c.Name)):
		s.Action, s.Reason = lab.ActionUpdate, "the cluster changed"
	case len(diff) > 0:
		s.Action, s.Reason = lab.ActionUpdate, summary(diff)
	default:
		s.Action, s.Reason = lab.ActionNone, "as it was"
	}
	return s
}

// goneSteps remove the clusters that left the estate: first the hub forgets them, then they go.
func goneSteps(d Desired, o Observed, hub string) []lab.Step {
	if !d.Prune {
		return nil
	}
	wanted := func(name string) bool {
		return slices.ContainsFunc(d.Clusters, func(c Cluster) bool { return c.Name == name })
	}
	var steps []lab.Step
	forgotten := map[string]bool{}
	for _, name := range slices.Sorted(slices.Values(o.Registered)) {
		if !wanted(name) {
			forgotten[name] = true
			steps = append(steps, lab.Step{
				ID: id(KindBridge, name), Kind: KindBridge, Cluster: name, Action: lab.ActionDelete, Reason: "left the estate",
				Needs: []string{id(KindCluster, hub)},
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Clusters)) {
		if wanted(name) {
			continue
		}
		s := lab.Step{ID: id(KindCluster, name), Kind: KindCluster, Cluster: name, Action: lab.ActionDelete, Reason: "left the estate"}
		if forgotten[name] {
			s.Needs = []string{id(KindBridge, name)}
		}
		steps = append(steps, s)
	}
	return steps
}

func addonsStep(o Observed, hub string, before []lab.Step, bridged []string) lab.Step {
	s := lab.Step{ID: KindAddons, Kind: KindAddons, Needs: append([]string{KindEngine, KindEstate}, bridged...)}
	waiting := lagging(o)
	switch {
	case asleep(o, hub):
		s.Action, s.Reason = lab.ActionRepair, reasonAsleep
	case !o.Root:
		s.Action, s.Reason = lab.ActionCreate, "no root application"
	case changes(before, KindEstate), slices.ContainsFunc(bridged, func(b string) bool { return changes(before, b) }),
		slices.ContainsFunc(before, func(s lab.Step) bool { return s.Action == lab.ActionDelete }):
		s.Action, s.Reason = lab.ActionUpdate, "follow the estate"
	case len(o.Behind) > 0:
		s.Action, s.Reason = lab.ActionRepair, "not yet compared again: "+summary(o.Behind)
	case len(waiting) > 0:
		s.Action, s.Reason = lab.ActionRepair, "not in sync: "+summary(waiting)
	default:
		s.Action, s.Reason = lab.ActionNone, fmt.Sprintf("%d in sync", len(o.Applications))
	}
	return s
}

// lagging names the applications that are expected and absent, or there and not as Git wants them, or there and not expected.
func lagging(o Observed) []string {
	var names []string
	seen := map[string]bool{}
	for _, a := range o.Applications {
		seen[lab.ApplicationName(a.Cluster, a.Addon)] = true
		if !a.Converged() {
			names = append(names, a.Name)
		}
	}
	for _, name := range o.Expected {
		if !seen[name] {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return slices.Compact(names)
}

func changes(steps []lab.Step, id string) bool {
	return slices.ContainsFunc(steps, func(s lab.Step) bool { return s.ID == id && s.Action != lab.ActionNone })
}

// summary is one line for a list: its first entry, and how many more there are.
func summary(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return fmt.Sprintf("%s and %d more", list[0], len(list)-1)
}

// String prints a plan, a line a step, as its golden files hold it.
func String(steps []lab.Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%-7s %-16s %s", s.Action, s.ID, s.Reason)
		if len(s.Needs) > 0 {
			fmt.Fprintf(&b, "   (after %s)", strings.Join(s.Needs, ", "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
