package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine/survey"
)

// Definition describes an engine: its components, values and addresses, and how to connect to it. Each engine's package provides one; nothing else
// distinguishes engines.
type Definition struct {
	Type      lab.EngineType                // as in an estate
	Title     string                        // user-facing name
	Namespace string                        // on the hub
	Kinds     []schema.GroupVersionResource // kinds of its objects on the hub that help diagnose problems

	Chart  string   // component of its Helm chart
	Images []string // components to load into the hub's nodes
	Memory int64    // measured need of one installation, in bytes

	UI       bool   // whether it serves a web UI, with a password; else only push webhooks
	Port     int    // preferred port on this machine
	NodePort int    // node port on the hub
	Service  string // URL from the hub's pods, without a trailing slash
	// WebhookPath returns the path for push webhooks that are signed with a secret.
	WebhookPath func(secret string) string

	// Values returns lab's values for the chart, with over merged on top.
	Values func(s Settings, over map[string]any) map[string]any
	// Inputs returns the digest recorded by Install, with which a plan detects upgrades.
	Inputs func(chart lab.Chart, values map[string]any) (string, error)
	// Connect connects lazily to the engine on a hub.
	Connect func(h Hub) (Engine, error)
	// Contests returns, as NAMESPACE/NAME, the applications of other engines of this type in a cluster that would prune what applications with these names deploy
	// there; nil if none would. Apart tells their owner how to prevent it.
	Contests func(ctx context.Context, cluster *rest.Config, names []string) ([]string, error)
	Apart    string
	// Tracking returns how the engine on a hub tracks what it applied.
	Tracking func(ctx context.Context, hub *rest.Config) (survey.Tracking, error)
	// On connects lazily to the engine of a spoke; nil if only the hub has an engine.
	On func(h Hub) (Installer, error)
}

// Everywhere reports whether every cluster runs an engine.
func (d Definition) Everywhere() bool { return d.On != nil }

// Needs returns the memory, in bytes, that the engines of a number of new clusters need.
func (d Definition) Needs(clusters int) int64 {
	if !d.Everywhere() {
		clusters = min(clusters, 1)
	}
	return d.Memory * int64(clusters)
}

// Settings are the variables of lab's values.
type Settings struct {
	Lab           string                        // name of the lab, for the label of every object
	Ref           func(component string) string // repository:tag of an image
	PasswordHash  string                        // bcrypt; kept by the caller, as each new hash changes the values
	WebhookSecret string                        // signs the forge's webhooks
	URL           string                        // user-facing URL of the engine, "http://127.0.0.1:8080"
	Waves         bool                          // the estate has sync waves of ApplicationSets
	LinksOut      bool                          // a repository has a symbolic link that leaves it
	Addresses     bool                          // Services of type LoadBalancer and Ingresses get an address
	Replaces      []string                      // Applications that the engine must not sync, as of Root
	Guest         bool                          // an attached cluster, which gets no node ports
	Extra         []string                      // components in addition to Definition.Images
}

// Hub is the engine's cluster, with lookups into the rest of the lab.
type Hub struct {
	Lab     string
	Cluster string // its name
	Config  *rest.Config
	// Reach connects to a cluster, to its own engine or to include pod states in errors; nil disables that.
	Reach func(cluster string) (*rest.Config, error)
	// Attached reports whether lab attached a cluster, which may have an engine of its owner's; nil means none is.
	Attached func(cluster string) bool
	// ChartVersion returns the version of a chart in the estate by folder ("charts/identity"), or "" for other folders.
	ChartVersion func(dir string) string
	Names        Names
}

// Guest reports whether lab attached a cluster.
func (h Hub) Guest(cluster string) bool { return h.Attached != nil && h.Attached(cluster) }

// Names maps the engine's names to those of the estate.
type Names struct {
	Addons   map[string]string // application set -> addon
	Clusters map[string]string // server of a registration -> cluster
}
