package up

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/cluster"
	"homelab/lab/engine"
	"homelab/lab/forge"
	"homelab/lab/front"
	"homelab/lab/plan"
)

// The images that lab itself needs beside the engine's, by component.
const (
	imageNode  = "node"
	imageGitea = "gitea"
)

// desired is what the estate asks for, as digests of inputs that are known before anything is built.
func (l *Lab) desired(ctx context.Context, o Options, seen plan.Observed) plan.Desired {
	d := plan.Desired{
		Forge: l.forgeInputs(ctx, seen.Forge.Inputs), Engine: l.engineInputs(ctx, seen.Engine.Inputs),
		Others: o.Others, Prune: o.Prune, Recreate: o.Recreate, Preflight: o.Preflight,
	}
	for _, c := range l.clusters(o) {
		d.Clusters = append(d.Clusters, plan.Cluster{
			Name: c.Name, Role: c.Role, Inputs: clusterInputs(c, l.ports(c)), Images: l.imageKeys(c), Attached: c.Provider == lab.ProviderExisting,
		})
	}
	return d
}

// clusters are those that a run is about.
func (l *Lab) clusters(o Options) []lab.Cluster {
	if o.Others {
		return o.Clusters
	}
	return l.Estate.Clusters
}

// clusterInputs leaves the node image out: a newer lab, or images from elsewhere, must not cost anyone a cluster.
func clusterInputs(c lab.Cluster, ports []cluster.Port) string {
	return cluster.Inputs(cluster.Spec{Cluster: c, Ports: ports})
}

// imageKeys stand for the images that a cluster should hold, by what they are made from.
func (l *Lab) imageKeys(c lab.Cluster) []string {
	names := l.imagesOf(c)
	keys := make([]string, 0, len(names))
	for _, name := range names {
		sum := sha256.Sum256([]byte(l.Supply.Ref(name) + " " + l.Supply.Key(name)))
		keys = append(keys, name+"-"+hex.EncodeToString(sum[:6]))
	}
	return keys
}

// forgeInputs is what the forge should be made from. While the image is not at hand nothing is known against the one that runs.
func (l *Lab) forgeInputs(ctx context.Context, observed string) string {
	if !l.Supply.AtHand(imageGitea, "", "") {
		return observed
	}
	img, err := l.Supply.Image(ctx, imageGitea, silent)
	if err != nil {
		return observed
	}
	return l.Forge.Inputs(img)
}

// engineInputs is what the engine should be made from; as for the forge, what is not at hand is held against nothing.
func (l *Lab) engineInputs(ctx context.Context, observed string) string {
	n := l.engineChart()
	if !l.Supply.AtHand("", n.chart, n.version) {
		return observed
	}
	chart, err := l.Supply.Chart(ctx, n.chart, n.version, silent)
	if err != nil {
		return observed
	}
	inputs, err := l.Definition.Inputs(chart, l.values())
	if err != nil {
		return observed
	}
	return inputs
}

func silent(string) {}

// values are the engine's, with the hub's own on top.
func (l *Lab) values() map[string]any {
	return l.Definition.Values(engine.Settings{
		Lab: l.Name, Ref: l.Supply.Ref, PasswordHash: l.Creds.EngineHash, WebhookSecret: l.Creds.WebhookSecret, URL: l.EngineURL(),
	}, l.Estate.Hub().Engine.Values)
}

// engineChart is what the engine is installed from.
func (l *Lab) engineChart() need {
	chart := l.Definition.Chart
	return need{chart: chart, version: l.Supply.ChartVersion(chart)}
}

// EngineURL is the engine's page on this machine.
func (l *Lab) EngineURL() string { return fmt.Sprintf("http://127.0.0.1:%d", l.Ports.Engine) }

// ForgeURL is the forge on this machine.
func (l *Lab) ForgeURL() string { return fmt.Sprintf("http://127.0.0.1:%d", l.Ports.Forge) }

// ports are those of a cluster that listen on this machine.
func (l *Lab) ports(c lab.Cluster) []cluster.Port {
	if c.Role != lab.RoleHub {
		return nil
	}
	return []cluster.Port{{Host: l.Ports.Engine, Node: l.Definition.NodePort}}
}

// Tree is the estate's working tree, as the forge should hold it.
func (l *Lab) Tree() forge.Tree { return forge.Tree{FS: l.Estate.FS, Dir: l.Estate.Dir} }

func (l *Lab) hubName() string { return l.Estate.Hub().Name }

// webhook is where the forge reports commits: the engine, by the name of the hub's node.
func (l *Lab) webhook() string {
	return fmt.Sprintf("http://%s-control-plane:%d%s", lab.KindName(l.Name, l.hubName()), l.Definition.NodePort, l.Definition.WebhookPath)
}

