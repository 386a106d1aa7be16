package estate

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/bridge"
	"homelab/lab/estate/document"
	"homelab/lab/estate/judge"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// WithEngine overrides spec.engine of the hub.
func WithEngine(t lab.EngineType) Option { return func(l *loader) { l.engine = t } }

// Asked is a version of an engine that was asked for on a command line.
type Asked struct {
	Version string         // empty for what the estate says, Newest for lab's newest
	Of      lab.EngineType // if the hub has this engine; empty for any
}

// Newest is the version of an engine that is lab's newest, whatever the estate says.
const Newest = "newest"

// WithEngineVersion overrides spec.engine.version of the hub.
func WithEngineVersion(a Asked) Option { return func(l *loader) { l.asked = a } }

// Ungenerated skips the files that lab generates for Flux, and everything that depends on them.
func Ungenerated() Option { return func(l *loader) { l.ungenerated = true } }

// chooseEngine sets the engine that the estate is read for.
func (l *loader) chooseEngine() {
	for i := range l.estate.Clusters {
		c := &l.estate.Clusters[i]
		if c.Role != lab.RoleHub {
			continue
		}
		if l.engine != "" && c.Engine.Type != l.engine {
			c.Engine = lab.EngineSpec{Type: l.engine} // other fields are for the other engine
		}
		if l.asked.Version != "" && (l.asked.Of == "" || l.asked.Of == c.Engine.Type) {
			c.Engine.Version = strings.TrimSuffix(l.asked.Version, Newest)
		}
		if v := c.Engine.Version; v != "" && c.Engine.Type == lab.EngineArgoCD {
			if m, modelled := argo.ParseMinor(v); !modelled {
				l.note(finding.EngineVersion, c.Position("spec.engine.version"), "lab does not know Argo CD "+lab.Minor(v), "it expands and renders as "+m.String()+" does")
			}
		}
		if c.Engine.Type != lab.EngineFlux {
			continue
		}
		switch c.Engine.Namespace {
		case "", flux.Namespace:
			c.Engine.Namespace = ""
		default:
			l.at(finding.InvalidField, c.Position("spec.engine.namespace"), "Flux runs in namespace "+flux.Namespace, "leave it out")
		}
	}
}

// kubeconfigSecrets checks the Secrets that spokes share on the hub.
func (l *loader) kubeconfigSecrets() {
	of := map[string]string{}
	hub := l.estate.Hub().Engine
	for i := range l.estate.Clusters {
		c := &l.estate.Clusters[i]
		const at = "spec.kubeconfigSecrets"
		for i, k := range c.KubeconfigSecrets {
			position := c.Position(fmt.Sprintf("%s[%d]", at, i))
			owner, _ := flux.ClusterOf(k.Namespace)
			switch other, twice := of[k.String()]; {
			case twice:
				l.at(finding.KubeconfigSecret, position, fmt.Sprintf("Secret %s has the kubeconfig of cluster %s", k, other), "remove one of the two")
			case k.Name == flux.ClusterKubeconfig && owner != "" && owner != c.Name:
				l.at(finding.KubeconfigSecret, position, fmt.Sprintf("Secret %s has the kubeconfig of cluster %s", k, owner), "leave it out")
			}
			of[k.String()] = c.Name
		}
		if len(c.KubeconfigSecrets) == 0 || c.Role == lab.RoleHub || hub.Type == lab.EngineFlux && !hub.Everywhere() {
			continue
		}
		if c.KubeconfigSecrets = nil; l.engine == "" {
			l.at(finding.KubeconfigSecret, c.Position(at), "only a Flux on the hub reads kubeconfigs of spokes", "leave it out, or set spec.engine of the hub: {type: flux, shape: hub}")
		}
	}
}

func (l *loader) isFlux() bool { return l.estate.Hub().Engine.Type == lab.EngineFlux }

