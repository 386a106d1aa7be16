package state

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"homelab/lab"
)

// Ports are the lab's ports on this machine, chosen on its creation.
type Ports struct {
	Engine  int    `json:"argocd"`
	Forge   int    `json:"forge"`                   // on 127.0.0.1
	Address string `json:"argocdAddress,omitempty"` // that Engine is published on; empty for 127.0.0.1
}

// FreePort returns prefer if it is free on 127.0.0.1 and not in taken, else the next free port.
func FreePort(prefer int, taken ...int) (int, error) {
	for port := prefer; port < prefer+200; port++ {
		if slices.Contains(taken, port) {
			continue
		}
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, &lab.Error{Exit: lab.ExitFailed, Code: "no_port", Message: fmt.Sprintf("no free port from %d to %d on 127.0.0.1", prefer, prefer+199)}
}

// TakenPorts returns the ports of all labs, running or not.
func TakenPorts() []int {
	names, err := List()
	if err != nil {
		return nil
	}
	var ports []int
	for _, name := range names {
		if d, err := Open(name); err == nil {
			if r, err := d.Load(); err == nil {
				ports = append(ports, r.Ports.Engine, r.Ports.Forge)
			}
		}
	}
	return ports
}
