// Package plan computes the steps from the observed to the desired state of a lab, each with its reason. It is pure.
package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"homelab/lab"
)

// Kinds of steps.
const (
	KindPreflight = "preflight"
	KindImages    = "images"
	KindNetwork   = "network"
	KindForge     = "forge"
	KindCluster   = "cluster"
	KindRetire    = "retire" // the replaced engine
	KindEngine    = "engine"
	KindEstate    = "estate"
	KindBridge    = "bridge"
	KindAddons    = "addons"
)

// Desired is the desired state. Digests are of inputs, known in advance.
type Desired struct {
	Clusters  []Cluster // hub first
	Forge     string    // digest of the forge's inputs
	Parts     []Part    // optional ones, wanted or not
	Engine    string    // digest of the engine's chart and values
	Version   string    // of the engine; empty if unknown
	Others    bool      // clusters outside Clusters are left alone
	Prune     bool      // delete clusters that left the estate
	Recreate  []string  // clusters to delete and recreate
	Preflight string    // result of the machine checks, for the first line
}

// Cluster is a desired cluster.
type Cluster struct {
	Name       string
	Role       lab.Role
	Inputs     string   // digest of its inputs
	Kubernetes string   // wanted version, a minor or an exact one; empty for any
	Images     []string // digests of the images that it should hold
	Engine     string   // like Desired.Engine, for a spoke's own engine; else empty

	Attached bool // run by someone else
}

// Observed is the observed state. The zero value is a machine without a lab. The state of the hub (Engine, Bridge, Registered, Root, Applications) is unknown
// while the hub exists and Hub is false; that of the forge is unknown while it exists and does not answer.
type Observed struct {
	Missing      []string // images and charts not available locally
	Supplied     int      // number of those available
	Network      bool
	Forge        Forge
	Parts        map[string]PartState
	Clusters     map[string]lab.ClusterState
	Hub          bool   // the hub answered
	Former       string // title of the replaced engine, or empty
	Engine       Engine
	Engines      map[string]Engine   // spokes' own; unreachable clusters are absent
	Bridge       map[string][]string // cluster -> differences of its registration; unregistered clusters are absent
	Registered   []string            // clusters registered on the hub
	Estate       []string            // differences between forge and working tree, including charts and webhook
	Root         bool                // the root application is up to date
	Applications []lab.Application
	Drift        []string // descriptions of missing or modified parts of the root application and its repositories
	Unfamiliar   []string // clusters with nodes that are not configured for the lab's registry
	Behind       []string // applications that the engine has yet to compare, as in engine.Snapshot
	Expected     []string // applications that should exist

	newHub bool // the hub will be replaced
}

// Forge is the observed state of the Git server.
type Forge struct {
	Exists   bool
	Running  bool
	Answers  bool
	Prepared bool // its admin and repository exist
	Guarded  bool // the engine, and no anonymous users
	Inputs   string
	Lost     bool // its volume is gone, including unpushed commits
}

// Engine is the observed state of the engine.
type Engine struct {
	Installed bool
	Ready     bool
	Waiting   string // missing or unready parts
	Inputs    string
	Version   string
	Status    string // status of the Helm release: deployed, failed, pending-install, ...
}

// Build returns the plan: all steps, including those without changes, in topological order.
func Build(d Desired, o Observed) []lab.Step {
	steps := []lab.Step{{ID: KindPreflight, Kind: KindPreflight, Action: lab.ActionNone, Reason: d.Preflight}}
	steps = append(steps, imagesStep(o), networkStep(o), forgeStep(d, o))
	steps = append(steps, partSteps(d, o, true, nil)...)
	if o.Former != "" {
		o = withoutEngine(d, o)
	}
	hub := ""
	for _, c := range d.Clusters {
		steps = append(steps, clusterStep(d, c, o))
		if c.Role == lab.RoleHub {
			hub = c.Name
			o.newHub = steps[len(steps)-1].Action == lab.ActionRecreate
		}
	}
	gone := leftSteps(d, o, hub)
	if o.Former != "" {
		steps = append(steps, retireStep(o, steps))
	}
	bridged := []string{}
	own := spokeEngineSteps(d, o, hub, steps)
	for _, s := range own {
		bridged = append(bridged, s.ID)
	}
	steps = append(append(steps, engineStep(d, o, hub)), own...)
	steps = append(steps, estateStep(o, steps))
	for _, c := range d.Clusters {
		s := bridgeStep(c, o, hub, steps)
		bridged = append(bridged, s.ID)
		steps = append(steps, s)
	}
	steps = append(append(steps, gone...), partSteps(d, o, false, steps)...)
	left := leftPartSteps(d, o)
	steps = append(append(steps, addonsStep(d, o, hub, slices.Concat(steps, left), bridged)), left...)
	needParts(d, steps)
	if o.Former != "" {
		for i, s := range steps {
			if s.Kind == KindEngine || s.Kind == KindBridge {
				steps[i].Needs = append(s.Needs, KindRetire)
			}
		}
	}
	return steps
}

