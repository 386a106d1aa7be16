// Package flux implements the engine interfaces with Flux.
//
// One Flux, on the hub, manages all clusters. Each has a namespace on the hub with the Secret of its kubeconfig, the bridge's ConfigMap, and its Kustomizations and
// HelmReleases from Git. An application of lab is a Kustomization in it.
package flux

import (
	"context"
	"fmt"
	"strings"
	"time"

	notificationv1 "github.com/fluxcd/notification-controller/api/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/workload"
)

// InCluster is the server of the hub's own registration.
const InCluster = "https://kubernetes.default.svc"

const (
	releaseName = "flux"

	readyWithin = 5 * time.Minute
)

var (
	kustomizations   = reconciliation.Kustomizations
	helmReleases     = reconciliation.HelmReleases
	gitRepositories  = reconciliation.GitRepositories
	helmRepositories = reconciliation.HelmRepositories
	helmCharts       = reconciliation.HelmCharts
	receivers        = notificationv1.GroupVersion.WithResource("receivers")
)

// Flux is the engine of one lab. It is safe for concurrent use.
type Flux struct {
	lab       string
	namespace string
	cluster   string                    // that it runs on
	home      string                    // cluster, if it manages that alone; empty if it is the hub's for all
	attached  bool                      // its cluster may have another Flux, of its owner's
	guest     func(cluster string) bool // whether lab attached a cluster; nil means none is
	hub       kube.Clients
	connect   func(*rest.Config) (kube.Clients, error)
	release   releaser
	reach     func(cluster string) (*rest.Config, error) // nil if no cluster is reachable
}

// releaser manages a Helm release.
type releaser interface {
	Observe(ctx context.Context, name string) (helm.State, error)
	Ensure(ctx context.Context, want helm.Release, p lab.Progress) (helm.Result, error)
	Remove(ctx context.Context, name string) error
}

// New returns the engine of a lab's hub, in a namespace. It connects lazily.
func New(h engine.Hub, namespace string) (*Flux, error) {
	c, err := kube.Connect(h.Config)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	release, err := helm.New(h.Config, namespace)
	if err != nil {
		return nil, err
	}
	return &Flux{
		lab: h.Lab, cluster: h.Cluster, attached: h.Guest(h.Cluster), guest: h.Guest,
		namespace: namespace, hub: c, connect: kube.Connect, release: release, reach: h.Reach,
	}, nil
}

// labels returns the labels of objects that lab creates.
func (f *Flux) labels(part string) map[string]any {
	return map[string]any{lab.LabelName: f.lab, lab.LabelPart: part}
}

// Observe observes the engine and its registrations.
func (f *Flux) Observe(ctx context.Context) (engine.State, error) {
	known, err := f.registrations(ctx) // they have their own namespaces
	if err != nil {
		return engine.State{}, err
	}
	if seen, err := kube.ObserveNamespace(ctx, f.hub.Dynamic, f.namespace); seen != kube.There || err != nil {
		return engine.State{Registrations: known}, err
	}
	rel, err := f.release.Observe(ctx, releaseName)
	if err != nil {
		return engine.State{}, err
	}
	s := engine.State{Registrations: known, Release: rel.Status, Revision: rel.Revision, Version: rel.App, Inputs: rel.Inputs}
	if rel.Revision > 0 {
		waiting, err := workload.Waiting(ctx, f.hub.Typed, f.namespace, rel.Workloads)
		if err != nil {
			return engine.State{}, err
		}
		s.Ready, s.Waiting = waiting == "", short(waiting)
		if len(rel.Missing) > 0 {
			s.Ready, s.Waiting = false, rel.Missing[0]+" is gone"
		}
	}
	return s, nil
}

// short drops the common suffix of Flux's workloads.
func short(sentence string) string { return strings.ReplaceAll(sentence, "-controller", "") }
