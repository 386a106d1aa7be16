package cli

import (
	"context"
	"io/fs"
	"path"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/bundle"
	"homelab/lab/cluster"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/engine"
	"homelab/lab/engine/argocd"
	"homelab/lab/forge"
	"homelab/lab/snapshot"
	"homelab/lab/state"
	"homelab/lab/up"
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

// theEngine is the one that labs have: every other part of lab knows it as this value alone.
func theEngine() engine.Definition { return argocd.Definition() }

// world is a lab with its adapters at hand: what commands work on.
type world struct {
	*session
	*up.Lab
	docker *docker.Docker
	kind   *cluster.Kind
	gitea  *forge.Gitea
}

// openWorld puts the adapters of a lab together. Nothing is asked of them yet. est is nil for commands that need none.
func (s *session) openWorld(est *lab.Estate, traits doctor.Traits) (*world, error) {
	creds, err := s.dir.Credentials()
	if err != nil {
		return nil, err
	}
	d := docker.New()
	w := &world{
		session: s, docker: d,
		kind:  cluster.NewKind(s.dir, d, cluster.Host{CgroupV1: traits.CgroupV1, NoOOMAdjust: traits.NoOOMAdjust}),
		gitea: s.openForge(d, creds),
	}
	w.Lab = &up.Lab{
		Name: s.name, Estate: est, Dir: s.dir, Ports: s.record.Ports, Creds: creds, Clusters: w.kind, Forge: w.gitea, Supply: s.supply, Containers: d,
		Snapshots: snapshot.New(s.name, d), Definition: theEngine(),
		Connect: func() (up.Engine, error) { return w.engine() },
	}
	return w, nil
}

// openSupply finds out where images come from.
func (s *session) openSupply(ctx context.Context, d *docker.Docker, c *cli.Context) (*bundle.Supply, error) {
	root, err := state.CacheRoot()
	if err != nil {
		return nil, err
	}
	return bundle.Open(ctx, bundle.Options{Mode: bundle.Mode(c.String("images")), Mirror: c.String("registry-mirror"), CacheDir: root, Docker: d})
}

// engine is the one on the hub, which must run.
func (w *world) engine() (engine.Engine, error) {
	cfg, err := w.kind.RESTConfig(w.Estate.Hub().Name)
	if err != nil {
		return nil, err
	}
	return w.Definition.Connect(engine.Hub{Lab: w.name, Config: cfg, Reach: w.kind.RESTConfig, ChartVersion: w.chartVersion, Names: w.names()})
}

// names are what the estate calls what the engine knows by other names.
func (w *world) names() engine.Names {
	n := engine.Names{Addons: map[string]string{}, Clusters: map[string]string{}}
	for _, a := range w.Estate.Addons {
		for _, set := range a.Sets {
			n.Addons[set] = a.Name
		}
	}
	for _, r := range up.Registrations(w.name, w.Estate) {
		n.Clusters[r.Server] = r.Cluster
	}
	return n
}

// chartVersion reads the version of a chart that is the estate's own.
func (w *world) chartVersion(dir string) string {
	data, err := fs.ReadFile(w.Estate.FS, path.Join(dir, "Chart.yaml"))
	if err != nil {
		return ""
	}
	var chart struct{ Version string }
	if yaml.Unmarshal(data, &chart) != nil {
		return ""
	}
	return chart.Version
}
