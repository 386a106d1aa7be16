package live

import (
	"context"
	"fmt"
	"slices"

	"homelab/lab"
	"homelab/lab/docker"
)

// Reboot restarts a node of a cluster, or all.
func (c *Clusters) Reboot(ctx context.Context, cluster, node string) error {
	list, err := c.machines(ctx, cluster)
	if err != nil {
		return err
	}
	args := []string{"restart"}
	for _, n := range list {
		if node == "" || n.Name == node {
			args = append(args, n.Name)
		}
	}
	if len(args) == 1 {
		return fmt.Errorf("cluster %s has no node %s", cluster, node)
	}
	return c.output(ctx, cluster, args...)
}

// Partition disconnects a cluster's nodes from the lab's network.
func (c *Clusters) Partition(ctx context.Context, cluster string) error {
	list, err := c.machines(ctx, cluster)
	if err != nil {
		return err
	}
	network := lab.NetworkName(c.lab)
	for _, n := range list {
		if n.Addresses[network] == "" {
			continue
		}
		c.mu.Lock()
		c.addresses[n.Name] = n.Addresses[network]
		c.mu.Unlock()
		if err := c.output(ctx, cluster, "network", "disconnect", network, n.Name); err != nil {
			return err
		}
	}
	return nil
}

// Repair makes all nodes of a cluster run and connects them. One that has another address than before is restarted, as kind's entrypoint then enters it.
func (c *Clusters) Repair(ctx context.Context, cluster string) error {
	list, err := c.machines(ctx, cluster)
	if err != nil {
		return err
	}
	network := lab.NetworkName(c.lab)
	for _, n := range list {
		if n.Addresses[network] == "" {
			if err := c.docker.Connect(ctx, n.Name, network); err != nil {
				return fmt.Errorf("cluster %s: %w", cluster, err)
			}
		}
		if !n.Running {
			if err := c.output(ctx, cluster, "start", n.Name); err != nil {
				return err
			}
		}
	}
	now, err := c.machines(ctx, cluster)
	if err != nil {
		return err
	}
	for _, n := range now {
		c.mu.Lock()
		was := c.addresses[n.Name]
		delete(c.addresses, n.Name)
		c.mu.Unlock()
		if was != "" && n.Addresses[network] != was {
			if err := c.output(ctx, cluster, "restart", n.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// machines returns the node containers of a cluster that were created for the lab's network, connected or not.
func (c *Clusters) machines(ctx context.Context, cluster string) ([]docker.Container, error) {
	list, err := c.docker.Containers(ctx, "label="+kindCluster+"="+lab.KindName(c.lab, cluster))
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", cluster, err)
	}
	network := lab.NetworkName(c.lab)
	list = slices.DeleteFunc(list, func(n docker.Container) bool {
		_, connected := n.Addresses[network]
		return !connected && n.Network != network
	})
	if len(list) == 0 {
		return nil, fmt.Errorf("cluster %s has no nodes", cluster)
	}
	return list, nil
}

func (c *Clusters) output(ctx context.Context, cluster string, args ...string) error {
	if _, err := c.docker.Output(ctx, nil, args...); err != nil {
		return fmt.Errorf("cluster %s: %w", cluster, err)
	}
	return nil
}

// inNetwork runs a program in the network of a pod: crictl knows where the pod's is.
const inNetwork = `set -eu
id=$(crictl pods --namespace "$1" --name "^$2$" --state ready --quiet | head -n 1)
[ -n "$id" ] || { echo "pod $2 does not run here" >&2; exit 1; }
net=$(crictl inspectp --output go-template --template '{{range .info.runtimeSpec.linux.namespaces}}{{if eq .type "network"}}{{.path}}{{end}}{{end}}' "$id")
shift 2
exec nsenter --net="$net" -- "$@"`

func (c *Clusters) inside(ctx context.Context, node, namespace, pod string, program []string) ([]byte, error) {
	list, err := c.docker.Containers(ctx, "name=^/?"+node+"$", "network="+lab.NetworkName(c.lab))
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("node %s does not belong to the lab", node)
	}
	return c.docker.Exec(ctx, list[0].Name, nil, append([]string{"sh", "-c", inNetwork, "sh", namespace, pod}, program...)...)
}
