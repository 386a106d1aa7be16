package draft

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/draft/fluxroot"
	"homelab/lab/fluxset"
)

// byHand is a GitRepository that Kustomizations refer to and nothing creates: upstream it is created by hand, for the repository that contains them.
type byHand struct {
	namespace, name string
	of              fluxroot.Root
	at              lab.Position // of a Kustomization
}

func (s byHand) String() string { return "gitrepository " + s.namespace + "/" + s.name }

func (s byHand) text() string { return s.of.Source(s.namespace, s.name) }

// source adds the missing sources of an application and of its charts, if the root's repository has their folders.
func (l *lacks) source(r fluxroot.Root, app fluxset.Application) {
	add := func(missing, dir string, at lab.Position) {
		of, ok := strings.CutPrefix(missing, "GitRepository ")
		namespace, name, _ := strings.Cut(of, "/")
		if !ok || dir == "." || name == "" || slices.ContainsFunc(l.sources, func(s byHand) bool { return s.namespace == namespace && s.name == name }) {
			return
		}
		if info, err := fs.Stat(r.Tree.FS, strings.TrimPrefix(path.Join("/", dir), "/")); err == nil && info.IsDir() {
			l.sources = append(l.sources, byHand{namespace, name, r, at})
		}
	}
	add(app.Missing, app.Path, app.At)
	for _, release := range app.Releases {
		if release.URL == "" {
			add(release.Source, release.Folder, release.At)
		}
	}
}
