package entrance

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Table is what a door serves.
type Table struct {
	Routes    []Route   `json:"routes"`
	Problems  []Problem `json:"problems"`
	Addresses []Address `json:"-"`

	byHost map[string][]Route // with the paths that win first
}

// Route leads from a host and a path to backends.
type Route struct {
	Host    string `json:"host"` // its first label may be "*"
	Path    string `json:"path"`
	Exact   bool   `json:"exact,omitempty"` // otherwise Path is a prefix of whole elements
	Cluster string `json:"cluster"`
	Object  string `json:"object"` // "Ingress podinfo/podinfo"
	// Strip is the suffix of the host that backends do not see: an Ingress' host belongs to another domain.
	Strip    string    `json:"strip,omitempty"`
	Backends []Backend `json:"backends"`
}

// Backend is a port of a Service, reached through its cluster's nodes.
type Backend struct {
	Service string `json:"service"`      // "NAMESPACE/NAME:PORT"
	IP      string `json:"ip,omitempty"` // the Service's; empty for a node port
	Port    int    `json:"port"`
	TLS     bool   `json:"tls,omitempty"`
	H2C     bool   `json:"h2c,omitempty"`
	Weight  int    `json:"weight"`
}

// Problem is something that the door does not serve as asked.
type Problem struct {
	Cluster string `json:"cluster"`
	Object  string `json:"object"`
	Message string `json:"message"`
}

// Address is a host name that is to be written into an object's status.
type Address struct {
	Cluster, Resource, Namespace, Name, Host string
}

const (
	// GatewayLabel marks a Service of type LoadBalancer as its cluster's gateway if it is "true", or as none if it is "false".
	GatewayLabel = "lab.homelab/gateway"
	nameLabel    = "app.kubernetes.io/name"

	loadBalancer = "LoadBalancer"
	tcp          = "TCP"
)

// gateways are the values of app.kubernetes.io/name that mark a Service of type LoadBalancer as a gateway.
var gateways = []string{"contour", "envoy", "ingress-nginx", "traefik"}

