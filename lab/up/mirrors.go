package up

import (
	"fmt"
	"net/url"
	"slices"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/engine"
	"homelab/lab/forge"
	"homelab/lab/front"
	"homelab/lab/front/proxy"
)

// frontPort is where the front hears of pushes, on the hub's node.
const frontPort = 30081

// mirrors are the repositories beside the estate, as the forge should hold them.
func (l *Lab) mirrors() []forge.Mirror {
	var list []forge.Mirror
	for _, r := range l.Estate.Repositories {
		if r.Name != bridge.Estate {
			list = append(list, forge.MirrorOf(r))
		}
	}
	return list
}

// heads are where the mirrors' branches are, by commits as they were seen.
func (l *Lab) heads(commits map[string]string) []engine.Head {
	in := l.bridgeInputs()
	var list []engine.Head
	for _, r := range l.Estate.Repositories {
		if commit := commits[r.Name]; commit != "" {
			list = append(list, engine.Head{Addresses: []string{in.MirrorURL(&r), r.URL}, Branch: r.Branch, Commit: commit})
		}
	}
	return list
}

// RepositoryURL is a repository of the forge as this machine reaches it.
func (l *Lab) RepositoryURL(name string, credentials bool) string {
	u := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", l.Ports.Forge), Path: "/lab/" + name + ".git"}
	if credentials {
		u.User = url.UserPassword(l.Creds.ForgeUser, l.Creds.ForgePassword)
	}
	return u.String()
}

// fronted reports whether manifests name a repository by an address that only a front serves.
func (l *Lab) fronted() bool {
	return slices.ContainsFunc(l.Estate.Repositories, func(r lab.Repository) bool { return r.Written })
}

// front is what serves mirrors under the addresses that manifests have.
func (l *Lab) front() front.Config {
	in := l.bridgeInputs()
	c := front.Config{
		Lab: l.Name, Namespace: l.Definition.Namespace, Image: l.Supply.Ref(front.Component), NodePort: frontPort, Engine: l.Definition.Service + l.Definition.WebhookPath,
		Secrets: proxy.Secrets{Webhook: l.Creds.WebhookSecret, User: l.Creds.ForgeUser, Password: l.Creds.ForgePassword},
	}
	for _, r := range l.Estate.Repositories {
		if r.Written {
			c.Mirrors = append(c.Mirrors, front.MirrorOf(r, in.MirrorURL(&r)))
		}
	}
	return c
}

// webhookOf is where the forge reports commits of a repository: the front passes on what it hears, for the mirror and for upstream's address.
func (l *Lab) webhookOf(mirror string) string {
	for _, r := range l.Estate.Repositories {
		if r.Name == mirror && r.Written {
			return fmt.Sprintf("http://%s-control-plane:%d%s", lab.KindName(l.Name, l.hubName()), frontPort, front.WebhookPath)
		}
	}
	return l.webhook()
}
