// Package judge judges an estate that has been read: what is wrong with it, what may be surprising, and which Applications lab does not wait for. It is pure: it reads no
// file and renders nothing.
package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/bridge"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
	"homelab/lab/strict"
)

// Findings are what is wrong with an estate, and what may be surprising.
type Findings struct{ Problems, Notes lab.Problems }

func (f *Findings) at(code string, p lab.Position, message, cure string) {
	f.Problems = append(f.Problems, lab.Problem{Code: code, Position: p, Message: message, Cure: cure})
}

func (f *Findings) note(code string, p lab.Position, message, cure string) {
	f.Notes = append(f.Notes, lab.Problem{Code: code, Position: p, Message: message, Cure: cure})
}

// Facts are what is known of an estate besides its documents.
type Facts struct {
	Roles          map[string]bool // clusters with a readable role
	Reads          map[string]bool // labels that ApplicationSets read
	NoLoadBalancer bool            // kind's cannot be had

	Missing     map[lab.ChartUse]error // charts of chart repositories that were asked for and are not on this machine
	Unreachable []lab.ChartUse         // charts that lab cannot have, at the positions of their versions
}

// Clusters judges an estate's clusters, each against the rest of the estate.
func Clusters(e *lab.Estate, known Facts) (f Findings) {
	f.hub(e, known.Roles)
	for _, c := range e.Clusters {
		f.nodeNames(e, c, known.NoLoadBalancer)
		env, ok := f.environmentOf(e, c)
		f.addons(e, c, known.Reads)
		if ok {
			def, _ := e.Environment(lab.DefaultEnvironment)
			f.Problems = append(f.Problems, bridge.Check(e.Name, env, def, c, bridge.InputsOf(e))...)
		}
	}
	return f
}

// hub checks that there is exactly one hub, as far as roles are readable.
func (f *Findings) hub(e *lab.Estate, readable map[string]bool) {
	hubs := slices.DeleteFunc(slices.Clone(e.Clusters), func(c lab.Cluster) bool { return c.Role != lab.RoleHub })
	for _, c := range hubs[min(1, len(hubs)):] {
		f.at(finding.HubCount, c.Position("spec.role"), fmt.Sprintf("a second hub: clusters/%s is one already", hubs[0].Name), "make this a spoke")
	}
	unread := slices.ContainsFunc(e.Clusters, func(c lab.Cluster) bool { return !readable[c.Name] })
	if len(hubs) == 0 && !unread && len(e.Clusters) > 0 {
		f.at(finding.HubCount, e.Clusters[0].Position("spec.role"), "no hub: the engine runs nowhere", "set role: hub on one cluster")
	}
}

// nodeNames checks that node containers have valid host names: Kind derives them from lab, cluster and role.
func (f *Findings) nodeNames(e *lab.Estate, c lab.Cluster, noLoadBalancer bool) {
	if c.Provider == lab.ProviderExisting {
		return
	}
	suffix := "-control-plane"
	if c.ControlPlanes > 1 {
		suffix = "-external-load-balancer"
		if noLoadBalancer {
			f.at(finding.ControlPlanes, c.Position("spec.kind.nodes"),
				fmt.Sprintf("%d control planes need kind's load balancer, whose image only a registry has", c.ControlPlanes), "one control plane, or --images registry")
		}
	}
	if node := lab.KindName(e.Name, c.Name) + suffix; len(node) > 63 {
		f.at(finding.NameTooLong, c.Position("metadata.name"), fmt.Sprintf("node name %s has %d characters, more than 63", node, len(node)),
			"give the cluster or the lab a shorter name")
	}
}

// environmentOf returns the cluster's environment. ok is false if a required one is missing.
func (f *Findings) environmentOf(e *lab.Estate, c lab.Cluster) (env lab.Environment, ok bool) {
	var names []string
	for _, env := range e.Environments {
		if env.Name != lab.DefaultEnvironment {
			names = append(names, env.Name)
		}
	}
	there := "there are " + strings.Join(names, ", ")
	if len(names) == 0 {
		there = "write one to environments/NAME/environment.yaml"
	}
	at, message := c.Position("spec.environment"), "no environment "+c.Environment
	_, written := c.Positions["spec.environment"]
	env, known := e.Environment(c.Environment)
	switch best := strict.Closest(c.Environment, names); {
	case c.Environment == "" && c.Role != lab.RoleSpoke:
		return env, true
	case c.Environment == "" && written:
		return env, false // already reported
	case c.Environment == "":
		at, message = c.Position("spec"), "a spoke without environment"
	case c.Environment == lab.DefaultEnvironment:
		message = "clusters cannot be in environment default, the base of all others"
	case known:
		return env, true
	case best != "":
		there = fmt.Sprintf("did you mean %q?", best)
	}
	f.at(finding.UnknownEnvironment, at, message, there)
	return env, false
}

