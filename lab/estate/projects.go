package estate

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gobwas/glob"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/bridge"
	"homelab/lab/estate/leftout"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// defaultProject exists in every Argo CD.
const defaultProject = "default"

// project holds the permissions of an AppProject.
type project struct {
	SourceRepos  []string `yaml:"sourceRepos"`
	Destinations []struct {
		Server    string `yaml:"server"`
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"destinations"`
	SyncWindows []struct {
		Applications []string `yaml:"applications"`
		Namespaces   []string `yaml:"namespaces"`
		Clusters     []string `yaml:"clusters"`
		All          bool     `yaml:"andOperator"` // instead of any
	} `yaml:"syncWindows"`
	SignatureKeys []struct {
		ID string `yaml:"keyID"`
	} `yaml:"signatureKeys"`
	OwnClusters bool `yaml:"permitOnlyProjectScopedClusters"` // lab registers none for a project

	ClusterKinds      []groupKind `yaml:"clusterResourceWhitelist"`
	NoClusterKinds    []groupKind `yaml:"clusterResourceBlacklist"`
	NamespacedKinds   []groupKind `yaml:"namespaceResourceWhitelist"` // nil for all
	NoNamespacedKinds []groupKind `yaml:"namespaceResourceBlacklist"`

	wave wave
}

// groupKind has patterns of groups and kinds.
type groupKind struct {
	Group string `yaml:"group"`
	Kind  string `yaml:"kind"`
}

// permitsKind reports whether Applications may have objects of a kind.
func (p *project) permitsKind(group, kind string, namespaced bool) bool {
	in := func(list []groupKind) bool {
		return slices.ContainsFunc(list, func(gk groupKind) bool {
			group, _ := path.Match(gk.Group, group)
			kind, _ := path.Match(gk.Kind, kind)
			return group && kind
		})
	}
	if namespaced {
		return (p.NamespacedKinds == nil || in(p.NamespacedKinds)) && !in(p.NoNamespacedKinds)
	}
	return in(p.ClusterKinds) && !in(p.NoClusterKinds)
}

// forbiddenObject returns why an Application's project keeps an object from being synced, or "".
func (l *loader) forbiddenObject(app *appset.Template, cluster string, o render.Document) string {
	name := cmp.Or(app.Spec.Project, defaultProject)
	p := l.projects[name]
	if p == nil {
		return ""
	}
	gvk := schema.FromAPIVersionAndKind(strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind"))
	namespaced, known := render.Namespaced(o)
	if known && !p.permitsKind(gvk.Group, gvk.Kind, namespaced) {
		return fmt.Sprintf("its project %s does not permit %s", name, gvk.GroupKind())
	}
	if in := strict.Text(o.Node, "metadata", "namespace"); known && namespaced && in != "" {
		return l.forbiddenDestination(p, name, appset.Destination{Server: app.Spec.Destination.Server, Namespace: in}, cluster)
	}
	return ""
}

// forbiddenDestination returns why a project does not permit a destination on a cluster, or "".
func (l *loader) forbiddenDestination(p *project, name string, d appset.Destination, cluster string) string {
	for _, c := range l.estate.Clusters {
		if server := cmp.Or(d.Server, bridge.Server(l.estate.Name, c)); c.Name == cluster && !p.permitsDestination(server, cluster, d.Namespace) {
			return fmt.Sprintf("its project %s does not permit the destination %s, namespace %s", name, server, d.Namespace)
		}
	}
	return ""
}

// project records an AppProject of the hub.
func (l *loader) project(t tree, file string, doc *yaml.Node) {
	p := &project{wave: waveOf(t, file, doc)}
	if spec := strict.Get(doc, "spec"); spec != nil && spec.Decode(p) != nil {
		p = nil // left to the API server
	}
	l.projects[strict.Text(doc, "metadata", "name")] = p
}

// precedes leaves out an Application in an earlier sync wave than its project: it keeps the project's wave from starting.
func (l *loader) precedes(g *lab.Generated, app *appset.Template) {
	if p := l.projects[app.Spec.Project]; p != nil && p.wave.tree != (tree{}) && p.wave.tree.key() == g.Folder && p.wave.number > g.Wave {
		leftout.Unsynced(g, "its project "+app.Spec.Project+" is in a later sync wave")
		g.Blocks = true
	}
}

// isMissing reports whether a project certainly does not exist.
func (l *loader) isMissing(project string) bool {
	return !l.unsure && project != "" && !l.has(project)
}

func (l *loader) has(project string) bool {
	_, ok := l.projects[project]
	return ok
}

// forbidden returns why an Application's project rejects it, or "".
func (l *loader) forbidden(app *appset.Template, cluster string) string {
	name := cmp.Or(app.Spec.Project, defaultProject)
	if !l.has(name) {
		return "its project " + name + " is not known to exist"
	}
	p := l.projects[name]
	if p == nil {
		return ""
	}
	for _, source := range app.Spec.All() {
		if source.RepoURL == "" || p.permitsSource(source.RepoURL) {
			continue
		}
		why := "its project " + name + " does not permit the source " + source.RepoURL
		if r, ok := l.inputs().Mounted(source.RepoURL); ok && lab.RepositoryKey(source.RepoURL) != lab.RepositoryKey(r.URL) {
			why += ", the mirror of " + r.URL
		}
		return why
	}
	if why := l.forbiddenDestination(p, name, app.Spec.Destination, cluster); why != "" {
		return why
	}
	if app.Spec.CreatesNamespace() && !p.permitsKind("", "Namespace", false) {
		return "its project " + name + " does not permit Namespace, of which CreateNamespace=true creates one"
	}
	if len(p.SignatureKeys) > 0 {
		return "its project " + name + " requires signed commits, whose keys the lab's engine does not have"
	}
	if p.hasWindow(app) {
		return "its project " + name + " has sync windows, outside of which Argo CD may not sync it"
	}
	return ""
}

// hasWindow reports whether a sync window applies to an Application. When it is open is left to Argo CD.
func (p *project) hasWindow(app *appset.Template) bool {
	d := app.Spec.Destination
	for _, w := range p.SyncWindows {
		some, every := false, true
		match := func(patterns []string, values ...string) {
			matches := slices.ContainsFunc(patterns, func(pattern string) bool {
				return slices.ContainsFunc(values, func(value string) bool { return render.Globs(pattern, value) })
			})
			some, every = some || matches, every && (matches || len(patterns) == 0)
		}
		match(w.Applications, app.Metadata.Name)
		match(w.Clusters, cmp.Or(d.Name, d.Server)) // as written, never both
		match(w.Namespaces, d.Namespace)
		if some && (every || !w.All) {
			return true
		}
	}
	return false
}

// permitsSource compares addresses like Argo CD. One that begins with an exclamation mark is denied.
func (p *project) permitsSource(address string) bool {
	permitted := false
	for _, pattern := range p.SourceRepos {
		of, denies := strings.CutPrefix(pattern, "!")
		matches := permits(strings.TrimSuffix(pattern, of)+normalized(of), normalized(address), '/')
		if denies && !matches {
			return false
		}
		permitted = permitted || matches
	}
	return permitted
}

// scpURL matches user@host:path.
var scpURL = regexp.MustCompile(`^[^/:]*@[^@]+$`)

// normalized returns an address as Argo CD compares it: its protocol and user matter.
func normalized(address string) string {
	address = strings.ToLower(strings.TrimSpace(address))
	if scpURL.MatchString(address) {
		address = "ssh://" + strings.Replace(address, ":", "/", 1)
	}
	u, err := url.Parse(strings.TrimSuffix(address, ".git"))
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(u.String(), "ssh://")
}

// permits reports whether a value matches a pattern, or not one that begins with an exclamation mark. An invalid pattern matches nothing.
func permits(pattern, value string, separators ...rune) bool {
	of, denies := strings.CutPrefix(pattern, "!")
	if pattern == "*" {
		return true
	}
	g, err := glob.Compile(of, separators...)
	return (err == nil && g.Match(value)) != denies
}

func (p *project) permitsDestination(server, cluster, namespace string) bool {
	permitted := false
	denies := func(pattern string) bool { return strings.HasPrefix(pattern, "!") }
	for _, d := range p.Destinations {
		byName, byServer, in := permits(d.Name, cluster), permits(d.Server, server), permits(d.Namespace, namespace)
		switch {
		case (byName || byServer) && in:
			permitted = true
		case !byName && denies(d.Name), !byServer && denies(d.Server) && in, !in && denies(d.Namespace) && byServer:
			return false
		}
	}
	return permitted && !p.OwnClusters
}

// Reach describes what the root of an estate leads to.
type Reach struct {
	Projects []string // missing ones of its Applications, with any addons enabled
	Addons   []string // of its clusters, that nothing selects by
}

// Reached returns the reach of an estate. If unknown sources may contain the missing projects, it returns only those that the repositories define where nothing leads to.
func Reached(fsys fs.FS, name string, mounted []lab.Repository, defined []string) Reach {
	l := newLoader(fsys, "", name)
	l.mounted = mounted
	l.manifest()
	missing, unread := map[string]bool{}, map[string]bool{}
	want := func(project string) {
		if (l.isMissing(project) || slices.Contains(defined, project) && !l.has(project)) && !strings.Contains(project, "{{") {
			missing[project] = true
		}
	}
	for _, app := range l.plain {
		want(app.Spec.Project)
	}
	for _, clusters := range [][]lab.Cluster{l.estate.Clusters, l.withAllAddons()} {
		w := World(l.estate, clusters)
		for _, s := range l.sets {
			if x, err := s.Expand(w); err == nil {
				for _, app := range x.Applications {
					want(app.Spec.Project)
				}
			}
		}
	}
	for _, c := range l.estate.Clusters {
		for addon := range c.Addons {
			if !l.isAddon(addon) {
				unread[addon] = true
			}
		}
	}
	return Reach{Projects: slices.Sorted(maps.Keys(missing)), Addons: slices.Sorted(maps.Keys(unread))}
}

// unwatched reports and notes an object in a namespace that the engine does not watch.
func (l *loader) unwatched(t tree, file string, doc *yaml.Node) bool {
	kind, at := strict.Text(doc, "kind"), strict.Get(doc, "metadata", "namespace")
	ns := cmp.Or(strict.Text(doc, "metadata", "namespace"), t.namespace)
	if !slices.Contains(rootKinds, kind) || !strings.HasPrefix(strict.Text(doc, "apiVersion"), argo.Group) || ns == "" || ns == NamespaceOf(l.estate) {
		return false
	}
	if at == nil {
		at = doc
	}
	if l.first(file, doc) {
		l.note(strict.Position(file, at), fmt.Sprintf("%s %s is in namespace %s, but the engine only watches %s", kind, strict.Text(doc, "metadata", "name"), ns, NamespaceOf(l.estate)),
			"lab does not wait for its Applications")
	}
	return true
}
