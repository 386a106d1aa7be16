// Package proxy is a lab's door: it terminates TLS for the names below the lab's domain and forwards each request to the backend that its host and path lead to.
package proxy

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"homelab/lab/door/authority"
	"homelab/lab/door/entrance"
)

// Config is the program's configuration, in JSON in two files: Settings, which stay while it runs, and Reach, which does not. Both hold secrets.
type Config struct {
	Settings
	Reach
}

// Settings are what a door stands for.
type Settings struct {
	Domain    string `json:"domain"`    // "LAB.localhost"
	Authority string `json:"authority"` // certificate and private key, in PEM
}

// Reach is how a door is reached, and what it reaches.
type Reach struct {
	HTTPS    int       `json:"https"` // port that clients use, on the host and in the network alike
	HTTP     int       `json:"http"`  // likewise, for redirects
	Clusters []Cluster `json:"clusters"`
}

// The ports that a door always listens on
const (
	HTTPS = 443
	HTTP  = 80
)

// Cluster is a cluster that the door serves.
type Cluster struct {
	Name   string `json:"name"`
	Node   string `json:"node"`   // host name of a node in the network
	Server string `json:"server"` // URL of the API server
	CA     string `json:"ca"`     // of the API server, in PEM
	Token  string `json:"token"`
}

// Parse reads both files and returns all of their problems. Without the second one, no cluster is reached.
func Parse(settings, reach []byte) (Config, *authority.Authority, error) {
	c := Config{Reach: Reach{HTTPS: HTTPS, HTTP: HTTP}}
	if err := decode(settings, &c.Settings); err != nil {
		return Config{}, nil, err
	}
	if reach != nil {
		if err := decode(reach, &c.Reach); err != nil {
			return Config{}, nil, err
		}
	}
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !entrance.IsName(c.Domain) {
		bad("domain %q is not a host name", c.Domain)
	}
	for _, port := range []int{c.HTTPS, c.HTTP} {
		if port < 1 || port > 65535 {
			bad("%d is not a port", port)
		}
	}
	if c.HTTPS == c.HTTP {
		bad("https and http have the same port")
	}
	a, err := authority.Parse([]byte(c.Authority))
	if err != nil {
		bad("authority: %w", err)
	} else if a.Domain != c.Domain {
		bad("the authority is that of %s", a.Domain)
	}
	var names []string
	for _, cl := range c.Clusters {
		if slices.Contains(names, cl.Name) {
			bad("cluster %q is listed twice", cl.Name)
		}
		names = append(names, cl.Name)
		if !entrance.IsName(cl.Name + "." + c.Domain) {
			bad("cluster %q is not a part of a host name", cl.Name)
		}
		if !entrance.IsName(cl.Node) {
			bad("cluster %s: node %q is not a host name", cl.Name, cl.Node)
		}
		if u, err := url.Parse(cl.Server); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" {
			bad("cluster %s: %q is not the address of an API server", cl.Name, cl.Server)
		}
		if !x509.NewCertPool().AppendCertsFromPEM([]byte(cl.CA)) {
			bad("cluster %s: no certificate of the API server", cl.Name)
		}
		if cl.Token == "" {
			bad("cluster %s: no token", cl.Name)
		}
	}
	if len(problems) > 0 {
		return Config{}, nil, errors.Join(problems...)
	}
	return c, a, nil
}

func decode(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one document")
	}
	return nil
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // the client is gone
}
