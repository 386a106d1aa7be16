// Package cloud generates a cluster's cloud ids, in the providers' documented formats and deterministic for the same lab,
// cluster and seed. It is pure: no clock, no randomness, no network. Ids are stable across versions (TestGolden), because
// a change would touch every object of every running lab.
package cloud

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"

	"homelab/lab"
)

// Providers.
const (
	AWS   = "aws"
	Azure = "azure"
	GCP   = "gcp"
	None  = "none" // no cloud, in estates and on the label
)

// Scope identifies the owner of ids. Clusters of one environment share an account, subscription or project; a cluster
// without an environment has its own.
type Scope struct {
	Lab         string
	Environment string
	Cluster     string
	AccountSeed string // the environment's seed; a cluster's seed only changes the cluster's ids
}

// Fact is a value of a cluster's cloud, with its key in the cluster Secret.
type Fact struct {
	Key   string // annotation: "aws_account_id"
	Value string
	Field string // field of spec.cloud that sets it: "accountID"; empty if none
}

// Complete returns c with every empty field of its provider set, or c itself without a provider.
func Complete(c lab.Cloud, s Scope) lab.Cloud {
	fill := func(at *string, value string) {
		if *at == "" {
			*at = value
		}
	}
	switch c.Provider {
	case AWS:
		fill(&c.Region, "eu-central-1")
		fill(&c.AccountID, s.account("aws account").digits(12))
		// Network ids do not depend on region or account: editing the region only changes the region.
		fill(&c.VPCID, "vpc-"+s.cluster("aws vpc", c.Seed).hex(17))
		if len(c.Subnets) == 0 {
			c.Subnets = make([]string, 3) // one per availability zone
			for i := range c.Subnets {
				c.Subnets[i] = "subnet-" + s.cluster(fmt.Sprintf("aws subnet %d", i), c.Seed).hex(17)
			}
		}
	case Azure:
		fill(&c.Region, "westeurope")
		fill(&c.SubscriptionID, s.account("azure subscription").guid())
		// All subscriptions of an organisation share a directory.
		fill(&c.TenantID, derive("azure tenant", s.Lab, s.AccountSeed).guid())
		fill(&c.ResourceGroup, "rg-"+lab.KindName(s.Lab, s.Cluster))
	case GCP:
		fill(&c.Region, "europe-west1")
		fill(&c.ProjectID, s.project())
		fill(&c.ProjectNumber, s.account("gcp project number").digits(12))
		fill(&c.Network, "default")
	}
	return c
}

// Facts returns the facts of a completed cloud, in a fixed order.
func Facts(c lab.Cloud, s Scope) []Fact {
	name := lab.KindName(s.Lab, s.Cluster)
	switch c.Provider {
	case AWS:
		return []Fact{
			{"aws_cluster_name", name, ""},
			{"aws_region", c.Region, "region"},
			{"aws_account_id", c.AccountID, "accountID"},
			{"aws_vpc_id", c.VPCID, "vpcID"},
			{"aws_subnet_ids", strings.Join(c.Subnets, ","), "subnets"},
			{"aws_security_group_id", "sg-" + s.cluster("aws security group", c.Seed).hex(17), ""},
			{"aws_oidc_provider_arn", fmt.Sprintf("arn:%s:iam::%s:oidc-provider/oidc.eks.%s.%s/id/%s", partition(c.Region), c.AccountID, c.Region,
				domain(c.Region), strings.ToUpper(s.cluster("aws oidc", c.Seed).hex(32))), ""},
		}
	case Azure:
		return []Fact{
			{"azure_cluster_name", name, ""},
			{"azure_location", c.Region, "region"},
			{"azure_subscription_id", c.SubscriptionID, "subscriptionID"},
			{"azure_tenant_id", c.TenantID, "tenantID"},
			{"azure_resource_group", c.ResourceGroup, "resourceGroup"},
			{"azure_vnet_id", fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Network/virtualNetworks/vnet-%s",
				c.SubscriptionID, c.ResourceGroup, name), ""},
			{"azure_oidc_issuer_url", fmt.Sprintf("https://%s.oic.prod-aks.azure.com/%s/%s/", c.Region, c.TenantID,
				s.cluster("azure oidc", c.Seed).guid()), ""},
		}
	case GCP:
		return []Fact{
			{"gcp_cluster_name", shorten(letterFirst("gke-", name), 40), ""},
			{"gcp_region", c.Region, "region"},
			{"gcp_project_id", c.ProjectID, "projectID"},
			{"gcp_project_number", c.ProjectNumber, "projectNumber"},
			{"gcp_network", c.Network, "network"},
			{"gcp_workload_pool", c.ProjectID + ".svc.id.goog", ""},
		}
	}
	return nil
}

