// Package helm manages a Helm release through the Helm SDK: it installs or upgrades it if needed, and repairs it after a killed run.
package helm

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"homelab/lab"
)

// history is the number of revisions that Helm keeps: enough to look back, few enough to keep reading the last one cheap.
const history = 3

// hookTimeout bounds a chart's hooks, which Helm waits for.
const hookTimeout = 5 * time.Minute

// Client manages the releases of one namespace.
type Client struct {
	cfg  *action.Configuration
	crds dynamic.Interface
	// newest returns the number of a release's last revision, or 0. A revision of Argo CD is 3.6 MB of JSON, which takes a tenth of a second to decode, and
	// Helm's own Last decodes all of them.
	newest func(ctx context.Context, name string) (int, error)
	list   func(ctx context.Context, kind schema.GroupVersionKind) (map[types.NamespacedName]bool, error)
}

// New returns a client for a namespace. It reads neither the environment nor a kubeconfig, and prints nothing.
func New(cfg *rest.Config, namespace string) (*Client, error) {
	g, err := newGetter(cfg, namespace)
	if err != nil {
		return nil, err
	}
	ac := &action.Configuration{}
	if err := ac.Init(g, namespace, "secret", func(string, ...any) {}); err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	crds, err := dynamic.NewForConfig(g.config)
	if err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	records, err := metadata.NewForConfig(g.config)
	if err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	return &Client{cfg: ac, crds: crds, newest: newestOf(records, namespace), list: listOf(records)}, nil
}

// newestOf reads the labels of the Secrets in which Helm stores revisions.
func newestOf(records metadata.Interface, namespace string) func(context.Context, string) (int, error) {
	secrets := records.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(namespace)
	return func(ctx context.Context, name string) (int, error) {
		list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + name})
		if err != nil {
			return 0, err
		}
		last := 0
		for _, s := range list.Items {
			if v, err := strconv.Atoi(s.Labels["version"]); err == nil {
				last = max(last, v)
			}
		}
		return last, nil
	}
}

// State is the observed state of a release. The zero value means not installed.
type State struct {
	Status   string // by Helm: deployed, failed, pending-install, ...
	Revision int
	Lab      string // whose run made the last revision; empty if it is not a lab's
	Inputs   string // digest of the last revision's chart and values; empty if it is not lab's
	Chart    string // chart version
	App      string // application version of the chart, "v3.2.11"
	// Workloads are the Deployments and StatefulSets of the last revision, as "Deployment/server".
	Workloads []string
	// Missing are deleted objects of the last revision, as "secret NAME".
	Missing []string
}

// Deployed reports whether the last revision was fully applied.
func (s State) Deployed() bool { return s.Status == release.StatusDeployed.String() }

// Observe reads the last revision of a release, without rendering.
func (c *Client) Observe(ctx context.Context, name string) (State, error) {
	rel, err := c.last(ctx, name)
	if err != nil || rel == nil {
		return State{}, err
	}
	return c.observe(ctx, rel)
}

func (c *Client) observe(ctx context.Context, rel *release.Release) (s State, err error) {
	s = stateOf(rel)
	s.Missing, err = c.missing(ctx, rel)
	return s, err
}

// last returns the last revision of a release, or nil.
func (c *Client) last(ctx context.Context, name string) (*release.Release, error) {
	version, err := c.newest(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("release %s: %w", name, err)
	}
	if version == 0 {
		return nil, nil
	}
	rel, err := c.cfg.Releases.Get(name, version)
	if err != nil {
		return nil, fmt.Errorf("release %s: %w", name, err)
	}
	return rel, nil
}

func stateOf(rel *release.Release) State {
	s := State{Revision: rel.Version, Lab: rel.Labels[lab.LabelName], Inputs: rel.Labels[lab.LabelInputs], Workloads: workloads(rel.Manifest)}
	if rel.Info != nil {
		s.Status = rel.Info.Status.String()
	}
	if rel.Chart != nil && rel.Chart.Metadata != nil {
		s.Chart, s.App = rel.Chart.Metadata.Version, rel.Chart.Metadata.AppVersion
	}
	return s
}

// workloads returns the long-running workloads of a rendered manifest.
func workloads(manifest string) []string {
	var names []string
	for _, doc := range splitYAML(manifest) {
		// Decoding every document of a chart takes tens of milliseconds.
		if !strings.Contains(doc, "\nkind: Deployment") && !strings.Contains(doc, "\nkind: StatefulSet") {
			continue
		}
		var head struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if yaml.Unmarshal([]byte(doc), &head) != nil {
			continue
		}
		if head.Kind == "Deployment" || head.Kind == "StatefulSet" {
			names = append(names, head.Kind+"/"+head.Metadata.Name)
		}
	}
	return names
}

// splitYAML splits a stream of documents.
func splitYAML(stream string) []string {
	var docs []string
	for doc := range strings.SplitSeq("\n"+stream, "\n---") {
		if strings.TrimSpace(doc) != "" {
			docs = append(docs, doc)
		}
	}
	return docs
}
