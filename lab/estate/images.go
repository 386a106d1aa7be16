package estate

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
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

// sealed is a kind that only the cluster whose controller has the key can decrypt.
const sealed = "SealedSecret of bitnami.com/v1alpha1"

// sourceObjects records what the objects in an Application's source need: images, unless it leads to other Applications, and kinds.
func (l *loader) sourceObjects(g *lab.Generated, app *appset.Template, r *lab.Repository, ours bool, source appset.Source) {
	if l.component == nil || source.Chart == "" && source.Path == "" {
		return
	}
	created := ""
	if app.Spec.CreatesNamespace() {
		created = render.Namespace(app.Spec.Destination.Namespace)
		g.Creates = appendNew(g.Creates, created)
	}
	if !ours || source.Chart != "" {
		g.Opaque = true
		return
	}
	objects, err := l.objects(l.sourceOf(l.tree(r, source.TargetRevision), app, source), "kind")
	if known := new(render.Error); errors.As(err, &known) && known.Remote == "" {
		unsynced(g, "it cannot be rendered: "+known.Message)
	}
	if !g.Leads {
		l.images(g, fluxset.Images(objects))
	}
	foreign, defined := render.Kinds(objects)
	if slices.Contains(foreign, sealed) {
		g.LeftOut, g.Blocks = cmp.Or(g.LeftOut, "its SealedSecrets are encrypted for the controller upstream"), true
	}
	if i := slices.IndexFunc(objects, func(o render.Document) bool { return fluxset.Encrypted(o.Node) }); i >= 0 {
		unsynced(g, objects[i].File+" is encrypted")
		g.Blocks = true
	}
	of := render.Reads(objects, app.Spec.Destination.Namespace)
	present := []string{created}
	for _, name := range Namespaces(l.estate, g.Cluster) {
		present = append(present, render.Namespace(name))
	}
	accounts := "ServiceAccount " + NamespaceOf(l.estate) + "/" // may be the engine's
	of.Read = slices.DeleteFunc(of.Read, func(object string) bool {
		return slices.Contains(present, object) || strings.HasPrefix(object, accounts)
	})
	g.Reads, g.Creates, g.More = append(g.Reads, of.Read...), append(g.Creates, of.Created...), g.More || of.More
	k := l.kinds[g.Name]
	l.kinds[g.Name] = kinds{append(k.foreign, foreign...), append(k.defined, defined...)}
	g.Opaque = g.Opaque || len(objects) == 0
}

// initial are the namespaces of a new cluster.
var initial = []string{"default", "kube-system", "kube-public", "kube-node-lease", "local-path-storage"}

// Namespaces returns the namespaces of a cluster without Applications.
func Namespaces(e *lab.Estate, cluster string) []string {
	c, _ := e.Cluster(cluster)
	names := slices.Concat(initial, c.Namespaces)
	if c.Role == lab.RoleHub {
		names = append(names, NamespaceOf(e))
	}
	return names
}

// chartObjects returns the objects of a release's chart in Git; none if its values are unknown.
func (l *loader) chartObjects(fsys fs.FS, r fluxset.Release) ([]render.Document, error) {
	values, err := json.Marshal(r.Values)
	if r.Values == nil || err != nil || l.component == nil {
		return nil, nil
	}
	if r.Defaults != nil {
		defaults, err := json.Marshal(r.Defaults)
		if err != nil {
			return nil, nil
		}
		fsys = replaced{fsys, path.Join(r.Folder, "values.yaml"), defaults}
	}
	return l.objects(render.Source{
		FS: fsys, Application: r.Name, Namespace: r.TargetNamespace,
		Source: appset.Source{Path: r.Folder, Helm: &appset.Helm{ReleaseName: r.Name, ValuesObject: &runtime.RawExtension{Raw: values}}},
	}, "kind:")
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

// objectsIn returns the objects in a folder that mentions a word; none if they cannot be determined.
func (l *loader) objectsIn(from render.Source, word string) []render.Document {
	objects, _ := l.objects(from, word) // the engine reports the error
	return objects
}

// objects is like objectsIn, with the error. There are none if all folders together take too long.
func (l *loader) objects(from render.Source, word string) ([]render.Document, error) {
	if l.reading > maxRendering || !render.Mentions(from, word) {
		return nil, nil
	}
	began := time.Now()
	defer func() { l.reading += time.Since(began) }()
	if render.TypeOf(from.FS, from.Source) == render.Plain {
		return plainObjects(from.FS, from.Source), nil
	}
	return render.Render(from)
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
