package draft

import (
	"cmp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/cloud"
	"homelab/lab/draft/field"
	"homelab/lab/fill"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/render"
)

// spellings are other names of the bridge's variables (docs/estates.md), in lower case with underscores.
var spellings = map[string]string{
	"cluster": "cluster_name", "clustername": "cluster_name", "env": "environment", "stage": "environment", "cluster_env": "environment", "cluster_environment": "environment",
	"cluster_version": "kubernetes_version", "k8s_version": "kubernetes_version", "cluster_region": "region",
	"aws_default_region": "aws_region", "account_id": "aws_account_id", "vpc_id": "aws_vpc_id", "subnet_ids": "aws_subnet_ids", "private_subnet_ids": "aws_subnet_ids",
	"eks_cluster_name": "aws_cluster_name", "oidc_provider_arn": "aws_oidc_provider_arn",
	"aks_cluster_name": "azure_cluster_name", "subscription_id": "azure_subscription_id", "tenant_id": "azure_tenant_id", "resource_group": "azure_resource_group",
	"gke_cluster_name": "gcp_cluster_name", "project_id": "gcp_project_id", "project_number": "gcp_project_number",
}

// names returns the names of the bridge's variables that a key may mean: its own, also in capitals, and the one that it is a spelling of.
func names(key string) []string {
	lower := strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	return slices.DeleteFunc([]string{key, lower, spellings[lower]}, func(name string) bool { return name == "" })
}

// identities are the ends of the bridge's keys for the identities of addons.
var identities = map[string]string{cloud.AWS: "_iam_role_arn", cloud.GCP: "_service_account_email"}

// provide sets the cloud that has most of the keys, if any has one.
func (d *drafting) provide(keys []string) {
	count := map[string]int{}
	for _, provider := range []string{cloud.AWS, cloud.Azure, cloud.GCP} {
		for _, key := range keys {
			if slices.ContainsFunc(names(key), func(name string) bool {
				return strings.HasPrefix(name, provider+"_") || identities[provider] != "" && strings.HasSuffix(name, identities[provider])
			}) {
				count[provider]++
			}
		}
	}
	def := d.environment(lab.DefaultEnvironment)
	def.Cloud.Provider = cmp.Or(def.Cloud.Provider, most(count, ""))
}

// seedKey is a key of a seed with the type of the field that it is for.
type seedKey struct {
	fluxset.ReadKey
	kind fill.Type
}

// content is the value of a key of a seed.
type content struct {
	text     string
	variable string // of the bridge, in place of text
	open     bool
}

// valueOf returns a seed's value of a key: that in the repositories, the bridge's, or a placeholder.
func (d *drafting) valueOf(s *seed, k seedKey) content {
	if text, same := s.same(k.Name); same {
		return content{text: text}
	}
	if variable := d.bridged(k.Name); variable != "" && !k.Text {
		return content{variable: variable}
	}
	return content{text: s.kindOf(k).Placeholder(k.Name), open: true}
}

func (s *seed) kindOf(k seedKey) fill.Type {
	if k.Text {
		return fill.Values
	}
	return cmp.Or(k.kind, field.Secret(s.of, k.Name))
}

// bridged returns the variable that a key means and every cluster with seeds has, or "".
func (d *drafting) bridged(key string) string {
	for _, name := range names(key) {
		if !slices.ContainsFunc(d.estate.Clusters, func(c lab.Cluster) bool { return c.Addons[d.seedsAddon()] && d.variable(c.Name, name) == "" }) {
			return name
		}
	}
	return ""
}

// variable returns the value of a cluster's variable, or "".
func (d *drafting) variable(cluster, name string) string {
	c, known := d.estate.Cluster(cluster)
	if !known {
		return ""
	}
	reg := d.registered(c)
	return flux.Variables(lab.Strings(reg.Labels), lab.Strings(reg.Annotations))[name]
}

// kindOf returns the type of the field that an unset variable is for: all of it, or the number in front of a unit.
func (d *drafting) kindOf(app fluxset.Application, u render.Unset) fill.Type {
	kind := d.types.Of(u.APIVersion, u.Kind, u.Field)
	if u.Kind == "HelmRelease" && len(u.Field) > 2 && u.Field[1] == "values" {
		for _, r := range app.Releases {
			if m, mounted := d.inputs().Mounted(r.URL); mounted && r.Folder != "" && r.At.File == u.At.File {
				kind = field.Value(m.FS, r.Folder, u.Field[2:])
			}
		}
	}
	switch {
	case u.Text == "${"+u.Name+"}":
		return kind
	case slices.Contains([]fill.Type{fill.CPU, fill.Memory, fill.Quantity, fill.Duration}, kind) && strings.HasPrefix(u.Text, "${"+u.Name+"}"):
		return fill.Integer
	}
	return fill.Text
}
