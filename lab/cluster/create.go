package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/state"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	kind "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/exec"
)

const (
	cleanUpLimit = 90 * time.Second // to remove the remains of a failed or cancelled Create
	readyLimit   = 12 * time.Minute // from configured nodes to a complete cluster; four at once took 8 minutes on 0.8 of a core
)

// Create creates a cluster and returns once its nodes are ready, its system workloads run and its images are loaded. A failed or cancelled creation is rolled
// back; one that failed before anything was created removes nothing. A cluster without a Mark counts as half created, even if ready.
func (k *Kind) Create(ctx context.Context, spec Spec, p lab.Progress) error {
	name := spec.Cluster.Name
	cfg, own, err := k.prepare(ctx, spec)
	begun := err == nil
	if begun {
		err = k.create(ctx, spec, cfg, own, orDiscard(p))
	}
	if err == nil {
		return nil
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
	defer cancel()
	switch {
	case errors.Is(err, errTaken): // the existing nodes belong to someone else
	case LeftOver(err):
		err = errors.Join(err, k.resetNodes(clean, name), k.removeEndpoint(clean, err))
	case begun:
		err = errors.Join(err, k.Delete(clean, name))
	}
	return fmt.Errorf("cluster %s: %w", name, err)
}

// resetNodes removes a cluster's nodes but keeps the record of its creation, which proves that nodes a killed run may still produce are half created.
func (k *Kind) resetNodes(ctx context.Context, name string) error {
	return errors.Join(k.removeAll(ctx, name), k.state.SaveCluster(name, state.Cluster{}))
}

// LeftOver reports whether err has the code CodeLeftOver.
func LeftOver(err error) bool {
	var e *lab.Error
	return errors.As(err, &e) && e.Code == CodeLeftOver
}

// awaitsImages is the progress of a cluster that only lacks its images.
const awaitsImages = "ready, waiting for its images"

// errTaken means that nodes with the cluster's name already exist.
var errTaken = errors.New("its name is taken")

// prepare does all that precedes the first container. What it writes is undone if it fails.
func (k *Kind) prepare(ctx context.Context, spec Spec) (cfg *v1alpha4.Cluster, own bool, err error) {
	name := spec.Cluster.Name
	if cfg, err = config(k.lab, k.host, spec); err != nil {
		return nil, false, err
	}
	// From here on incomplete containers of this cluster may exist. For any already there, Began proves that they appeared after an observation found none.
	if k.state.Cluster(name).Began.IsZero() {
		if err := k.state.SaveCluster(name, state.Cluster{}); err != nil {
			return nil, false, err
		}
		defer func() {
			if err != nil && !LeftOver(err) {
				err = errors.Join(err, k.state.ForgetCluster(name))
			}
		}()
	}
	if err := k.checkFree(ctx, name); err != nil {
		if errors.Is(err, errTaken) && !LeftOver(err) {
			err = errors.Join(err, k.state.ForgetCluster(name))
		}
		return nil, false, err
	}
	if err := k.EnsureNetwork(ctx); err != nil {
		return nil, false, err
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return nil, false, err
	}
	if err := forgetKubeconfig(k.Kubeconfig(name)); err != nil { // a killed run may have left kind's lock
		return nil, false, err
	}
	if own, err = k.assembles(ctx, cfg); err != nil {
		return nil, false, err
	}
	return cfg, own, k.state.SaveCluster(name, state.Cluster{}) // no nodes yet
}

func (k *Kind) create(ctx context.Context, spec Spec, cfg *v1alpha4.Cluster, own bool, p lab.Progress) error {
	name := spec.Cluster.Name
	if own {
		cfg.KubeadmConfigPatches = append([]string{patchesV1beta4}, cfg.KubeadmConfigPatches...)
	}

	// containerd is patched and restarted before the control plane starts; afterwards it accepts images.
	var once, noted sync.Once
	var unrecorded error
	steady, loaded := make(chan struct{}), make(chan struct{})
	settle := func() { once.Do(func() { close(steady) }) }
	provider, err := k.provider(statusLogger{progress: p, started: func(status string) {
		if strings.HasPrefix(status, "ensuring") || strings.HasPrefix(status, "preparing") {
			return
		}
		noted.Do(func() { // the containers exist now
			unrecorded = k.recordNodes(ctx, name)
			k.favor(ctx, spec.Cluster)
		})
		if strings.HasPrefix(status, "starting control-plane") {
			settle()
		}
	}})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	in := &imageSet{fetched: make(chan struct{}), seeded: make(chan struct{})}
	group.Go(func() error {
		defer settle()
		err := kindCreate(ctx, func(ctx context.Context) error { return k.Delete(ctx, name) }, func() error {
			return provider.Create(cfg.Name, kind.CreateWithV1Alpha4Config(cfg), kind.CreateWithKubeconfigPath(k.Kubeconfig(name)),
				kind.CreateWithRetain(true), kind.CreateWithStopBeforeSettingUpKubernetes(own),
				kind.CreateWithDisplayUsage(false), kind.CreateWithDisplaySalutation(false))
		})
		if err := errors.Join(err, unrecorded); err != nil {
			return err
		}
		if own {
			k.seedNodes(ctx, spec, in, p)
		}
		settle()
		limited, cancel := context.WithTimeout(ctx, readyLimit)
		defer cancel()
		if own {
			if err := k.assemble(limited, name, provider, p); err != nil {
				return err
			}
		}
		if err := k.oneDNS(limited, name); err != nil {
			return err
		}
		if err := k.settle(limited, name, p); err != nil {
			return err
		}
		select {
		case <-loaded:
		default:
			p(awaitsImages) // replaces the outdated last progress
		}
		return nil
	})
	group.Go(func() error {
		defer close(loaded)
		return k.loadWhenSteady(ctx, spec, in, steady, p)
	})
	if own {
		group.Go(func() error {
			k.awaitSeed(ctx, spec, in, p)
			return nil
		})
	}
	return group.Wait()
}

// recordNodes adds the ids of a cluster's containers to the record of its creation.
func (k *Kind) recordNodes(ctx context.Context, name string) error {
	nodes, err := k.nodes(ctx, name)
	if err != nil {
		return err
	}
	r := k.state.Cluster(name)
	r.Nodes = ids(nodes)
	return k.state.SaveCluster(name, r)
}

// hubShares is the CPU weight of the hub's nodes; docker's default is 1024. Only the hub holds up the engine, but with equal weights it is as often the last cluster
// as the first, which takes up to 14 s longer on two cores.
const hubShares = "4096"

// favor gives a hub's nodes more processor time than a spoke's while it is short. A container engine that cannot limit processor time gives them the same.
func (k *Kind) favor(ctx context.Context, c lab.Cluster) {
	if nodes := k.state.Cluster(c.Name).Nodes; c.Role == lab.RoleHub && len(nodes) > 0 {
		_, _ = k.docker.Output(ctx, nil, append([]string{"update", "--cpu-shares", hubShares}, nodes...)...)
	}
}

// checkFree returns an error if the cluster's container names are taken, by this lab or by another kind cluster.
func (k *Kind) checkFree(ctx context.Context, name string) error {
	kindName := lab.KindName(k.lab, name)
	taken, err := k.docker.Containers(ctx, "label="+kindClusterLabel+"="+kindName)
	if err != nil || len(taken) == 0 {
		return err
	}
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "exists", Message: "a kind cluster called " + kindName + " exists already",
		Cure: "choose another --name, or remove it: kind delete cluster --name " + kindName, Err: errTaken,
	}
	if k.owns(taken[0]) {
		e.Code, e.Cure = CodeLeftOver, "run lab up again"
	}
	return e
}

