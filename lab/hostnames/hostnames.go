// Package hostnames runs a lab's door: the program of lab/door in a container on the lab's network, through which names below LAB.localhost lead to what clusters offer.
package hostnames

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/door"
	"homelab/lab/door/authority"
	"homelab/lab/door/entrance"
	"homelab/lab/door/proxy"
	"homelab/lab/service"
)

// Name is the name of the part, and of its image's component.
const Name = door.Component

// HTTPS is the port in the container that serves the names.
const HTTPS = proxy.HTTPS

const (
	folder   = "/etc/door/"
	settings = folder + "settings.json"
	reach    = folder + "reach.json"
)

// Domain returns the domain of a lab's names.
func Domain(labName string) string { return labName + ".localhost" }

// Credential is the door's for the API of a cluster.
type Credential struct {
	Token string
	CA    []byte // of the API server, in PEM
}

// Clusters prepares clusters for the door.
type Clusters interface {
	// Observe returns what a cluster lacks of what Admit makes, empty for nothing, or ErrAway.
	Observe(ctx context.Context, cluster string) (c Credential, lacks string, err error)
	// Admit prepares a cluster, or returns ErrAway.
	Admit(ctx context.Context, cluster string) (Credential, error)
}

// ErrAway means that a cluster does not answer, or does not exist yet.
var ErrAway = errors.New("the cluster does not answer")

// Door is the door of a lab. Its container has no volume.
type Door struct {
	container
	lab      string
	clusters []string
	in       Clusters
}

// container is a service.Service.
type container interface {
	Inputs(images ...lab.Image) string
	Observe(ctx context.Context) (service.State, error)
	Start(ctx context.Context, p lab.Progress, images ...lab.Image) error
	Remove(ctx context.Context) error
	Put(ctx context.Context, files ...service.File) error
	File(ctx context.Context, path string) ([]byte, error)
}

// New returns the door of a lab to some of its clusters, with an authority of NewAuthority. It makes no requests.
func New(labName string, d *docker.Docker, ports service.Ports, ca string, clusters []string, in Clusters) *Door {
	data, err := json.Marshal(proxy.Settings{Domain: Domain(labName), Authority: ca})
	if err != nil {
		panic(err) // two strings
	}
	return &Door{lab: labName, clusters: clusters, in: in, container: service.New(labName, d, ports, service.Spec{
		Name: Name, Command: []string{door.Program}, Files: []service.File{{Path: settings, Data: data}},
		Caps:  []string{"NET_ADMIN", "NET_BIND_SERVICE"}, // in its own network: package via routes through nodes
		Ports: []service.Port{{Container: proxy.HTTPS, Prefer: proxy.HTTPS}, {Container: proxy.HTTP, Prefer: proxy.HTTP}},
		// proxies many connections, and keeps the table of all clusters
		Memory: 256 << 20, Processes: 256, CPUs: 2, Health: service.Get(proxy.HTTP, proxy.HealthPath, "", ""),
	})}
}

// Observe returns the state. Clusters that do not answer are left out of it: they have steps of their own.
func (d *Door) Observe(ctx context.Context) (service.State, error) {
	st, err := d.container.Observe(ctx)
	if err != nil || !st.Exists {
		return st, err
	}
	have, err := d.reach(ctx)
	if err != nil {
		return st, err
	}
	if want, err := portsOf(st); err == nil && (have.HTTPS != want.HTTPS || have.HTTP != want.HTTP) {
		st.Behind = "its ports changed"
	}
	for _, c := range have.Clusters {
		if !slices.Contains(d.clusters, c.Name) {
			st.Behind = "cluster " + c.Name + " left"
		}
	}
	behind := make([]string, len(d.clusters))
	group, ctx := errgroup.WithContext(ctx)
	for i, name := range d.clusters {
		group.Go(func() error {
			cred, lacks, err := d.in.Observe(ctx, name)
			switch {
			case err != nil: // its step, or Start, tells
				return ctx.Err()
			case lacks != "":
				behind[i] = "cluster " + name + ": " + lacks
			case !slices.Contains(have.Clusters, d.cluster(name, cred)):
				behind[i] = "it does not know cluster " + name
			}
			return nil
		})
	}
	err = group.Wait()
	for _, what := range behind {
		if what != "" {
			st.Behind = what
		}
	}
	return st, err
}

