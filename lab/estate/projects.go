package estate

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/estate/judge"
	"homelab/lab/estate/project"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// project records an AppProject of the hub.
func (l *loader) project(t tree, file string, doc *yaml.Node) {
	l.projects[strict.Text(doc, "metadata", "name")] = judge.Project{Project: project.Read(doc, MinorOf(l.estate)), Known: true, Wave: waveOf(t, file, doc)}
}

// isMissing reports whether a project certainly does not exist.
func (l *loader) isMissing(project string) bool {
	return !l.unsure && project != "" && !l.projects[project].Known
}

// Reach describes what the root of an estate leads to.
type Reach struct {
	Projects []string // missing ones of its Applications, with any addons enabled
	Addons   []string // of its clusters, that nothing selects by
}

// Reached returns the reach of an estate. If unknown sources may contain the missing projects, it returns only those that the repositories define where nothing leads to.
func Reached(fsys fs.FS, name string, mounted []lab.Repository, defined []string) Reach {
	l := newLoader(fsys, "", name)
	l.mounted.Earlier = mounted
	l.manifest()
	missing, unread := map[string]bool{}, map[string]bool{}
	want := func(project string) {
		if (l.isMissing(project) || slices.Contains(defined, project) && !l.projects[project].Known) && !strings.Contains(project, "{{") {
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
	reads := l.readLabels()
	for _, c := range l.estate.Clusters {
		for addon := range c.Addons {
			if !judge.IsAddon(l.estate, addon, reads) {
				unread[addon] = true
			}
		}
	}
	return Reach{Projects: slices.Sorted(maps.Keys(missing)), Addons: slices.Sorted(maps.Keys(unread))}
}

// unwatched reports and notes an object in a namespace that the engine does not watch.
func (l *loader) unwatched(t tree, file string, doc *yaml.Node) bool {
	kind, at := strict.Text(doc, "kind"), cmp.Or(strict.Get(doc, "metadata", "namespace"), doc)
	ns := cmp.Or(strict.Text(doc, "metadata", "namespace"), t.namespace)
	if !appset.OfArgoCD(doc) || ns == "" || ns == NamespaceOf(l.estate) {
		return false
	}
	if l.first(file, doc) {
		l.note(finding.UnwatchedNamespace, strict.Position(file, at), fmt.Sprintf("%s %s is in namespace %s, but the engine only watches %s", kind, strict.Text(doc, "metadata", "name"), ns, NamespaceOf(l.estate)),
			"lab does not wait for its Applications")
	}
	return true
}
