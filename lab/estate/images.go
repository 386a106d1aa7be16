package estate

import (
	"io/fs"
	"path"
	"slices"
	"time"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/fluxset"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// images records the images of an application: lab loads its own, others need their registry.
func (l *loader) images(g *lab.Generated, refs []string) {
	if l.component == nil {
		return
	}
	for _, ref := range refs {
		if name := l.component(ref); name != "" {
			g.Images = appendNew(g.Images, name)
		} else {
			g.Others = appendNew(g.Others, ref)
		}
	}
}

// sourceImages records those of lab's images that an Application's folder contains, unless it leads to other Applications. An Application with other images is
// not left out: its health would be the root's.
func (l *loader) sourceImages(g *lab.Generated, app *appset.Template, fsys fs.FS, source appset.Source) {
	if l.component == nil || g.Leads || source.Chart != "" || source.Path == "" || l.imagesFor > maxRendering {
		return
	}
	from := l.sourceOf(fsys, app, source)
	if !render.Mentions(from, "image") {
		return
	}
	began := time.Now()
	defer func() { l.imagesFor += time.Since(began) }()
	objects, err := render.Render(from)
	if err != nil {
		if objects = nil; render.TypeOf(fsys, source) == render.Plain {
			objects = plainObjects(fsys, source)
		}
	}
	for _, ref := range fluxset.Images(objects) {
		if name := l.component(ref); name != "" {
			g.Images = appendNew(g.Images, name)
		}
	}
}

// plainObjects returns the manifests of a folder that is not rendered.
func plainObjects(fsys fs.FS, source appset.Source) []render.Document {
	var objects []render.Document
	options := appset.Directory{}
	if source.Directory != nil {
		options = *source.Directory
	}
	dir := path.Clean(source.Path)
	_ = fs.WalkDir(fsys, dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !Takes(dir, file, options) || !slices.Contains([]string{".yaml", ".yml"}, path.Ext(file)) {
			return nil //nolint:nilerr // the engine reports it
		}
		data, err := fs.ReadFile(fsys, file)
		if err != nil || len(data) > strict.MaxFile {
			return nil //nolint:nilerr // likewise
		}
		docs, _ := strict.Parse(file, data)
		for _, n := range docs {
			objects = append(objects, render.Document{Node: n, File: file})
		}
		return nil
	})
	return objects
}