// fluxAddons finds the addons that have manifests for Flux.
func (l *loader) fluxAddons() {
	folders, _ := l.folders(lab.AddonsDir)
	for _, name := range folders {
		dir := fluxset.Dir(name)
		files := l.manifests(dir)
		if len(files) == 0 {
			if l.toggled(name) {
				l.fail(dir, "does not exist", "clusters enable the addon: Flux reads its HelmRelease or manifests there")
			}
			continue
		}
		if !document.IsName(name) || len(name) > 53 {
			l.fail(dir, fmt.Sprintf("%q cannot be the name of an addon", name), "lower-case letters, digits and hyphens, at most 53 as for a Helm release")
		}
		a := lab.Addon{Name: name, File: files[0], Versions: map[string]string{}, Positions: map[string]lab.Position{}}
		release, other := lab.Position{}, lab.Position{}
		for _, file := range files {
			for _, doc := range l.documentsOf(file) {
				at := lab.Position{File: file, Line: doc.Line, Column: doc.Column}
				switch kind := strict.Text(doc, "kind"); {
				case kind == "HelmRelease":
					release = at
					l.fluxRelease(&a, file, doc)
				case kind != "ConfigMap" && kind != "Secret" && !strings.Contains(strict.Text(doc, "apiVersion"), ".toolkit.fluxcd.io/") && !strings.HasPrefix(strict.Text(doc, "apiVersion"), "kustomize.config.k8s.io/"):
					other = at
				}
			}
		}
		if release.File != "" && other.File != "" {
			l.at(finding.InvalidAddon, other, "an addon is HelmReleases or manifests, not both: "+release.String()+" is a HelmRelease", "move it to a separate addon: addons/"+name+"-manifests/flux")
		}
		for _, p := range fluxset.CheckBridge(l.fsys, name) {
			l.addProblem(p)
		}
		for _, file := range l.manifests(path.Join(dir, "versions")) {
			env := strings.TrimSuffix(path.Base(file), path.Ext(file))
			if _, known := l.estate.Environment(env); !known {
				l.note(finding.UnknownEnvironment, lab.Position{File: file}, "version for unknown environment "+env, "")
			}
			for _, doc := range l.documentsOf(file) {
				if n := strict.Get(doc, "spec", "chart", "spec", "version"); n != nil {
					a.Versions[env], a.Positions["version."+env] = n.Value, lab.Position{File: file, Line: n.Line, Column: n.Column}
				}
			}
		}
		l.estate.Addons = append(l.estate.Addons, a)
	}
}

// fluxRelease sets the addon's chart from its HelmRelease.
func (l *loader) fluxRelease(a *lab.Addon, file string, doc *yaml.Node) {
	note := func(part string, n *yaml.Node) string {
		if n == nil {
			return ""
		}
		a.Positions[part] = lab.Position{File: file, Line: n.Line, Column: n.Column}
		return n.Value
	}
	a.File = file
	note("", doc)
	a.Namespace = note("namespace", strict.Get(doc, "spec", "targetNamespace"))
	chart := strict.Get(doc, "spec", "chart", "spec")
	name := note("chart", strict.Get(chart, "chart"))
	switch strict.Text(chart, "sourceRef", "kind") {
	case "GitRepository", "Bucket":
		a.Path = path.Clean(name)
		delete(a.Positions, "chart")
	default:
		a.Chart = name
		if version := note("version", strict.Get(chart, "version")); version != "" {
			a.Versions[""] = version
		}
	}
}

