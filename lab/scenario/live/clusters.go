package live

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"homelab/lab/docker"
	"homelab/lab/scenario"
)

// Clusters accesses the Kind clusters of a lab.
type Clusters struct {
	lab    string
	docker *docker.Docker
	config func(cluster string) (*rest.Config, error)

	mu        sync.Mutex
	clients   map[string]scenario.Client
	addresses map[string]string // of nodes before a partition
}

// NewClusters returns Clusters that creates clients on first use.
func NewClusters(labName string, d *docker.Docker, config func(cluster string) (*rest.Config, error)) *Clusters {
	return &Clusters{lab: labName, docker: d, config: config, clients: map[string]scenario.Client{}, addresses: map[string]string{}}
}

// Client returns the client of a cluster.
func (c *Clusters) Client(cluster string) (scenario.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, ok := c.clients[cluster]; ok {
		return client, nil
	}
	cfg, err := c.config(cluster)
	if err != nil {
		return scenario.Client{}, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // no rate limit: few requests, and their latency is measured
	cfg.WarningHandler = rest.NoWarnings{}
	cfg.UserAgent = "lab"
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return scenario.Client{}, fmt.Errorf("cluster %s: %w", cluster, err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return scenario.Client{}, fmt.Errorf("cluster %s: %w", cluster, err)
	}
	core, err := typed.NewForConfig(cfg)
	if err != nil {
		return scenario.Client{}, fmt.Errorf("cluster %s: %w", cluster, err)
	}
	client := scenario.Client{
		Dynamic: d, Mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco)),
		Logs: func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) ([]byte, error) {
			return core.Pods(namespace).GetLogs(pod, o).DoRaw(ctx)
		},
	}
	c.clients[cluster] = client
	return client, nil
}

// kindCluster is Kind's label for the nodes of a cluster.
const kindCluster = "io.x-k8s.kind.cluster"

// Pause pauses a cluster's node containers.
func (c *Clusters) Pause(ctx context.Context, cluster string) error {
	return c.nodes(ctx, cluster, "pause", func(n docker.Container) bool { return n.Status == "running" })
}

// Resume unpauses a cluster's node containers.
func (c *Clusters) Resume(ctx context.Context, cluster string) error {
	return c.nodes(ctx, cluster, "unpause", func(n docker.Container) bool { return n.Status == "paused" })
}

func (c *Clusters) nodes(ctx context.Context, cluster, command string, which func(docker.Container) bool) error {
	list, err := c.machines(ctx, cluster)
	if err != nil {
		return err
	}
	args := []string{command}
	for _, n := range list {
		if which(n) {
			args = append(args, n.Name)
		}
	}
	if len(args) == 1 {
		return nil
	}
	return c.output(ctx, cluster, args...)
}
