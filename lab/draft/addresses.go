package draft

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/estate/mount"
)

// reads are the folders that documents read at an address.
type reads struct {
	url   string
	paths []string
}

// addresses returns the repositories with the other addresses by which the documents refer to them, as in a fork: addresses that are not mounted, and most of whose
// folders exist in a repository that has their name, or that no document refers to by its own address.
func (d *drafting) addresses() []lab.Repository {
	repositories := slices.Clone(d.estate.Repositories)
	var others []reads
	used := map[string]bool{} // folders of repositories
	for _, doc := range d.docs {
		for _, s := range d.sourcesOf(doc) {
			dir := s.Path
			if i := strings.IndexAny(dir, "{*?["); i >= 0 {
				dir = path.Dir(dir[:i] + "x")
			}
			if s.Chart != "" || s.Path == "" || strings.Contains(s.RepoURL, "{{") || doc.folder {
				continue
			}
			if r, ok := d.inputs().Mounted(s.RepoURL); ok {
				used[r.Dir] = true
				continue
			}
			i := slices.IndexFunc(others, func(o reads) bool { return lab.RepositoryKey(o.url) == lab.RepositoryKey(s.RepoURL) })
			if i < 0 {
				i, others = len(others), append(others, reads{url: s.RepoURL})
			}
			others[i].paths = append(others[i].paths, path.Clean(dir))
		}
	}
	for _, o := range others {
		if !mount.IsAddress(o.url) {
			continue
		}
		for _, r := range d.estate.Repositories {
			named := path.Base(lab.RepositoryKey(o.url)) == path.Base(lab.RepositoryKey(r.URL))
			if (named || !used[r.Dir]) && o.in(r.FS) {
				repositories = mount.Alias(repositories, r, o.url)
				break
			}
		}
	}
	return repositories
}

// in reports whether most of the folders exist, apart from the top.
func (o reads) in(fsys fs.FS) bool {
	there, all := 0, 0
	for _, dir := range o.paths {
		if dir == "." {
			continue
		}
		all++
		if _, err := fs.Stat(fsys, dir); err == nil {
			there++
		}
	}
	return there > all/2
}

// sourcesOf returns the sources of a document's Applications, or of its template if it generates none, and those of its Git generators.
func (d *drafting) sourcesOf(doc *document) []appset.Source {
	var list []appset.Source
	for _, app := range d.applications(doc) {
		list = append(list, app.Spec.All()...)
	}
	if doc.set == nil {
		return list
	}
	if len(list) == 0 {
		list = doc.set.Spec.Template.Spec.All()
	}
	for _, r := range doc.readers() {
		if r.generated {
			list = append(list, appset.Source{RepoURL: r.address, Path: r.text})
		}
	}
	return list
}
