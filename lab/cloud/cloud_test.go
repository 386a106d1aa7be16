package cloud

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

// The documented format of each fact. Sources:
//   - EKS names: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html (name)
//   - accounts: https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-identifiers.html
//   - vpc-, subnet-, sg-: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html
//   - role ARNs and names: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html, reference_iam-quotas.html
//   - OIDC providers: https://docs.aws.amazon.com/eks/latest/userguide/enable-iam-roles-for-service-accounts.html
//   - AKS names and resource groups: https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules
//   - subscription, tenant and client ids are GUIDs: https://learn.microsoft.com/azure/azure-portal/get-subscription-tenant-id
//   - GKE names: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters (name: 40 characters, a letter first)
//   - projects: https://cloud.google.com/resource-manager/docs/creating-managing-projects
//   - service accounts: https://cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts/create (accountId)
func documented() map[string]string {
	const guid = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
	const project = `[a-z][-a-z0-9]{4,28}[a-z0-9]`
	return map[string]string{
		"aws_cluster_name":      `[0-9A-Za-z][A-Za-z0-9_-]{0,99}`,
		"aws_region":            `[a-z]{2}(-[a-z]+){1,2}-[0-9]+`,
		"aws_account_id":        `[0-9]{12}`,
		"aws_vpc_id":            `vpc-[0-9a-f]{17}`,
		"aws_subnet_ids":        `subnet-[0-9a-f]{17}(,subnet-[0-9a-f]{17})*`,
		"aws_security_group_id": `sg-[0-9a-f]{17}`,
		"aws_oidc_provider_arn": `arn:aws(-cn|-us-gov)?:iam::[0-9]{12}:oidc-provider/oidc\.eks\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/id/[0-9A-F]{32}`,
		"iam_role_arn":          `arn:aws(-cn|-us-gov)?:iam::[0-9]{12}:role/[\w+=,.@-]{1,64}`,
		"azure_cluster_name":    `[a-zA-Z0-9]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9])?`,
		"azure_location":        `[a-z]+[0-9]?`,
		"azure_subscription_id": guid,
		"azure_tenant_id":       guid,
		"azure_resource_group":  `[-\w.()]{0,89}[-\w()]`,
		"azure_vnet_id":         `/subscriptions/` + guid + `/resourceGroups/[-\w.()]{1,90}/providers/Microsoft\.Network/virtualNetworks/[a-zA-Z0-9][\w.-]{0,62}\w`,
		"azure_oidc_issuer_url": `https://[a-z0-9]+\.oic\.prod-aks\.azure\.com/` + guid + `/` + guid + `/`,
		"client_id":             guid,
		"gcp_cluster_name":      `[a-z]([-a-z0-9]{0,38}[a-z0-9])?`,
		"gcp_region":            `[a-z]+-[a-z]+[0-9]+`,
		"gcp_project_id":        project,
		"gcp_project_number":    `[0-9]{12}`,
		"gcp_network":           `[a-z]([-a-z0-9]{0,61}[a-z0-9])?`,
		"gcp_workload_pool":     project + `\.svc\.id\.goog`,
		"service_account_email": `[a-z][-a-z0-9]{4,28}[a-z0-9]@` + project + `\.iam\.gserviceaccount\.com`,
	}
}

// all returns the facts of a cluster, including addons' identities.
func all(c lab.Cloud, s Scope, addons ...string) []Fact {
	full := Complete(c, s)
	facts := Facts(full, s)
	for _, a := range addons {
		if f, ok := Identity(full, s, a); ok {
			facts = append(facts, f)
		}
	}
	return facts
}

func name(r *rand.Rand, longest int) string {
	const first, rest = "abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz0123456789-"
	b := make([]byte, 1+r.IntN(longest))
	for i := range b {
		b[i] = rest[r.IntN(len(rest))]
	}
	b[0], b[len(b)-1] = first[r.IntN(len(first))], first[r.IntN(len(first))]
	return string(b)
}

func TestShapes(t *testing.T) {
	patterns := map[string]*regexp.Regexp{}
	for key, p := range documented() {
		patterns[key] = regexp.MustCompile(`^(?:` + p + `)$`)
	}
	seen := map[string]bool{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		lab1, cluster := name(r, 24), name(r, 24)
		if r.IntN(8) == 0 {
			lab1 = "my-google-ssl-lab" // words forbidden in project ids
		}
		s := Scope{Lab: lab1, Cluster: cluster, AccountSeed: name(r, 5)}
		if r.IntN(3) > 0 {
			s.Environment = name(r, 20)
		}
		for _, c := range []lab.Cloud{{Provider: AWS}, {Provider: AWS, Region: "cn-north-1"}, {Provider: AWS, Region: "us-gov-west-1"}, {Provider: Azure}, {Provider: GCP}} {
			c.Seed = name(r, 5)
			addon := name(r, 53)
			for _, f := range all(c, s, addon) {
				key := strings.TrimPrefix(f.Key, lab.AddonKey(addon)+"_")
				p := patterns[key]
				if p == nil {
					t.Fatalf("no documented pattern for %s", f.Key)
				}
				seen[key] = true
				if !p.MatchString(f.Value) {
					t.Errorf("%+v: %s %q is not %s", s, f.Key, f.Value, p)
				}
				if key == "gcp_project_id" && regexp.MustCompile(`google|ssl|null|undefined`).MatchString(f.Value) {
					t.Errorf("%+v: a project id may not be %q", s, f.Value)
				}
			}
			if faults := Check(Complete(c, s)); len(faults) > 0 {
				t.Errorf("generated ids are invalid: %v", faults)
			}
		}
	}
	for key := range patterns {
		if !seen[key] {
			t.Errorf("%s is never generated", key)
		}
	}
}

