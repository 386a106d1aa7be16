package cli

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/bundle"
	"homelab/lab/cluster"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/engine"
	"homelab/lab/engine/argocd"
	"homelab/lab/forge"
	"homelab/lab/state"
)

// Where images come from, on the commands that need any.
var (
	imagesFlag = &cli.StringFlag{
		Name: "images", Usage: "`ORIGIN` of images and charts: auto, registry, source or bundle=FILE", Value: "auto", EnvVars: []string{"LAB_IMAGES"},
	}
	mirrorFlag = &cli.StringFlag{
		Name: "registry-mirror", Usage: "`HOST[:PORT]` of a registry that holds the images under their upstream names", EnvVars: []string{"LAB_REGISTRY_MIRROR"},
	}
)

// world is a lab with its estate read and its adapters at hand: what up, down and status work on.
type world struct {
	*session
	est    *lab.Estate // nil for commands that need none
	creds  state.Credentials
	docker *docker.Docker
	kind   *cluster.Kind
	forge  *forge.Gitea

	mu  sync.Mutex
	hub *argocd.ArgoCD // made when the hub is first asked
}

// openWorld puts the adapters of a lab together. Nothing is asked of them yet.
func (s *session) openWorld(est *lab.Estate, traits doctor.Traits) (*world, error) {
	creds, err := s.dir.Credentials()
	if err != nil {
		return nil, err
	}
	d := docker.New()
	return &world{
		session: s, est: est, creds: creds, docker: d,
		kind:  cluster.NewKind(s.name, s.dir.Kubeconfigs(), d, cluster.Host{CgroupV1: traits.CgroupV1, NoOOMAdjust: traits.NoOOMAdjust}),
		forge: forge.NewGitea(s.name, d, forge.Credentials{User: creds.ForgeUser, Password: creds.ForgePassword}),
	}, nil
}

// openSupply says where images come from.
func (s *session) openSupply(ctx context.Context, d *docker.Docker, c *cli.Context) (*bundle.Supply, error) {
	root, err := state.CacheRoot()
	if err != nil {
		return nil, err
	}
	return bundle.Open(ctx, bundle.Options{Mode: bundle.Mode(c.String("images")), Mirror: c.String("registry-mirror"), CacheDir: root, Docker: d})
}

// engine is the engine on the hub, which must run.
func (w *world) engine() (*argocd.ArgoCD, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hub != nil {
		return w.hub, nil
	}
	cfg, err := w.kind.RESTConfig(w.hubName())
	if err != nil {
		return nil, err
	}
	w.hub, err = argocd.New(w.name, cfg, argocd.WithReach(w.kind.RESTConfig), argocd.WithChartVersion(w.chartVersion), argocd.WithNames(w.names()))
	return w.hub, err
}

// names are what the estate calls what Argo CD knows by other names.
func (w *world) names() argocd.Names {
	n := argocd.Names{Addons: map[string]string{}, Clusters: map[string]string{}}
	for _, a := range w.est.Addons {
		for _, set := range a.Sets {
			n.Addons[set] = a.Name
		}
	}
	for _, r := range registrations(w.name, w.est) {
		n.Clusters[r.Server] = r.Cluster
	}
	return n
}

// forgetEngine drops the connection to a hub that was made anew.
func (w *world) forgetEngine() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hub = nil
}

func (w *world) hubName() string { return w.est.Hub().Name }

// spoke is how the hub's engine gets credentials in a cluster; nil for the hub itself.
func (w *world) spoke(name string) (*rest.Config, error) {
	if name == w.hubName() {
		return nil, nil
	}
	return w.kind.RESTConfig(name)
}

// chartVersion reads the version of a chart that is the estate's own.
func (w *world) chartVersion(dir string) string {
	data, err := fs.ReadFile(w.est.FS, path.Join(dir, "Chart.yaml"))
	if err != nil {
		return ""
	}
	var chart struct{ Version string }
	if yaml.Unmarshal(data, &chart) != nil {
		return ""
	}
	return chart.Version
}

// The images that lab itself needs, by component.
const (
	imageNode   = "node"
	imageGitea  = "gitea"
	imageArgoCD = "argocd"
	imageRedis  = "redis"
	chartArgoCD = "argo-cd"
)

// imagesOf names the images that a cluster's nodes should hold: the engine's on the hub, and those of every version of every addon that the cluster has, so
// that a promotion needs no network.
func (w *world) imagesOf(c lab.Cluster) []string {
	var names []string
	if c.Role == lab.RoleHub {
		names = append(names, imageArgoCD, imageRedis)
	}
	for _, a := range w.est.Addons {
		if !c.Has(a.Name) || a.Chart == "" {
			continue
		}
		for _, version := range versionsOf(a) {
			names = append(names, w.supply.ImagesOf(a.Chart, version)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func versionsOf(a lab.Addon) []string {
	return slices.Compact(slices.Sorted(maps.Values(a.Versions)))
}

// need is one image or chart that the lab is made of.
type need struct {
	image   string // component
	chart   string // chart, with version
	version string
}

func (n need) String() string { return cmp.Or(n.image, n.chart+" "+n.version) }

// needs are all images and charts of the lab for these clusters, in the order in which up asks for them.
func (w *world) needs(clusters []lab.Cluster) []need {
	list := []need{{image: imageNode}, {image: imageGitea}, {chart: chartArgoCD, version: w.supply.ChartVersion(chartArgoCD)}}
	for _, c := range clusters {
		for _, name := range w.imagesOf(c) {
			if n := (need{image: name}); !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
	}
	return append(list, w.addonCharts()...)
}

// addonCharts are the charts that the estate's addons name and that lab can supply; others are the engine's to fetch.
func (w *world) addonCharts() []need {
	var list []need
	for _, a := range w.est.Addons {
		if a.Chart == "" {
			continue
		}
		for _, v := range versionsOf(a) {
			if n := (need{chart: a.Chart, version: v}); w.supply.HasChart(a.Chart, v) && !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
	}
	return list
}

// registration is the bridge of one cluster.
func (w *world) registration(name string) (lab.Registration, error) {
	for _, r := range registrations(w.name, w.est) {
		if r.Cluster == name {
			return r, nil
		}
	}
	return lab.Registration{}, fmt.Errorf("the estate has no cluster %q", name)
}

// switched are the applications that the estate asks for on these clusters; with on false, those that it does not ask for.
func (w *world) switched(on bool, clusters []lab.Cluster) []lab.Application {
	var list []lab.Application
	for _, c := range clusters {
		for _, a := range w.est.Addons {
			if c.Has(a.Name) == on {
				list = append(list, lab.Application{Name: lab.ApplicationName(c.Name, a.Name), Addon: a.Name, Cluster: c.Name})
			}
		}
	}
	return list
}

func applicationNames(list []lab.Application) []string {
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	return names
}

// registered are the clusters of an estate that the engine knows: a lab may have been brought up with some alone.
func registered(est *lab.Estate, known []engine.Registered) []lab.Cluster {
	return slices.DeleteFunc(slices.Clone(est.Clusters), func(c lab.Cluster) bool {
		return !slices.ContainsFunc(known, func(r engine.Registered) bool { return r.Cluster == c.Name })
	})
}

func (w *world) bridgeInputs() bridge.Inputs { return bridge.DefaultInputs(w.name, w.est.Addons) }
