package production

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/cloud"
)

// Change is a value to set in a document of the estate.
type Change struct {
	File          string
	Path          []string // spec, cloud, region
	Key           string   // of production
	Before, After any      // texts; a list of texts for subnets; booleans for addons; Before is nil if the document lacks it
}

// field is a field of spec.cloud and the keys that say it. The keys without a prefix are common names of outputs; they need a known provider.
type field struct {
	name, provider string
	keys           []string
	shared         bool // by the clusters of an environment
}

var fields = []field{
	{"region", cloud.AWS, []string{"aws_region", "region"}, false},
	{"accountID", cloud.AWS, []string{"aws_account_id", "account_id"}, true},
	{"vpcID", cloud.AWS, []string{"aws_vpc_id", "vpc_id"}, false},
	{"subnets", cloud.AWS, []string{"aws_subnet_ids", "subnet_ids", "private_subnets", "private_subnet_ids"}, false},
	{"region", cloud.Azure, []string{"azure_location", "location", "region"}, false},
	{"subscriptionID", cloud.Azure, []string{"azure_subscription_id", "subscription_id"}, true},
	{"tenantID", cloud.Azure, []string{"azure_tenant_id", "tenant_id"}, true},
	{"resourceGroup", cloud.Azure, []string{"azure_resource_group", "resource_group", "resource_group_name"}, false},
	{"region", cloud.GCP, []string{"gcp_region", "region"}, false},
	{"projectID", cloud.GCP, []string{"gcp_project_id", "project_id"}, true},
	{"projectNumber", cloud.GCP, []string{"gcp_project_number", "project_number"}, true},
	{"network", cloud.GCP, []string{"gcp_network", "network", "network_name"}, false},
}

// Take returns the changes that give a cluster of the estate production's bridge, and what is left out. Values that the estate already has are not changes. What the
// clusters of an environment share goes to its document, unless that has another value; the rest to the cluster's.
func Take(e *lab.Estate, c lab.Cluster, b Bridge) ([]Change, []Left) {
	t := taking{estate: e, cluster: c, bridge: b, left: slices.Clone(b.Left), taken: map[string]bool{}}
	t.env, _ = e.Environment(c.Environment)
	def, _ := e.Environment(lab.DefaultEnvironment)
	t.given = bridge.Resolve(t.env, def, c)
	t.cloud()
	t.labels()
	t.annotations(def)
	slices.SortStableFunc(t.changes, func(a, b Change) int { return strings.Compare(a.File, b.File) })
	slices.SortStableFunc(t.left, func(a, b Left) int { return strings.Compare(a.Key, b.Key) })
	return t.changes, t.left
}

type taking struct {
	estate  *lab.Estate
	cluster lab.Cluster
	env     lab.Environment
	bridge  Bridge
	given   bridge.Given

	apart   bool            // the provider is not the environment's
	taken   map[string]bool // annotations that spec.cloud says
	changes []Change
	left    []Left
}

// provider returns the cloud that production says, or that the estate has.
func (t *taking) provider() string {
	if p := t.bridge.Labels["cloud"]; slices.Contains([]string{cloud.AWS, cloud.Azure, cloud.GCP}, p) {
		return p
	}
	for _, f := range fields {
		if _, ok := t.bridge.Annotations[f.keys[0]]; ok {
			return f.provider
		}
	}
	return t.given.Cloud.Provider
}

func (t *taking) cloud() {
	provider := t.provider()
	if provider == "" {
		return
	}
	if t.given.Cloud.Provider != provider {
		t.set("provider", "cloud", provider, true)
	}
	for _, f := range fields {
		if f.provider != provider {
			continue
		}
		for i, key := range f.keys {
			value, ok := t.bridge.Annotations[key]
			if !ok {
				continue
			}
			c := lab.Cloud{Provider: provider}
			at := map[string]*string{
				"region": &c.Region, "accountID": &c.AccountID, "vpcID": &c.VPCID, "subscriptionID": &c.SubscriptionID, "tenantID": &c.TenantID, "resourceGroup": &c.ResourceGroup,
				"projectID": &c.ProjectID, "projectNumber": &c.ProjectNumber, "network": &c.Network,
			}
			var set any = value
			if f.name == "subnets" {
				c.Subnets = strings.Split(value, ",")
				set = list(c.Subnets)
			} else {
				*at[f.name] = value
			}
			if faults := cloud.Check(c); len(faults) > 0 {
				continue // under this key it is something else
			}
			t.taken[key] = i == 0 || !t.bridge.Secret // what templates read under another key stays an annotation
			t.set(f.name, key, set, f.shared)
			break
		}
	}
}