// addons checks that a cluster's addons exist.
func (f *Findings) addons(e *lab.Estate, c lab.Cluster, reads map[string]bool) {
	addons := addonNames(e)
	for _, name := range slices.Sorted(maps.Keys(c.Addons)) {
		if IsAddon(e, name, reads) {
			continue
		}
		cure := "there are none"
		if len(addons) > 0 {
			cure = "there are " + strings.Join(addons, ", ")
		}
		if best := strict.Closest(name, addons); best != "" {
			cure = fmt.Sprintf("did you mean %q?", best)
		}
		f.at(finding.UnknownAddon, c.Position("spec.addons."+name), fmt.Sprintf("no addon %s", name), cure)
	}
}

// IsAddon reports whether a cluster can enable an addon. reads are labels that ApplicationSets read.
func IsAddon(e *lab.Estate, name string, reads map[string]bool) bool {
	_, is := e.Addon(name)
	return is || reads[lab.EnableLabel(name)]
}

// Values notes a file of values for an addon whose name seems misspelt: the engine ignores it.
func Values(e *lab.Estate, addon, file string) (f Findings) {
	names := addonNames(e)
	if best := strict.Closest(addon, names); best != "" && best != addon && !slices.Contains(names, addon) {
		f.note(finding.UnknownAddon, lab.Position{File: file}, fmt.Sprintf("values for unknown addon %s", addon), fmt.Sprintf("did you mean %q?", best))
	}
	return f
}

func addonNames(e *lab.Estate) []string {
	var names []string
	for _, a := range e.Addons {
		names = append(names, a.Name)
		if a.Chart != "" && a.Chart != a.Name {
			names = append(names, a.Chart)
		}
	}
	return names
}

// Wave is a sync wave of Argo CD.
type Wave struct {
	Number int
	At     lab.Position
	Folder string // as of lab.Generated; empty for objects of the root, which lab applies together
	Tree   any    // equal for what is synced together

	Addon string // of an ApplicationSet
	Flux  string // its first manifest for Flux, or empty
}

// Dependencies reports clusters that have an addon but not its dependencies.
func Dependencies(e *lab.Estate, order fluxset.Order) (f Findings) {
	for _, c := range e.Clusters {
		for _, addon := range slices.Sorted(maps.Keys(c.Addons)) {
			for _, n := range order[addon] {
				if c.Addons[addon] && !c.Addons[n.Addon] && !n.Optional {
					f.at(finding.DependencyMissing, c.Position("spec.addons."+addon), fmt.Sprintf("addon %s needs %s (%s), which %s does not have", addon, n.Addon, n.At, c.Name),
						fmt.Sprintf("enable %s for the cluster, or use annotation %s if it is optional", n.Addon, fluxset.AfterAnnotation))
				}
			}
		}
	}
	return f
}

// SameOrder reports addons that wait for another in Flux but not in Argo CD. The reverse is fine: waves are coarse.
func SameOrder(order fluxset.Order, waves []Wave) (f Findings) {
	of := map[string][]Wave{}
	for _, w := range waves {
		of[w.Addon] = append(of[w.Addon], w)
	}
	for _, addon := range slices.Sorted(maps.Keys(order)) {
		if len(of[addon]) == 0 {
			continue
		}
		for _, n := range nearest(order, addon, of, map[string]bool{}) {
			if waits(order, n.Addon, addon, map[string]bool{}) {
				continue // no wave suits a cycle
			}
			for _, first := range of[n.Addon] {
				for _, then := range of[addon] {
					if first.Tree == then.Tree && first.Number >= then.Number {
						f.at(finding.OrderDiffers, then.At,
							fmt.Sprintf("%s does not wait for %s in Argo CD (wave %d, and %d at %s), as it does in Flux (%s)", addon, n.Addon, then.Number, first.Number, first.At, n.At),
							fmt.Sprintf("use a later wave in its ApplicationSet: annotations: {%s: \"%d\"}", argo.SyncWave, first.Number+1))
					}
				}
			}
		}
	}
	for _, addon := range slices.Sorted(maps.Keys(of)) {
		with := len(order[addon]) > 0 || slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(order))...), func(n fluxset.Need) bool { return n.Addon == addon })
		for _, w := range of[addon] {
			if !with && w.Flux != "" && w.Number != 0 {
				f.note(finding.OrderDiffers, w.At, fmt.Sprintf("addon %s is in sync wave %d of Argo CD, but Flux starts it immediately", addon, w.Number), "declare its dependencies in "+w.Flux+": spec.dependsOn of a HelmRelease")
			}
		}
	}
	return f
}

