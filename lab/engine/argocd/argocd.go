// Package argocd drives Argo CD on a lab's hub: installs it, tells it of clusters, repositories and the root application, and watches what it makes of them.
package argocd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/workload"
)

// Namespace is where Argo CD and everything it reads live, unless an estate says otherwise.
const Namespace = "argocd"

// InCluster is the server of the hub's own registration.
const InCluster = "https://kubernetes.default.svc"

const (
	releaseName  = "argocd"
	fieldManager = "lab"

	readyWithin  = 5 * time.Minute  // Argo CD serves 20 s after its objects exist; a slow registry takes its time
	tokenWithin  = 30 * time.Second // the token controller answers in milliseconds
	removeWithin = 90 * time.Second // cascaded deletion of one cluster's applications
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
	hub       clients
	connect   func(*rest.Config) (clients, error)
	release   releaser
	// reach leads into a cluster, so that a failure can be told with what its pods say; nil where lab cannot look.
	reach func(cluster string) (*rest.Config, error)
	// chartVersion reads the version of a chart that is the estate's own, by its path; nil where nobody knows.
	chartVersion func(path string) string
	names        aliases
}

// clients is how one cluster is spoken to.
type clients struct {
	dynamic dynamic.Interface
	typed   kubernetes.Interface
}

// releaser keeps a Helm release.
type releaser interface {
	Observe(ctx context.Context, name string) (helm.State, error)
	Ensure(ctx context.Context, want helm.Release, p lab.Progress) (helm.Result, error)
}

// Option sets what an engine may know beyond its hub.
type Option func(*ArgoCD)

// WithReach lets failures be told with what the pods of the application's cluster say.
func WithReach(reach func(cluster string) (*rest.Config, error)) Option {
	return func(a *ArgoCD) { a.reach = reach }
}

// WithNamespace is where Argo CD lives.
func WithNamespace(name string) Option { return func(a *ArgoCD) { a.namespace = name } }

// WithChartVersion tells the version of a chart in the estate, by its folder ("charts/identity"); empty when it is none.
func WithChartVersion(version func(path string) string) Option {
	return func(a *ArgoCD) { a.chartVersion = version }
}

// New returns the engine of a lab's hub. It connects lazily: nothing is asked of the hub yet.
func New(labName string, hub *rest.Config, options ...Option) (*ArgoCD, error) {
	c, err := connect(hub)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	a := &ArgoCD{lab: labName, namespace: Namespace, hub: c, connect: connect}
	for _, o := range options {
		o(a)
	}
	if a.release, err = helm.New(hub, a.namespace); err != nil {
		return nil, err
	}
	return a, nil
}

func connect(cfg *rest.Config) (clients, error) {
	c := rest.CopyConfig(cfg)
	c.QPS = -1 // the API server sheds load by itself; five requests a second would be our longest wait
	c.WarningHandler = rest.NoWarnings{}
	c.UserAgent = "lab"
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return clients{}, err
	}
	d, err := dynamic.NewForConfigAndClient(c, client)
	if err != nil {
		return clients{}, err
	}
	t, err := kubernetes.NewForConfigAndClient(c, client)
	if err != nil {
		return clients{}, err
	}
	return clients{dynamic: d, typed: t}, nil
}

// Observe looks at the engine and at the clusters that it knows. It changes nothing. While its namespace is being removed, nothing of it counts as there.
func (a *ArgoCD) Observe(ctx context.Context) (engine.State, error) {
	if seen, err := observeNamespace(ctx, a.hub.dynamic, a.namespace); seen != there || err != nil {
		return engine.State{}, err
	}
	rel, err := a.release.Observe(ctx, releaseName)
	if err != nil {
		return engine.State{}, err
	}
	s := engine.State{Release: rel.Status, Revision: rel.Revision, Version: rel.App, Inputs: rel.Inputs}
	if rel.Revision > 0 {
		all, err := workload.Observe(ctx, a.hub.typed, a.namespace, rel.Workloads)
		if err != nil {
			return engine.State{}, err
		}
		pending := workload.Pending(all)
		s.Ready, s.Waiting = len(pending) == 0, short(workload.Sentence(pending))
		for _, own := range []struct { // not of the release
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

// Inputs is the digest that Install remembers, so that a plan can tell an upgrade beforehand.
func Inputs(chart lab.Chart, values map[string]any) (string, error) {
	return helm.Inputs(chart, values)
}

// short drops the prefix that every workload of Argo CD has.
func short(sentence string) string { return strings.ReplaceAll(sentence, "argocd-", "") }

// labels are on every object that lab makes.
func (a *ArgoCD) labels(part string) map[string]any {
	return map[string]any{lab.LabelName: a.lab, lab.LabelPart: part}
}
