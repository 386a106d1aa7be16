package up

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strconv"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/cluster"
	"homelab/lab/engine"
	"homelab/lab/flux"
	"homelab/lab/forge"
	"homelab/lab/front"
	"homelab/lab/gate"
	"homelab/lab/plan"
)

// Components of the images that lab needs besides the engine's.
const (
	imageNode  = "node"
	imageGitea = "gitea"
)

// desired returns the desired state as digests of inputs, which are known before anything is built.
func (l *Lab) desired(ctx context.Context, o Options, seen plan.Observed) plan.Desired {
	d := plan.Desired{
		Forge: l.forgeInputs(ctx, seen.Forge.Inputs), Engine: l.engineInputs(ctx, l.Estate.Hub(), seen.Engine), Version: l.Release.Version,
		Others: o.Others, Prune: o.Prune, Recreate: o.Recreate, Preflight: o.Preflight,
		Parts: l.parts(ctx, seen),
	}
	for _, c := range l.clusters(o) {
		of := plan.Cluster{
			Name: c.Name, Role: c.Role, Inputs: clusterInputs(c, l.ports(c)), Kubernetes: c.Kubernetes, Images: l.imageKeys(c), Attached: c.Provider == lab.ProviderExisting,
		}
		if l.ownEngine(c) {
			of.Engine = cmp.Or(l.engineInputs(ctx, c, seen.Engines[c.Name]), "unknown")
		}
		d.Clusters = append(d.Clusters, of)
	}
	return d
}

// clusters returns the clusters in scope of a run.
func (l *Lab) clusters(o Options) []lab.Cluster {
	if o.Others {
		return o.Clusters
	}
	return l.Estate.Clusters
}

// clusterInputs returns the digest of a cluster's inputs without its node image: a lab upgrade or another image source must not recreate clusters.
func clusterInputs(c lab.Cluster, ports []cluster.Port) string {
	return cluster.Inputs(cluster.Spec{Cluster: c, Ports: ports})
}

// imageKeys returns a digest of the inputs of each image that a cluster should hold.
func (l *Lab) imageKeys(c lab.Cluster) []string {
	names := l.imagesOf(c)
	keys := make([]string, 0, len(names))
	for _, name := range names {
		sum := sha256.Sum256([]byte(l.Supply.Ref(name) + " " + l.Supply.Key(name)))
		keys = append(keys, name+"-"+hex.EncodeToString(sum[:6]))
	}
	return keys
}

// forgeInputs returns the digest of the forge's inputs, or observed if its images are not available locally.
func (l *Lab) forgeInputs(ctx context.Context, observed string) string {
	spec := forge.Spec{Writer: l.writes(), Runner: l.Runner}
	for name, img := range map[string]*lab.Image{imageGitea: &spec.Image, gate.Component: &spec.Gate} {
		if !l.Supply.Present(name, "", "") {
			return observed
		}
		var err error
		if *img, err = l.Supply.Image(ctx, name, silent); err != nil {
			return observed
		}
	}
	return l.Forge.Inputs(spec)
}

// writes reports whether the engine commits to the forge: Flux's image automation does, with the credentials of the
// source that it reads, and Argo CD's Image Updater with those that Argo CD has of a repository.
func (l *Lab) writes() bool {
	return l.Estate.WritesBack || slices.Contains(l.Estate.Hub().Engine.Extra, flux.ImageAutomation)
}

// engineInputs returns the digest of the inputs of a cluster's engine. If its chart is not available locally, it is the observed one, or the chart's name if the
// engine has another version.
func (l *Lab) engineInputs(ctx context.Context, c lab.Cluster, seen plan.Engine) string {
	n, observed := l.engineChart(), seen.Inputs
	if !l.Supply.Present("", n.chart, n.version) {
		if plan.Upgrade(seen, l.Release.Version) != "" {
			return n.String()
		}
		return observed
	}
	chart, err := l.Supply.Chart(ctx, n.chart, n.version, silent)
	if err != nil {
		return observed
	}
	inputs, err := l.Definition.Inputs(chart, l.values(c))
	if err != nil {
		return observed
	}
	return inputs
}

func silent(string) {}

// replaces returns the names of the Applications that would replace the engine.
func (l *Lab) replaces() []string {
	var names []string
	for _, a := range l.Estate.Applications {
		if a.Replaces {
			names = append(names, a.Name)
		}
	}
	return names
}

