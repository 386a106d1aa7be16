package verb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/scenario"
)

// label changes the labels of a cluster. Addons and cloud are written as in cluster.yaml and pass through the bridge;
// labels and annotations are set on the registration directly.
type label struct {
	changes     `yaml:",inline"`
	Cluster     string             `yaml:"cluster" need:"true"`
	Addons      map[string]bool    `yaml:"addons" doc:"addon -> enabled, as spec.addons in cluster.yaml"`
	Cloud       *clusterCloud      `yaml:"cloud" doc:"as spec.cloud in cluster.yaml"`
	Labels      map[string]*string `yaml:"labels" doc:"label of the registration -> value; null removes it"`
	Annotations map[string]*string `yaml:"annotations" doc:"annotation of the registration -> value; null removes it"`
}

// clusterCloud is spec.cloud of a cluster.
type clusterCloud struct {
	Seed           string   `yaml:"seed"`
	Region         string   `yaml:"region"`
	AccountID      string   `yaml:"accountID"`
	VPCID          string   `yaml:"vpcID"`
	Subnets        []string `yaml:"subnets"`
	SubscriptionID string   `yaml:"subscriptionID"`
	TenantID       string   `yaml:"tenantID"`
	ResourceGroup  string   `yaml:"resourceGroup"`
	ProjectID      string   `yaml:"projectID"`
	ProjectNumber  string   `yaml:"projectNumber"`
	Network        string   `yaml:"network"`
}

func (l *label) Check(c *scenario.Checker) {
	if len(l.Addons)+len(l.Labels)+len(l.Annotations) == 0 && l.Cloud == nil {
		c.Fail("", "empty label", "add addons, cloud, labels or annotations")
	}
}

// Alone returns why it is not played beside other stories.
func (*label) Alone() string { return "changes what an engine knows of a cluster" }

func (l *label) Do(ctx context.Context, c *scenario.Call) error {
	cluster, ok := c.Estate.Cluster(l.Cluster)
	if !ok {
		return fmt.Errorf("the estate has no cluster %s", l.Cluster)
	}
	was, err := c.Engine.Registration(ctx, l.Cluster)
	if err != nil {
		return err
	}
	m := scenario.Marks{Labels: map[string]*string{}, Annotations: map[string]*string{}}
	l.bridged(c, cluster, m)
	maps.Copy(m.Labels, l.Labels)
	maps.Copy(m.Annotations, l.Annotations)
	back := scenario.Marks{Labels: inverse(was.Labels, m.Labels), Annotations: inverse(was.Annotations, m.Annotations)}
	if len(back.Labels)+len(back.Annotations) == 0 {
		return fmt.Errorf("cluster %s already has all of it", l.Cluster)
	}
	c.Undo("registration of "+l.Cluster, func(ctx context.Context) error { return c.Engine.Mark(ctx, l.Cluster, back) })
	if err := c.Engine.Mark(ctx, l.Cluster, m); err != nil {
		return err
	}
	did := append(summarize("label", was.Labels, m.Labels), summarize("annotation", was.Annotations, m.Annotations)...)
	c.Note(scenario.Lane{Cluster: l.Cluster, Name: "registration"}, did[0])
	const most = 2
	if len(did) > most {
		did = append(did[:most], fmt.Sprintf("and %d more", len(did)-most))
	}
	c.Did("%s", strings.Join(did, ", "))
	return nil
}

// bridged returns the changes that the bridge derives: the difference between the cluster in the estate and the changed
// one, including fields that earlier steps changed.
func (l *label) bridged(c *scenario.Call, cluster lab.Cluster, m scenario.Marks) {
	if len(l.Addons) == 0 && l.Cloud == nil {
		return
	}
	changed := cluster
	changed.Addons = maps.Clone(cluster.Addons)
	if changed.Addons == nil {
		changed.Addons = map[string]bool{}
	}
	maps.Copy(changed.Addons, l.Addons)
	l.overlay(&changed.Cloud)
	in := bridge.InputsOf(c.Estate)
	def, _ := c.Estate.Environment(lab.DefaultEnvironment)
	env, _ := c.Estate.Environment(cluster.Environment)
	before, after := bridge.Build(c.Lab, env, def, cluster, in), bridge.Build(c.Lab, env, def, changed, in)
	memory := "label " + l.Cluster
	touched, ok := c.Memory[memory].(map[string]bool)
	if !ok {
		touched = map[string]bool{}
		c.Memory[memory] = touched
	}
	difference(before.Labels, after.Labels, m.Labels, touched, "label ")
	difference(before.Annotations, after.Annotations, m.Annotations, touched, "annotation ")
}

// overlay overlays the given cloud fields.
func (l *label) overlay(over *lab.Cloud) {
	if l.Cloud == nil {
		return
	}
	g := l.Cloud
	for to, from := range map[*string]string{
		&over.Seed: g.Seed, &over.Region: g.Region, &over.AccountID: g.AccountID, &over.VPCID: g.VPCID, &over.SubscriptionID: g.SubscriptionID,
		&over.TenantID: g.TenantID, &over.ResourceGroup: g.ResourceGroup, &over.ProjectID: g.ProjectID, &over.ProjectNumber: g.ProjectNumber, &over.Network: g.Network,
	} {
		if from != "" {
			*to = from
		}
	}
	if len(g.Subnets) > 0 {
		over.Subnets = g.Subnets
	}
}

func difference(before, after map[string]lab.Value, to map[string]*string, touched map[string]bool, kind string) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for k := range all {
		was, had := before[k]
		is, has := after[k]
		if had == has && was.Value == is.Value && !touched[kind+k] {
			continue
		}
		touched[kind+k] = true
		to[k] = nil
		if has {
			to[k] = &is.Value
		}
	}
}

// inverse returns the change that undoes another.
func inverse(was, change map[string]*string) map[string]*string {
	back := map[string]*string{}
	for k, v := range change {
		before := was[k]
		if (before == nil) != (v == nil) || before != nil && *before != *v {
			back[k] = before
		}
	}
	return back
}

func summarize(what string, was, change map[string]*string) []string {
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(inverse(was, change))) {
		lines = append(lines, fmt.Sprintf("%s %s: %s -> %s", what, k, orNone(was[k]), orNone(change[k])))
	}
	return lines
}

func orNone(s *string) string {
	if s == nil {
		return "(none)"
	}
	return scenario.Shown(*s)
}
