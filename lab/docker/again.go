package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
)

// Blueprint is a container's configuration as reported by the engine, sufficient to recreate it.
type Blueprint struct {
	Name    string
	Image   string // id
	Address string // in its original network; empty unless running
	Running bool   // possibly paused
	Paused  bool
	Volumes []Volume
	Aliases []string `json:",omitempty"` // in its original network, besides its name
	Config  map[string]any
	Host    map[string]any // HostConfig
}

// Volume is a volume of a container.
type Volume struct {
	Name        string
	Destination string // in the container
	Directory   string // on the engine's machine
	Anonymous   bool   // removed with the container
	Labels      map[string]string
}

// Blueprints inspects containers, sorted by name.
func (d *Docker) Blueprints(ctx context.Context, names ...string) ([]Blueprint, error) {
	out, err := d.Output(ctx, nil, append([]string{"container", "inspect"}, names...)...)
	if err != nil {
		return nil, err
	}
	var raw []struct {
		ID, Name, Image    string
		State              struct{ Running, Paused bool }
		Config, HostConfig map[string]any
		Mounts             []struct{ Type, Name, Source, Destination string }
		NetworkSettings    struct {
			Networks map[string]struct {
				IPAddress string
				Aliases   []string
			}
		}
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("docker container inspect: %w", err)
	}
	list := make([]Blueprint, 0, len(raw))
	for _, r := range raw {
		b := Blueprint{
			Name: strings.TrimPrefix(r.Name, "/"), Image: r.Image, Running: r.State.Running, Paused: r.State.Paused, Config: r.Config, Host: r.HostConfig,
		}
		network, _ := r.HostConfig["NetworkMode"].(string)
		b.Address, b.Aliases = r.NetworkSettings.Networks[network].IPAddress, given(r.NetworkSettings.Networks[network].Aliases, r.ID)
		for _, m := range r.Mounts {
			if m.Type == "volume" {
				b.Volumes = append(b.Volumes, Volume{Name: m.Name, Destination: m.Destination, Directory: m.Source, Anonymous: !b.names(m.Name)})
			}
		}
		slices.SortFunc(b.Volumes, func(x, y Volume) int { return strings.Compare(x.Destination, y.Destination) })
		list = append(list, b)
	}
	return list, d.volumeLabels(ctx, list)
}

// volumeLabels sets the labels of named volumes.
func (d *Docker) volumeLabels(ctx context.Context, list []Blueprint) error {
	for i := range list {
		for j := range list[i].Volumes {
			v := &list[i].Volumes[j]
			if v.Anonymous {
				continue
			}
			out, err := d.Output(ctx, nil, "volume", "inspect", "--format", "{{json .Labels}}", v.Name)
			if err == nil {
				err = json.Unmarshal(out, &v.Labels)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// names reports whether the container's configuration names the volume.
func (b Blueprint) names(volume string) bool {
	binds, _ := b.Host["Binds"].([]any)
	mounts, _ := b.Host["Mounts"].([]any)
	return slices.ContainsFunc(binds, func(bind any) bool {
		text, _ := bind.(string)
		return strings.HasPrefix(text, volume+":")
	}) || slices.ContainsFunc(mounts, func(mount any) bool {
		m, _ := mount.(map[string]any)
		return m["Source"] == volume
	})
}

// Publishes returns the published ports: container port -> "127.0.0.1:3000".
func (b Blueprint) Publishes() map[string]string {
	ports := map[string]string{}
	bindings, _ := b.Host["PortBindings"].(map[string]any)
	for port, list := range bindings {
		entries, _ := list.([]any)
		for _, e := range entries {
			if bind, ok := e.(map[string]any); ok {
				ports[port] = net.JoinHostPort(fmt.Sprint(bind["HostIp"]), fmt.Sprint(bind["HostPort"]))
			}
		}
	}
	return ports
}

// WithPort returns a copy with a container port published elsewhere, "127.0.0.1:3000".
func (b Blueprint) WithPort(port, elsewhere string) Blueprint {
	b.Host = maps.Clone(b.Host)
	bindings, _ := b.Host["PortBindings"].(map[string]any)
	bindings = maps.Clone(bindings)
	ip, number, _ := net.SplitHostPort(elsewhere)
	bindings[port] = []any{map[string]any{"HostIp": ip, "HostPort": number}}
	b.Host["PortBindings"] = bindings
	return b
}

// Make creates a container from a blueprint and an image and returns its id. Its anonymous volumes are new and empty,
// not filled from the image. The docker command cannot take a configuration, so the engine's API is used, over the
// command's connection.
func (d *Docker) Make(ctx context.Context, b Blueprint, image string) (string, error) {
	body := maps.Clone(b.Config)
	host := maps.Clone(b.Host)
	volumes, _ := body["Volumes"].(map[string]any)
	volumes = maps.Clone(volumes)
	mounts, _ := host["Mounts"].([]any)
	for _, v := range b.Volumes {
		if !v.Anonymous {
			continue
		}
		delete(volumes, v.Destination)
		mounts = slices.DeleteFunc(slices.Clone(mounts), func(mount any) bool {
			m, _ := mount.(map[string]any)
			return m["Target"] == v.Destination
		})
		mounts = append(mounts, map[string]any{"Type": "volume", "Target": v.Destination, "VolumeOptions": map[string]any{"NoCopy": true}})
	}
	body["Image"], body["Volumes"], host["Mounts"], body["HostConfig"] = image, volumes, mounts, host
	if network, _ := host["NetworkMode"].(string); len(b.Aliases) > 0 {
		body["NetworkingConfig"] = map[string]any{"EndpointsConfig": map[string]any{network: map[string]any{"Aliases": b.Aliases}}}
	}
	var made struct{ ID string }
	if err := d.post(ctx, "/containers/create?name="+url.QueryEscape(b.Name), body, &made); err != nil {
		return "", fmt.Errorf("container %s: %w", b.Name, err)
	}
	return made.ID, nil
}

// post sends a request to the engine's API.
func (d *Docker) post(ctx context.Context, path string, body, into any) error {
	version, err := d.Output(ctx, nil, "version", "--format", "{{.Server.APIVersion}}")
	if err != nil {
		return err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docker/v"+strings.TrimSpace(string(version))+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // the engine closes the connection, which ends the command
	// A pipe that stays open: at EOF, the command would abort the request.
	in, wire, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	sent := make(chan error, 1)
	go func() { sent <- req.Write(wire) }()
	out, err := d.Output(ctx, in, "system", "dial-stdio")
	if err = errors.Join(err, wire.Close()); err != nil {
		return err
	}
	if err := <-sent; err != nil {
		return fmt.Errorf("docker system dial-stdio: %w", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), req)
	if err != nil {
		return fmt.Errorf("docker system dial-stdio: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("docker system dial-stdio: %w", err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var failure struct{ Message string }
		_ = json.Unmarshal(answer, &failure) // not every error is JSON
		if failure.Message == "" {
			failure.Message = resp.Status
		}
		return &Error{Args: []string{strings.TrimPrefix(strings.Split(path, "?")[0], "/")}, Stderr: failure.Message, Err: errors.New(resp.Status)}
	}
	return json.Unmarshal(answer, into)
}

// Commit creates an image from a container's file system, without volumes. A paused container stays paused.
func (d *Docker) Commit(ctx context.Context, container, ref string) error {
	_, err := d.Output(ctx, nil, "commit", "--pause=false", container, ref)
	return err
}
