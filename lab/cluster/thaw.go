package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
)

// stuck reports whether a container does not exit although it was killed.
//
// With cgroup v1 a frozen process cannot die, and runc freezes a pod briefly while creating it: a node killed at that moment never exits
// (https://github.com/opencontainers/runc/issues/2105), and the engine still reports it as running.
func stuck(err error) bool { return errors.Is(err, docker.ErrNoExit) }

// thawScript thaws all frozen cgroups below that of container $1, regardless of the path the engine gives it.
const thawScript = `find /freezer -path "*$1*" -name freezer.state -exec sh -c 'for f; do echo THAWED >"$f"; done; true' _ {} +`

// thawLimit bounds thawing nodes: a container's start and exit, and the engine's own timeout of 10 s.
const thawLimit = time.Minute

// deathLimit bounds the wait for a killed and thawed node to exit.
const deathLimit = 10 * time.Second

// thaw thaws the cgroups of nodes. They belong to the engine's machine, and are accessed from a container of the node's image.
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

// removeFrozen removes killed nodes that do not exit.
func (k *Kind) removeFrozen(ctx context.Context, nodes []docker.Container) error {
	ctx, cancel := context.WithTimeout(ctx, thawLimit)
	defer cancel()
	thawErr := k.thaw(ctx, nodes)
	if err := k.remove(ctx, nodes); err != nil {
		return stuckError("a node", errors.Join(thawErr, err))
	}
	return nil
}

// alive reports whether a node that the engine reports as running really is. A node killed while partly frozen is thawed so that it exits.
func (k *Kind) alive(ctx context.Context, n docker.Container, p lab.Progress) (bool, error) {
	if k.canExec(ctx, n) {
		return true, nil
	}
	p("thawing " + n.Name + ", which was killed and does not end")
	within, cancel := context.WithTimeout(ctx, thawLimit)
	defer cancel()
	thawErr := k.thaw(within, []docker.Container{n})
	ended, cancel := context.WithTimeout(within, deathLimit)
	defer cancel()
	for {
		list, err := k.docker.Containers(within, "id="+n.ID)
		switch {
		case err != nil:
			return false, err
		case len(list) == 0:
			return false, &lab.Error{Exit: lab.ExitFailed, Code: "absent", Message: "node " + n.Name + " was removed meanwhile", Cure: "run lab up again"}
		case !list[0].Running:
			return false, nil
		case k.canExec(within, n): // it was only busy, or the engine restarted it
			return true, nil
		}
		if lab.Sleep(ended, removalPause) == nil {
			continue
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		return false, stuckError("node "+n.Name, thawErr)
	}
}

// canExec reports whether a command can be run in a node.
func (k *Kind) canExec(ctx context.Context, n docker.Container) bool {
	_, err := k.docker.Exec(ctx, n.ID, nil, "true")
	return err == nil
}

func stuckError(node string, err error) error {
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "stuck", Message: node + " was killed and does not end", Err: err,
		Cure: "restart the docker engine's machine, and run the command again",
	}
}
