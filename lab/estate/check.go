package estate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// hub checks that there is exactly one hub, as far as roles are readable.
func (l *loader) hub() {
	hub, unread := "", false
	for _, c := range l.estate.Clusters {
		unread = unread || !l.roles[c.Name]
		if c.Role != lab.RoleHub {
			continue
		}
		if hub != "" {
			l.at(finding.HubCount, c.Position("spec.role"), fmt.Sprintf("a second hub: clusters/%s is one already", hub), "make this a spoke")
			continue
		}
		hub = c.Name
	}
	if hub == "" && !unread && len(l.estate.Clusters) > 0 {
		l.at(finding.HubCount, l.estate.Clusters[0].Position("spec.role"), "no hub: the engine runs nowhere", "set role: hub on one cluster")
	}
}

func (l *loader) at(code string, p lab.Position, message, cure string) {
	l.problems = append(l.problems, lab.Problem{Code: code, Position: p, Message: message, Cure: cure})
}

// note adds a remark, which is not an error.
func (l *loader) note(code string, p lab.Position, message, cure string) {
	l.estate.Notes = append(l.estate.Notes, lab.Problem{Code: code, Position: p, Message: message, Cure: cure})
}

// noteOnce is note for what is looked at several times.
func (l *loader) noteOnce(code string, p lab.Position, message, cure string) {
	if !slices.ContainsFunc(l.estate.Notes, func(o lab.Problem) bool { return o.Position == p && o.Message == message }) {
		l.note(code, p, message, cure)
	}
}

// cluster checks a cluster against the rest of the estate.
func (l *loader) cluster(c lab.Cluster) {
	l.nodeNames(c)
	env, ok := l.environmentOf(c)
	addons := l.addonNames()
	for _, name := range slices.Sorted(maps.Keys(c.Addons)) {
		if l.isAddon(name) {
			continue
		}
		cure := "there are none"
		if len(addons) > 0 {
			cure = "there are " + strings.Join(addons, ", ")
		}
		if best := strict.Closest(name, addons); best != "" {
			cure = fmt.Sprintf("did you mean %q?", best)
		}
		l.at(finding.UnknownAddon, c.Position("spec.addons."+name), fmt.Sprintf("no addon %s", name), cure)
	}
	if ok {
		def, _ := l.estate.Environment(lab.DefaultEnvironment)
		l.problems = append(l.problems, bridge.Check(l.estate.Name, env, def, c, l.inputs())...)
	}
}

// isAddon reports whether a cluster can enable an addon.
func (l *loader) isAddon(name string) bool {
	return slices.ContainsFunc(l.estate.Addons, func(a lab.Addon) bool { return a.Name == name }) || l.readsLabel(lab.EnableLabel(name))
}

// environmentOf returns the cluster's environment. ok is false if a required one is missing.
func (l *loader) environmentOf(c lab.Cluster) (env lab.Environment, ok bool) {
	var names []string
	for _, e := range l.estate.Environments {
		if e.Name != lab.DefaultEnvironment {
			names = append(names, e.Name)
		}
	}
	there := "there are " + strings.Join(names, ", ")
	if len(names) == 0 {
		there = "write one to environments/NAME/environment.yaml"
	}
	at := c.Position("spec.environment")
	switch {
	case c.Environment == "" && c.Role == lab.RoleSpoke:
		if _, written := c.Positions["spec.environment"]; written {
			return lab.Environment{}, false // already reported
		}
		l.at(finding.UnknownEnvironment, c.Position("spec"), "a spoke without environment", there)
		return lab.Environment{}, false
	case c.Environment == "":
		return lab.Environment{}, true
	case c.Environment == lab.DefaultEnvironment:
		l.at(finding.UnknownEnvironment, at, "clusters cannot be in environment default, the base of all others", there)
		return lab.Environment{}, false
	}
	if env, ok = l.estate.Environment(c.Environment); !ok {
		if best := strict.Closest(c.Environment, names); best != "" {
			there = fmt.Sprintf("did you mean %q?", best)
		}
		l.at(finding.UnknownEnvironment, at, fmt.Sprintf("no environment %s", c.Environment), there)
	}
	return env, ok
}

