// Package front deploys the engine's proxy on the hub for mounted repositories. The program is in package proxy; its
// source is embedded here to build its image.
package front

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"

	"homelab/lab"
	"homelab/lab/front/proxy"
)

// Name is the name of the objects, Component that of the image.
const (
	Name      = "lab-front"
	Component = "front"
)

// WebhookPath is the path on the node port that the forge sends webhooks to.
const WebhookPath = proxy.WebhookPath

const (
	proxyPort   = 3128
	sshPort     = 1080
	webhookPort = 8080

	configFile  = "config.json"
	secretsFile = "secrets.json"
)

// Config describes a front.
type Config struct {
	Lab       string
	Namespace string
	Image     string // reference of component front; no registry has it, so it must be on the hub's nodes
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

// ProxyURL returns the proxy's URL inside the cluster, with the engine's credentials.
func (c Config) ProxyURL() string {
	u := url.URL{
		Scheme: "http", User: url.UserPassword(proxy.ClientUser, proxy.ClientPassword(c.Secrets.Webhook)), Host: fmt.Sprintf("%s.%s.svc:%d", Name, c.Namespace, proxyPort),
	}
	return u.String()
}

// SSHProxyURL returns the URL of the proxy for SSH inside the cluster. The server behind it accepts SSHKey.
func (c Config) SSHProxyURL() string {
	return fmt.Sprintf("socks5://%s.%s.svc:%d", Name, c.Namespace, sshPort)
}

// SSHKey returns the engine's private key, in PEM, which derives from a secret.
func SSHKey(secret string) (string, error) {
	key, err := proxy.ClientKey(secret)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalECPrivateKey(key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), err
}

// Marshal returns the contents of the program's configuration and secrets files.
func (c Config) Marshal() (config, secrets []byte, err error) {
	mirrors := slices.SortedFunc(slices.Values(c.Mirrors), func(a, b proxy.Mirror) int { return cmp.Compare(a.Upstream, b.Upstream) })
	config, err = json.MarshalIndent(proxy.Config{
		Proxy: fmt.Sprintf(":%d", proxyPort), SSH: fmt.Sprintf(":%d", sshPort), Webhooks: fmt.Sprintf(":%d", webhookPort), Engine: c.Engine, Mirrors: mirrors,
		Clusters: slices.SortedFunc(slices.Values(c.Clusters), func(a, b proxy.Cluster) int { return cmp.Compare(a.Server, b.Server) }),
	}, "", "  ")
	if err != nil {
		return nil, nil, err
	}
	secrets, err = json.Marshal(c.Secrets)
	return config, secrets, err
}

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(data) }
