// Package registry is the lab's registry for images and charts: CNCF Distribution in a container, and a client of it.
package registry

import (
	"fmt"
	"strconv"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/service"
)

// Component is the component of its image, Name the name of the part and its host name in the lab's network.
const (
	Component = "registry"
	Name      = "registry"
	Port      = lab.RegistryPort // in the container, and preferred on this machine
)

const (
	dataDir = "/var/lib/registry"
	config  = "/etc/distribution/config.yml"
	logins  = "/etc/distribution/htpasswd"
	account = 1000 // uid and gid that it runs with
)

// Credentials are those of its only user. Hash is the password's, by bcrypt.
type Credentials struct{ User, Password, Hash string }

// Of returns how the nodes and the engine of a lab reach its registry.
func Of(c Credentials) lab.Registry {
	return lab.Registry{Host: Name + ":" + strconv.Itoa(Port), User: c.User, Password: c.Password}
}

// Service returns the registry's container. It keeps its content in a volume and needs no access to anything else.
func Service(labName string, d *docker.Docker, ports service.Ports, c Credentials) *service.Service {
	return service.New(labName, d, ports, service.Spec{
		Name: Name, Command: []string{"/bin/registry", "serve", config}, User: fmt.Sprintf("%d:%[1]d", account),
		Env: map[string]string{"OTEL_TRACES_EXPORTER": "none"}, // it would send traces
		Files: []service.File{
			{Path: config, Data: []byte(settings), Owner: account},
			{Path: logins, Data: []byte(c.User + ":" + c.Hash + "\n"), Owner: account},
			{Path: dataDir + "/data/", Owner: account},
		},
		Volume: dataDir, Ports: []service.Port{{Container: Port, Prefer: Port}},
		Memory: 512 << 20, Processes: 256, CPUs: 2, Health: service.Get(Port, "/v2/", c.User, c.Password),
	})
}

// Cache returns the container of a part that caches a registry, see lab.Upstream. It is not published on this machine, and needs no
// credentials: it has what anybody may pull. Distribution asks the registry as it starts, and ends if it does not answer; docker starts it again.
func Cache(labName string, d *docker.Docker, ports service.Ports, part, url string) *service.Service {
	return service.New(labName, d, ports, service.Spec{
		Name: part, Command: []string{"/bin/registry", "serve", config}, User: fmt.Sprintf("%d:%[1]d", account),
		Env: map[string]string{"OTEL_TRACES_EXPORTER": "none"},
		Files: []service.File{
			{Path: config, Data: []byte(storage + "http: {addr: \":5000\"}\nproxy: {remoteurl: " + url + "}\n"), Owner: account},
			{Path: dataDir + "/data/", Owner: account},
		},
		Volume: dataDir, Memory: 512 << 20, Processes: 256, CPUs: 2,
	})
}

const storage = `version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: ` + dataDir + `/data}
  delete: {enabled: true}
`

// settings are the registry's. Without a secret of its own, uploads end when it restarts, which clients retry.
const settings = storage + `http: {addr: ":5000"}
auth:
  htpasswd: {realm: lab, path: ` + logins + `}
`
