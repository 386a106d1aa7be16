// Package project has the rules of AppProjects: which sources, destinations and objects they permit.
package project

import (
	"cmp"
	"fmt"
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
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Default exists in every Argo CD.
const Default = "default"

// Of returns the name of an Application's project.
func Of(app *appset.Template) string { return cmp.Or(app.Spec.Project, Default) }

// Project is an AppProject. A nil one permits everything.
type Project struct {
	name string
	spec spec
}

// spec holds the permissions of an AppProject.
type spec struct {
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

	ClusterKinds      []named     `yaml:"clusterResourceWhitelist"`
	NoClusterKinds    []named     `yaml:"clusterResourceBlacklist"`
	NamespacedKinds   []groupKind `yaml:"namespaceResourceWhitelist"` // nil for all
	NoNamespacedKinds []groupKind `yaml:"namespaceResourceBlacklist"`
}

// groupKind has patterns of groups and kinds.
type groupKind struct {
	Group string `yaml:"group"`
	Kind  string `yaml:"kind"`
}

// named also has a pattern of names, empty for all.
type named struct {
	groupKind `yaml:",inline"`
	Name      string `yaml:"name"` // since Argo CD 3.3, whose predecessors drop it
}

// Read decodes an AppProject, or returns nil if that fails, which is left to the API server.
func Read(doc *yaml.Node, m argo.Minor) *Project {
	p := &Project{name: strict.Text(doc, "metadata", "name")}
	if spec := strict.Get(doc, "spec"); spec != nil && spec.Decode(&p.spec) != nil {
		return nil
	}
	if !m.Has(3) {
		for _, list := range [][]named{p.spec.ClusterKinds, p.spec.NoClusterKinds} {
			for i := range list {
				list[i].Name = ""
			}
		}
	}
	return p
}

// Refuses returns why the project rejects an Application on a cluster of the estate, or "".
func (p *Project) Refuses(e *lab.Estate, app *appset.Template, cluster string) string {
	if p == nil {
		return ""
	}
	for _, source := range app.Spec.All() {
		if source.RepoURL == "" || p.spec.permitsSource(source.RepoURL) {
			continue
		}
		why := "its project " + p.name + " does not permit the source " + source.RepoURL
		if r, ok := bridge.InputsOf(e).Mounted(source.RepoURL); ok && lab.RepositoryKey(source.RepoURL) != lab.RepositoryKey(r.URL) {
			why += ", the mirror of " + r.URL
		}
		return why
	}
	if why := p.refusesDestination(e, app.Spec.Destination, cluster); why != "" {
		return why
	}
	if in := app.Spec.Destination.Namespace; app.Spec.CreatesNamespace() && !p.spec.permitsOfCluster("", "Namespace", in) {
		return "its project " + p.name + " does not permit Namespace" + p.spec.but(in) + ", of which CreateNamespace=true creates one"
	}
	if len(p.spec.SignatureKeys) > 0 {
		return "its project " + p.name + " requires signed commits, whose keys the lab's engine does not have"
	}
	if p.spec.hasWindow(app) {
		return "its project " + p.name + " has sync windows, outside of which Argo CD may not sync it"
	}
	return ""
}

// RefusesObject returns why the project keeps an object of an Application from being synced, or "".
func (p *Project) RefusesObject(e *lab.Estate, app *appset.Template, cluster string, o render.Document) string {
	if p == nil {
		return ""
	}
	gvk := schema.FromAPIVersionAndKind(strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind"))
	namespaced, known := render.Namespaced(o)
	name := strict.Text(o.Node, "metadata", "name")
	switch {
	case known && namespaced && !p.spec.permitsNamespaced(gvk.Group, gvk.Kind):
		return fmt.Sprintf("its project %s does not permit %s", p.name, gvk.GroupKind())
	case known && !namespaced && !p.spec.permitsOfCluster(gvk.Group, gvk.Kind, name):
		return fmt.Sprintf("its project %s does not permit %s%s", p.name, gvk.GroupKind(), p.spec.but(name))
	}
	if in := strict.Text(o.Node, "metadata", "namespace"); known && namespaced && in != "" {
		return p.refusesDestination(e, appset.Destination{Server: app.Spec.Destination.Server, Namespace: in}, cluster)
	}
	return ""
}

// refusesDestination returns why the project does not permit a destination on a cluster, or "".
func (p *Project) refusesDestination(e *lab.Estate, d appset.Destination, cluster string) string {
	for _, c := range e.Clusters {
		if server := cmp.Or(d.Server, bridge.Server(e.Name, c)); c.Name == cluster && !p.spec.permitsDestination(server, cluster, d.Namespace) {
			return fmt.Sprintf("its project %s does not permit the destination %s, namespace %s", p.name, server, d.Namespace)
		}
	}
	return ""
}

// permitsNamespaced reports whether Applications may have objects of a kind with namespaces.
func (s *spec) permitsNamespaced(group, kind string) bool {
	in := func(list []groupKind) bool {
		return slices.ContainsFunc(list, func(gk groupKind) bool { return gk.matches(group, kind) })
	}
	return (s.NamespacedKinds == nil || in(s.NamespacedKinds)) && !in(s.NoNamespacedKinds)
}

// permitsOfCluster reports whether Applications may have an object of a kind without namespaces.
func (s *spec) permitsOfCluster(group, kind, name string) bool {
	in := func(list []named) bool {
		return slices.ContainsFunc(list, func(n named) bool {
			matches, _ := path.Match(n.Name, name)
			return n.matches(group, kind) && (matches || n.Name == "")
		})
	}
	return in(s.ClusterKinds) && !in(s.NoClusterKinds)
}

func (gk groupKind) matches(group, kind string) bool {
	ofGroup, _ := path.Match(gk.Group, group)
	ofKind, _ := path.Match(gk.Kind, kind)
	return ofGroup && ofKind
}

// but returns a name for messages if the project tells names apart.
func (s *spec) but(name string) string {
	if slices.ContainsFunc(slices.Concat(s.ClusterKinds, s.NoClusterKinds), func(n named) bool { return n.Name != "" }) {
		return " " + name
	}
	return ""
}

// hasWindow reports whether a sync window applies to an Application. When it is open is left to Argo CD.
func (s *spec) hasWindow(app *appset.Template) bool {
	d := app.Spec.Destination
	for _, w := range s.SyncWindows {
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
func (s *spec) permitsSource(address string) bool {
	permitted := false
	for _, pattern := range s.SourceRepos {
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

func (s *spec) permitsDestination(server, cluster, namespace string) bool {
	permitted := false
	denies := func(pattern string) bool { return strings.HasPrefix(pattern, "!") }
	for _, d := range s.Destinations {
		byName, byServer, in := permits(d.Name, cluster), permits(d.Server, server), permits(d.Namespace, namespace)
		switch {
		case (byName || byServer) && in:
			permitted = true
		case !byName && denies(d.Name), !byServer && denies(d.Server) && in, !in && denies(d.Namespace) && byServer:
			return false
		}
	}
	return permitted && !s.OwnClusters
}
