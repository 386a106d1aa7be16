package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// Container is an inspected container.
type Container struct {
	ID      string
	Name    string
	Running bool      // possibly paused
	Status  string    // created, running, paused, exited, ...
	Started time.Time // last start, by the engine's clock; zero if never
	ImageID string
	Labels  map[string]string
	// Ports maps a container port ("3000/tcp") to the host's ip:port or [ip]:port; empty unless running.
	Ports map[string]string
	// Published is the configured Ports, whether running or not.
	Published map[string]string
	// Addresses maps networks to the container's IPv4 address.
	Addresses map[string]string
	// Aliases maps networks to the container's host names there, besides its name and id.
	Aliases map[string][]string
	// Network is the network that the container was created in, connected or not.
	Network string
	// Volumes maps mount points to volumes.
	Volumes map[string]string
}

// Paused reports whether the container is paused.
func (c Container) Paused() bool { return c.Status == "paused" }

// Container returns the container of a name, in any state; false if there is none.
func (d *Docker) Container(ctx context.Context, name string) (Container, bool, error) {
	list, err := d.containers(ctx, name)
	if err != nil || len(list) == 0 || list[0].Name != name { // the id of another one may begin like it
		return Container{}, false, err
	}
	return list[0], true, nil
}

// Containers lists containers in any state that match all filters ("label=k=v", "network=NAME", "name=^/NAME$").
func (d *Docker) Containers(ctx context.Context, filters ...string) ([]Container, error) {
	args := []string{"ps", "--all", "--quiet", "--no-trunc"}
	for _, f := range filters {
		args = append(args, "--filter", f)
	}
	out, err := d.Output(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	ids := strings.Fields(string(out))
	if len(ids) == 0 {
		return nil, nil
	}
	return d.containers(ctx, ids...)
}

// containers inspects containers by id or name; those that do not exist are left out.
func (d *Docker) containers(ctx context.Context, ids ...string) ([]Container, error) {
	out, err := d.Output(ctx, nil, append([]string{"container", "inspect"}, ids...)...)
	if err != nil && !NotFound(err) { // one may have been removed; the others were printed
		return nil, err
	}
	if len(out) == 0 {
		return nil, nil
	}
	var raw []struct {
		ID, Name, Image string
		State           struct {
			Running   bool
			Status    string
			StartedAt time.Time
		}
		Config     struct{ Labels map[string]string }
		HostConfig struct {
			NetworkMode  string
			PortBindings map[string][]struct{ HostIP, HostPort string }
		}
		NetworkSettings struct {
			Ports    map[string][]struct{ HostIP, HostPort string }
			Networks map[string]struct {
				IPAddress string
				Aliases   []string
			}
		}
		Mounts []struct{ Name, Destination string }
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("docker container inspect: %w", err)
	}
	list := make([]Container, 0, len(raw))
	for _, r := range raw {
		c := Container{
			ID: r.ID, Name: strings.TrimPrefix(r.Name, "/"), Running: r.State.Running, Status: r.State.Status, Started: r.State.StartedAt, ImageID: r.Image,
			Labels: r.Config.Labels, Network: r.HostConfig.NetworkMode, Ports: map[string]string{}, Published: map[string]string{}, Addresses: map[string]string{}, Aliases: map[string][]string{}, Volumes: map[string]string{},
		}
		for port, binds := range r.HostConfig.PortBindings {
			for _, b := range binds {
				c.Published[port] = net.JoinHostPort(b.HostIP, b.HostPort)
			}
		}
		for port, binds := range r.NetworkSettings.Ports {
			for _, b := range binds {
				c.Ports[port] = net.JoinHostPort(b.HostIP, b.HostPort)
			}
		}
		for name, n := range r.NetworkSettings.Networks {
			c.Addresses[name], c.Aliases[name] = n.IPAddress, given(n.Aliases, r.ID)
		}
		for _, m := range r.Mounts {
			if m.Name != "" {
				c.Volumes[m.Destination] = m.Name
			}
		}
		list = append(list, c)
	}
	return list, nil
}

// Published returns the configured ports of a network's containers, by container and port ("3000/tcp"), running or not.
func (d *Docker) Published(ctx context.Context, network string) (map[string]map[string]string, error) {
	list, err := d.Containers(ctx, "network="+network)
	if err != nil {
		return nil, err
	}
	ports := map[string]map[string]string{}
	for _, c := range list {
		ports[c.Name] = c.Published
	}
	return ports, nil
}

// given returns the aliases that a container was given: engines add its abbreviated id.
func given(aliases []string, id string) []string {
	return slices.DeleteFunc(slices.Clone(aliases), func(a string) bool { return strings.HasPrefix(id, a) })
}