// values returns the Helm values of a cluster's engine, overlaid with those of the hub.
func (l *Lab) values(c lab.Cluster) map[string]any {
	return l.Definition.Values(engine.Settings{
		Lab: l.Name, Ref: func(name string) string { return l.Supply.Ref(l.Release.Image(name)) }, PasswordHash: l.Creds.EngineHash, WebhookSecret: l.Creds.WebhookSecret, URL: l.EngineURL(),
		Waves: l.Estate.Waves, LinksOut: l.Estate.LinksOut, Addresses: l.addresses(), Replaces: l.replaces(),
		Guest: c.Provider == lab.ProviderExisting,
		Extra: l.Estate.Hub().Engine.Extra,
	}, l.Estate.Hub().Engine.Values)
}

// addresses reports whether a door assigns addresses in all clusters. It does not in those that lab did not create.
func (l *Lab) addresses() bool {
	return l.Estate.Hub().Door && !slices.ContainsFunc(l.Estate.Clusters, func(c lab.Cluster) bool { return c.Provider == lab.ProviderExisting })
}

// engineChart returns the engine's chart.
func (l *Lab) engineChart() need {
	chart := l.Definition.Chart
	return need{chart: chart, version: cmp.Or(l.Release.Chart, l.Supply.ChartVersion(chart))}
}

// nodeImage returns the component of the node image of a cluster.
func (l *Lab) nodeImage(c lab.Cluster) string { return l.Nodes[c.Name].Image(imageNode) }

// EngineURL returns the URL of the engine's UI on this machine.
func (l *Lab) EngineURL() string {
	at := cmp.Or(l.Ports.Address, cluster.Loopback(lab.Cluster{}))
	if l.Estate != nil {
		at = cluster.Loopback(l.Estate.Hub())
	}
	return "http://" + net.JoinHostPort(at, strconv.Itoa(l.Ports.Engine))
}

// ForgeURL returns the URL of the forge on this machine.
func (l *Lab) ForgeURL() string { return fmt.Sprintf("http://127.0.0.1:%d", l.Ports.Forge) }

// ports returns the ports that a cluster publishes on this machine.
func (l *Lab) ports(c lab.Cluster) []cluster.Port {
	if c.Role != lab.RoleHub {
		return nil
	}
	return []cluster.Port{{Host: l.Ports.Engine, Node: l.Definition.NodePort}}
}

// Tree returns the estate's working tree.
func (l *Lab) Tree() forge.Tree { return forge.Tree{FS: l.Estate.FS, Dir: l.Estate.Dir} }

func (l *Lab) hubName() string { return l.Estate.Hub().Name }