// CodeLeftOver is the code of the error for a cluster that was to be created but exists, in whole or in part. If it was absent before, a killed run may have
// begun it, as docker completes its request; Observe returns what can be proven about it.
const CodeLeftOver = "left_over"

// kindCreate runs kind's Create, which takes no context. When ctx ends, it removes the nodes, which makes Create fail soon, and repeats that until Create has
// returned, as it may be creating further nodes.
func kindCreate(ctx context.Context, remove func(context.Context) error, create func() error) error {
	returned := make(chan error, 1)
	go func() { returned <- create() }()
	select {
	case err := <-returned:
		return explain(err)
	case <-ctx.Done():
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
	defer cancel()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		err := remove(clean)
		select {
		case <-returned:
			return context.Cause(ctx)
		case <-clean.Done():
			return errors.Join(context.Cause(ctx), fmt.Errorf("kind did not stop within %s", cleanUpLimit), err)
		case <-again.C:
		}
	}
}

// explain adds the last output of a failed command in a node, since kind's error only names the command.
func explain(err error) error {
	if err == nil {
		return nil
	}
	run := exec.RunErrorForError(err)
	if run == nil && strings.Contains(err.Error(), "already exist for a cluster with the name") { // kind's check, just after ours
		return &lab.Error{Exit: lab.ExitFailed, Code: CodeLeftOver, Message: "its nodes appeared meanwhile", Err: err, Cure: "run lab up again"}
	}
	if run == nil {
		return err
	}
	if err := docker.PortTaken(string(run.Output)); err != nil {
		return err
	}
	e := &lab.Error{Exit: lab.ExitFailed, Code: "kind", Message: "kind failed", Err: err, Details: lastLines(string(run.Output), 12)}
	m := endpoint.FindSubmatch(run.Output)
	if m != nil {
		e.Err = errors.Join(err, &staleEndpoint{container: string(m[1]), network: string(m[2])})
	}
	if m != nil || bytes.Contains(run.Output, []byte("is already in use by container")) {
		e.Code, e.Cure = CodeLeftOver, "run lab up again"
	}
	return e
}

// endpoint matches the engine's error for a container that was removed while starting, which leaves its network endpoint behind
// (https://github.com/moby/moby/issues/33156).
var endpoint = regexp.MustCompile(`endpoint with name (\S+) already exists in network ([^\s.]+)`)

// staleEndpoint is the error for a network endpoint of a removed container.
type staleEndpoint struct{ container, network string }

func (o *staleEndpoint) Error() string { return o.container + " has a place in network " + o.network }

// removeEndpoint removes the stale endpoint that err reports.
func (k *Kind) removeEndpoint(ctx context.Context, err error) error {
	var o *staleEndpoint
	if !errors.As(err, &o) {
		return nil
	}
	_, err = k.docker.Output(ctx, nil, "network", "disconnect", "--force", o.network, o.container)
	return err
}

// frame matches a line of the stack trace that kubeadm prints after its error.
var frame = regexp.MustCompile(`^(\S+/\S+|main\.\S+|runtime\.\S+)$|\.(go|s):\d+$`)

// lastLines returns the last n non-empty lines, cut to the width of a terminal.
func lastLines(text string, n int) []string {
	const width = 80
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || frame.MatchString(line) {
			continue
		}
		if r := []rune(line); len(r) > width {
			line = string(r[:width-1]) + "…"
		}
		lines = append(lines, line)
	}
	return lines[max(0, len(lines)-n):]
}

func orDiscard(p lab.Progress) lab.Progress {
	if p == nil {
		return func(string) {}
	}
	return p
}
