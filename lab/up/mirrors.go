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

// frontPort is the NodePort on which the front receives push webhooks.
const frontPort = 30081

// mirrors returns the forge's mirrors of the repositories besides the estate.
func (l *Lab) mirrors() []forge.Mirror {
	var list []forge.Mirror
	for _, r := range l.Estate.Repositories {
		if r.Name != bridge.Estate {
			list = append(list, forge.MirrorOf(r))
		}
	}
	return list
}

// heads returns the branch heads of all repositories: the commit own for the estate, that of its mirror for any other.
func (l *Lab) heads(own string, mirrors map[string]string) []engine.Head {
	in := l.bridgeInputs()
	var list []engine.Head
	for _, r := range l.Estate.Repositories {
		commit := mirrors[r.Name]
		if r.Name == bridge.Estate {
			commit = own
		}
		if commit != "" {
			list = append(list, engine.Head{Addresses: []string{in.MirrorURL(&r), r.URL}, Branch: r.Branch, Commit: commit})
		}
	}
	return list
}

// RepositoryURL returns the URL of a forge repository as reached from this machine.
func (l *Lab) RepositoryURL(name string, credentials bool) string {
	u := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", l.Ports.Forge), Path: "/lab/" + name + ".git"}
	if credentials {
		u.User = url.UserPassword(l.Creds.ForgeUser, l.Creds.ForgePassword)
	}
	return u.String()
}

// needsFront reports whether manifests use a repository or cluster address that only the front serves.
func (l *Lab) needsFront() bool {
	return slices.ContainsFunc(l.Estate.Repositories, func(r lab.Repository) bool { return r.Written }) ||
		slices.ContainsFunc(l.Estate.Clusters, func(c lab.Cluster) bool { return c.Server != "" })
}

// front returns the configuration of the front, which serves mirrors under their upstream addresses.
func (l *Lab) front() front.Config {
	in, reader := l.bridgeInputs(), l.Forge.Account(false)
	c := front.Config{
		Lab: l.Name, Namespace: l.Definition.Namespace, Image: l.Supply.Ref(front.Component), NodePort: frontPort,
		Engine:  l.Definition.Service + l.Definition.WebhookPath(l.Creds.WebhookSecret),
		Secrets: proxy.Secrets{Webhook: l.Creds.WebhookSecret, User: reader.User, Password: reader.Token},
	}
	for _, r := range l.Estate.Repositories {
		if r.Written {
			c.Mirrors = append(c.Mirrors, front.MirrorOf(r, in.MirrorURL(&r)))
		}
	}
	for _, cl := range l.Estate.Clusters {
		if cl.Server != "" {
			c.Clusters = append(c.Clusters, proxy.Cluster{Server: cl.Server, URL: bridge.API(l.Name, cl)})
		}
	}
	return c
}

// webhookOf returns the webhook URL for pushes to a repository: the front's if manifests use the repository's upstream address, as the front forwards
// events to the engine for both addresses; otherwise the engine's. also are the URLs of spokes that run their own engine on nodes created by lab.
func (l *Lab) webhookOf(repository string) (url string, also []string) {
	at := func(cluster string) string {
		node := lab.KindName(l.Name, cluster) + "-control-plane"
		if slices.ContainsFunc(l.Estate.Repositories, func(r lab.Repository) bool { return r.Name == repository && r.Written }) {
			return fmt.Sprintf("http://%s:%d%s", node, frontPort, front.WebhookPath)
		}
		return fmt.Sprintf("http://%s:%d%s", node, l.Definition.NodePort, l.Definition.WebhookPath(l.Creds.WebhookSecret))
	}
	for _, c := range l.Estate.Clusters {
		if l.ownEngine(c) && c.Provider != lab.ProviderExisting {
			also = append(also, at(c.Name))
		}
	}
	return at(l.hubName()), also
}
