package draft

import (
	"maps"
	"path"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/estate"
)

// roots finds the documents that lead to others, and those that none leads to. If none leads anywhere, all are roots.
func (d *drafting) roots() {
	leads := map[*document][]*document{}
	below := map[*document]bool{}
	for _, doc := range d.docs {
		for _, to := range d.leadsTo(doc) {
			if to != doc {
				leads[doc] = append(leads[doc], to)
			}
		}
	}
	for _, doc := range d.docs {
		if doc.from != nil {
			below[doc] = true
			leads[doc.from] = append(leads[doc.from], doc)
			for _, same := range d.docs { // same position
				below[same] = below[same] || same.repo == doc.repo && same.file == doc.file
			}
		}
	}
	for doc, list := range leads {
		for _, to := range list {
			if !slices.Contains(leads[to], doc) || path.Dir(doc.file) < path.Dir(to.file) { // break cycles of two
				below[to] = true
			}
		}
	}
	folders := map[string]bool{} // of those that lead to others
	for _, doc := range d.docs {
		if !below[doc] && len(leads[doc]) > 0 {
			folders[doc.repo.Name+"/"+path.Dir(doc.file)] = true
		}
	}
	for _, doc := range d.docs {
		switch {
		case below[doc]:
		case len(folders) == 0 || folders[doc.repo.Name+"/"+path.Dir(doc.file)]:
			d.taken[doc] = true
			d.Roots = append(d.Roots, doc.at)
		default:
			d.Beside = append(d.Beside, doc.at)
		}
	}
}

// leadsTo returns the documents in the folders that a document's Applications sync to the hub.
func (d *drafting) leadsTo(doc *document) []*document {
	var list []*document
	for _, app := range d.applications(doc) {
		for _, to := range d.below(app) {
			if !slices.Contains(list, to) {
				list = append(list, to)
			}
		}
	}
	return list
}

// below returns the documents in the folders that an Application syncs to the hub.
func (d *drafting) below(app *appset.Template) []*document {
	if !estate.ToHub(d.estate, app) {
		return nil
	}
	var list []*document
	for _, source := range app.Spec.All() {
		r, ok := d.inputs().Mounted(source.RepoURL)
		if !ok || source.Chart != "" || source.Path == "" {
			continue
		}
		for _, to := range d.docs {
			if to.from == nil && to.repo.Name == r.Name && takes(source, to.file) {
				list = append(list, to)
			}
		}
	}
	return list
}

// leadsOn reports whether an Application syncs documents, or may generate some, on the hub.
func (d *drafting) leadsOn(app *appset.Template) bool {
	return len(d.below(app)) > 0 || estate.ToHub(d.estate, app) && app.Spec.Destination.Namespace == estate.NamespaceOf(d.estate)
}

// takes reports whether a source includes a file. Charts and kustomizations count as including all files of their
// folder.
func takes(source appset.Source, file string) bool {
	switch {
	case source.Directory != nil:
		return estate.Takes(path.Clean(source.Path), file, *source.Directory)
	case source.Helm != nil || source.Kustomize != nil:
		return estate.Takes(path.Clean(source.Path), file, appset.Directory{Recurse: true})
	}
	return estate.Takes(path.Clean(source.Path), file, appset.Directory{})
}

// missingProjects returns the names of referenced but missing AppProjects.
func (d *drafting) missingProjects() []string {
	missing := map[string]bool{}
	want := func(name string) {
		if name != "" && name != "default" && !slices.Contains(d.projects, name) && !strings.Contains(name, "{{") {
			missing[name] = true
		}
	}
	for _, doc := range d.docs {
		if doc.app != nil {
			want(doc.app.Spec.Project)
			continue
		}
		want(doc.set.Spec.Template.Spec.Project)
		if x, err := doc.set.Expand(d.world()); err == nil {
			for _, app := range x.Applications {
				want(app.Spec.Project)
			}
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

// source is a folder that the root syncs, with the included files.
type source struct {
	repo  *lab.Repository
	dir   string
	files []string
}

func (d *drafting) sources() []source {
	var list []source
	for _, doc := range d.docs {
		if !d.taken[doc] {
			continue
		}
		dir := path.Dir(doc.file)
		i := slices.IndexFunc(list, func(s source) bool { return s.repo == doc.repo && s.dir == dir })
		if i < 0 {
			i = len(list)
			list = append(list, source{repo: doc.repo, dir: dir})
		}
		if name := path.Base(doc.file); !slices.Contains(list[i].files, name) {
			list[i].files = append(list[i].files, name)
		}
	}
	return list
}
