// Package cluster makes, watches and removes the Kubernetes clusters of a lab. Kind is the provider that runs them as containers on this machine, through
// sigs.k8s.io/kind in-process.
package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/state"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kind "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/log"
)

// networkEnv names the Docker network that kind puts its nodes into. kind has no API for it, so lab
// sets the variable in its own process; a process serves one lab.
const networkEnv = "KIND_EXPERIMENTAL_DOCKER_NETWORK"

// Labels that kind gives to its node containers.
const (
	kindClusterLabel = "io.x-k8s.kind.cluster"
	kindRoleLabel    = "io.x-k8s.kind.role"

	loadBalancer = "external-load-balancer" // a role: kind's Envoy in front of several control planes
)

// Host is what the machine lacks and clusters on it must be told about.
type Host struct {
	CgroupV1    bool // the engine runs on cgroup v1, which kubelet refuses unless told otherwise
	NoOOMAdjust bool // the engine may not lower OOM scores (no CAP_SYS_RESOURCE)
}

// Port publishes a port of the cluster's first control-plane node on 127.0.0.1.
type Port struct {
	Host int // 0 lets kind choose a free one
	Node int
}

// Spec is what a cluster is made of.
type Spec struct {
	Cluster lab.Cluster
	NodeRef string // node image, at hand in the engine; nodes that name an image of their own keep it
	// Images returns what is loaded into every node; it may block until the archives are at hand, while the control plane starts. May be nil.
	Images func(ctx context.Context) ([]lab.Image, error)
	Ports  []Port
}

// Kind runs a lab's clusters as containers. Its methods may be called for different clusters at the same time.
type Kind struct {
	lab    string
	dir    string // of kubeconfigs
	state  *state.Dir
	docker *docker.Docker
	host   Host
}

// NewKind returns the clusters of the lab that dir belongs to. Their kubeconfigs and lab's record of them are kept there.
func NewKind(dir *state.Dir, d *docker.Docker, host Host) *Kind {
	return &Kind{lab: dir.Lab, dir: dir.Kubeconfigs(), state: dir, docker: d, host: host}
}

// Kubeconfig is the path of a cluster's own kubeconfig.
func (k *Kind) Kubeconfig(name string) string { return filepath.Join(k.dir, name+".yaml") }

// RESTConfig is how to reach a cluster from this machine.
func (k *Kind) RESTConfig(name string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", k.Kubeconfig(name))
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of cluster %s: %w", name, err)
	}
	cfg.QPS, cfg.Burst = -1, -1 // one person on one machine: the server's own fairness is limit enough
	cfg.UserAgent = "lab"
	return cfg, nil
}

// HostPort is where a node port that was asked for by Spec.Ports listens on this machine, as the engine has it ("127.0.0.1:31080").
func (k *Kind) HostPort(ctx context.Context, name string, nodePort int) (string, error) {
	nodes, err := k.nodes(ctx, name)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		if at, ok := n.Published[fmt.Sprintf("%d/tcp", nodePort)]; ok {
			return at, nil
		}
	}
	return "", fmt.Errorf("cluster %s publishes no port %d", name, nodePort)
}

// nodes are the containers of one cluster, in the order in which they start: control planes, load balancer, workers.
func (k *Kind) nodes(ctx context.Context, name string) ([]docker.Container, error) {
	return k.ownNodes(ctx, "="+lab.KindName(k.lab, name))
}

// ownNodes are kind's containers that were made for the lab's network, be they connected to it or cut off; of one cluster where which is "=NAME".
func (k *Kind) ownNodes(ctx context.Context, which string) ([]docker.Container, error) {
	list, err := k.docker.Containers(ctx, "label="+kindClusterLabel+which)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(c docker.Container) bool { return !k.made(c) })
	sortNodes(list)
	return list, nil
}

// made reports whether a container is this lab's, by the network that it was made for or is in.
func (k *Kind) made(c docker.Container) bool {
	_, connected := c.Addresses[lab.NetworkName(k.lab)]
	return connected || c.Network == lab.NetworkName(k.lab)
}

func sortNodes(list []docker.Container) {
	rank := func(c docker.Container) int {
		return slices.Index([]string{"control-plane", loadBalancer, "worker"}, c.Labels[kindRoleLabel])
	}
	slices.SortFunc(list, func(a, b docker.Container) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
}

// provider is kind itself, on the same engine that the docker command line speaks to.
func (k *Kind) provider(logger log.Logger) (*kind.Provider, error) {
	if err := os.Setenv(networkEnv, lab.NetworkName(k.lab)); err != nil {
		return nil, err
	}
	return kind.NewProvider(kind.ProviderWithDocker(), kind.ProviderWithLogger(logger)), nil
}

// Inputs is a digest of what a cluster is made from; a cluster whose mark differs has to be made again. The numbers of lab's own host ports are left out, as
// they are chosen freely: HostPort tells what they are.
func Inputs(spec Spec) string {
	in := struct {
		Node  string
		Kind  string
		Ports []int
	}{Node: spec.NodeRef, Kind: strings.TrimSpace(string(spec.Cluster.Kind))}
	for _, p := range spec.Ports {
		in.Ports = append(in.Ports, p.Node)
	}
	return digest(in)
}

// ImagesDigest is a digest of a set of images, whatever its order.
func ImagesDigest(images []lab.Image) string {
	refs := make([]string, 0, len(images))
	for _, i := range images {
		refs = append(refs, i.Ref+"@"+i.Digest)
	}
	slices.Sort(refs)
	return digest(slices.Compact(refs))
}

func digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // strings and numbers alone
		panic(err)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