// Identity returns the identity of an addon's ServiceAccount in a completed cloud: a role's ARN, a managed identity's
// client id or a service account's email. ok is false without a cloud.
func Identity(c lab.Cloud, s Scope, addon string) (Fact, bool) {
	key := lab.AddonKey(addon)
	switch c.Provider {
	case AWS:
		// IAM is global: the name includes the region, so that one stack can be in two regions.
		role := shorten(strings.Join([]string{s.Lab, s.Cluster, addon, c.Region}, "-"), 64)
		return Fact{key + "_iam_role_arn", fmt.Sprintf("arn:%s:iam::%s:role/%s", partition(c.Region), c.AccountID, role), ""}, true
	case Azure:
		return Fact{key + "_client_id", s.cluster("azure identity "+addon, c.Seed).guid(), ""}, true
	case GCP:
		return Fact{key + "_service_account_email", s.serviceAccount(addon) + "@" + c.ProjectID + ".iam.gserviceaccount.com", ""}, true
	}
	return Fact{}, false
}

// partition returns the AWS partition of a region: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

func domain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// project returns a project id: 6 to 30 characters, a letter first, no hyphen last, no forbidden words.
func (s Scope) project() string {
	base := s.Lab + "-" + s.Environment
	if s.Environment == "" {
		base = s.Lab + "-" + s.Cluster
	}
	for _, word := range []string{"google", "ssl", "null", "undefined"} {
		base = strings.ReplaceAll(base, word, "x")
	}
	if base = letterFirst("p-", base); len(base) > 23 {
		base = base[:23]
	}
	return strings.TrimRight(base, "-") + "-" + s.account("gcp project").digits(6)
}

// serviceAccount returns a service account's id: 6 to 30 characters, a letter first, no hyphen last.
func (s Scope) serviceAccount(addon string) string {
	id := letterFirst("a-", addon+"-"+s.Cluster)
	if len(id) < 6 {
		id += "-" + derive("gcp service account", id).hex(6)
	}
	return shorten(id, 30)
}

func letterFirst(prefix, name string) string {
	if name[0] >= 'a' && name[0] <= 'z' {
		return name
	}
	return prefix + name
}

// shorten limits the length of a name, keeping it unique.
func shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	return strings.TrimRight(name[:limit-9], "-") + "-" + derive("shorten", name).hex(8)
}

type digest [sha256.Size]byte

func derive(what string, parts ...string) digest {
	return sha256.Sum256([]byte(strings.Join(append([]string{"lab/v1alpha1", what}, parts...), "\x00")))
}

func (s Scope) account(what string) digest {
	owner := "environment " + s.Environment
	if s.Environment == "" {
		owner = "cluster " + s.Cluster
	}
	return derive(what, s.Lab, owner, s.AccountSeed)
}

func (s Scope) cluster(what, seed string) digest { return derive(what, s.Lab, s.Cluster, seed) }

// hex returns n lower-case hexadecimal digits, at most 64.
func (d digest) hex(n int) string { return hex.EncodeToString(d[:])[:n] }

// digits returns an n-digit decimal number without a leading zero, which survives parsing as a number.
func (d digest) digits(n int64) string {
	low := new(big.Int).Exp(big.NewInt(10), big.NewInt(n-1), nil)
	span := new(big.Int).Mul(low, big.NewInt(9))
	return low.Add(low, new(big.Int).Mod(new(big.Int).SetBytes(d[:]), span)).String()
}

// guid returns a version 4 UUID, like Azure's ids: RFC 9562, section 5.4.
func (d digest) guid() string {
	b := d[:16]
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:32]}, "-")
}
