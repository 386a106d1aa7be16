package up

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/state"
)

// forgePort is the preferred port of the forge on 127.0.0.1. If it is taken, the next free one is used.
const forgePort = 3000

// forgeListens is the port that the forge listens on in its container.
const forgeListens = "3000/tcp"

// Settle chooses the lab's ports and saves its record. If the record was lost, the ports are those published by the lab's containers; those of a new lab are
// free ports.
func (l *Lab) Settle(ctx context.Context, was, is state.Record, o Options) (state.Record, error) {
	is, err := l.replace(was, is, o)
	if err != nil {
		return was, err
	}
	if hub := l.hubName(); was.Type != "" && was.Type == is.Type && was.Namespace != is.Namespace && !slices.Contains(o.Recreate, hub) {
		return was, &lab.Error{
			Exit: lab.ExitFailed, Code: "recreate", Message: "spec.engine.namespace changed, and a running engine cannot be moved",
			Cure: "undo the change, or recreate the hub: lab up --recreate " + lab.Quote(hub),
		}
	}
	if is.Ports == (state.Ports{}) {
		if is.Ports, err = l.publishedPorts(ctx); err != nil {
			return was, err
		}
		taken, free := state.TakenPorts(), l.FreePort
		if free == nil {
			free = state.FreePort
		}
		if is.Ports.Forge == 0 {
			if is.Ports.Forge, err = free(forgePort, taken...); err != nil {
				return was, err
			}
		}
		if is.Ports.Engine == 0 {
			if is.Ports.Engine, err = free(l.Definition.Port, append(taken, is.Ports.Forge)...); err != nil {
				return was, err
			}
		}
	}
	is.Ports.Address = ""
	if at := cluster.Loopback(l.Estate.Hub()); at != cluster.Loopback(lab.Cluster{}) {
		is.Ports.Address = at
	}
	if is == was {
		return is, nil
	}
	l.Ports = is.Ports
	return is, l.Dir.Save(is)
}

// publishedPorts returns the ports published by the lab's containers, 0 for a missing container.
func (l *Lab) publishedPorts(ctx context.Context) (state.Ports, error) {
	var ports state.Ports
	list, err := l.Containers.Published(ctx, lab.NetworkName(l.Name))
	if err != nil {
		return ports, err
	}
	for name, published := range list {
		for port, to := range map[string]*int{fmt.Sprintf("%d/tcp", l.Definition.NodePort): &ports.Engine, forgeListens: &ports.Forge} {
			_, at, err := net.SplitHostPort(published[port])
			if err != nil || port == forgeListens && name != lab.ForgeName(l.Name) {
				continue
			}
			if *to, err = strconv.Atoi(at); err != nil {
				return ports, fmt.Errorf("port of %s: %w", name, err)
			}
		}
	}
	return ports, nil
}