// Changes reports whether any step changes something.
func Changes(steps []lab.Step) bool {
	return slices.ContainsFunc(steps, func(s lab.Step) bool { return s.Action != lab.ActionNone })
}

func id(kind, cluster string) string { return kind + "/" + cluster }

func imagesStep(o Observed) lab.Step {
	s := lab.Step{ID: KindImages, Kind: KindImages, Action: lab.ActionNone, Reason: fmt.Sprintf("%d available", o.Supplied)}
	if len(o.Missing) > 0 {
		s.Action, s.Reason = lab.ActionCreate, fmt.Sprintf("%d of %d to get", len(o.Missing), len(o.Missing)+o.Supplied)
	}
	return s
}

func networkStep(o Observed) lab.Step {
	s := lab.Step{ID: KindNetwork, Kind: KindNetwork, Action: lab.ActionNone, Reason: "unchanged"}
	if !o.Network {
		s.Action, s.Reason = lab.ActionCreate, "absent"
	}
	return s
}

func forgeStep(d Desired, o Observed) lab.Step {
	s := lab.Step{ID: KindForge, Kind: KindForge, Needs: []string{KindNetwork}}
	switch {
	case !o.Forge.Exists && o.Forge.Lost:
		s.Action, s.Reason = lab.ActionCreate, "volume is gone"
	case !o.Forge.Exists:
		s.Action, s.Reason = lab.ActionCreate, "absent"
	case !o.Forge.Running:
		s.Action, s.Reason = lab.ActionRepair, "stopped"
	case o.Forge.Inputs != d.Forge:
		s.Action, s.Reason = lab.ActionUpdate, "image or settings changed"
	case !o.Forge.Answers:
		s.Action, s.Reason = lab.ActionRepair, "does not answer"
	case !o.Forge.Prepared:
		s.Action, s.Reason = lab.ActionRepair, "not prepared"
	case !o.Forge.Guarded:
		s.Action, s.Reason = lab.ActionRepair, "it is not private, or rejects the engine"
	default:
		s.Action, s.Reason = lab.ActionNone, "runs"
	}
	return s
}

// hubStep returns a step on the hub. It is needed in any case while the state of the hub is unknown.
func hubStep(o Observed, hub, kind, cluster string, needs ...string) (s lab.Step, unknown bool) {
	s = lab.Step{ID: kind, Kind: kind, Cluster: cluster, Needs: needs}
	if cluster != "" {
		s.ID = id(kind, cluster)
	}
	if o.newHub {
		s.Action, s.Reason = lab.ActionCreate, "the hub is recreated"
		return s, true
	}
	if c := o.Clusters[hub]; c.Exists && !o.Hub {
		s.Action, s.Reason = lab.ActionRepair, "the hub "+unreachableReason(c)
		return s, true
	}
	return s, false
}

// unreachableReason describes a cluster that did not answer.
func unreachableReason(c lab.ClusterState) string {
	switch {
	case c.Made == lab.MadeHalf:
		return "was half created"
	case !c.Running:
		return "is " + c.Fault
	}
	return "did not answer"
}

