// Package front deploys the engine's proxy on the hub for mounted repositories. The program is in package proxy; its
// source is embedded here to build its image.
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

// Name of the objects, Component of the image.
const (
	Name      = "lab-front"
	Component = "front"
)

// WebhookPath is the path on the node port that the forge sends webhooks to.
const WebhookPath = proxy.WebhookPath

const (
	proxyPort   = 3128
	webhookPort = 8080

	configFile  = "config.json"
	secretsFile = "secrets.json"
)

// Config is the input of a front.
type Config struct {
	Lab       string
	Namespace string
	Image     string // ref of component front; it must be on the hub's nodes, as no registry has it
	NodePort  int    // for webhooks; 0 lets the cluster choose
	Engine    string // URL of the engine's webhook receiver, inside the cluster
	Mirrors   []proxy.Mirror
	Clusters  []proxy.Cluster
	Secrets   proxy.Secrets
}

// MirrorOf returns the mirror of a mounted repository at an address in the forge.
func MirrorOf(r lab.Repository, address string) proxy.Mirror {
	return proxy.Mirror{Upstream: lab.RepositoryPage(r.URL), URL: address}
}

// ProxyURL returns the proxy's URL inside the cluster.
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
