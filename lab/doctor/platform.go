package doctor

import (
	"net/url"
	"os"
	"slices"
	"strings"
)

// support is what is known about an engine or a system. docs/platforms.md is the same table, with reasons.
type support string

const (
	supported support = "supported"
	untested  support = "untested"
	refusedBy support = "refused"
)

// platform is a kind of container engine, recognised by its address.
type platform struct {
	name    string
	support support
	machine bool   // it runs in a virtual machine of its own
	why     string // of refused and untested, at most 40 columns
	start   string // how to start it if it does not answer
	is      func(endpoint string, options []string) bool
}

// platforms returns the kinds of engines, the most specific first. The last one is any.
func platforms() []platform {
	in := func(parts ...string) func(string, []string) bool {
		return func(endpoint string, _ []string) bool {
			return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(endpoint, part) })
		}
	}
	return []platform{
		{name: "remote engine", support: refusedBy, why: "its ports would be on that machine", start: "use an engine on this machine: " + otherEngine(), is: remote},
		{name: "podman", support: refusedBy, why: "kind uses the podman command for it", start: "use docker's engine: " + otherEngine(), is: in("podman")},
		{name: "Docker Desktop", support: untested, machine: true, why: "its machine is not checked", start: "start Docker Desktop", is: in("/.docker/desktop/", "/.docker/run/", "dockerDesktop", "docker_engine")},
		{name: "Colima", support: untested, machine: true, why: "its machine is not checked", start: "colima start", is: in("/.colima/", "/colima/")},
		{name: "OrbStack", support: untested, machine: true, why: "its machine is not checked", start: "start OrbStack", is: in("/.orbstack/")},
		{name: "Rancher Desktop", support: untested, machine: true, why: "its machine is not checked", start: "start Rancher Desktop", is: in("/.rd/")},
		{
			name: "rootless docker", support: untested, why: "kind needs delegated cgroups v2", start: "systemctl --user start docker",
			is: func(endpoint string, options []string) bool {
				return slices.Contains(options, "name=rootless") || strings.HasPrefix(endpoint, "unix:///run/user/")
			},
		},
		{name: "docker", support: supported, start: "start it, or choose another: docker context ls", is: func(string, []string) bool { return true }},
	}
}

func platformOf(s seen) platform {
	list := platforms()
	return list[slices.IndexFunc(list, func(p platform) bool { return p.is(s.endpoint, s.info.SecurityOptions) })]
}

// remote reports whether an address is certainly another machine's.
func remote(endpoint string, _ []string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && (u.Scheme == "ssh" || u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "tcp") && !localEndpoint(endpoint)
}

// otherEngine is how to leave the selected engine.
func otherEngine() string {
	switch {
	case os.Getenv("DOCKER_HOST") != "":
		return "unset DOCKER_HOST"
	case os.Getenv("DOCKER_CONTEXT") != "":
		return "unset DOCKER_CONTEXT"
	}
	return "docker context use default"
}

// platform reports whether lab is known to work with the system and the engine, whether or not it answers.
func (d *Doctor) platform(s seen) Check {
	c := Check{ID: CheckPlatform, Title: "platform"}
	p := platformOf(s)
	name := p.name
	if d.o.Host.OS == "darwin" {
		name += " on macOS"
	}
	switch {
	case d.o.Host.OS == "windows":
		return c.fail("refused: lab runs no clusters from Windows itself", "run it in WSL 2: wsl --install", false)
	case p.support == refusedBy:
		return c.fail("refused: "+p.name+": "+p.why, p.start, false)
	case s.err == nil && s.info.OSType == "windows":
		return c.fail("refused: the engine runs Windows containers", "switch it to Linux containers", false)
	case s.err == nil && s.info.Architecture != "" && !slices.Contains([]string{"x86_64", "amd64"}, s.info.Architecture):
		return c.warn("untested: an engine on "+s.info.Architecture, "", false)
	case p.support == untested:
		return c.warn("untested: "+name+": "+p.why, "", false)
	case d.o.Host.OS != "linux":
		return c.warn("untested: "+name, "", false)
	case s.err != nil:
		return c.skip("not checked: no engine responds")
	}
	return c.ok(name + " on Linux")
}