// fluxWorld returns the inputs for expanding the estate's Kustomizations.
func (l *loader) fluxWorld(cluster string) fluxset.World {
	in := l.inputs()
	vars := map[string]map[string]string{}
	for _, c := range l.estate.Clusters {
		reg := bridge.Registered(l.estate, c, in)
		vars[flux.NamespaceOf(c.Name)] = flux.Variables(lab.Strings(reg.Labels), lab.Strings(reg.Annotations))
	}
	own := l.ownSource(cluster, in)
	w := fluxset.World{
		FS: l.fsys, Budget: l.budget, Scope: l.fluxScope(cluster), Extra: l.estate.Hub().Engine.Extra,
		Foreign: func(cluster string) bool {
			c, _ := l.estate.Cluster(cluster)
			return c.Provider == lab.ProviderExisting
		},
		Namespaces: func(cluster string) []string {
			c, known := l.estate.Cluster(cluster)
			if !known || c.Provider == lab.ProviderExisting {
				return nil
			}
			names := append(Namespaces(l.estate, cluster), flux.Namespace)
			for _, other := range l.estate.Clusters {
				names = append(names, flux.NamespaceOf(other.Name))
			}
			return names
		},
		Nodes: func(cluster string) []map[string]string {
			c, _ := l.estate.Cluster(cluster)
			return document.Nodes(c)
		},
		Vars: func(namespace, name string) map[string]string {
			if name != flux.ClusterVars {
				return nil
			}
			return vars[namespace]
		},
		Repository: func(url, revision string) (fs.FS, string, error) {
			r, mounted := in.Mounted(url)
			switch {
			case mounted && r.Dir != ".":
				at, err := r.Of(revision)
				if err != nil {
					return nil, "", &fluxset.Absent{Why: err.Error()}
				}
				return at.FS, at.Dir, nil
			case !mounted && own != lab.RepositoryKey(url):
				return nil, "", &fluxset.Absent{}
			}
			return l.fsys, "", nil
		},
	}
	w.Contents = func(r fluxset.Release) []render.Document { return l.contentsOf(w, r) }
	return w
}

// ownSource returns the key of the estate's repository in the root of a cluster, the first that is not mounted: the engine replaces it by the forge's.
func (l *loader) ownSource(cluster string, in bridge.Inputs) string {
	root := l.estate.RootFileOf(cluster)
	data, _ := fs.ReadFile(l.fsys, root)
	docs, _ := strict.Parse(root, data)
	for _, doc := range docs {
		url := strict.Text(doc, "spec", "url")
		if _, mounted := in.Mounted(url); strict.Text(doc, "kind") == "GitRepository" && !mounted {
			return lab.RepositoryKey(url)
		}
	}
	return ""
}

// fluxScope returns the scope of the Flux on a cluster.
func (l *loader) fluxScope(cluster string) flux.Scope {
	scope := flux.ScopeOf(cluster, l.estate.Clusters)
	if l.estate.Hub().Engine.Everywhere() {
		scope.Home, scope.Spokes = cluster, nil
	}
	return scope
}

// fluxExpand expands the estate's Kustomizations.
func (l *loader) fluxExpand() {
	if len(l.problems) > 0 || l.ungenerated { // avoid consequential problems
		return
	}
	stale, err := fluxset.Stale(l.fsys, l.estate.Clusters)
	if err != nil {
		l.fail(lab.ClustersDir, err.Error(), "")
		return
	}
	if l.problems = append(l.problems, stale...); len(stale) > 0 {
		return
	}
	for _, c := range l.estate.Clusters {
		if root := l.estate.RootFileOf(c.Name); root != "" {
			l.fluxRoot(c.Name, root)
		}
	}
	for _, c := range l.estate.Clusters {
		for _, a := range l.estate.Addons {
			l.estate.Possible = append(l.estate.Possible, lab.Application{Name: lab.ApplicationName(c.Name, a.Name), Addon: a.Name, Cluster: c.Name, Namespace: a.Namespace})
		}
	}
}

