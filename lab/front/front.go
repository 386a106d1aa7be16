// Package front is the engine's proxy on the hub for repositories that are mounted beside the estate: what it is told, and the objects that it is made of. The
// program itself is in package proxy below; its source is here for whoever builds its image.
package front

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"homelab/lab"
	"homelab/lab/front/proxy"
)

// Name is what its objects are called, and Component its image.
const (
	Name      = "lab-front"
	Component = "front"
)

// WebhookPath is the path of the address, on the node port, that the forge reports pushes to.
const WebhookPath = proxy.WebhookPath

const (
	proxyPort   = 3128
	webhookPort = 8080

	configFile  = "config.json"
	secretsFile = "secrets.json"
)

// Config is all that a front is made from.
type Config struct {
	Lab       string
	Namespace string
	Image     string // ref of component front; it has to be in the hub's nodes, as no registry has it
	NodePort  int    // for webhooks; 0 for one that the cluster chooses
	Engine    string // URL of the engine's receiver of webhooks, as pods reach it
	Mirrors   []proxy.Mirror
	Clusters  []proxy.Cluster
	Secrets   proxy.Secrets
}

// MirrorOf is a mounted repository, served from an address in the forge.
func MirrorOf(r lab.Repository, address string) proxy.Mirror {
	return proxy.Mirror{Upstream: lab.RepositoryPage(r.URL), URL: address}
}

// ProxyURL is the proxy for pods of the cluster that it runs in.
func (c Config) ProxyURL() string {
	return fmt.Sprintf("http://%s.%s.svc:%d", Name, c.Namespace, proxyPort)
}

// Marshal returns the program's two files.
func (c Config) Marshal() (config, secrets []byte, err error) {
	mirrors := slices.SortedFunc(slices.Values(c.Mirrors), func(a, b proxy.Mirror) int { return cmp.Compare(a.Upstream, b.Upstream) })
	config, err = json.MarshalIndent(proxy.Config{
		Proxy: fmt.Sprintf(":%d", proxyPort), Webhooks: fmt.Sprintf(":%d", webhookPort), Engine: c.Engine, Mirrors: mirrors,
		Clusters: slices.SortedFunc(slices.Values(c.Clusters), func(a, b proxy.Cluster) int { return cmp.Compare(a.Server, b.Server) }),
	}, "", "  ")
	if err != nil {
		return nil, nil, err
	}
	secrets, err = json.Marshal(c.Secrets)
	return config, secrets, err
}

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(data) }
