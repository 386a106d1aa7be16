package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"homelab/lab"
	"homelab/lab/docker"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/kind/pkg/log"
)

// Start starts stopped nodes, unpauses paused ones, rewrites the kubeconfig, renews certificates that have expired or soon will, and waits until the cluster is ready.
// It removes nothing.
func (k *Kind) Start(ctx context.Context, name string, p lab.Progress) error {
	if err := k.start(ctx, name, orDiscard(p)); err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	return nil
}

func (k *Kind) start(ctx context.Context, name string, p lab.Progress) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	nodes, err := k.nodes(ctx, name)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return &lab.Error{Exit: lab.ExitFailed, Code: "absent", Message: "has no nodes"}
	}
	for _, n := range nodes { // in sequence, as workers need their control plane
		if err := k.wake(ctx, n, p); err != nil {
			return err
		}
	}
	if err := k.writeKubeconfig(name); err != nil {
		return err
	}
	if err := k.renew(ctx, name, nodes, p); err != nil {
		return err
	}
	return k.settle(ctx, name, p)
}

// wake makes a node run, connected to the lab's network. A node that was disconnected is restarted once reconnected, as its address may have changed: kind's
// entrypoint adapts the node at boot.
func (k *Kind) wake(ctx context.Context, n docker.Container, p lab.Progress) error {
	if n.Paused() {
		p("unpausing " + n.Name)
		if err := k.docker.Unpause(ctx, n.ID); err != nil {
			return err
		}
	}
	if n.Running {
		var err error
		if n.Running, err = k.alive(ctx, n, p); err != nil {
			return err
		}
	}
	network := lab.NetworkName(k.lab)
	if _, connected := n.Addresses[network]; !connected {
		if err := k.EnsureNetwork(ctx); err != nil {
			return err
		}
		p("connecting " + n.Name + " to " + network)
		if err := k.docker.Connect(ctx, n.ID, network); err != nil {
			return err
		}
		if n.Running {
			p("restarting " + n.Name)
			_, err := k.docker.Output(ctx, nil, "restart", n.ID)
			if !stuck(err) {
				return err
			}
			if n.Running, err = k.alive(ctx, n, p); err != nil || n.Running {
				return err
			}
		}
	}
	if n.Running {
		return nil
	}
	p("starting " + n.Name)
	return k.docker.Start(ctx, n.ID, network)
}

// writeKubeconfig rewrites the kubeconfig from kind, as the host port may change with a restart.
func (k *Kind) writeKubeconfig(name string) error {
	provider, err := k.provider(log.NoopLogger{})
	if err != nil {
		return err
	}
	text, err := provider.KubeConfig(lab.KindName(k.lab, name), false)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return writeKubeconfig(k.Kubeconfig(name), []byte(text))
}

// Delete removes a cluster's nodes with their volumes, its kubeconfig and its record. A missing cluster is not an error.
func (k *Kind) Delete(ctx context.Context, name string) error {
	if err := k.removeAll(ctx, name); err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	return errors.Join(forgetKubeconfig(k.Kubeconfig(name)), k.state.ForgetCluster(name))
}

// removeAll removes all nodes of a cluster.
func (k *Kind) removeAll(ctx context.Context, name string) error {
	nodes, err := k.nodes(ctx, name)
	if err != nil || len(nodes) == 0 {
		return err
	}
	return k.removeNodes(ctx, name, nodes)
}

// removeNodes records that a removal has begun, which is irreversible once the first node is gone, and removes the nodes.
func (k *Kind) removeNodes(ctx context.Context, name string, nodes []docker.Container) error {
	r := k.state.Cluster(name)
	r.Removing = true
	if r.Whole || len(r.Nodes) == 0 {
		r.Nodes = ids(nodes)
	}
	recorded := k.state.SaveCluster(name, r) // a full disk must not prevent freeing space
	err := k.remove(ctx, nodes)
	if stuck(err) {
		err = k.removeFrozen(ctx, nodes)
	}
	if err != nil {
		return errors.Join(err, recorded)
	}
	return nil
}

func (k *Kind) remove(ctx context.Context, nodes []docker.Container) error {
	args := []string{"rm", "--force", "--volumes"}
	for _, n := range nodes {
		args = append(args, n.ID)
	}
	for again := removals; ; again-- {
		_, err := k.docker.Output(ctx, nil, args...)
		switch {
		case err == nil || alreadyRemoved(err) && !stuck(err):
			return nil
		case again == 1 || stuck(err) || ctx.Err() != nil:
			return err
		}
		// A container that a killed run is still starting cannot always be removed.
		if lab.Sleep(ctx, removalPause) != nil {
			return err
		}
	}
}

// Number of attempts at a removal, and the pause after a failure.
const (
	removals     = 4
	removalPause = time.Second
)

// alreadyRemoved reports whether the error means that the container is already removed or being removed.
func alreadyRemoved(err error) bool {
	return errors.Is(err, docker.ErrRemoved)
}

func (k *Kind) client(name string) (kubernetes.Interface, error) {
	cfg, err := k.RESTConfig(name)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	return client, nil
}