// fluxRoot expands the root of one cluster's Flux.
func (l *loader) fluxRoot(cluster, root string) {
	w := l.fluxWorld(cluster)
	x := fluxset.Expand(w, root)
	for _, p := range x.Problems {
		l.addProblem(p)
	}
	for _, p := range x.Notes {
		l.note(p.Code, p.Position, p.Message, p.Cure)
	}
	applications := x.Applications
	for _, r := range x.Roots {
		if r.Stalled {
			l.at(finding.AppliesNothing, r.At, "Kustomization "+r.Name+" applies nothing: "+r.LeftOut, "fix it, or remove it by a patch in "+root)
		}
		if r.Mounted() && r.Place != nil {
			l.fluxFlags(r)
		}
		if len(r.Releases) > 0 && w.Scope.Home != "" {
			applications = append(applications, r)
		} else if r.Mounted() && slices.ContainsFunc(r.Objects, isWorkload) {
			applications = append(applications, r)
		}
	}
	for _, app := range applications {
		for _, u := range app.Unset {
			p := u.Problem()
			p.Message += " for cluster " + app.Cluster
			if fsys, _ := l.mounted.File(p.File); fsys == nil {
				l.addProblem(p)
			}
		}
		switch _, known := l.estate.Cluster(app.Cluster); {
		case !known:
			l.unassigned(app)
		case l.estate.Hub().Engine.Everywhere() && app.Cluster != cluster:
			l.addProblem(lab.Problem{
				Code: finding.ReachedTwice, Position: app.At, Message: fmt.Sprintf("Kustomization %s of cluster %s is reached from %s", app.Name, app.Cluster, root),
				Cure: "in the standalone shape a cluster's root reads only its own folder",
			})
		default:
			l.fluxApplication(w, x, app)
		}
	}
	l.resourceSets(w, x)
}

// unassigned notes that an application is in no cluster's namespace.
func (l *loader) unassigned(app fluxset.Application) {
	l.noteOnce(finding.Unassigned, app.At, fmt.Sprintf("%s %s/%s belongs to no cluster: what it applies is neither shown nor compared", strict.Text(app.Manifest, "kind"), app.Namespace, app.Name),
		"move it to the namespace of a cluster, such as "+flux.NamespaceOf(l.estate.Hub().Name))
}

func (l *loader) fluxApplication(w fluxset.World, x fluxset.Expansion, app fluxset.Application) {
	addon, _ := l.estate.Addon(app.As)
	g := generatedOf(app)
	g.Namespace, g.LeftOut, g.Held = addon.Namespace, app.LeftOut, app.LeftOut == fluxset.Suspended
	g.Root = app.Parent == "" && len(app.Releases) == 0
	if app.Elsewhere != "" {
		g.Others = append(g.Others, app.Elsewhere)
	}
	for _, url := range app.Sources {
		g.Others = appendNew(g.Others, url)
	}
	g.Needs = append(g.Needs, namesOf(x, app.Needs)...)
	g.Mounted = app.Mounted()
	for _, u := range slices.Concat(app.Undefined, app.Unbound, app.Lacks) {
		g.Lacks = append(g.Lacks, needOf(x, "", u))
	}
	l.runningImages(&g, app.Objects)
	c, _ := l.estate.Cluster(app.Cluster)
	for _, r := range app.Releases {
		g.Namespace = r.TargetNamespace
		mounted, _ := l.mounted.File(r.At.File)
		g.Mounted = g.Mounted || mounted != nil
		known := judge.Release{Release: r, Foreign: mounted != nil || !l.isOwn(r.At.File), NoSource: r.URL == "" && r.Source != ownCharts}
		switch {
		case r.Suspended || known.NoSource:
		case r.URL == "":
			at := r.At
			if version, pinned := addon.Version(c.Environment); version == r.Version {
				at = pinned
			}
			g.Charts = append(g.Charts, lab.ChartUse{Name: r.Chart, Version: r.Version, At: at})
			l.chart(&g, &known, w, x, app)
		case r.Folder == "":
			g.Charts = append(g.Charts, lab.ChartUse{Name: r.Chart, Version: r.Version, Repository: r.URL, At: r.At})
			g.Others = appendNew(g.Others, r.URL)
			l.chart(&g, &known, w, x, app)
		default:
			l.chart(&g, &known, w, x, app)
		}
		for _, p := range known.Judge(&g).Problems {
			l.addProblem(p)
		}
	}
	l.wantFlux(&g, w, app)
	l.estate.Applications = append(l.estate.Applications, g)
}

func generatedOf(app fluxset.Application) lab.Generated {
	return lab.Generated{At: app.At, Application: lab.Application{Name: lab.ApplicationName(app.Cluster, app.As), Addon: app.As, Cluster: app.Cluster}}
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
