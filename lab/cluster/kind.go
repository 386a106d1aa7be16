// Package cluster creates, observes and deletes the Kubernetes clusters of a lab. Kind runs them as containers on this machine, using sigs.k8s.io/kind
// in-process; Existing attaches clusters that others run.
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

	"golang.org/x/sync/singleflight"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kind "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/log"
)

// networkEnv names the Docker network of kind's nodes. kind has no API for it, so lab sets the variable in its own process; a process serves one lab.
const networkEnv = "KIND_EXPERIMENTAL_DOCKER_NETWORK"

// Labels of kind's node containers.
const (
	kindClusterLabel = "io.x-k8s.kind.cluster"
	kindRoleLabel    = "io.x-k8s.kind.role"

	// Roles of nodes.
	controlPlane = "control-plane"
	loadBalancer = "external-load-balancer" // kind's Envoy in front of several control planes
)

// Host describes limitations of the machine that clusters must be configured for.
type Host struct {
	CgroupV1    bool // the engine uses cgroup v1, which kubelet rejects by default
	NoOOMAdjust bool // the engine may not lower OOM scores (no CAP_SYS_RESOURCE)
}

// Port publishes a port of the cluster's first control-plane node on 127.0.0.1.
type Port struct {
	Host int // 0 means any free port
	Node int
}

// Spec describes a cluster to create.
type Spec struct {
	Cluster lab.Cluster
	NodeRef string // node image, present in the engine; nodes with an image of their own keep it
	// Images returns the images to load into every node. It may block until they are built, while the control plane starts. May be nil.
	Images func(ctx context.Context) ([]lab.Image, error)
	Ports  []Port
	// Registry is the lab's; its host is empty without one. Introduce configures the nodes for it.
	Registry lab.Registry
}

// Kind runs a lab's clusters as containers. It is safe for concurrent use on different clusters.
type Kind struct {
	lab    string
	dir    string // of kubeconfigs
	state  *state.Dir
	docker *docker.Docker
	host   Host
	seeds  singleflight.Group
}

// NewKind returns the clusters of the lab of dir, which holds their kubeconfigs and records.
func NewKind(dir *state.Dir, d *docker.Docker, host Host) *Kind {
	return &Kind{lab: dir.Lab, dir: dir.Kubeconfigs(), state: dir, docker: d, host: host}
}

// Kubeconfig returns the path of a cluster's kubeconfig.
func (k *Kind) Kubeconfig(name string) string { return filepath.Join(k.dir, name+".yaml") }

// RESTConfig returns the client configuration of a cluster.
func (k *Kind) RESTConfig(name string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", k.Kubeconfig(name))
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of cluster %s: %w", name, err)
	}
	cfg.QPS, cfg.Burst = -1, -1 // a single local user: the server's own fairness suffices
	cfg.UserAgent = "lab"
	return cfg, nil
}

// HostPort returns the host address of a node port published through Spec.Ports, as the engine reports it ("127.0.0.1:31080").
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

// nodes returns the containers of one cluster in start order: control planes, load balancer, workers.
func (k *Kind) nodes(ctx context.Context, name string) ([]docker.Container, error) {
	return k.ownNodes(ctx, "="+lab.KindName(k.lab, name))
}

// ownNodes returns kind's containers created for the lab's network, connected or not; with which as "=NAME", those of one cluster.
func (k *Kind) ownNodes(ctx context.Context, which string) ([]docker.Container, error) {
	list, err := k.docker.Containers(ctx, "label="+kindClusterLabel+which)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(c docker.Container) bool { return !k.owns(c) })
	sortNodes(list)
	return list, nil
}

// owns reports whether a container is this lab's, by the network that it was created for or is in.
func (k *Kind) owns(c docker.Container) bool {
	_, connected := c.Addresses[lab.NetworkName(k.lab)]
	return connected || c.Network == lab.NetworkName(k.lab)
}

func sortNodes(list []docker.Container) {
	rank := func(c docker.Container) int {
		return slices.Index([]string{controlPlane, loadBalancer, "worker"}, c.Labels[kindRoleLabel])
	}
	slices.SortFunc(list, func(a, b docker.Container) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
}

// provider returns kind's provider on the engine of the docker command line.
func (k *Kind) provider(logger log.Logger) (*kind.Provider, error) {
	if err := os.Setenv(networkEnv, lab.NetworkName(k.lab)); err != nil {
		return nil, err
	}
	if err := wrapped(docker.Wrapper); err != nil {
		return nil, err
	}
	return kind.NewProvider(kind.ProviderWithDocker(), kind.ProviderWithLogger(logger)), nil
}

// Inputs returns the digest of a cluster's inputs; a change requires recreation. The host ports chosen by lab are excluded.
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

// ImagesDigest returns a digest of a set of images, independent of order.
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
	if err != nil { // only strings and numbers
		panic(err)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// wrapped puts the docker command of lab doctor --fix, if there is one, first on this process's PATH. kind has no option for a container's runtime, but runs
// the command on PATH: https://github.com/kubernetes-sigs/kind/blob/v0.33.0/pkg/cluster/internal/providers/docker/provision.go
func wrapped(command string) error {
	dir, path := filepath.Dir(command), os.Getenv("PATH")
	if _, err := os.Stat(command); err != nil || strings.HasPrefix(path, dir+string(os.PathListSeparator)) {
		return nil
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+path)
}
