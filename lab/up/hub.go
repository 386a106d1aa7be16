package up

import (
	"context"
	"io/fs"
	"path"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/engine"
)

// Hub returns a new connection to the engine on the hub.
func (l *Lab) Hub() (engine.Engine, error) {
	return l.connect(l.Definition, l.hubName())
}

// Applications returns the applications of all clusters, as the engine on the hub reports them.
func (l *Lab) Applications(ctx context.Context) ([]lab.Application, error) {
	e, err := l.Hub()
	if err != nil {
		return nil, err
	}
	return e.Applications(ctx)
}

func (l *Lab) connect(d engine.Definition, hub string) (engine.Engine, error) {
	cfg, err := l.Clusters.RESTConfig(hub)
	if err != nil {
		return nil, err
	}
	return d.Connect(engine.Hub{Lab: l.Name, Cluster: hub, Config: cfg, Reach: l.Clusters.RESTConfig, Attached: l.attached, ChartVersion: l.ownChartVersion, Names: l.names()})
}

// attached reports whether a cluster is attached, whether or not the estate still has it.
func (l *Lab) attached(cluster string) bool {
	if l.Estate != nil {
		if c, ok := l.Estate.Cluster(cluster); ok {
			return c.Provider == lab.ProviderExisting
		}
	}
	return l.Dir.Cluster(cluster).Attached
}

// names maps names used by the engine to those of the estate.
func (l *Lab) names() engine.Names {
	n := engine.Names{Addons: map[string]string{}, Clusters: map[string]string{}}
	if l.Estate == nil {
		return n
	}
	for _, a := range l.Estate.Addons {
		for _, set := range a.Sets {
			n.Addons[set] = a.Name
		}
	}
	for _, r := range Registrations(l.Name, l.Estate) {
		n.Clusters[r.Server] = r.Cluster
	}
	return n
}

// ownChartVersion returns the version of a chart in the estate itself.
func (l *Lab) ownChartVersion(dir string) string {
	if l.Estate == nil {
		return ""
	}
	data, err := fs.ReadFile(l.Estate.FS, path.Join(dir, "Chart.yaml"))
	if err != nil {
		return ""
	}
	var chart struct{ Version string }
	if yaml.Unmarshal(data, &chart) != nil {
		return ""
	}
	return chart.Version
}