// Build derives a domain's table from clusters. Of two claims to one host and path, the one of an Ingress or HTTPRoute wins over a Service's name, and the older one wins
// over the newer.
func Build(domain string, clusters []Cluster) *Table {
	b := &builder{domain: domain, claims: map[string]Route{}, table: &Table{Routes: []Route{}, Problems: []Problem{}, byHost: map[string][]Route{}}}
	for _, c := range slices.SortedFunc(slices.Values(clusters), func(x, y Cluster) int { return cmp.Compare(x.Name, y.Name) }) {
		b.cluster(c)
	}
	for _, list := range b.table.byHost {
		slices.SortFunc(list, func(x, y Route) int {
			return cmp.Or(cmp.Compare(len(y.Path), len(x.Path)), boolean(y.Exact)-boolean(x.Exact))
		})
	}
	slices.SortFunc(b.table.Routes, func(x, y Route) int {
		return cmp.Or(cmp.Compare(x.Cluster, y.Cluster), cmp.Compare(x.Host, y.Host), cmp.Compare(x.Path, y.Path), boolean(y.Exact)-boolean(x.Exact))
	})
	return b.table
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Find returns the route of a host and a path.
func (t *Table) Find(host, path string) (Route, bool) {
	list, ok := t.byHost[host]
	if !ok {
		_, parent, _ := strings.Cut(host, ".")
		list = t.byHost["*."+parent]
	}
	for _, r := range list {
		if path == r.Path || !r.Exact && strings.HasPrefix(path, strings.TrimSuffix(r.Path, "/")+"/") {
			return r, true
		}
	}
	return Route{}, false
}

// Knows reports whether a host has any route.
func (t *Table) Knows(host string) bool {
	_, parent, _ := strings.Cut(host, ".")
	return len(t.byHost[host]) > 0 || len(t.byHost["*."+parent]) > 0
}

type builder struct {
	domain string
	claims map[string]Route
	table  *Table
}

// claimant is the object whose hosts are being claimed.
type claimant struct {
	*Cluster
	meta    Meta
	kind    string
	gateway *Service
}

func (c claimant) String() string { return c.kind + " " + c.meta.Namespace + "/" + c.meta.Name }

func (b *builder) problem(c claimant, format string, args ...any) {
	p := Problem{Cluster: c.Name, Object: c.String(), Message: fmt.Sprintf(format, args...)}
	if !slices.Contains(b.table.Problems, p) {
		b.table.Problems = append(b.table.Problems, p)
	}
}

func older(x, y Meta) int {
	return cmp.Or(cmp.Compare(x.Created, y.Created), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
}

func (b *builder) cluster(c Cluster) {
	var gateway *Service
	services := slices.SortedFunc(slices.Values(c.Services), func(x, y Service) int { return older(x.Metadata, y.Metadata) })
	for i, s := range services {
		if isGateway(s) && gateway == nil {
			gateway = &services[i]
		}
	}
	for _, i := range slices.SortedFunc(slices.Values(c.Ingresses), func(x, y Ingress) int { return older(x.Metadata, y.Metadata) }) {
		b.ingress(claimant{&c, i.Metadata, "Ingress", gateway}, i)
	}
	for _, r := range slices.SortedFunc(slices.Values(c.HTTPRoutes), func(x, y HTTPRoute) int { return older(x.Metadata, y.Metadata) }) {
		b.httpRoute(claimant{&c, r.Metadata, "HTTPRoute", gateway}, r)
	}
	for _, s := range services {
		if s.Spec.Type == loadBalancer && s.Spec.Class == "" {
			b.service(claimant{&c, s.Metadata, "Service", nil}, s)
		}
	}
}

func isGateway(s Service) bool {
	if s.Spec.Type != loadBalancer {
		return false
	}
	if mark, ok := s.Metadata.Labels[GatewayLabel]; ok {
		return mark == "true"
	}
	return slices.Contains(gateways, s.Metadata.Labels[nameLabel])
}

// webPort returns the port of a Service that most likely speaks HTTP.
func webPort(s Service) (Port, bool) {
	var best Port
	rank := 0
	for _, p := range s.Spec.Ports {
		r := 2
		switch {
		case cmp.Or(p.Protocol, tcp) != tcp:
			continue
		case p.App == "http" || p.App == h2c || p.Name == "http" || p.Name == "web" || strings.HasPrefix(p.Name, "http-"):
			r = 4
		case p.Port == 80 || p.Port == 8080:
			r = 3
		case secure(p):
			r = 1
		}
		if r > rank {
			best, rank = p, r
		}
	}
	return best, rank > 0
}

const h2c = "kubernetes.io/h2c"

func secure(p Port) bool {
	return p.App == "https" || p.App == "" && (p.Name == "https" || p.Name == "websecure" || strings.HasPrefix(p.Name, "https-") || p.Port == 443)
}

func (b *builder) backend(c claimant, name, portName string, number int) (Backend, bool) {
	i := slices.IndexFunc(c.Services, func(s Service) bool { return s.Metadata.Namespace == c.meta.Namespace && s.Metadata.Name == name })
	if i < 0 {
		b.problem(c, "no Service %s", name)
		return Backend{}, false
	}
	s := c.Services[i]
	for _, p := range s.Spec.Ports {
		if cmp.Or(p.Protocol, tcp) == tcp && (portName != "" && p.Name == portName || portName == "" && p.Port == number) {
			return b.backendOf(c, s, p)
		}
	}
	var has []string
	for _, p := range s.Spec.Ports {
		has = append(has, strings.TrimSuffix(fmt.Sprintf("%d (%s)", p.Port, p.Name), " ()"))
	}
	b.problem(c, "Service %s has no port %s; it has %s", name, cmp.Or(portName, strconv.Itoa(number)), cmp.Or(strings.Join(has, ", "), "none"))
	return Backend{}, false
}

func (b *builder) backendOf(c claimant, s Service, p Port) (Backend, bool) {
	back := Backend{Service: fmt.Sprintf("%s/%s:%d", s.Metadata.Namespace, s.Metadata.Name, p.Port), TLS: secure(p), H2C: p.App == h2c, Weight: 1}
	switch ip, err := netip.ParseAddr(s.Spec.ClusterIP); {
	case p.Node > 0:
		back.Port = p.Node
	case s.Spec.Type == "ExternalName":
		b.problem(c, "Service %s leads out of the cluster (ExternalName)", s.Metadata.Name)
		return back, false
	case err != nil:
		b.problem(c, "Service %s has neither a node port nor a cluster IP", s.Metadata.Name)
		return back, false
	case !ip.Is4():
		b.problem(c, "Service %s has no node port, and no IPv4 address", s.Metadata.Name)
		return back, false
	default:
		back.IP, back.Port = s.Spec.ClusterIP, p.Port
	}
	return back, true
}

func (b *builder) long(c claimant) string {
	return c.meta.Name + "." + c.meta.Namespace + "." + c.Name + "." + b.domain
}

// claim adds an object's routes for a host of its own, or for its name if it has none. It returns a host that it won, or "".
func (b *builder) claim(c claimant, host string, targets []target) string {
	if len(targets) == 0 {
		return ""
	}
	zone := c.Name + "." + b.domain
	if host == "" {
		short := b.add(c, c.meta.Name+"."+zone, "", targets)
		long := b.add(c, b.long(c), "", targets)
		return cmp.Or(short, long)
	}
	if Within(host, b.domain) {
		if !Within(host, zone) || host == zone {
			b.problem(c, "%s is not below %s", host, zone)
			return ""
		}
		return b.add(c, host, "", targets)
	}
	strip := "." + zone
	if c.gateway == nil && !strings.Contains(host, ".") { // written for a lab
		strip = ""
	}
	return b.add(c, host+"."+zone, strip, targets)
}

func (b *builder) add(c claimant, host, strip string, targets []target) string {
	if !IsName(strings.TrimPrefix(host, "*.")) {
		b.problem(c, "%s is not a host name", host)
		return ""
	}
	won := ""
	for _, t := range targets {
		r := Route{Host: host, Path: t.path, Exact: t.exact, Cluster: c.Name, Object: c.String(), Strip: strip, Backends: t.backends}
		key := fmt.Sprint(host, t.path, t.exact)
		if other, taken := b.claims[key]; taken {
			// Objects behind a gateway share its hosts, and an Ingress may have the name of its Service.
			if other.Object != r.Object && !slices.Equal(other.Backends, r.Backends) {
				b.problem(c, "%s%s is already served for %s", host, t.path, other.Object)
			}
			continue
		}
		b.claims[key] = r
		b.table.Routes = append(b.table.Routes, r)
		b.table.byHost[host] = append(b.table.byHost[host], r)
		won = host
	}
	return won
}