// set sets a field of spec.cloud, shared in the environment's document unless another value there is also for other clusters.
func (t *taking) set(name, key string, value any, shared bool) {
	before, has := t.now(name)
	if has && fmt.Sprint(before) == fmt.Sprint(value) {
		return
	}
	origin, file := t.given.Origins[name].At.File, t.cluster.File
	if shared && !t.apart && t.env.File != "" && origin != t.cluster.File && (origin == "" || !t.others()) {
		file = t.env.File
	}
	if origin != file {
		before = nil
	}
	if name == "provider" {
		t.apart = file == t.cluster.File
		t.given = bridge.Given{} // fields of another provider
	}
	t.changes = append(t.changes, Change{File: file, Path: []string{"spec", "cloud", name}, Key: key, Before: before, After: value})
}

// others reports whether other clusters are in the environment.
func (t *taking) others() bool {
	return slices.ContainsFunc(t.estate.Clusters, func(c lab.Cluster) bool { return c.Name != t.cluster.Name && c.Environment == t.cluster.Environment })
}

// now returns a field of spec.cloud as the estate has it.
func (t *taking) now(name string) (any, bool) {
	if _, ok := t.given.Origins[name]; !ok {
		return nil, false
	}
	g := t.given.Cloud
	if name == "subnets" {
		return list(g.Subnets), true
	}
	return map[string]string{
		"provider": g.Provider, "region": g.Region, "accountID": g.AccountID, "vpcID": g.VPCID, "subscriptionID": g.SubscriptionID, "tenantID": g.TenantID,
		"resourceGroup": g.ResourceGroup, "projectID": g.ProjectID, "projectNumber": g.ProjectNumber, "network": g.Network,
	}[name], true
}

// list returns texts as yamledit takes them.
func list(texts []string) []any {
	var l []any
	for _, s := range texts {
		l = append(l, s)
	}
	return l
}

func (t *taking) labels() {
	for _, key := range slices.Sorted(maps.Keys(t.bridge.Labels)) {
		value := t.bridge.Labels[key]
		addon, enables := strings.CutPrefix(key, "enable_")
		switch {
		case Own(key), key == "cloud", key == "region", key == "aws_cluster_name":
			// of spec.cloud and the lab
		case enables:
			t.addon(key, addon, value)
		default:
			t.text("labels", key, value, t.cluster.Labels, t.env.Labels, nil)
		}
	}
}

func (t *taking) addon(key, name, value string) {
	for _, a := range t.estate.Addons {
		if lab.EnableLabel(a.Name) != key {
			continue
		}
		wanted, err := strconv.ParseBool(value)
		if err != nil {
			t.left = append(t.left, Left{key, fmt.Sprintf("%q is neither true nor false", value)})
			return
		}
		var before any
		if had, ok := t.cluster.Addons[a.Name]; ok {
			if had == wanted {
				return
			}
			before = had
		}
		t.changes = append(t.changes, Change{File: t.cluster.File, Path: []string{"spec", "addons", a.Name}, Key: key, Before: before, After: wanted})
		return
	}
	t.left = append(t.left, Left{key, "the estate has no addon " + strings.ReplaceAll(name, "_", "-")})
}

func (t *taking) annotations(def lab.Environment) {
	for _, key := range slices.Sorted(maps.Keys(t.bridge.Annotations)) {
		switch {
		case t.taken[key]:
		case Own(key):
			t.left = append(t.left, Left{key, "describes the lab here"})
		default:
			t.text("metadata", key, t.bridge.Annotations[key], t.cluster.Metadata, t.env.Metadata, def.Metadata)
		}
	}
}

// text sets a label or annotation in the cluster's document, unless a layer says the same.
func (t *taking) text(section, key, value string, own map[string]string, layers ...map[string]string) {
	if len(validation.IsQualifiedName(key)) > 0 || section == "labels" && len(validation.IsValidLabelValue(value)) > 0 {
		t.left = append(t.left, Left{key, "Kubernetes accepts no such " + strings.TrimSuffix(strings.Replace(section, "metadata", "annotations", 1), "s")})
		return
	}
	var before any
	if v, ok := own[key]; ok {
		if v == value {
			return
		}
		before = v
	} else {
		for _, layer := range layers {
			if v, ok := layer[key]; ok {
				if v == value {
					return
				}
				break
			}
		}
	}
	t.changes = append(t.changes, Change{File: t.cluster.File, Path: []string{"spec", section, key}, Key: key, Before: before, After: value})
}
