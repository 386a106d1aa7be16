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

// Start starts the stopped nodes of a cluster, lets paused ones go on, writes its kubeconfig again and waits until the cluster is ready, five minutes at most.
// It removes nothing.
func (k *Kind) Start(ctx context.Context, name string, p lab.Progress) error {
	if err := k.start(ctx, name, orSilent(p)); err != nil {
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
	for _, n := range nodes { // one after the other: workers look for their control plane
		if err := k.wake(ctx, n, p); err != nil {
			return err
		}
	}
	if err := k.writeKubeconfig(name); err != nil {
		return err
	}
	return k.settle(ctx, name, p)
}

// wake makes a node run, connected to the lab's network. One that was cut off is started again once it is connected, as its address may be another: kind's
// entrypoint puts that right when a node boots.
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

// writeKubeconfig asks kind for the kubeconfig, as the port on this machine may be another after a restart, and puts it in place as a whole.
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

// Delete removes a cluster's nodes with their volumes, its kubeconfig and lab's record of it. What is not there is no error.
func (k *Kind) Delete(ctx context.Context, name string) error {
	if err := k.removeAll(ctx, name); err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	return errors.Join(forgetKubeconfig(k.Kubeconfig(name)), k.state.ForgetCluster(name))
}

// removeAll removes a cluster's nodes, if there are any.
func (k *Kind) removeAll(ctx context.Context, name string) error {
	nodes, err := k.nodes(ctx, name)
	if err != nil || len(nodes) == 0 {
		return err
	}
	return k.removeNodes(ctx, name, nodes)
}

// removeNodes writes down that a removal has begun, which cannot be undone once the first node is gone, and removes the nodes.
func (k *Kind) removeNodes(ctx context.Context, name string, nodes []docker.Container) error {
	r := k.state.Cluster(name)
	r.Removing = true
	if r.Whole || len(r.Nodes) == 0 {
		r.Nodes = ids(nodes)
	}
	recorded := k.state.SaveCluster(name, r) // a full disk must not keep anyone from freeing space
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
		case err == nil || gone(err) && !stuck(err):
			return nil
		case again == 1 || stuck(err) || ctx.Err() != nil:
			return err
		}
		// A container that is just being started, by a run that was killed, cannot always be removed.
		if lab.Sleep(ctx, removalPause) != nil {
			return err
		}
	}
}

// How often a removal is tried, and how long after one that failed.
const (
	removals     = 4
	removalPause = time.Second
)

// gone reports whether a container that is to be removed is removed already, or is being removed by someone else.
func gone(err error) bool {
	return docker.Said(err, "No such container") || docker.Said(err, "is already in progress")
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
