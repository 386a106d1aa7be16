package estate

import (
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

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
			g.Pulls = appendNew(g.Pulls, ref)
		}
	}
}

// sourceImages records the images in an Application's folder, unless it leads to other Applications.
func (l *loader) sourceImages(g *lab.Generated, app *appset.Template, fsys fs.FS, source appset.Source) {
	if !g.Leads && source.Chart == "" && source.Path != "" {
		l.images(g, l.imagesIn(l.sourceOf(fsys, app, source)))
	}
}

// chartImages records the images of a release's chart in Git, unless its values are unknown.
func (l *loader) chartImages(g *lab.Generated, fsys fs.FS, r fluxset.Release) {
	values, err := json.Marshal(r.Values)
	if r.Values == nil || err != nil {
		return
	}
	if r.Defaults != nil {
		defaults, err := json.Marshal(r.Defaults)
		if err != nil {
			return
		}
		fsys = replaced{fsys, path.Join(r.Folder, "values.yaml"), defaults}
	}
	l.images(g, l.imagesIn(render.Source{
		FS: fsys, Application: r.Name, Namespace: r.TargetNamespace,
		Source: appset.Source{Path: r.Folder, Helm: &appset.Helm{ReleaseName: r.Name, ValuesObject: &runtime.RawExtension{Raw: values}}},
	}))
}

// replaced is a file system with other contents of a file.
type replaced struct {
	fs.FS
	name string
	data []byte
}

func (r replaced) Open(name string) (fs.File, error) {
	if name == r.name {
		return fstest.MapFS{name: {Data: r.data, Mode: 0o444}}.Open(name)
	}
	return r.FS.Open(name)
}

// imagesIn returns the images in a folder; none if they are not needed.
func (l *loader) imagesIn(from render.Source) []string {
	if l.component == nil {
		return nil
	}
	return fluxset.Images(l.objectsIn(from, "image"))
}

// objectsIn returns the objects in a folder that mentions a word; none if they cannot be determined, or all folders together take too long.
func (l *loader) objectsIn(from render.Source, word string) []render.Document {
	if l.reading > maxRendering || !render.Mentions(from, word) {
		return nil
	}
	began := time.Now()
	defer func() { l.reading += time.Since(began) }()
	if render.TypeOf(from.FS, from.Source) == render.Plain {
		return plainObjects(from.FS, from.Source)
	}
	objects, err := render.Render(from)
	if err != nil {
		return nil // the engine reports it
	}
	return objects
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
