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
	kind "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/exec"
)

const (
	cleanUpLimit = 90 * time.Second // to remove what a failed or cancelled Create left
	readyLimit   = 5 * time.Minute  // from configured nodes to a whole cluster, on a slow machine
)

// Create makes a cluster and returns when its nodes are ready, its own workloads run and its images are loaded. What failed or was cancelled is removed
// again. A cluster that lacks its Mark is half made, however ready it looks.
func (k *Kind) Create(ctx context.Context, spec Spec, p lab.Progress) error {
	name := spec.Cluster.Name
	p = orSilent(p)
	if err := k.create(ctx, spec, p); err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
		defer cancel()
		switch {
		case errors.Is(err, errTaken): // what is there is not of this call
		case LeftOver(err):
			err = errors.Join(err, k.empty(clean, name), k.vacate(clean, err))
		default:
			err = errors.Join(err, k.Delete(clean, name))
		}
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	return nil
}

// empty removes a cluster's nodes and leaves the record that it is being made: what a killed run had begun may yet come, and is proven to be half made by it.
func (k *Kind) empty(ctx context.Context, name string) error {
	return errors.Join(k.removeAll(ctx, name), k.state.SaveCluster(name, state.Cluster{}))
}

// LeftOver reports whether an error has the code CodeLeftOver.
func LeftOver(err error) bool {
	var e *lab.Error
	return errors.As(err, &e) && e.Code == CodeLeftOver
}

// awaitsImages is told of a cluster that lacks nothing else.
const awaitsImages = "ready, waiting for its images"

// errTaken says that nodes of the cluster's name exist already.
var errTaken = errors.New("its name is taken")

func (k *Kind) create(ctx context.Context, spec Spec, p lab.Progress) error {
	name := spec.Cluster.Name
	cfg, err := config(k.lab, k.host, spec)
	if err != nil {
		return err
	}
	// From here on there may be containers of this cluster that are not whole. Of those that are there already, this tells that they came after somebody found none.
	if k.state.Cluster(name).Began.IsZero() {
		if err := k.state.SaveCluster(name, state.Cluster{}); err != nil {
			return err
		}
	}
	if err := k.free(ctx, name); err != nil {
		if !LeftOver(err) {
			err = errors.Join(err, k.state.ForgetCluster(name))
		}
		return err
	}
	if err := k.EnsureNetwork(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	if err := forgetKubeconfig(k.Kubeconfig(name)); err != nil { // a killed run may have left kind's lock on it
		return err
	}
	if err := k.state.SaveCluster(name, state.Cluster{}); err != nil { // there are none yet
		return err
	}

	own, err := k.assembles(ctx, cfg)
	if err != nil {
		return err
	}
	if own {
		cfg.KubeadmConfigPatches = append([]string{patchesV1beta4}, cfg.KubeadmConfigPatches...)
	}

	// containerd is patched and restarted before the control plane starts; from then on it takes images.
	var once, noted sync.Once
	var unrecorded error
	steady, loaded := make(chan struct{}), make(chan struct{})
	settle := func() { once.Do(func() { close(steady) }) }
	provider, err := k.provider(statusLogger{progress: p, started: func(status string) {
		if strings.HasPrefix(status, "ensuring") || strings.HasPrefix(status, "preparing") {
			return
		}
		noted.Do(func() { unrecorded = k.recordNodes(ctx, name) }) // the containers are there now
		if strings.HasPrefix(status, "starting control-plane") {
			settle()
		}
	}})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
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
			p(awaitsImages) // what was told last is no longer so
		}
		return nil
	})
	group.Go(func() error {
		defer close(loaded)
		return k.loadWhenSteady(ctx, spec, steady, p)
	})
	return group.Wait()
}

// recordNodes adds the ids of a cluster's containers to lab's record of its making.
func (k *Kind) recordNodes(ctx context.Context, name string) error {
	nodes, err := k.nodes(ctx, name)
	if err != nil {
		return err
	}
	r := k.state.Cluster(name)
	r.Nodes = ids(nodes)
	return k.state.SaveCluster(name, r)
}

// free refuses a cluster whose containers' names are taken, be it by this lab or by someone else's kind.
func (k *Kind) free(ctx context.Context, name string) error {
	kindName := lab.KindName(k.lab, name)
	taken, err := k.docker.Containers(ctx, "label="+kindClusterLabel+"="+kindName)
	if err != nil || len(taken) == 0 {
		return err
	}
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "exists", Message: "a kind cluster called " + kindName + " exists already",
		Cure: "choose another --name, or remove it: kind delete cluster --name " + kindName, Err: errTaken,
	}
	if k.made(taken[0]) {
		e.Code, e.Cure = CodeLeftOver, "run lab up again"
	}
	return e
}

// CodeLeftOver is the code of the error that a cluster of this lab is there, whole or in part, although it was to be made. Where it was absent a moment ago, a run
// that was killed may have begun it, as the docker command goes on by itself: Observe returns what can be proven of it.
const CodeLeftOver = "left_over"

// kindCreate runs kind's Create, which takes no context. When ctx ends first, the nodes are taken away under it, which makes it fail soon; it may be making
// another one meanwhile, so that is repeated until it has returned.
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
			return errors.Join(context.Cause(ctx), fmt.Errorf("kind did not come to an end within %s", cleanUpLimit), err)
		case <-again.C:
		}
	}
}

// explain adds what a command in a node printed last; kind's own error names the command alone.
func explain(err error) error {
	if err == nil {
		return nil
	}
	run := exec.RunErrorForError(err)
	if run == nil && strings.Contains(err.Error(), "already exist for a cluster with the name") { // kind's own look, a moment after ours
		return &lab.Error{Exit: lab.ExitFailed, Code: CodeLeftOver, Message: "its nodes came into being meanwhile", Err: err, Cure: "run lab up again"}
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
		e.Err = errors.Join(err, &occupied{container: string(m[1]), network: string(m[2])})
	}
	if m != nil || bytes.Contains(run.Output, []byte("is already in use by container")) {
		e.Code, e.Cure = CodeLeftOver, "run lab up again"
	}
	return e
}

// endpoint is what the engine says where a container was removed while it was being started, and its place in the network was not
// (https://github.com/moby/moby/issues/33156).
var endpoint = regexp.MustCompile(`endpoint with name (\S+) already exists in network ([^\s.]+)`)

// occupied is a place in a network that belongs to a container which is no more.
type occupied struct{ container, network string }

func (o *occupied) Error() string { return o.container + " has a place in network " + o.network }

// vacate frees the place in the network that a failed creation complained of.
func (k *Kind) vacate(ctx context.Context, err error) error {
	var o *occupied
	if !errors.As(err, &o) {
		return nil
	}
	_, err = k.docker.Output(ctx, nil, "network", "disconnect", "--force", o.network, o.container)
	return err
}

// frame is a line of a stack trace, which kubeadm prints after its error.
var frame = regexp.MustCompile(`^(\S+/\S+|main\.\S+|runtime\.\S+)$|\.(go|s):\d+$`)

// lastLines are the last n lines that say something, cut to the width of a terminal.
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

func orSilent(p lab.Progress) lab.Progress {
	if p == nil {
		return func(string) {}
	}
	return p
}
