package cloud

import (
	"fmt"
	"regexp"

	"homelab/lab"
)

// Fault is an invalid value in spec.cloud.
type Fault struct {
	Field   string // "accountID"
	Message string
	Cure    string
}

// shape is a provider's documented format of a field.
type shape struct {
	field    string
	provider string // of the field; empty for all
	value    func(lab.Cloud) []string
	pattern  string
	words    string // the pattern in words
}

func one(get func(lab.Cloud) string) func(lab.Cloud) []string {
	return func(c lab.Cloud) []string {
		if v := get(c); v != "" {
			return []string{v}
		}
		return nil
	}
}

const guidPattern = `[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`

// shapes lists the documented formats; sources:
//   - accounts: https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-identifiers.html
//   - vpc and subnet ids: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html (8 digits before 2018, 17 since)
//   - resource groups: https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules
//   - projects: https://cloud.google.com/resource-manager/docs/creating-managing-projects
//   - networks: https://cloud.google.com/compute/docs/naming-resources
func shapes() []shape {
	return []shape{
		{"accountID", AWS, one(func(c lab.Cloud) string { return c.AccountID }), `[0-9]{12}`, "12 digits"},
		{"vpcID", AWS, one(func(c lab.Cloud) string { return c.VPCID }), `vpc-([0-9a-f]{8}|[0-9a-f]{17})`, "vpc- and 17 hexadecimal digits"},
		{"subnets", AWS, func(c lab.Cloud) []string { return c.Subnets }, `subnet-([0-9a-f]{8}|[0-9a-f]{17})`, "subnet- and 17 hexadecimal digits"},
		{"subscriptionID", Azure, one(func(c lab.Cloud) string { return c.SubscriptionID }), guidPattern, "a GUID"},
		{"tenantID", Azure, one(func(c lab.Cloud) string { return c.TenantID }), guidPattern, "a GUID"},
		{"resourceGroup", Azure, one(func(c lab.Cloud) string { return c.ResourceGroup }), `[-\w.()]{0,89}[-\w()]`, "1 to 90 letters, digits or -_.(), and no dot at the end"},
		{"projectID", GCP, one(func(c lab.Cloud) string { return c.ProjectID }), `[a-z][-a-z0-9]{4,28}[a-z0-9]`, "6 to 30 lower-case letters, digits or hyphens, a letter first"},
		{"projectNumber", GCP, one(func(c lab.Cloud) string { return c.ProjectNumber }), `[0-9]{6,19}`, "a number"},
		{"network", GCP, one(func(c lab.Cloud) string { return c.Network }), `[a-z]([-a-z0-9]{0,61}[a-z0-9])?`, "1 to 63 lower-case letters, digits or hyphens, a letter first"},
		{"region", "", one(func(c lab.Cloud) string { return c.Region }), "", ""},
	}
}

// regions returns the pattern of a provider's regions.
func regions(provider string) (pattern, example string) {
	switch provider {
	case AWS:
		return `[a-z]{2}(-[a-z]+){1,2}-[0-9]{1,2}`, "eu-central-1"
	case Azure:
		return `[a-z]+[0-9]?`, "westeurope"
	case GCP:
		return `[a-z]+-[a-z]+[0-9]{1,2}`, "europe-west1"
	}
	return "", ""
}

// Check reports values of the wrong format or of another provider.
func Check(c lab.Cloud) []Fault {
	switch c.Provider {
	case "", AWS, Azure, GCP:
	default:
		return []Fault{{"provider", fmt.Sprintf("no provider %q", c.Provider), "aws, azure, gcp or none"}}
	}
	var faults []Fault
	for _, s := range shapes() {
		pattern, words := s.pattern, s.words
		if s.field == "region" {
			var example string
			pattern, example = regions(c.Provider)
			words = "a region of " + c.Provider + " such as " + example
		}
		for _, v := range s.value(c) {
			switch {
			case c.Provider == "":
				faults = append(faults, Fault{s.field, s.field + " without a provider", "set provider to aws, azure or gcp"})
			case s.provider != "" && s.provider != c.Provider:
				faults = append(faults, Fault{s.field, fmt.Sprintf("%s is for %s, but the provider is %s", s.field, s.provider, c.Provider), "remove it"})
			case !regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString(v):
				faults = append(faults, Fault{s.field, fmt.Sprintf("invalid %s %q", s.field, v), "use " + words})
			}
		}
	}
	return faults
}