func estateStep(o Observed, before []lab.Step) lab.Step {
	s := lab.Step{ID: KindEstate, Kind: KindEstate, Needs: []string{KindForge}}
	switch {
	case !o.Forge.Exists:
		s.Action, s.Reason = lab.ActionCreate, "the forge is empty"
	case changes(before, KindForge):
		s.Action, s.Reason = lab.ActionUpdate, "after the forge"
	case len(o.Estate) > 0:
		s.Action, s.Reason = lab.ActionUpdate, summary(o.Estate)
	default:
		s.Action, s.Reason = lab.ActionNone, "matches the working tree"
	}
	return s
}

func bridgeStep(c Cluster, o Observed, hub string, before []lab.Step) lab.Step {
	s, unknown := hubStep(o, hub, KindBridge, c.Name, id(KindCluster, hub))
	if c.Name != hub {
		s.Needs = append(s.Needs, id(KindCluster, c.Name))
	}
	diff, registered := o.Bridge[c.Name]
	switch {
	case unknown:
	case !registered:
		s.Action, s.Reason = lab.ActionCreate, "not registered"
	case changes(before, id(KindCluster, c.Name)):
		s.Action, s.Reason = lab.ActionUpdate, "the cluster changed"
	case len(diff) > 0:
		s.Action, s.Reason = lab.ActionUpdate, summary(diff)
	default:
		s.Action, s.Reason = lab.ActionNone, "unchanged"
	}
	return s
}

// leftSteps returns the steps for clusters that left the estate. They are kept unless pruned, in which case they are unregistered first.
func leftSteps(d Desired, o Observed, hub string) []lab.Step {
	var steps []lab.Step
	for _, name := range Left(d, o) {
		exists := o.Clusters[name].Exists
		if !d.Prune {
			if exists {
				steps = append(steps, lab.Step{
					ID: id(KindCluster, name), Kind: KindCluster, Cluster: name, Action: lab.ActionNone, Reason: "left the estate, kept: lab up --prune removes it",
				})
			}
			continue
		}
		forget, unknown := hubStep(o, hub, KindBridge, name, id(KindCluster, hub))
		forget.Action, forget.Reason = lab.ActionDelete, "left the estate"
		registered := unknown || slices.Contains(o.Registered, name)
		if registered {
			steps = append(steps, forget)
		}
		if !exists {
			continue
		}
		s := lab.Step{ID: id(KindCluster, name), Kind: KindCluster, Cluster: name, Action: lab.ActionDelete, Reason: "left the estate", Loses: lossOf(name)}
		if o.Clusters[name].Attached {
			s.Reason, s.Loses = "left the estate, released", "lab's objects in cluster "+name
		}
		if registered {
			s.Needs = []string{forget.ID}
		}
		steps = append(steps, s)
	}
	return steps
}

// Left returns the existing or registered clusters that the estate no longer has.
func Left(d Desired, o Observed) []string {
	if d.Others {
		return nil
	}
	names := append(slices.Collect(maps.Keys(o.Clusters)), o.Registered...)
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(d.Clusters, func(c Cluster) bool { return c.Name == name })
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// lossOf describes the loss of a cluster.
func lossOf(cluster string) string {
	return "everything in cluster " + cluster + ": its objects, its volumes, its nodes"
}

func changes(steps []lab.Step, id string) bool {
	return slices.ContainsFunc(steps, func(s lab.Step) bool { return s.ID == id && s.Action != lab.ActionNone })
}

// summary returns the first entry of a list, and the number of the others.
func summary(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return fmt.Sprintf("%s and %d more", list[0], len(list)-1)
}

// String formats a plan with one line per step, as in the golden files.
func String(steps []lab.Step) string {
	var b strings.Builder
	wide := 16
	for _, s := range steps {
		wide = max(wide, len(s.ID))
	}
	for _, s := range steps {
		fmt.Fprintf(&b, "%-8s %-*s %s", s.Action, wide, s.ID, s.Reason)
		if len(s.Needs) > 0 {
			fmt.Fprintf(&b, "   (after %s)", strings.Join(s.Needs, ", "))
		}
		b.WriteByte('\n')
		if s.Loses != "" {
			fmt.Fprintf(&b, "%-8s %-*s loses %s\n", "", wide, "", s.Loses)
		}
	}
	return b.String()
}