// waits reports whether an addon waits for another in Flux, directly or not.
func waits(order fluxset.Order, addon, other string, seen map[string]bool) bool {
	seen[addon] = true
	return slices.ContainsFunc(order[addon], func(n fluxset.Need) bool {
		return n.Addon == other || !seen[n.Addon] && waits(order, n.Addon, other, seen)
	})
}

// nearest returns the addons that an addon waits for in Flux, skipping those without sets.
func nearest(order fluxset.Order, addon string, of map[string][]Wave, seen map[string]bool) []fluxset.Need {
	seen[addon] = true
	var list []fluxset.Need
	for _, n := range order[addon] {
		switch {
		case len(of[n.Addon]) > 0:
			list = append(list, n)
		case !seen[n.Addon]:
			list = append(list, nearest(order, n.Addon, of, seen)...)
		}
	}
	return list
}

// Estate judges an estate with its Applications.
func Estate(e *lab.Estate, known Facts) (f Findings) {
	f.unusedEnvironments(e)
	f.ports(e)
	f.servers(e)
	f.pulls(e)
	f.charts(known)
	return f
}

// unusedEnvironments checks environments without clusters; others are checked with their clusters.
func (f *Findings) unusedEnvironments(e *lab.Estate) {
	def, _ := e.Environment(lab.DefaultEnvironment)
	for _, env := range e.Environments {
		used := slices.ContainsFunc(e.Clusters, func(c lab.Cluster) bool { return c.Environment == env.Name })
		if used || env.Name == lab.DefaultEnvironment || bridge.Resolve(env, def, lab.Cluster{}).Cloud.Provider == "" {
			continue
		}
		f.Problems = append(f.Problems, bridge.Check(e.Name, env, def, lab.Cluster{Name: env.Name}, bridge.Inputs{})...)
	}
}

// ports finds conflicting host ports.
func (f *Findings) ports(e *lab.Estate) {
	taken := map[string]lab.Position{}
	for _, c := range e.Clusters {
		var doc v1alpha4.Cluster
		if yaml.Unmarshal(c.Kind, &doc) != nil {
			continue
		}
		for i, n := range doc.Nodes {
			for j, m := range n.ExtraPortMappings {
				if m.HostPort <= 0 { // chosen automatically
					continue
				}
				protocol := cmp.Or(m.Protocol, v1alpha4.PortMappingProtocolTCP)
				at := c.Position(fmt.Sprintf("spec.kind.nodes[%d].extraPortMappings[%d].hostPort", i, j))
				key := fmt.Sprintf("%s:%d/%s", m.ListenAddress, m.HostPort, protocol)
				if first, ok := taken[key]; ok {
					f.at(finding.AddressTaken, at, fmt.Sprintf("port %s is taken", key), "by "+first.String())
					continue
				}
				taken[key] = at
			}
		}
	}
}

// servers reports clusters that share an address: Argo CD identifies clusters by it.
func (f *Findings) servers(e *lab.Estate) {
	seen := map[string]string{}
	for _, c := range e.Clusters {
		server, at := c.Server, "spec.server"
		if c.Provider == lab.ProviderExisting {
			server, at = c.Existing.Server, "spec.existing.server"
		}
		if server == "" {
			continue
		}
		if other, twice := seen[server]; twice {
			f.at(finding.AddressTaken, c.Position(at), "this is the server of cluster "+other, "the engine identifies clusters by it")
		}
		seen[server] = c.Name
	}
}

// pulls notes clusters that lab cannot load images into.
func (f *Findings) pulls(e *lab.Estate) {
	for _, c := range e.Clusters {
		if c.Provider == lab.ProviderExisting && slices.ContainsFunc(e.Applications, func(a lab.Generated) bool { return a.Cluster == c.Name && len(a.Charts) > 0 }) {
			f.note(finding.PullsItself, c.Position("spec.provider"), "cluster "+c.Name+" pulls the images of its addons itself", "")
		}
	}
}

// charts reports charts that no repository has, and notes those that are not on this machine.
func (f *Findings) charts(known Facts) {
	for _, c := range known.Unreachable {
		f.at(finding.NotHere, c.At, fmt.Sprintf("chart %s %s is in no repository that lab can reach", c.Name, c.Version), "lab bundle ls")
	}
	first := len(f.Notes)
	for c, err := range known.Missing {
		f.note(finding.NotHere, c.At, ChartTitle(c)+" is not on this machine: "+err.Error(), "")
	}
	slices.SortFunc(f.Notes[first:], func(a, b lab.Problem) int { return cmp.Compare(a.Message, b.Message) })
	f.Notes[first:].Sort()
}

// ChartTitle names a chart.
func ChartTitle(c lab.ChartUse) string { return strings.TrimSpace("chart " + c.Name + " " + c.Version) }
