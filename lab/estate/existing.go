package estate

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"homelab/lab"
)

// existing checks what a cluster.yaml says of a cluster that lab did not make.
func existing(c lab.Cluster) lab.Problems {
	var problems lab.Problems
	fail := func(path, message, cure string) {
		problems = append(problems, lab.Problem{Position: c.Position(path), Message: message, Cure: cure})
	}
	if c.Provider != lab.ProviderExisting {
		if _, written := c.Positions["spec.existing"]; written {
			fail("spec.existing", "spec.existing is read with provider existing alone", "provider: existing")
		}
		return problems
	}
	if c.Role == lab.RoleHub {
		fail("spec.provider", "the hub cannot be an existing cluster", "provider: kind")
	}
	if _, written := c.Positions["spec.kind"]; written {
		fail("spec.kind", "spec.kind is read with provider kind alone", "leave it out")
	}
	if why, cure := unservable(c.Existing.Server); why != "" {
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
		fail("spec.existing.kubeconfig", "a kubeconfig within the estate would be pushed to the forge, with its credentials", "keep it elsewhere: ~/.kube/config")
	}
	return problems
}

// unservable says why the hub cannot reach an API at an address.
func unservable(server string) (why, cure string) {
	const example = "the URL at which the hub reaches the API: https://edge.example.com:6443"
	u, err := url.Parse(server)
	switch {
	case server == "":
		return "an existing cluster without spec.existing.server", example
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Sprintf("spec.existing.server cannot be %q", server), example
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		return "at " + u.Hostname() + " the hub's pods reach themselves", example
	}
	return "", ""
}

// servers checks that no two clusters are at one address: Argo CD knows a cluster by it.
func (l *loader) servers() {
	seen := map[string]string{}
	for _, c := range l.estate.Clusters {
		if c.Provider != lab.ProviderExisting {
			continue
		}
		if other, twice := seen[c.Existing.Server]; twice {
			l.at(c.Position("spec.existing.server"), "this is the server of cluster "+other, "the engine tells clusters apart by it")
		}
		seen[c.Existing.Server] = c.Name
	}
}

// pulled notes the clusters that lab cannot load images into.
func (l *loader) pulled() {
	for _, c := range l.estate.Clusters {
		if c.Provider == lab.ProviderExisting && slices.ContainsFunc(l.estate.Applications, func(a lab.Generated) bool { return a.Cluster == c.Name && len(a.Charts) > 0 }) {
			l.note(c.Position("spec.provider"), "cluster "+c.Name+" pulls the images of its addons itself", "")
		}
	}
}
