package estate

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/gobwas/glob"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/bridge"
	"homelab/lab/strict"
)

// defaultProject is the AppProject that every Argo CD has.
const defaultProject = "default"

// project is what an AppProject permits.
type project struct {
	SourceRepos  []string `yaml:"sourceRepos"`
	Destinations []struct {
		Server    string `yaml:"server"`
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"destinations"`
}

// project notes an AppProject that comes to the hub.
func (l *loader) project(doc *yaml.Node) {
	p := &project{}
	if spec := get(doc, "spec"); spec != nil && spec.Decode(p) != nil {
		p = nil // which the API server has its say on
	}
	l.projects[text(doc, "metadata", "name")] = p
}

// isMissing reports whether an Application of a project would be refused. Where part of what the root leads to is unknown, nobody can tell.
func (l *loader) isMissing(project string) bool {
	return !l.unsure && project != "" && !l.has(project)
}

func (l *loader) has(project string) bool {
	_, ok := l.projects[project]
	return ok
}

// unruled is why Argo CD would do nothing with an Application for its project's sake: nothing that is known brings that, or it does not permit the Application.
// Empty where it does, and where the project also denies something, which is left to Argo CD.
func (l *loader) unruled(app *appset.Template, cluster string) string {
	name := cmp.Or(app.Spec.Project, defaultProject)
	if !l.has(name) {
		return "its project " + name + " is none that the root is known to bring"
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
	d := app.Spec.Destination
	for _, c := range l.estate.Clusters {
		if server := cmp.Or(d.Server, bridge.Server(l.estate.Name, c)); c.Name == cluster && !p.permitsDestination(server, cluster, d.Namespace) {
			return fmt.Sprintf("its project %s does not permit the destination %s, namespace %s", name, server, d.Namespace)
		}
	}
	return ""
}

// permitsSource compares addresses whatever their protocol and suffix.
func (p *project) permitsSource(address string) bool {
	return slices.ContainsFunc(p.SourceRepos, func(pattern string) bool {
		if pattern == "*" || strings.HasPrefix(pattern, "!") {
			return true
		}
		g, err := glob.Compile(lab.RepositoryKey(pattern), '/')
		return err != nil || g.Match(lab.RepositoryKey(address))
	})
}

func (p *project) permitsDestination(server, cluster, namespace string) bool {
	for _, d := range p.Destinations {
		if strings.HasPrefix(d.Server+d.Name+d.Namespace, "!") || strings.HasPrefix(d.Namespace, "!") {
			return true
		}
		if (d.Server != "" && globs(d.Server, server) || d.Name != "" && globs(d.Name, cluster)) && globs(d.Namespace, namespace) {
			return true
		}
	}
	return false
}

// MissingProjects returns the projects that Applications of an estate have, whatever is switched on, and that nothing brings. Of one whose root leads to what is
// unknown it returns none.
func MissingProjects(fsys fs.FS, name string, mounted []lab.Repository) []string {
	l := newLoader(fsys, "", name)
	l.mounted = mounted
	l.manifest()
	if l.unsure {
		return nil
	}
	missing := map[string]bool{}
	want := func(project string) {
		if l.isMissing(project) && !strings.Contains(project, "{{") {
			missing[project] = true
		}
	}
	for _, app := range l.plain {
		want(app.Spec.Project)
	}
	for _, clusters := range [][]lab.Cluster{l.estate.Clusters, l.potential()} {
		w := World(l.estate, clusters)
		for _, s := range l.sets {
			if x, err := s.Expand(w); err == nil {
				for _, app := range x.Applications {
					want(app.Spec.Project)
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

// beyondEngine reports whether an object is in a namespace where the engine does not look for its kind, and notes it.
func (l *loader) beyondEngine(file string, doc *yaml.Node) bool {
	kind, ns := text(doc, "kind"), text(doc, "metadata", "namespace")
	if !slices.Contains(rootKinds, kind) || !strings.HasPrefix(text(doc, "apiVersion"), "argoproj.io/") || ns == "" || ns == NamespaceOf(l.estate) {
		return false
	}
	if l.first(file, doc) {
		l.note(strict.Position(file, get(doc, "metadata", "namespace")), fmt.Sprintf("%s %s is in namespace %s, and the engine looks for it in %s alone", kind, text(doc, "metadata", "name"), ns, NamespaceOf(l.estate)),
			"lab does not wait for what it makes")
	}
	return true
}
