package draft

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/fluxset"
)

// byHand is a GitRepository that Kustomizations refer to and nothing creates: upstream it is created by hand, for the repository that contains them.
type byHand struct {
	namespace, name string
	url             string
	ref             *yaml.Node
	at              lab.Position // of a Kustomization
}

func (s byHand) String() string { return "gitrepository " + s.namespace + "/" + s.name }

func (s byHand) text() string {
	meta := mapping{}
	meta.add("name", s.name)
	meta.add("namespace", s.namespace)
	return object("source.toolkit.fluxcd.io/v1", "GitRepository", meta, fetch(s.url, s.ref))
}

// source adds the missing sources of an application and of its charts, if the root's repository has their folders.
func (l *lacks) source(r fluxRoot, app fluxset.Application) {
	add := func(missing, dir string, at lab.Position) {
		of, ok := strings.CutPrefix(missing, "GitRepository ")
		namespace, name, _ := strings.Cut(of, "/")
		if !ok || dir == "." || name == "" || slices.ContainsFunc(l.sources, func(s byHand) bool { return s.namespace == namespace && s.name == name }) {
			return
		}
		if info, err := fs.Stat(r.tree.FS, strings.TrimPrefix(path.Join("/", dir), "/")); err == nil && info.IsDir() {
			l.sources = append(l.sources, byHand{namespace, name, r.repo.URL, cmp.Or(r.ref, branch(r.repo.Branch)), at})
		}
	}
	add(app.Missing, app.Path, app.At)
	for _, release := range app.Releases {
		if release.URL == "" {
			add(release.Source, release.Folder, release.At)
		}
	}
}
