package bridge

import (
	"homelab/lab"
	"homelab/lab/cloud"
)

// Given is the cloud merged from all layers, before defaults, with the origin of each field.
type Given struct {
	Cloud   lab.Cloud
	Origins map[string]lab.Value // by field of spec.cloud; values are in Cloud
}

// value returns v with the origin of a field, made up if no layer sets it.
func (g Given) value(field, v string) lab.Value {
	o, ok := g.Origins[field]
	if !ok {
		return lab.Value{Value: v, Origin: MadeUp}
	}
	o.Value = v
	return o
}

// Resolve merges the clouds of default, environment and cluster field by field. A layer with another provider discards
// all lower fields but the seed.
func Resolve(env, def lab.Environment, c lab.Cluster) Given {
	g := Given{Origins: map[string]lab.Value{}}
	g.lay(def.Cloud, FromEnvironment, def.Position)
	g.lay(env.Cloud, FromEnvironment, env.Position)
	g.lay(c.Cloud, FromCluster, c.Position)
	return g
}

func (g *Given) lay(over lab.Cloud, origin string, position func(string) lab.Position) {
	if over.Provider != "" && over.Provider != g.Cloud.Provider {
		g.Cloud = lab.Cloud{Seed: g.Cloud.Seed}
		g.Origins = map[string]lab.Value{}
	}
	from := func(field string) { g.Origins[field] = lab.Value{Origin: origin, At: position("spec.cloud." + field)} }
	if over.Provider != "" {
		from("provider")
		if over.Provider == cloud.None {
			over.Provider = ""
		}
		g.Cloud.Provider = over.Provider
	}
	for _, f := range fields(&g.Cloud, &over) {
		if *f.from != "" {
			*f.to = *f.from
			from(f.name)
		}
	}
	if len(over.Subnets) > 0 {
		g.Cloud.Subnets = over.Subnets
		from("subnets")
	}
}

type field struct {
	name     string
	to, from *string
}

func fields(to, from *lab.Cloud) []field {
	return []field{
		{"seed", &to.Seed, &from.Seed},
		{"region", &to.Region, &from.Region},
		{"accountID", &to.AccountID, &from.AccountID},
		{"vpcID", &to.VPCID, &from.VPCID},
		{"subscriptionID", &to.SubscriptionID, &from.SubscriptionID},
		{"tenantID", &to.TenantID, &from.TenantID},
		{"resourceGroup", &to.ResourceGroup, &from.ResourceGroup},
		{"projectID", &to.ProjectID, &from.ProjectID},
		{"projectNumber", &to.ProjectNumber, &from.ProjectNumber},
		{"network", &to.Network, &from.Network},
	}
}
