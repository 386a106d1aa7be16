package document

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"

	"homelab/lab"
	"homelab/lab/finding"
)

// existing checks where the API of a cluster is.
func existing(c lab.Cluster) lab.Problems {
	var problems lab.Problems
	fail := func(path, message, cure string) {
		problems = append(problems, lab.Problem{Code: finding.InvalidField, Position: c.Position(path), Message: message, Cure: cure})
	}
	if _, written := c.Positions["spec.server"]; written {
		switch why, cure := unservable(c.Server, "spec.server"); {
		case c.Role == lab.RoleHub:
			fail("spec.server", "the hub's server is always https://kubernetes.default.svc", "leave it out")
		case c.Provider == lab.ProviderExisting:
			fail("spec.server", "spec.server requires provider kind", "spec.existing.server")
		case why != "":
			fail("spec.server", why, cure)
		}
	}
	if c.Provider != lab.ProviderExisting {
		if _, written := c.Positions["spec.existing"]; written {
			fail("spec.existing", "spec.existing requires provider existing", "provider: existing")
		}
		return problems
	}
	if c.Role == lab.RoleHub {
		fail("spec.provider", "the hub cannot be an existing cluster", "provider: kind")
	}
	if _, written := c.Positions["spec.kind"]; written {
		fail("spec.kind", "spec.kind requires provider kind", "leave it out")
	}
	if why, cure := unservable(c.Existing.Server, "spec.existing.server"); why != "" {
		path := "spec.existing.server"
		for _, at := range []string{path, "spec.existing", "spec.provider"} {
			if _, written := c.Positions[at]; written {
				path = at
				break
			}
		}
		fail(path, why, cure)
	}
	if k := c.Existing.Kubeconfig; k != "" && !filepath.IsAbs(k) && !strings.HasPrefix(k, "~/") && filepath.IsLocal(k) {
		fail("spec.existing.kubeconfig", "a kubeconfig in the estate would be pushed to the forge, with its credentials", "keep it elsewhere: ~/.kube/config")
	}
	return problems
}

// unservable returns why the engine cannot reach an API at field.
func unservable(server, field string) (why, cure string) {
	const example = "the API's URL as seen from the hub: https://edge.example.com:6443"
	u, err := url.Parse(server)
	switch {
	case server == "":
		return "an existing cluster without " + field, example
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Sprintf("%s cannot be %q", field, server), example
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified()) || strings.HasPrefix(u.Hostname(), "kubernetes.default") {
		return u.Hostname() + " is the hub itself, from its pods", example
	}
	return "", ""
}