// imagesOf returns the images to load into a cluster's nodes: the engine's where it runs, and those of every version of the cluster's addons, so that promotions
// work offline.
func (l *Lab) imagesOf(c lab.Cluster) []string {
	if c.Provider == lab.ProviderExisting { // pulls its own images
		return nil
	}
	var names []string
	if c.Role == lab.RoleHub || l.ownEngine(c) {
		for _, name := range slices.Concat(l.Definition.Images, l.Estate.Hub().Engine.Extra) {
			names = append(names, l.Release.Image(name))
		}
		if l.needsFront() {
			names = append(names, front.Component)
		}
	}
	for _, a := range l.Estate.Applications {
		if a.Cluster != c.Name {
			continue
		}
		names = append(names, a.Images...)
		for _, used := range a.Charts {
			for _, version := range l.versionsOf(a.Addon, used) {
				names = append(names, l.Supply.ImagesOf(used.Name, version)...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// versionsOf returns all versions of a chart in the estate: those pinned by the addon and those used by its Applications.
func (l *Lab) versionsOf(addon string, chart lab.ChartUse) []string {
	versions := []string{chart.Version}
	if a, ok := l.Estate.Addon(addon); ok && a.Chart == chart.Name {
		versions = slices.AppendSeq(versions, maps.Values(a.Versions))
	}
	for _, a := range l.Estate.Applications {
		for _, used := range a.Charts {
			if a.Addon == addon && used.Name == chart.Name {
				versions = append(versions, used.Version)
			}
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}

// need is an image or chart that the lab requires.
type need struct {
	image   string // component
	chart   string // used with version
	version string
}

func (n need) String() string { return cmp.Or(n.image, n.chart+" "+n.version) }

// needs returns all images and charts required for the clusters, in order of use.
func (l *Lab) needs(clusters []lab.Cluster) []need {
	list := []need{{image: l.nodeImage(l.Estate.Hub())}, {image: imageGitea}, {image: gate.Component}, l.engineChart()}
	for _, part := range l.Parts {
		for _, name := range part.Images {
			if n := (need{image: name}); part.Wanted && !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
	}
	for _, c := range clusters {
		if n := (need{image: l.nodeImage(c)}); c.Provider != lab.ProviderExisting && !slices.Contains(list, n) {
			list = append(list, n)
		}
		for _, name := range l.imagesOf(c) {
			if n := (need{image: name}); !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
	}
	return append(list, l.addonCharts()...)
}

// addonCharts returns the addon charts that lab supplies; the engine fetches the others.
func (l *Lab) addonCharts() []need {
	var list []need
	add := func(chart, version string) {
		if n := (need{chart: chart, version: version}); l.Supply.HasChart(chart, version) && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	for _, a := range l.Estate.Addons {
		if !slices.ContainsFunc(l.Estate.Applications, func(g lab.Generated) bool { return g.Addon == a.Name }) {
			continue // off in all clusters
		}
		for _, v := range slices.Sorted(maps.Values(a.Versions)) { // including those of environments without a cluster
			add(a.Chart, v)
		}
	}
	for _, a := range l.Estate.Applications {
		for _, used := range a.Charts {
			add(used.Name, used.Version)
		}
	}
	return list
}

// Registrations returns the bridges of all clusters of an estate, hub first.
func Registrations(labName string, est *lab.Estate) []lab.Registration {
	in := bridge.InputsOf(est)
	def, _ := est.Environment(lab.DefaultEnvironment)
	list := make([]lab.Registration, 0, len(est.Clusters))
	for _, c := range est.Clusters {
		env, _ := est.Environment(c.Environment)
		list = append(list, bridge.Build(labName, env, def, c, in))
	}
	return list
}

// registration returns the bridge of one cluster.
func (l *Lab) registration(name string) (lab.Registration, error) {
	for _, r := range Registrations(l.Name, l.Estate) {
		if r.Cluster == name {
			if r.Via != "" {
				r.Proxy = l.front().ProxyURL()
			}
			return r, nil
		}
	}
	return lab.Registration{}, fmt.Errorf("the estate has no cluster %q", name)
}

func (l *Lab) bridgeInputs() bridge.Inputs { return bridge.InputsOf(l.Estate) }

// repositories returns the repositories that the engine reads from the forge.
func (l *Lab) repositories() ([]engine.Repository, error) {
	in := l.bridgeInputs()
	git, charts := l.Forge.Account(l.writes()), l.Forge.Account(false)
	list := []engine.Repository{
		{Name: "estate", Type: "git", URL: in.RepoURL, Username: git.User, Password: git.Token},
		{Name: "charts", Type: "helm", URL: in.ChartRepoURL, Username: charts.User, Password: charts.Token},
	}
	if r := l.Registry; r.Host != "" {
		list = append(list, engine.Repository{Name: "registry", Type: "oci", URL: r.Host, Username: r.User, Password: r.Password, All: true})
	}
	for _, r := range l.Estate.Repositories {
		if r.Name != bridge.Estate {
			list = append(list, engine.Repository{Name: "mirror-" + r.Name, Type: "git", URL: in.MirrorURL(&r), Username: git.User, Password: git.Token})
		}
		for n, address := range r.SSH {
			key, err := front.SSHKey(l.Creds.WebhookSecret)
			if err != nil {
				return nil, err
			}
			list = append(list, engine.Repository{
				Name: fmt.Sprintf("ssh-%d-%s", n+1, r.Name), Type: "git", URL: address, SSHKey: key, Proxy: l.front().SSHProxyURL(), Insecure: true,
			})
		}
		if r.Written {
			list = append(list, engine.Repository{Name: "upstream-" + r.Name, Type: "git", URL: lab.RepositoryPage(r.URL), Proxy: l.front().ProxyURL(), Insecure: true})
		}
	}
	return list, nil
}

// root returns the estate's app of apps with the forge as its source.
func (l *Lab) root() (engine.Root, error) {
	manifest, err := fs.ReadFile(l.Estate.FS, l.Estate.RootFile())
	if err != nil {
		return engine.Root{}, fmt.Errorf("root application: %w", err)
	}
	in := l.bridgeInputs()
	mirrors := map[string]string{}
	for _, r := range l.Estate.Repositories {
		mirrors[r.URL] = in.MirrorURL(&r)
	}
	var clusters []string
	for _, c := range l.Estate.Clusters {
		clusters = append(clusters, c.Name)
	}
	own, err := l.ownRoots()
	if err != nil {
		return engine.Root{}, err
	}
	root := engine.Root{Replaces: l.replaces(), Own: own, Clusters: clusters, Manifest: manifest, RepoURL: in.RepoURL, Revision: in.RepoRevision, Mirrors: mirrors}
	if l.needsFront() {
		root.Extra, err = front.Objects(l.front())
	}
	return root, err
}
