package document

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"homelab/lab"
	"homelab/lab/strict"
)

const kindAPIVersion = "kind.x-k8s.io/v1alpha4"

// kind strictly reads spec.kind: Kind's Cluster document, with optional apiVersion and kind. Its name is ignored, so
// that existing documents can be pasted: lab names the cluster.
//
// Kind's validation is internal (pkg/internal/apis/config) and has no positions, so it is repeated here.
func (r *reader) kind(c *lab.Cluster, dir string) func(*yaml.Node, string) {
	return func(n *yaml.Node, at string) {
		before := len(r.Problems)
		r.typed(n, reflect.TypeFor[v1alpha4.Cluster](), at)
		if len(r.Problems) > before {
			return // no validation after decoding errors
		}
		var doc v1alpha4.Cluster
		if err := n.Decode(&doc); err != nil {
			r.Fail(n, at+": "+strings.TrimPrefix(err.Error(), "yaml: "), "")
			return
		}
		k := kindCheck{reader: r, root: n, doc: &doc, dir: dir}
		k.run()
		doc.TypeMeta = v1alpha4.TypeMeta{APIVersion: kindAPIVersion, Kind: "Cluster"}
		doc.Name = ""
		c.ControlPlanes, c.Workers = k.count()
		// Encode the decoded document, so that comments and the order of keys do not matter.
		canonical, err := yaml.Marshal(doc)
		if err != nil {
			r.Fail(n, at+": "+err.Error(), "")
			return
		}
		c.Kind = canonical
	}
}

// typed checks n against a Go type with yaml tags, like a strict decoder, but continues after problems.
func (r *reader) typed(n *yaml.Node, t reflect.Type, at string) {
	if strict.IsNull(n) {
		return
	}
	r.At[at] = strict.Position(r.File, n)
	switch t.Kind() {
	case reflect.Pointer:
		r.typed(n, t.Elem(), at)
	case reflect.Struct:
		r.typedStruct(n, t, at)
	case reflect.Map:
		r.each(n, at, func(_ string, n *yaml.Node, at string) { r.typed(n, t.Elem(), at) })
	case reflect.Slice:
		r.items(n, at, func(n *yaml.Node, at string) { r.typed(n, t.Elem(), at) })
	default:
		want := map[reflect.Kind]string{reflect.String: "text", reflect.Bool: "true or false"}[t.Kind()]
		if want == "" {
			want = "a whole number"
		}
		if n.Kind != yaml.ScalarNode || n.Decode(reflect.New(t).Interface()) != nil {
			r.Wrong(n, at, want)
		}
	}
}

func (r *reader) typedStruct(n *yaml.Node, t reflect.Type, at string) {
	before := len(r.Problems)
	r.mapping(n, at, r.structEntries(t)...)
	if len(r.Problems) > before {
		return
	}
	// Some of Kind's types decode themselves and may reject values: MountPropagation, PortMappingProtocol.
	if _, ok := reflect.New(t).Interface().(interface {
		UnmarshalYAML(func(any) error) error
	}); ok {
		if err := n.Decode(reflect.New(t).Interface()); err != nil {
			r.Fail(n, at+": "+strings.TrimPrefix(err.Error(), "yaml: "), "")
		}
	}
}

func (r *reader) structEntries(t reflect.Type) []entry {
	var entries []entry
	for i := range t.NumField() {
		f := t.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if options == "inline" {
			entries = append(entries, r.structEntries(f.Type)...)
			continue
		}
		entries = append(entries, entry{key, func(n *yaml.Node, at string) { r.typed(n, f.Type, at) }})
	}
	return entries
}

// kindCheck repeats Kind's Validate with positions, and adds lab's rules.
type kindCheck struct {
	*reader
	root *yaml.Node
	doc  *v1alpha4.Cluster
	dir  string
}

// fail reports a problem at a path below spec.kind, or its nearest existing parent.
func (k *kindCheck) fail(message, cure string, path ...any) {
	for len(path) > 0 && strict.Get(k.root, path...) == nil {
		path = path[:len(path)-1]
	}
	k.reader.Fail(strict.Get(k.root, path...), message, cure)
}

func (k *kindCheck) run() {
	if v := k.doc.APIVersion; v != "" && v != kindAPIVersion {
		k.fail(fmt.Sprintf("spec.kind.apiVersion cannot be %q", v), kindAPIVersion, "apiVersion")
	}
	if v := k.doc.Kind; v != "" && v != "Cluster" {
		k.fail(fmt.Sprintf("spec.kind.kind cannot be %q", v), "Cluster", "kind")
	}
	if cp, _ := k.count(); cp == 0 {
		k.fail("no node is a control plane", "one node has role: control-plane", "nodes")
	}
	k.networking()
	for i := range k.doc.Nodes {
		k.node(i)
	}
}

// Nodes returns the labels of the nodes of a cluster that run pods; nil if they are unknown.
func Nodes(c lab.Cluster) []map[string]string {
	var doc v1alpha4.Cluster
	if err := yaml.Unmarshal(c.Kind, &doc); err != nil || c.Provider != lab.ProviderKind || len(doc.KubeadmConfigPatches)+len(doc.KubeadmConfigPatchesJSON6902) > 0 {
		return nil
	}
	if len(doc.Nodes) == 0 {
		doc.Nodes = []v1alpha4.Node{{}}
	}
	var list []map[string]string
	for i, n := range doc.Nodes {
		if len(n.KubeadmConfigPatches)+len(n.KubeadmConfigPatchesJSON6902) > 0 {
			return nil
		}
		if c.Workers > 0 && n.Role != v1alpha4.WorkerRole {
			continue
		}
		labels := map[string]string{
			corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH, "beta." + corev1.LabelOSStable: "linux", "beta." + corev1.LabelArchStable: runtime.GOARCH,
			corev1.LabelHostname: fmt.Sprintf("node %d of the lab", i+1),
		}
		if n.Role != v1alpha4.WorkerRole {
			labels["node-role.kubernetes.io/control-plane"] = ""
		}
		maps.Copy(labels, n.Labels)
		list = append(list, labels)
	}
	return list
}

