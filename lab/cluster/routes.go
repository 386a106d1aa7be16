package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"golang.org/x/sync/errgroup"
)

// Node images built from source have plain CNI plugins and no network daemon (kindnetd is not a published module), so lab sets up the routes between nodes.
// Each node has a table of pod networks and node names, which a systemd unit turns into routes at boot: addresses may change with a restart, names and pod
// networks do not.
const (
	routesTable  = "/kind/lab-routes"
	routesScript = `#!/bin/sh
# written by lab: the pods of every other node are reached by way of that node
failed=0
while read -r cidr node; do
  addr=$(getent ahostsv4 "$node" | { read -r a _; echo "$a"; })
  if [ -z "$addr" ] || ! ip route replace "$cidr" via "$addr"; then failed=1; fi
done <` + routesTable + `
exit $failed
`
	routesUnit = `[Unit]
Description=routes to the pods of other nodes (lab)
Before=kubelet.service
[Service]
Type=oneshot
ExecStart=/bin/sh /kind/lab-routes.sh
Restart=on-failure
RestartSec=1
StartLimitIntervalSec=0
[Install]
WantedBy=multi-user.target
`
	routesInstall = `set -e
cat > ` + routesTable + `
printf '%s' "$1" > /kind/lab-routes.sh
printf '%s' "$2" > /etc/systemd/system/lab-routes.service
systemctl daemon-reload
systemctl --quiet enable lab-routes.service
systemctl restart lab-routes.service`
)

// route gives every node routes to the pods of the others, unless kind's network daemon does. It is idempotent.
func (k *Kind) route(ctx context.Context, client kubernetes.Interface, nodes int, seen func(string)) error {
	var list []*corev1.Node
	kindnet := false
	err := watch(ctx, client, func(s snapshot) (bool, string) { // pod networks are assigned as nodes join
		kindnet = slices.ContainsFunc(s.daemonSets, func(d *appsv1.DaemonSet) bool { return d.Name == "kindnet" })
		list = s.nodes
		have := 0
		for _, n := range list {
			if n.Spec.PodCIDR != "" {
				have++
			}
		}
		return kindnet || have == nodes, fmt.Sprintf("pod networks: %d of %d nodes have one", have, nodes)
	}, seen)
	if err != nil || kindnet {
		return err
	}
	var group errgroup.Group
	for _, n := range list {
		group.Go(func() error {
			_, err := k.docker.Exec(ctx, n.Name, strings.NewReader(routes(n.Name, list)), "sh", "-c", routesInstall, "sh", routesScript, routesUnit)
			if err != nil {
				return fmt.Errorf("routes of %s: %w", n.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// routes returns a node's table: a line "CIDR NODE" for the IPv4 pods of every other node.
func routes(self string, nodes []*corev1.Node) string {
	var lines []string
	for _, n := range nodes {
		cidr, err := netip.ParsePrefix(n.Spec.PodCIDR)
		if n.Name == self || err != nil || !cidr.Addr().Is4() {
			continue
		}
		lines = append(lines, cidr.String()+" "+n.Name+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