// Same lab, cluster and seed: same ids. Clusters of one environment only share the account.
func TestSharing(t *testing.T) {
	facts := func(provider string, s Scope, seed string) map[string]string {
		out := map[string]string{}
		for _, f := range all(lab.Cloud{Provider: provider, Seed: seed}, s, "podinfo") {
			out[f.Key] = f.Value
		}
		return out
	}
	shared := map[string][]string{
		AWS:   {"aws_account_id", "aws_region"},
		Azure: {"azure_subscription_id", "azure_tenant_id", "azure_location"},
		GCP:   {"gcp_project_id", "gcp_project_number", "gcp_network", "gcp_region", "gcp_workload_pool"},
	}
	for provider, keys := range shared {
		one := facts(provider, Scope{Lab: "l", Environment: "prod", Cluster: "a"}, "")
		for what, other := range map[string]map[string]string{
			"cluster":      facts(provider, Scope{Lab: "l", Environment: "prod", Cluster: "b"}, ""),
			"cluster seed": facts(provider, Scope{Lab: "l", Environment: "prod", Cluster: "a"}, "x"),
		} {
			for k, v := range one {
				same := slices.Contains(keys, k) || what == "cluster seed" && !seeded(k)
				if (other[k] == v) != same {
					t.Errorf("%s, another %s: %s is %s and %s", provider, what, k, v, other[k])
				}
			}
		}
		for what, other := range map[string]map[string]string{
			"environment":  facts(provider, Scope{Lab: "l", Environment: "dev", Cluster: "a"}, ""),
			"account seed": facts(provider, Scope{Lab: "l", Environment: "prod", Cluster: "a", AccountSeed: "x"}, ""),
			"lab":          facts(provider, Scope{Lab: "m", Environment: "prod", Cluster: "a"}, ""),
		} {
			if other[keys[0]] == one[keys[0]] {
				t.Errorf("%s, another %s: %s is still %s", provider, what, keys[0], one[keys[0]])
			}
		}
		if again := facts(provider, Scope{Lab: "l", Environment: "prod", Cluster: "a"}, ""); fmt.Sprint(again) != fmt.Sprint(one) {
			t.Errorf("%s is not deterministic", provider)
		}
	}
}

// seeded reports whether a fact depends on the cluster's seed.
func seeded(key string) bool {
	return slices.Contains([]string{"aws_vpc_id", "aws_subnet_ids", "aws_security_group_id", "aws_oidc_provider_arn", "azure_oidc_issuer_url", "podinfo_client_id"}, key)
}

func TestGivenWins(t *testing.T) {
	s := Scope{Lab: "l", Environment: "prod", Cluster: "a"}
	given := lab.Cloud{Provider: AWS, Region: "eu-west-1", AccountID: "210987654321", VPCID: "vpc-0123456789abcdef0", Subnets: []string{"subnet-0123456789abcdef0"}}
	if got := Complete(given, s); fmt.Sprint(got) != fmt.Sprint(given) {
		t.Errorf("%+v became %+v", given, got)
	}
	role, _ := Identity(given, s, "external-dns")
	if role.Key != "external_dns_iam_role_arn" || role.Value != "arn:aws:iam::210987654321:role/l-a-external-dns-eu-west-1" {
		t.Errorf("%+v", role)
	}
	if got := Complete(lab.Cloud{}, s); fmt.Sprint(got) != fmt.Sprint(lab.Cloud{}) || len(Facts(got, s)) > 0 {
		t.Errorf("no provider: %+v", got)
	}
	if _, ok := Identity(lab.Cloud{}, s, "x"); ok {
		t.Error("an identity without a cloud")
	}
}

// Ids must not change between versions: that would touch every object of every running lab.
func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, provider := range []string{AWS, Azure, GCP} {
		for _, s := range []Scope{
			{Lab: "homelab", Cluster: "hub"},
			{Lab: "homelab", Environment: "prod", Cluster: "prod"},
			{Lab: "homelab", Environment: "prod", Cluster: "prod-with-quite-a-long-name-2", AccountSeed: "1"},
		} {
			fmt.Fprintf(&b, "# %s %s/%s/%s seed %q\n", provider, s.Lab, s.Environment, s.Cluster, s.AccountSeed)
			for _, f := range all(lab.Cloud{Provider: provider, Seed: s.AccountSeed}, s, "podinfo", "aws-load-balancer-controller") {
				fmt.Fprintf(&b, "%s=%s\n", f.Key, f.Value)
			}
		}
	}
	const file = "testdata/ids.golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("ids changed:\n%s", b.String())
	}
}
