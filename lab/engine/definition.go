package engine

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"homelab/lab"
)

// Definition is an engine before any runs: what it is made of, how it is set, where it is reached, and how one that runs is spoken to. The package of each
// engine has its own; nothing else tells one engine from another.
type Definition struct {
	Type      lab.EngineType                // as an estate names it
	Title     string                        // as a user reads it
	Namespace string                        // of the hub, in which it runs
	Kinds     []schema.GroupVersionResource // of objects that it brings to the hub, and that are worth reading when something is wrong

	Chart  string   // component of its Helm chart
	Images []string // components that the hub's nodes should hold for it

	Port        int    // on this machine where it is free, of its page
	NodePort    int    // of the page on the hub's node
	Service     string // URL of its page for pods of the hub, without a slash at its end
	WebhookPath string // of the page, which takes the forge's word of a commit

	// Values are lab's for the chart, with over merged on top.
	Values func(s Settings, over map[string]any) map[string]any
	// Inputs is the digest that Install remembers, so that a plan can tell an upgrade beforehand.
	Inputs func(chart lab.Chart, values map[string]any) (string, error)
	// Connect speaks to the one on a hub. Nothing is asked of it yet.
	Connect func(h Hub) (Engine, error)
}

// Settings is what lab's own values depend on.
type Settings struct {
	Lab           string                        // its name, for the label on every object
	Ref           func(component string) string // repository:tag of an image
	PasswordHash  string                        // bcrypt; kept by the caller, since a new hash of the same password would be a new value
	WebhookSecret string                        // what the forge signs its webhooks with
	URL           string                        // where a user reaches the engine, "http://127.0.0.1:8080"
}

// Hub is where an engine runs, and what it is told of the lab around.
type Hub struct {
	Lab    string
	Config *rest.Config
	// Reach leads into a cluster, so that a failure can be told with what its pods say; nil where lab cannot look.
	Reach func(cluster string) (*rest.Config, error)
	// ChartVersion tells the version of a chart in the estate, by its folder ("charts/identity"); empty when it is none.
	ChartVersion func(dir string) string
	Names        Names
}

// Names is what the estate calls the things that an engine has under names of its own.
type Names struct {
	Addons   map[string]string // set that makes applications -> addon
	Clusters map[string]string // server of a registration -> cluster
}
