package trust

import (
	"fmt"
	"net"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"homelab/lab"
)

// plain matches names and values that kind may write into the configuration of a node unquoted.
var plain = regexp.MustCompile(`^[A-Za-z0-9._/=-]*$`)

// kindDocument returns what a cluster's kind document asks for.
func kindDocument(c lab.Cluster) []Thing {
	d := document{cluster: c}
	var doc v1alpha4.Cluster
	var node yaml.Node
	if err := yaml.Unmarshal(c.Kind, &node); err != nil || repeats(&node) || len(node.Content) > 0 && node.Decode(&doc) != nil {
		d.add(Patch, "a kind document that cannot be read", everything, "")
		return d.things
	}
	if a := doc.Networking.APIServerAddress; a != "" && !loopback(a) {
		d.add(Listen, "the API server on "+net.JoinHostPort(a, strconv.Itoa(int(doc.Networking.APIServerPort))), reachable, "networking.apiServerAddress")
	}
	for key, words := range map[string][]string{"featureGates": gates(doc.FeatureGates), "runtimeConfig": pairs(doc.RuntimeConfig), "networking.dnsSearch": search(doc.Networking)} {
		d.unquoted(words, key)
	}
	for i, n := range doc.Nodes {
		d.node(n, fmt.Sprintf("nodes[%d]", i))
	}
	d.kubeadm(doc.KubeadmConfigPatches, doc.KubeadmConfigPatchesJSON6902, "")
	for i, p := range doc.ContainerdConfigPatches {
		d.containerd(p, fmt.Sprintf("containerdConfigPatches[%d]", i))
	}
	for i, p := range doc.ContainerdConfigPatchesJSON6902 {
		d.opaque("a JSON patch", p, fmt.Sprintf("containerdConfigPatchesJSON6902[%d]", i))
	}
	return d.things
}

// reachable is what an address beyond loopback gives.
const reachable = "reachable from the network"

// document collects the things of one kind document.
type document struct {
	cluster lab.Cluster
	things  []Thing
}

// add adds a thing at a path below spec.kind, or at its nearest parent with a position.
func (d *document) add(kind Kind, what, gives, at string) *Thing {
	full := "spec.kind"
	if at != "" {
		full += "." + at
	}
	p, ok := d.cluster.Positions[full]
	for !ok && full != "spec" {
		full = full[:max(strings.LastIndexAny(full, ".["), len("spec"))]
		p, ok = d.cluster.Positions[full]
	}
	if !ok {
		p = lab.Position{File: d.cluster.File}
	}
	if strings.ContainsFunc(what, func(r rune) bool { return !unicode.IsPrint(r) }) {
		what = strconv.Quote(what)
	}
	d.things = append(d.things, Thing{At: p, Kind: kind, Cluster: d.cluster.Name, What: what, Gives: gives})
	return &d.things[len(d.things)-1]
}

// opaque adds a patch that lab cannot vouch for.
func (d *document) opaque(what, content, at string) {
	d.add(Patch, fmt.Sprintf("%s (%s)", at, what), everything, at).content = content
}

// unquoted adds words that would end up as text of another meaning in a node's configuration.
func (d *document) unquoted(words []string, at string) {
	for _, w := range words {
		if !plain.MatchString(w) {
			d.opaque(fmt.Sprintf("%.40q is not a name", w), w, at)
		}
	}
}

func (d *document) node(n v1alpha4.Node, at string) {
	if n.Image != "" && !official(n.Image) {
		d.add(Image, n.Image, "it runs as a privileged container: "+everything, at+".image")
	}
	d.unquoted(pairs(n.Labels), at+".labels")
	for i, m := range n.ExtraMounts {
		what, gives := m.HostPath+" at "+m.ContainerPath, "read and write access to its files"
		if m.Readonly {
			what, gives = what+", read-only", "read access to its files"
		}
		if leads(m.HostPath) {
			gives = everything
		}
		if m.Propagation != "" && m.Propagation != v1alpha4.MountPropagationNone {
			what += ", with its mounts"
		}
		d.add(Mount, what, gives, fmt.Sprintf("%s.extraMounts[%d]", at, i))
	}
	for i, p := range n.ExtraPortMappings {
		if p.ListenAddress != "" && !loopback(p.ListenAddress) { // lab replaces kind's default, every address
			what := fmt.Sprintf("%s for port %d", net.JoinHostPort(p.ListenAddress, strconv.Itoa(int(p.HostPort))), p.ContainerPort)
			d.add(Listen, what, reachable, fmt.Sprintf("%s.extraPortMappings[%d].listenAddress", at, i))
		}
	}
	d.kubeadm(n.KubeadmConfigPatches, n.KubeadmConfigPatchesJSON6902, at+".")
}

func (d *document) kubeadm(merges []string, json []v1alpha4.PatchJSON6902, at string) {
	for i, p := range merges {
		if what := unknownKubeadm(p); what != "" {
			d.opaque(what, p, fmt.Sprintf("%skubeadmConfigPatches[%d]", at, i))
		}
	}
	for i, p := range json {
		d.opaque("a JSON patch of "+p.Kind, p.Patch, fmt.Sprintf("%skubeadmConfigPatchesJSON6902[%d]", at, i))
	}
}

// official reports whether a node image is kind's own.
func official(image string) bool {
	name, _, _ := strings.Cut(image, "@")
	name, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, "docker.io/"), "index.docker.io/"), ":")
	return name == "kindest/node"
}

func loopback(address string) bool {
	ip := net.ParseIP(address)
	return ip != nil && ip.IsLoopback()
}

// leads reports whether a path of the machine leads to root's power over it: the whole file system, kernel interfaces, devices, or a container engine's socket.
func leads(host string) bool {
	host = path.Clean("/" + host)
	for _, at := range []string{"/dev", "/proc", "/sys", "/etc", "/root", "/run", "/var/run", "/var/lib/docker", "/var/lib/containerd", "/boot", "/usr", "/bin", "/sbin", "/lib"} {
		if at == host || strings.HasPrefix(host, at+"/") || strings.HasPrefix(at, strings.TrimSuffix(host, "/")+"/") {
			return true
		}
	}
	return strings.HasSuffix(host, ".sock")
}

func gates(m map[string]bool) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}

func pairs(m map[string]string) []string {
	var list []string
	for k, v := range m {
		list = append(list, k, v)
	}
	return list
}

func search(n v1alpha4.Networking) []string {
	if n.DNSSearch == nil {
		return nil
	}
	return *n.DNSSearch
}
