package state

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

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

// free reports whether nothing listens on a port of an address, which this machine may not have. Only the container engine may listen on some.
func free(address string, port int) bool {
	at := net.JoinHostPort(address, strconv.Itoa(port))
	l, err := net.Listen("tcp", at)
	switch {
	case errors.Is(err, fs.ErrPermission):
		c, err := net.DialTimeout("tcp", at, time.Second)
		if err == nil {
			return c.Close() != nil
		}
		return true
	case err != nil:
		return address == "::1" && !errors.Is(err, syscall.EADDRINUSE)
	}
	return l.Close() == nil
}

// Below wellKnown, the next port belongs to another protocol: instead of 443, a port from 8443 on is used.
const (
	wellKnown = 1024
	elsewhere = 8000
)

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
			ports = slices.AppendSeq(ports, maps.Values(d.ports()))
		}
	}
	return ports
}

// portsFile has the ports of the lab's parts: "registry/5000" -> 5000.
const portsFile = "ports.json"

func (d *Dir) ports() map[string]int {
	ports := map[string]int{}
	_ = d.read(portsFile, &ports) // chosen again if it is lost
	return ports
}

// Port returns the recorded port of a part, or if there is none, or another program has taken it, a free one from prefer on, which it records.
func (d *Dir) Port(name string, prefer int) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	had := d.ports()[name]
	if had != 0 && free("127.0.0.1", had) {
		return had, nil
	}
	taken := TakenPorts()
	if prefer < wellKnown && (slices.Contains(taken, prefer) || !free("127.0.0.1", prefer) || !free("::1", prefer)) {
		prefer += elsewhere
	}
	port, err := FreePort(prefer, taken...)
	if err != nil {
		return 0, err
	}
	return port, d.savePort(name, port)
}

// PortOf returns the recorded port of a part, or 0.
func (d *Dir) PortOf(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ports()[name]
}

// SavePort records the port of a part; 0 is forgotten.
func (d *Dir) SavePort(name string, port int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.savePort(name, port)
}

func (d *Dir) savePort(name string, port int) error {
	ports := d.ports()
	if ports[name] == port {
		return nil
	}
	if ports[name] = port; port == 0 {
		delete(ports, name)
	}
	return d.write(portsFile, ports)
}
