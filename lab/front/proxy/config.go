// Package proxy serves a lab's mirrors to the engine's Git client under the addresses of their upstream repositories, and reports pushes to a mirror to the
// engine under both addresses. Besides the standard library it uses only golang.org/x/crypto/ssh, as it is compiled as a separate module where no registry has
// its image.
package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

// Config is the program's configuration file, in JSON.
type Config struct {
	Proxy    string   `json:"proxy"`    // address for Git clients, ":3128"
	SSH      string   `json:"ssh"`      // SOCKS address for SSH clients, ":1080"
	Webhooks string   `json:"webhooks"` // address for the forge's webhooks and health checks, ":8080"
	Engine   string   `json:"engine"`   // URL of the engine's webhook receiver
	Mirrors  []Mirror `json:"mirrors"`

	Clusters []Cluster `json:"clusters,omitempty"`
}

// Cluster is an API server that replaces one named in manifests.
type Cluster struct {
	Server string `json:"server"` // as in manifests, "https://1.2.3.4"
	URL    string `json:"url"`    // "https://NAME-control-plane:6443"
}

// hostPort returns the host and port of an API server's URL.
func hostPort(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	if u.Scheme != "https" || u.Hostname() == "" {
		return "", fmt.Errorf("%q is not the address of a cluster", address)
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return strings.ToLower(net.JoinHostPort(u.Hostname(), port)), nil
}

// Mirror is a repository served in place of its upstream.
type Mirror struct {
	Upstream string `json:"upstream"` // https://HOST/OWNER/NAME, or http:// if manifests use it
	URL      string `json:"url"`      // in the forge, http://FORGE:3000/lab/NAME.git
}

// Secrets is the program's secrets file, in JSON.
type Secrets struct {
	Webhook string `json:"webhook"` // signs webhooks in both directions; the engine's credentials at the proxy derive from it
	// User and Password, or a token, are those of a reader in the forge. They replace the client's, which are for upstream.
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

// Read reads both files, and rejects unknown fields.
func Read(config, secrets string) (c Config, s Secrets, err error) {
	return c, s, errors.Join(read(config, &c), read(secrets, &s))
}

func read(file string, into any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// mirror is a parsed Mirror.
type mirror struct {
	key      string   // of upstream
	host     string   // of upstream, without port
	upstream *url.URL // without .git
	forge    *url.URL // without .git
}

func parseMirror(m Mirror) (mirror, error) {
	up, err := parseAddress(m.Upstream)
	if err != nil {
		return mirror{}, err
	}
	forge, err := parseAddress(m.URL)
	if err != nil {
		return mirror{}, err
	}
	return mirror{key: key(up.Hostname(), up.Path), host: strings.ToLower(up.Hostname()), upstream: up, forge: forge}, nil
}

func parseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), ".git")
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Trim(path, "/") == "" {
		return nil, fmt.Errorf("%q is not the address of a repository", address)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}, nil
}

// key returns a value common to all addresses of a repository, regardless of port, case and suffix: "github.com/owner/name".
func key(host, path string) string {
	return strings.ToLower(host + "/" + strings.TrimSuffix(strings.Trim(path, "/"), ".git"))
}
