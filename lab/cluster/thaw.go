package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
)

// stuck reports whether a container does not end although it was killed.
//
// With cgroup v1 nothing that is frozen dies, and runc freezes a pod for a moment while it makes it: a node that is killed just then never ends
// (https://github.com/opencontainers/runc/issues/2105). The engine still takes it for running.
func stuck(err error) bool { return docker.Said(err, "did not receive an exit event") }

// thawScript thaws every frozen cgroup below that of the container $1, wherever the engine keeps it.
const thawScript = `find /freezer -path "*$1*" -name freezer.state -exec sh -c 'for f; do echo THAWED >"$f"; done; true' _ {} +`

// thawLimit bounds thawing nodes and what follows: a container that starts and ends, and the engine's own patience of 10 s.
const thawLimit = time.Minute

// deathLimit is how long a node that was killed and thawed has to end.
const deathLimit = 10 * time.Second

// thaw thaws what is frozen in nodes. The cgroups are the engine's machine's, and are reached from a container of the node's own image.
func (k *Kind) thaw(ctx context.Context, nodes []docker.Container) error {
	var errs []error
	for _, n := range nodes {
		args := append([]string{"run", "--rm", "--privileged", "--network=none", "--entrypoint=sh"}, docker.Labels(map[string]string{lab.LabelName: k.lab, lab.LabelPart: "thaw"})...)
		args = append(args, "--mount=type=bind,source=/sys/fs/cgroup/freezer,target=/freezer", n.ImageID, "-c", thawScript, "sh", n.ID)
		if _, err := k.docker.Output(ctx, nil, args...); err != nil {
			errs = append(errs, fmt.Errorf("thaw %s: %w", n.Name, err))
		}
	}
	return errors.Join(errs...)
}

// removeFrozen removes nodes that do not end although they were killed.
func (k *Kind) removeFrozen(ctx context.Context, nodes []docker.Container) error {
	ctx, cancel := context.WithTimeout(ctx, thawLimit)
	defer cancel()
	thawErr := k.thaw(ctx, nodes)
	if err := k.remove(ctx, nodes); err != nil {
		return doesNotEnd("a node", errors.Join(thawErr, err))
	}
	return nil
}

// alive reports whether a node that runs by the engine's account does: one that was killed while a part of it was frozen is thawed, and ends.
func (k *Kind) alive(ctx context.Context, n docker.Container, p lab.Progress) (bool, error) {
	if k.executes(ctx, n) {
		return true, nil
	}
	p("thawing " + n.Name + ", which was killed and does not end")
	ctx, cancel := context.WithTimeout(ctx, thawLimit)
	defer cancel()
	thawErr := k.thaw(ctx, []docker.Container{n})
	ended, cancel := context.WithTimeout(ctx, deathLimit)
	defer cancel()
	for {
		list, err := k.docker.Containers(ctx, "id="+n.ID)
		if err != nil {
			return false, err
		}
		if len(list) == 0 {
			return false, fmt.Errorf("node %s was removed meanwhile", n.Name)
		}
		if !list[0].Running {
			return false, nil
		}
		if k.executes(ctx, n) { // it was only busy, or the engine has started it again
			return true, nil
		}
		if lab.Sleep(ended, removalPause) != nil {
			return false, doesNotEnd("node "+n.Name, errors.Join(thawErr, context.Cause(ctx)))
		}
	}
}

// executes reports whether a command can be run in a node.
func (k *Kind) executes(ctx context.Context, n docker.Container) bool {
	_, err := k.docker.Exec(ctx, n.ID, nil, "true")
	return err == nil
}

func doesNotEnd(node string, err error) error {
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "stuck", Message: node + " was killed and does not end", Err: err,
		Cure: "restart the docker engine's machine, and run the command again",
	}
}