// imagesOf names the images that a cluster's nodes should hold: the engine's on the hub, and those of every version of every addon that the cluster has, so
// that a promotion needs no network.
func (l *Lab) imagesOf(c lab.Cluster) []string {
	if c.Provider == lab.ProviderExisting { // it pulls its own
		return nil
	}
	var names []string
	if c.Role == lab.RoleHub {
		names = append(names, l.Definition.Images...)
		if l.fronted() {
			names = append(names, front.Component)
		}
	}
	for _, a := range l.Estate.Applications {
		if a.Cluster != c.Name {
			continue
		}
		for _, used := range a.Charts {
			for _, version := range l.versionsOf(a.Addon, used) {
				names = append(names, l.Supply.ImagesOf(used.Name, version)...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// versionsOf are the versions of a chart that the estate names anywhere: what an addon pins, and what its Applications use.
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

// need is one image or chart that the lab is made of.
type need struct {
	image   string // component
	chart   string // chart, with version
	version string
}

func (n need) String() string { return cmp.Or(n.image, n.chart+" "+n.version) }

// needs are all images and charts of the lab for these clusters, in the order in which they are asked for.
func (l *Lab) needs(clusters []lab.Cluster) []need {
	list := []need{{image: imageNode}, {image: imageGitea}, l.engineChart()}
	for _, c := range clusters {
		for _, name := range l.imagesOf(c) {
			if n := (need{image: name}); !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
	}
	return append(list, l.addonCharts()...)
}

// addonCharts are the charts that the estate's addons name and that lab can supply; others are the engine's to fetch.
func (l *Lab) addonCharts() []need {
	var list []need
	add := func(chart, version string) {
		if n := (need{chart: chart, version: version}); l.Supply.HasChart(chart, version) && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	for _, a := range l.Estate.Addons { // of environments without a cluster, too
		for _, v := range slices.Sorted(maps.Values(a.Versions)) {
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

// Registrations is the bridge of every cluster of an estate, hub first.
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

// registration is the bridge of one cluster.
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

// generated are the applications that the estate makes on these clusters.
func (l *Lab) generated(clusters []lab.Cluster) []lab.Application {
	var list []lab.Application
	for _, a := range l.Estate.Applications {
		if slices.ContainsFunc(clusters, func(c lab.Cluster) bool { return c.Name == a.Cluster }) {
			list = append(list, a.Application)
		}
	}
	return list
}

// asked are those of them that are waited for.
func (l *Lab) asked(clusters []lab.Cluster) []lab.Application {
	return slices.DeleteFunc(l.generated(clusters), func(a lab.Application) bool { return a.LeftOut != "" })
}

// leftOut are the applications that need what cannot be had here, with why.
func (l *Lab) leftOut() map[string]string {
	list := map[string]string{}
	for _, a := range l.Estate.Applications {
		if a.LeftOut != "" {
			list[a.Name] = a.LeftOut
		}
	}
	return list
}

// unasked are the applications that these clusters would have if addons were switched on that are not.
func (l *Lab) unasked(clusters []lab.Cluster) []lab.Application {
	asked := applicationNames(l.asked(clusters))
	asked = slices.AppendSeq(asked, maps.Keys(l.leftOut()))
	var list []lab.Application
	for _, a := range l.Estate.Possible {
		if slices.ContainsFunc(clusters, func(c lab.Cluster) bool { return c.Name == a.Cluster }) && !slices.Contains(asked, a.Name) {
			list = append(list, a)
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

func (l *Lab) bridgeInputs() bridge.Inputs { return bridge.InputsOf(l.Estate) }

// repositories are what the engine reads from the forge.
func (l *Lab) repositories() []engine.Repository {
	in := l.bridgeInputs()
	list := []engine.Repository{
		{Name: "estate", Type: "git", URL: in.RepoURL, Username: l.Creds.ForgeUser, Password: l.Creds.ForgePassword},
		{Name: "charts", Type: "helm", URL: in.ChartRepoURL, Username: l.Creds.ForgeUser, Password: l.Creds.ForgePassword},
	}
	for _, r := range l.Estate.Repositories {
		if r.Name != bridge.Estate {
			list = append(list, engine.Repository{
				Name: "mirror-" + r.Name, Type: "git", URL: in.MirrorURL(&r), Username: l.Creds.ForgeUser, Password: l.Creds.ForgePassword,
			})
		}
		if r.Written {
			list = append(list, engine.Repository{Name: "upstream-" + r.Name, Type: "git", URL: lab.RepositoryPage(r.URL), Proxy: l.front().ProxyURL(), Insecure: true})
		}
	}
	return list
}

// root is the estate's app of apps, pointed at the lab's forge.
func (l *Lab) root() (engine.Root, error) {
	manifest, err := fs.ReadFile(l.Estate.FS, lab.RootFile)
	if err != nil {
		return engine.Root{}, fmt.Errorf("root application: %w", err)
	}
	in := l.bridgeInputs()
	mirrors := map[string]string{}
	for _, r := range l.Estate.Repositories {
		mirrors[r.URL] = in.MirrorURL(&r)
	}
	root := engine.Root{Manifest: manifest, RepoURL: in.RepoURL, Revision: in.RepoRevision, Mirrors: mirrors}
	if l.fronted() {
		root.Beside, err = front.Objects(l.front())
	}
	return root, err
}
