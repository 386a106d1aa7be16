package entrance

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// forwarded returns where everything behind a cluster's gateway leads.
func (b *builder) forwarded(c claimant) []target {
	if c.gateway == nil {
		return nil
	}
	if port, ok := webPort(*c.gateway); ok {
		if back, ok := b.backendOf(c, *c.gateway, port); ok {
			return []target{{path: "/", backends: []Backend{back}}}
		}
	}
	return nil
}

// target is where a path of an object leads.
type target struct {
	path     string
	exact    bool
	backends []Backend
}

func (b *builder) ingress(c claimant, i Ingress) {
	var host string // of the address in the status
	claim := func(name string, targets []target) {
		if won := b.claim(c, name, targets); !strings.HasPrefix(won, "*") {
			host = cmp.Or(host, won)
		}
	}
	if c.gateway != nil {
		if len(i.Spec.Rules) == 0 {
			claim("", b.forwarded(c))
		}
		for _, rule := range i.Spec.Rules {
			claim(rule.Host, b.forwarded(c))
		}
		if len(i.Status.LoadBalancer.Ingress) == 0 { // the gateway may write another one
			b.address(c, "ingresses", cmp.Or(host, b.long(c)), i.Status)
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(i.Metadata.Annotations)) {
		if prefix, _, found := strings.Cut(key, "/"); found && strings.HasSuffix(prefix, "ingress.kubernetes.io") {
			b.problem(c, "annotations of %s have no effect: the cluster has no such gateway", prefix)
		}
	}
	for _, rule := range i.Spec.Rules {
		var targets []target
		if rule.HTTP != nil {
			for _, p := range rule.HTTP.Paths {
				if back, ok := b.ingressBackend(c, p.Backend); ok {
					targets = append(targets, target{path: cmp.Or(p.Path, "/"), exact: p.Type == "Exact", backends: []Backend{back}})
				}
			}
		}
		if d := i.Spec.Default; d != nil && !slices.ContainsFunc(targets, func(t target) bool { return t.path == "/" && !t.exact }) {
			if back, ok := b.ingressBackend(c, *d); ok {
				targets = append(targets, target{path: "/", backends: []Backend{back}})
			}
		}
		claim(rule.Host, targets)
	}
	if d := i.Spec.Default; d != nil && len(i.Spec.Rules) == 0 {
		if back, ok := b.ingressBackend(c, *d); ok {
			claim("", []target{{path: "/", backends: []Backend{back}}})
		}
	}
	b.address(c, "ingresses", cmp.Or(host, b.long(c)), i.Status) // also if nothing is served there, as gateways do
}

func (b *builder) ingressBackend(c claimant, x IngressBackend) (Backend, bool) {
	if x.Service == nil {
		b.problem(c, "a backend is not a Service")
		return Backend{}, false
	}
	return b.backend(c, x.Service.Name, x.Service.Port.Name, x.Service.Port.Number)
}

func (b *builder) httpRoute(c claimant, r HTTPRoute) {
	targets := b.forwarded(c)
	rules := r.Spec.Rules
	if c.gateway != nil {
		rules = nil
	}
	for _, rule := range rules {
		if len(rule.Filters) > 0 {
			b.problem(c, "filters need a gateway in the cluster")
			continue
		}
		var backends []Backend
		for _, ref := range rule.Backends {
			weight := 1
			if ref.Weight != nil {
				weight = *ref.Weight
			}
			switch {
			case weight <= 0:
			case len(ref.Filters) > 0:
				b.problem(c, "filters need a gateway in the cluster")
			case ref.Group != "" || ref.Kind != "" && ref.Kind != "Service":
				b.problem(c, "backend %s is not a Service", ref.Name)
			case ref.Namespace != "" && ref.Namespace != c.meta.Namespace:
				b.problem(c, "backend %s is in namespace %s, and the door reads no ReferenceGrants", ref.Name, ref.Namespace)
			default:
				if back, ok := b.backend(c, ref.Name, "", ref.Port); ok {
					back.Weight = weight
					backends = append(backends, back)
				}
			}
		}
		if len(backends) == 0 {
			continue
		}
		if len(rule.Matches) == 0 {
			targets = append(targets, target{path: "/", backends: backends})
		}
		for _, m := range rule.Matches {
			t := target{path: "/", backends: backends}
			if m.Path != nil {
				t.path, t.exact = cmp.Or(m.Path.Value, "/"), m.Path.Type == "Exact"
			}
			if len(m.Headers) > 0 || len(m.Query) > 0 || m.Method != "" || m.Path != nil && m.Path.Type == "RegularExpression" {
				b.problem(c, "matches other than Exact and PathPrefix need a gateway in the cluster")
				continue
			}
			targets = append(targets, t)
		}
	}
	if len(r.Spec.Hostnames) == 0 {
		b.claim(c, "", targets)
	}
	for _, host := range r.Spec.Hostnames {
		b.claim(c, host, targets)
	}
}

func (b *builder) service(c claimant, s Service) {
	var targets []target
	if port, ok := webPort(s); !ok {
		b.problem(c, "it has no TCP port")
	} else if back, ok := b.backendOf(c, s, port); ok {
		targets = []target{{path: "/", backends: []Backend{back}}}
	}
	host := b.claim(c, "", targets)
	if host == "" { // an address says where it would be
		host = b.long(c)
	}
	b.address(c, "services", host, s.Status)
}

// address has a host written into a status that lacks it, unless another controller has written there.
func (b *builder) address(c claimant, resource, host string, status Status) {
	at := status.LoadBalancer.Ingress
	if len(at) > 0 && !Within(at[0].Hostname, b.domain) || len(at) == 1 && at[0].Hostname == host || c.meta.Deleted != "" {
		return
	}
	b.table.Addresses = append(b.table.Addresses, Address{c.Name, resource, c.meta.Namespace, c.meta.Name, host})
}