// unusedEnvironments checks environments without clusters; others are checked with their clusters.
func (l *loader) unusedEnvironments() {
	def, _ := l.estate.Environment(lab.DefaultEnvironment)
	for _, e := range l.estate.Environments {
		used := slices.ContainsFunc(l.estate.Clusters, func(c lab.Cluster) bool { return c.Environment == e.Name })
		if used || e.Name == lab.DefaultEnvironment || bridge.Resolve(e, def, lab.Cluster{}).Cloud.Provider == "" {
			continue
		}
		l.problems = append(l.problems, bridge.Check(l.estate.Name, e, def, lab.Cluster{Name: e.Name}, bridge.Inputs{})...)
	}
}

// nodeNames checks that node containers have valid host names: Kind derives them from lab, cluster and role.
func (l *loader) nodeNames(c lab.Cluster) {
	if c.Provider == lab.ProviderExisting {
		return
	}
	suffix := "-control-plane"
	if c.ControlPlanes > 1 {
		suffix = "-external-load-balancer"
		if l.noLoadBalancer {
			l.at(finding.ControlPlanes, c.Position("spec.kind.nodes"),
				fmt.Sprintf("%d control planes need kind's load balancer, whose image only a registry has", c.ControlPlanes), "one control plane, or --images registry")
		}
	}
	if node := lab.KindName(l.estate.Name, c.Name) + suffix; len(node) > 63 {
		l.at(finding.NameTooLong, c.Position("metadata.name"), fmt.Sprintf("node name %s has %d characters, more than 63", node, len(node)),
			"give the cluster or the lab a shorter name")
	}
}

// ports finds conflicting host ports.
func (l *loader) ports() {
	taken := map[string]lab.Position{}
	for _, c := range l.estate.Clusters {
		var doc v1alpha4.Cluster
		if yaml.Unmarshal(c.Kind, &doc) != nil {
			continue
		}
		for i, n := range doc.Nodes {
			for j, m := range n.ExtraPortMappings {
				if m.HostPort <= 0 { // chosen automatically
					continue
				}
				protocol := m.Protocol
				if protocol == "" {
					protocol = v1alpha4.PortMappingProtocolTCP
				}
				at := c.Position(fmt.Sprintf("spec.kind.nodes[%d].extraPortMappings[%d].hostPort", i, j))
				key := fmt.Sprintf("%s:%d/%s", m.ListenAddress, m.HostPort, protocol)
				if first, ok := taken[key]; ok {
					l.at(finding.AddressTaken, at, fmt.Sprintf("port %s is taken", key), "by "+first.String())
					continue
				}
				taken[key] = at
			}
		}
	}
}

// servers reports clusters that share an address: Argo CD identifies clusters by it.
func (l *loader) servers() {
	seen := map[string]string{}
	for _, c := range l.estate.Clusters {
		server, at := c.Server, "spec.server"
		if c.Provider == lab.ProviderExisting {
			server, at = c.Existing.Server, "spec.existing.server"
		}
		if server == "" {
			continue
		}
		if other, twice := seen[server]; twice {
			l.at(finding.AddressTaken, c.Position(at), "this is the server of cluster "+other, "the engine identifies clusters by it")
		}
		seen[server] = c.Name
	}
}

// notePulls notes clusters that lab cannot load images into.
func (l *loader) notePulls() {
	for _, c := range l.estate.Clusters {
		if c.Provider == lab.ProviderExisting && slices.ContainsFunc(l.estate.Applications, func(a lab.Generated) bool { return a.Cluster == c.Name && len(a.Charts) > 0 }) {
			l.note(finding.PullsItself, c.Position("spec.provider"), "cluster "+c.Name+" pulls the images of its addons itself", "")
		}
	}
}

// unavailableCharts reports charts that lab cannot have, at the positions of their versions.
func (l *loader) unavailableCharts() {
	for _, a := range l.estate.Applications {
		for _, c := range a.Charts {
			if !l.haveChart(c) {
				l.at(finding.NotHere, c.At, fmt.Sprintf("chart %s %s is in no repository that lab can reach", c.Name, c.Version), "lab bundle ls")
			}
		}
	}
}