func (k *kindCheck) count() (controlPlanes, workers int) {
	for _, n := range k.doc.Nodes {
		if n.Role == v1alpha4.WorkerRole {
			workers++
		} else {
			controlPlanes++
		}
	}
	if len(k.doc.Nodes) == 0 {
		controlPlanes = 1
	}
	return controlPlanes, workers
}

func (k *kindCheck) networking() {
	n := k.doc.Networking
	families := []v1alpha4.ClusterIPFamily{"", v1alpha4.IPv4Family, v1alpha4.IPv6Family, v1alpha4.DualStackFamily}
	if !slices.Contains(families, n.IPFamily) {
		k.fail(fmt.Sprintf("no IP family %q", n.IPFamily), "ipv4, ipv6 or dual", "networking", "ipFamily")
	}
	modes := []v1alpha4.ProxyMode{"", "none", v1alpha4.IPTablesProxyMode, v1alpha4.IPVSProxyMode, v1alpha4.NFTablesProxyMode}
	if !slices.Contains(modes, n.KubeProxyMode) {
		k.fail(fmt.Sprintf("no kube-proxy mode %q", n.KubeProxyMode), "iptables, ipvs, nftables or none", "networking", "kubeProxyMode")
	}
	if n.APIServerPort < -1 || n.APIServerPort > 65535 {
		k.fail(fmt.Sprintf("no port %d", n.APIServerPort), "0 to 65535", "networking", "apiServerPort")
	}
	if n.APIServerAddress != "" && net.ParseIP(n.APIServerAddress) == nil {
		k.fail(fmt.Sprintf("%q is not an IP address", n.APIServerAddress), "127.0.0.1 is the default", "networking", "apiServerAddress")
	}
	k.subnet("podSubnet", n.PodSubnet)
	k.subnet("serviceSubnet", n.ServiceSubnet)
}

func (k *kindCheck) subnet(key, value string) {
	if value == "" {
		return
	}
	family := k.doc.Networking.IPFamily
	parts := strings.Split(value, ",")
	var v4, v6 int
	for _, p := range parts {
		ip, _, err := net.ParseCIDR(p)
		switch {
		case err != nil:
			k.fail(fmt.Sprintf("%q is not a subnet", p), "such as 10.244.0.0/16", "networking", key)
			return
		case ip.To4() != nil:
			v4++
		default:
			v6++
		}
	}
	if dual := family == v1alpha4.DualStackFamily; !dual && len(parts) > 1 || dual && (v4 > 1 || v6 > 1) ||
		(family == v1alpha4.IPv4Family || family == "") && v6 > 0 || family == v1alpha4.IPv6Family && v4 > 0 {
		k.fail(fmt.Sprintf("subnets %s do not suit the IP family", value), "one, or one of each family for ipFamily: dual", "networking", key)
	}
}

func (k *kindCheck) node(i int) {
	n := &k.doc.Nodes[i]
	if n.Role != "" && n.Role != v1alpha4.ControlPlaneRole && n.Role != v1alpha4.WorkerRole {
		k.fail(fmt.Sprintf("no node role %q", n.Role), "control-plane or worker", "nodes", i, "role")
	}
	for j := range n.ExtraPortMappings {
		m := &n.ExtraPortMappings[j]
		for key, port := range map[string]int32{"hostPort": m.HostPort, "containerPort": m.ContainerPort} {
			if port < -1 || port > 65535 {
				k.fail(fmt.Sprintf("no port %d", port), "0 to 65535", "nodes", i, "extraPortMappings", j, key)
			}
		}
		if m.ListenAddress == "" {
			m.ListenAddress = "127.0.0.1" // Kind's default is every address of the machine
		}
		if net.ParseIP(m.ListenAddress) == nil {
			k.fail(fmt.Sprintf("%q is not an IP address", m.ListenAddress), "", "nodes", i, "extraPortMappings", j, "listenAddress")
		}
	}
	for j := range n.ExtraMounts {
		k.mount(&n.ExtraMounts[j], "nodes", i, "extraMounts", j)
	}
}

// mount resolves a relative host path against the estate's folder and keeps it inside.
func (k *kindCheck) mount(m *v1alpha4.Mount, path ...any) {
	if filepath.IsAbs(m.HostPath) {
		return
	}
	path = append(path, "hostPath")
	switch {
	case m.HostPath == "":
		k.fail("a mount without hostPath", "", path...)
	case !filepath.IsLocal(m.HostPath):
		k.fail(fmt.Sprintf("path %s leaves the repository", m.HostPath), "write an absolute path, or one within it", path...)
	case k.dir == "":
		k.fail(fmt.Sprintf("path %s needs an estate on disk", m.HostPath), "lab init DIR writes it out", path...)
	default:
		m.HostPath = filepath.Join(k.dir, m.HostPath)
	}
}
