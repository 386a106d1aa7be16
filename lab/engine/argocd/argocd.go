// Package argocd implements the engine interfaces with Argo CD: it installs it on a lab's hub, registers clusters, repositories and the root application, and
// watches Applications.
package argocd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/engine"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/workload"
)

// Namespace is the default namespace of Argo CD and its configuration.
const Namespace = argo.Namespace

// InCluster is the server URL of the hub's own registration.
const InCluster = "https://kubernetes.default.svc"

const (
	releaseName = "argocd"

	readyWithin  = 5 * time.Minute  // Argo CD serves 20 s after its objects exist; a slow registry takes its time
	removeWithin = 90 * time.Second // cascading deletion of one cluster's applications
)

var (
	applications    = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	applicationSets = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applicationsets"}
	appProjects     = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "appprojects"}
	namespaces      = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets         = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	roleBindings    = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
)

// ArgoCD is the engine of one lab. It is safe for concurrent use.
type ArgoCD struct {
	lab       string
	namespace string
	hub       kube.Clients
	connect   func(*rest.Config) (kube.Clients, error)
	release   releaser
	// reach connects to a cluster to include pod states in errors; nil disables that.
	reach func(cluster string) (*rest.Config, error)
	// chartVersion returns the version of a chart in the estate by its path; may be nil.
	// attached reports whether lab attached a cluster; nil means none is.
	attached     func(cluster string) bool
	chartVersion func(path string) string
	names        aliases
}

// releaser manages a Helm release.
type releaser interface {
	Observe(ctx context.Context, name string) (helm.State, error)
	Ensure(ctx context.Context, want helm.Release, p lab.Progress) (helm.Result, error)
	Remove(ctx context.Context, name string) error
}

// Option configures an ArgoCD.
type Option func(*ArgoCD)

// WithReach includes the states of pods in errors, read through reach.
func WithReach(reach func(cluster string) (*rest.Config, error)) Option {
	return func(a *ArgoCD) { a.reach = reach }
}

// WithNamespace sets Argo CD's namespace.
func WithNamespace(name string) Option { return func(a *ArgoCD) { a.namespace = name } }

// WithAttached sets the lookup of whether lab attached a cluster, which may have an Argo CD of its owner's.
func WithAttached(attached func(cluster string) bool) Option {
	return func(a *ArgoCD) { a.attached = attached }
}

// WithChartVersion sets the lookup of versions of charts in the estate by folder ("charts/identity"); it returns "" for other folders.
func WithChartVersion(version func(path string) string) Option {
	return func(a *ArgoCD) { a.chartVersion = version }
}

// New returns the engine of a lab's hub. It connects lazily.
func New(labName string, hub *rest.Config, options ...Option) (*ArgoCD, error) {
	c, err := kube.Connect(hub)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	a := &ArgoCD{lab: labName, namespace: Namespace, hub: c, connect: kube.Connect}
	for _, o := range options {
		o(a)
	}
	if a.release, err = helm.New(hub, a.namespace); err != nil {
		return nil, err
	}
	return a, nil
}

// Observe observes the engine and its registrations. In a terminating namespace, nothing counts as installed.
func (a *ArgoCD) Observe(ctx context.Context) (engine.State, error) {
	if seen, err := kube.ObserveNamespace(ctx, a.hub.Dynamic, a.namespace); seen != kube.There || err != nil {
		return engine.State{}, err
	}
	rel, err := a.release.Observe(ctx, releaseName)
	if err != nil {
		return engine.State{}, err
	}
	s := engine.State{Release: rel.Status, Revision: rel.Revision, Version: rel.App, Inputs: rel.Inputs}
	if rel.Revision > 0 {
		waiting, err := workload.Waiting(ctx, a.hub.Typed, a.namespace, rel.Workloads)
		if err != nil {
			return engine.State{}, err
		}
		s.Ready, s.Waiting = waiting == "", short(waiting)
		for _, own := range []struct { // not part of the release
			resource   schema.GroupVersionResource
			kind, name string
		}{{secrets, "secret", redisSecret}, {appProjects, "appproject", defaultProject}} {
			has, err := a.has(ctx, own.resource, own.name)
			if err != nil {
				return engine.State{}, err
			}
			if !has {
				rel.Missing = append(rel.Missing, own.kind+" "+own.name)
			}
		}
		if len(rel.Missing) > 0 {
			s.Ready, s.Waiting = false, rel.Missing[0]+" is gone"
		}
	}
	s.Registrations, err = a.registrations(ctx)
	return s, err
}

// Inputs returns the digest recorded by Install, with which a plan detects upgrades.
func Inputs(chart lab.Chart, values map[string]any) (string, error) {
	return helm.Inputs(chart, values)
}

// installation is the id that distinguishes the lab's Argo CD from another one that syncs to the same cluster.
func installation(labName string) string { return "lab-" + labName }

func (a *ArgoCD) installation() string { return installation(a.lab) }

// short removes the common prefix of Argo CD's workloads.
func short(sentence string) string { return strings.ReplaceAll(sentence, "argocd-", "") }

// labels returns the labels of objects that lab creates.
func (a *ArgoCD) labels(part string) map[string]any {
	return map[string]any{lab.LabelName: a.lab, lab.LabelPart: part}
}
