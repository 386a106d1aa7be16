package state

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"

	"homelab/lab"
)

// Ports are the lab's ports on this machine, chosen on its creation.
type Ports struct {
	Engine  int    `json:"argocd"`
	Forge   int    `json:"forge"`                   // on 127.0.0.1
	Address string `json:"argocdAddress,omitempty"` // that Engine is published on; empty for 127.0.0.1
}

// FreePort returns prefer if it is free on both loopback addresses and not in taken, else the next free port.
func FreePort(prefer int, taken ...int) (int, error) {
	for port := prefer; port < prefer+200; port++ {
		if !slices.Contains(taken, port) && free("127.0.0.1", port) && free("::1", port) {
			return port, nil
		}
	}
	return 0, &lab.Error{Exit: lab.ExitFailed, Code: "no_port", Message: fmt.Sprintf("no free port from %d to %d on 127.0.0.1 and ::1", prefer, prefer+199)}
}

// free reports whether nothing listens on a port of an address, which this machine may not have.
func free(address string, port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return address == "::1" && !errors.Is(err, syscall.EADDRINUSE)
	}
	return l.Close() == nil
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