// reach returns the container's settings for clusters. A file that is missing or cannot be read is written again.
func (d *Door) reach(ctx context.Context) (proxy.Reach, error) {
	var r proxy.Reach
	text, err := d.File(ctx, reach)
	if err != nil {
		return r, err
	}
	if json.Unmarshal(text, &r) != nil {
		return proxy.Reach{}, nil
	}
	return r, nil
}

func (d *Door) cluster(name string, c Credential) proxy.Cluster {
	node := lab.KindName(d.lab, name) + "-control-plane"
	return proxy.Cluster{Name: name, Node: node, Server: "https://" + node + ":6443", CA: string(c.CA), Token: c.Token}
}

// portsOf returns the ports on this machine.
func portsOf(st service.State) (proxy.Reach, error) {
	var r proxy.Reach
	for container, to := range map[int]*int{proxy.HTTPS: &r.HTTPS, proxy.HTTP: &r.HTTP} {
		_, text, err := net.SplitHostPort(st.Ports[container])
		if err == nil {
			*to, err = strconv.Atoi(text)
		}
		if err != nil {
			return r, fmt.Errorf("%s: port %d is not published: %w", Name, container, err)
		}
	}
	return r, nil
}

// Start starts the container, prepares the clusters, and writes the door's settings for them. One that does not answer is reached as before, if it was.
func (d *Door) Start(ctx context.Context, p lab.Progress, images ...lab.Image) error {
	before, err := d.container.Observe(ctx)
	if err != nil {
		return err
	}
	var had proxy.Reach
	if before.Exists {
		if had, err = d.reach(ctx); err != nil {
			return err
		}
	}
	if err := d.container.Start(ctx, p, images...); err != nil {
		return err
	}
	st, err := d.container.Observe(ctx)
	if err != nil {
		return err
	}
	next, err := portsOf(st)
	if err != nil {
		return err
	}
	p("preparing clusters for it")
	var mu sync.Mutex
	found := map[string]proxy.Cluster{}
	group, within := errgroup.WithContext(ctx)
	for _, name := range d.clusters {
		group.Go(func() error {
			cred, err := d.in.Admit(within, name)
			mu.Lock()
			defer mu.Unlock()
			i := slices.IndexFunc(had.Clusters, func(c proxy.Cluster) bool { return c.Name == name })
			switch {
			case err == nil:
				found[name] = d.cluster(name, cred)
			case !errors.Is(err, ErrAway) || ctx.Err() != nil:
				return fmt.Errorf("%s: cluster %s: %w", Name, name, err)
			case i >= 0:
				found[name] = had.Clusters[i]
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, name := range d.clusters {
		if c, ok := found[name]; ok {
			next.Clusters = append(next.Clusters, c)
		}
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return d.Put(ctx, service.File{Path: reach, Data: text})
}

// NewAuthority returns a new certificate authority for a lab's names, as New takes it.
func NewAuthority(labName string, now time.Time) (string, error) {
	a, err := authority.New(Domain(labName), now)
	if err != nil {
		return "", err
	}
	text, err := a.Marshal()
	return string(text), err
}

// Certificate returns the certificate of an authority, in PEM.
func Certificate(of string) (string, error) {
	a, err := authority.Parse([]byte(of))
	if err != nil {
		return "", err
	}
	return string(a.PEM()), nil
}

// answerLimit bounds one question to the door.
const answerLimit = 10 * time.Second

// Client returns an HTTP client for names of a lab that connects to its door at an address of this machine, and trusts the certificate alone.
func Client(at, certificate string) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(certificate))
	return &http.Client{Timeout: answerLimit, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, at)
		},
	}}
}

// Routes asks the door of a lab at an address of this machine for what it serves.
func Routes(ctx context.Context, at, labName, certificate string) (proxy.Report, error) {
	report := proxy.Report{Table: &entrance.Table{}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+Domain(labName)+proxy.RoutesPath, nil)
	if err != nil {
		return report, err
	}
	resp, err := Client(at, certificate).Do(req)
	if err != nil {
		return report, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return report, fmt.Errorf("%s answers %s", req.URL, resp.Status)
	}
	return report, json.NewDecoder(io.LimitReader(resp.Body, tableLimit)).Decode(&report)
}

// tableLimit is the size of a table, in bytes.
const tableLimit = 16 << 20
