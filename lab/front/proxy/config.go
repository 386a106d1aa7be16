// Package proxy stands between the engine's Git client and the internet, for repositories that the lab has mirrors of: what is asked for under the upstream's
// address is answered by the mirror, and pushes to the mirror are told to the engine under both addresses. It rests on the standard library alone, as it is
// compiled as a module of its own where no registry has its image.
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

// Config is what the program reads from its configuration file, as JSON.
type Config struct {
	Proxy    string   `json:"proxy"`    // address that Git clients connect to, ":3128"
	SSH      string   `json:"ssh"`      // address that clients of SSH connect to by SOCKS, ":1080"
	Webhooks string   `json:"webhooks"` // address for the forge's webhooks and health, ":8080"
	Engine   string   `json:"engine"`   // URL of the engine's own receiver of webhooks
	Mirrors  []Mirror `json:"mirrors"`

	Clusters []Cluster `json:"clusters,omitempty"`
}

// Cluster is an API server that is reached in place of one that manifests name.
type Cluster struct {
	Server string `json:"server"` // as manifests have it, "https://1.2.3.4"
	URL    string `json:"url"`    // "https://NAME-control-plane:6443"
}

// hostPort is where an API server listens.
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

// Mirror is a repository that is served in place of upstream's.
type Mirror struct {
	Upstream string `json:"upstream"` // https://HOST/OWNER/NAME, http:// where manifests say so
	URL      string `json:"url"`      // in the forge, http://FORGE:3000/lab/NAME.git
}

// Secrets are what the program reads from its other file, as JSON.
type Secrets struct {
	Webhook string `json:"webhook"` // signs webhooks, in and out
	// CA signs the certificates of the upstream hosts. Without one they are signed by one that nobody has, for clients that do not look.
	CA Authority `json:"ca,omitzero"`
	// User and Password are given to the forge in place of what the client gives, which is meant for upstream. Without them the client's are passed on.
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

// Read reads both files strictly.
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

// mirror is a Mirror, taken apart.
type mirror struct {
	key      string   // of upstream, see key
	host     string   // of upstream, without port
	upstream *url.URL // without .git
	forge    *url.URL // without .git
}

func parseMirror(m Mirror) (mirror, error) {
	up, err := parseAddress(m.Upstream)
	if err != nil {
		return mirror{}, err
	}
	at, err := parseAddress(m.URL)
	if err != nil {
		return mirror{}, err
	}
	return mirror{key: key(up.Hostname(), up.Path), host: strings.ToLower(up.Hostname()), upstream: up, forge: at}, nil
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

// key is what all addresses of one repository have in common, whatever the port, case or suffix: "github.com/owner/name".
func key(host, path string) string {
	return strings.ToLower(host + "/" + strings.TrimSuffix(strings.Trim(path, "/"), ".git"))
}
