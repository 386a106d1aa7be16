// Package via connects to the IP addresses of Services through a node of their cluster, as the clusters of a lab use the same addresses. Each cluster has a routing table
// of its own in the door's network namespace, whose only route leads to the node; a mark on the socket selects it. kube-proxy on the node does the rest.
package via

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
)

// firstTable is above the tables that Linux reserves.
const firstTable = 1000

// Router keeps the routes of clusters.
type Router struct {
	resolve func(ctx context.Context, node string) (netip.Addr, error)
	route   func(table uint32, gateway netip.Addr) error
	mark    func(fd uintptr, mark uint32) error

	mu     sync.Mutex
	tables map[string]table // by cluster
}

type table struct {
	number  uint32
	gateway netip.Addr
}

// New returns a router of this network namespace, which needs CAP_NET_ADMIN there.
func New() *Router {
	return &Router{resolve: lookup, route: setRoute, mark: setMark, tables: map[string]table{}}
}

func lookup(ctx context.Context, node string) (netip.Addr, error) {
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", node)
	if err != nil {
		return netip.Addr{}, err
	}
	return list[0].Unmap(), nil
}

// Dial connects to a port of an IP address through a node of a cluster.
func (r *Router) Dial(ctx context.Context, cluster, node, ip string, port int) (net.Conn, error) {
	gateway, err := r.resolve(ctx, node) // again each time, as a restart may change it
	if err != nil {
		return nil, err
	}
	number, err := r.table(cluster, gateway)
	if err != nil {
		return nil, fmt.Errorf("route to cluster %s: %w", cluster, err)
	}
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) { failed = r.mark(fd, number) }); err != nil {
			return err
		}
		return failed
	}}
	return d.DialContext(ctx, "tcp4", net.JoinHostPort(ip, strconv.Itoa(port)))
}

// table returns the number of a cluster's table, which is also its mark.
func (r *Router) table(cluster string, gateway netip.Addr) (uint32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.tables[cluster]
	if ok && t.gateway == gateway {
		return t.number, nil
	}
	if !ok {
		t.number = firstTable + uint32(len(r.tables))
	}
	t.gateway = gateway
	if err := r.route(t.number, gateway); err != nil {
		return 0, err
	}
	r.tables[cluster] = t
	return t.number, nil
}
