package estate

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/estate/judge"
	"homelab/lab/finding"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// plainApplication is an Application that no ApplicationSet generates.
type plainApplication struct {
	*appset.Template
	file string
	at   lab.Position
	doc  *yaml.Node // nil if rendered: its fields have no positions

	manual string // manually synced application above it, or empty
	wave   judge.Wave
}

// tree is a folder that an Application syncs to the hub.
type tree struct {
	repo             *lab.Repository // nil for the estate
	chart            bool            // of a chart repository: dir is NAME-VERSION
	dir              string          // within the repository
	recurse          bool
	include, exclude string
	rendering        string // key of its rendering; empty for plain manifests
	manual           string // manually synced application at or above it, or empty
	namespace        string // of objects without one
}

// follow finds every ApplicationSet reached from the root, through folders synced by it and by Applications below it.
func (l *loader) follow() {
	l.roots = l.rootTrees()
	pending := slices.Clone(l.roots)
	followed := map[string]bool{} // sets whose Applications were visited
	var seen []tree
	for {
		for _, t := range pending {
			if !slices.Contains(seen, t) {
				seen = append(seen, t)
				pending = append(pending, l.sync(t)...)
			}
		}
		pending = slices.DeleteFunc(pending, func(t tree) bool { return slices.Contains(seen, t) })
		if len(pending) > 0 {
			continue
		}
		w := World(l.estate, l.estate.Clusters)
		for _, s := range l.sets {
			if followed[s.Name] {
				continue
			}
			followed[s.Name] = true
			x, err := s.Expand(w)
			if err != nil {
				l.unsure = true
				continue // reported by expand
			}
			for _, app := range x.Applications {
				pending = append(pending, l.trees(&app.Template, s.manual, app.Origins("metadata", "name")[0].Position)...)
			}
		}
		if len(pending) == 0 {
			return
		}
	}
}

// rootTrees returns the folders synced by the root's Applications.
func (l *loader) rootTrees() []tree {
	var trees []tree
	for i, doc := range l.appliedRoot() {
		at := strict.Position(lab.RootFile, l.rootDocs[i])
		l.estate.Notes = append(l.estate.Notes, l.api().Ignored(lab.RootFile, l.rootDocs[i])...)
		switch strict.Text(doc, "kind") {
		case "AppProject":
			l.project(tree{}, lab.RootFile, doc)
		case "ApplicationSet":
			l.addSet(tree{}, lab.RootFile, doc)
		case "Application":
			app, problems := l.api().ParseApplication(lab.RootFile, doc)
			if l.problems = append(l.problems, problems...); app == nil {
				continue
			}
			for _, source := range app.Spec.All() {
				r, ok := l.source(source.RepoURL)
				switch {
				case source.Chart != "" && !ok:
					trees = append(trees, l.chartTree(app, source, at, true)...)
				case ok || source.RepoURL == "":
					trees = append(trees, l.treeOf(r, app, source, &at)...)
				case source.Path != "":
					l.unknown(at, source.Path+" of "+source.RepoURL, cureOf(source.RepoURL))
				}
			}
		}
	}
	if l.badRoot || len(l.rootDocs) == 0 { // check the addons nevertheless
		trees = append(trees, tree{dir: lab.AddonsDir, recurse: true})
	}
	return trees
}

// trees returns the folders of the estate and of mounted repositories, and the charts, that an Application at a position syncs to the hub. above is the manually synced
// application above it, or empty.
func (l *loader) trees(app *appset.Template, above string, at lab.Position) []tree {
	if !ToHub(l.estate, app) {
		return nil
	}
	var trees []tree
	for _, source := range app.Spec.All() {
		switch r, ok := l.source(source.RepoURL); {
		case ok:
			trees = append(trees, l.treeOf(r, app, source, nil)...)
		case source.Chart != "":
			trees = append(trees, l.chartTree(app, source, at, false)...)
		case app.Spec.Destination.Namespace == NamespaceOf(l.estate):
			l.unsure = true
		}
	}
	if above == "" && !app.Spec.Automated() {
		above = app.Metadata.Name
	}
	for i := range trees {
		trees[i].manual = above
	}
	return trees
}

// ToHub reports whether an Application's destination is the hub.
func ToHub(e *lab.Estate, app *appset.Template) bool {
	d, hub := app.Spec.Destination, e.Hub().Name
	return d.Server == appset.InCluster || d.Name == appset.InClusterName || d.Name != "" && d.Name == hub
}

// treeOf returns the folder of an Application's source, if any. root is the position of a root's Application, nil for others.
func (l *loader) treeOf(r *lab.Repository, app *appset.Template, source appset.Source, root *lab.Position) []tree {
	dir := path.Clean(source.Path)
	if source.Chart != "" || source.Path == "" || !fs.ValidPath(dir) {
		return nil
	}
	fsys := l.fsys
	if r != nil {
		at, err := r.Of(source.TargetRevision)
		if err != nil {
			if l.unsure = true; root != nil {
				l.note(finding.UnknownOutput, *root, "unknown content of "+source.Path+": "+err.Error(), "lab does not wait for it")
			}
			return nil
		}
		r, fsys = at, at.FS
	} else if root == nil && missingRevision(l.estate, source.TargetRevision) != "" {
		l.unsure = true
		return nil
	}
	t := tree{repo: r, dir: dir, namespace: cmp.Or(app.Spec.Destination.Namespace, corev1.NamespaceDefault)}
	switch is := render.TypeOf(fsys, source); is {
	case render.Plain:
		if d := source.Directory; d != nil {
			t.recurse, t.include, t.exclude = d.Recurse, d.Include, d.Exclude
			if len(d.Jsonnet.TLAs)+len(d.Jsonnet.ExtVars)+len(d.Jsonnet.Libs) > 0 {
				t.rendering = l.rendering(fsys, app, source, root)
			}
		}
	case render.Plugin:
		l.unsure = l.unsure || app.Spec.Destination.Namespace == NamespaceOf(l.estate)
		if root != nil {
			l.unknown(*root, "a plugin", "lab does not wait for it")
		}
		return nil
	default:
		t.rendering = l.rendering(fsys, app, source, root)
	}
	return []tree{t}
}

// folder returns the tree without its manual application and its namespace.
func (t tree) folder() tree {
	t.manual, t.namespace = "", ""
	return t
}

// key identifies the folder.
func (t tree) key() string { return within(t.repo, t.dir) + " " + t.rendering }

func (t tree) options() appset.Directory {
	return appset.Directory{Recurse: t.recurse, Include: t.include, Exclude: t.exclude}
}

// sync reads the objects of a tree, and returns the trees synced by its Applications.
func (l *loader) sync(t tree) []tree {
	switch {
	case t.rendering != "":
		return l.syncRendered(t)
	case t.repo != nil:
		return l.syncMounted(t)
	}
	var found []tree
	_ = fs.WalkDir(l.fsys, t.dir, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // reported by walk
		case e.IsDir():
			if file != t.dir && !t.recurse || e.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		case !render.Takes(t.dir, file, t.options()) || path.Ext(file) == ".jsonnet":
			return nil
		case file == lab.RootFile:
			l.rootIsSynced()
			return nil
		}
		for _, doc := range l.documentsOf(file) {
			for _, object := range strict.Items(doc) {
				found = append(found, l.addObject(t, file, object)...)
			}
		}
		return nil
	})
	return found
}

// syncMounted is sync for manifests of a mounted repository, which may be anyone's: what Argo CD cannot read is left out.
func (l *loader) syncMounted(t tree) []tree {
	options := t.options()
	docs, err := render.Render(render.Source{FS: t.repo.FS, Source: appset.Source{Path: t.dir, Directory: &options}})
	if err != nil {
		x := rendering{}
		if slices.Contains(l.roots, t) {
			x.root = &lab.Position{File: lab.RootFile, Line: 1}
		}
		l.renderFailed(t, x, err)
		return nil
	}
	return l.addObjects(t, docs)
}

// addObjects is addObject for the objects of a folder. Of several Applications or ApplicationSets of a name, Argo CD applies the last one.
func (l *loader) addObjects(t tree, docs []render.Document) []tree {
	type object struct{ kind, name string }
	last := map[object]lab.Position{}
	each := func(visit func(file string, doc *yaml.Node, is object)) {
		for _, doc := range docs {
			for _, item := range strict.Items(doc.Node) {
				visit(within(t.repo, doc.File), item, object{strict.Text(item, "kind"), strict.Text(item, "metadata", "name")})
			}
		}
	}
	each(func(file string, doc *yaml.Node, is object) {
		if is.kind == "Application" || is.kind == "ApplicationSet" {
			last[is] = strict.Position(file, doc)
		}
	})
	var found []tree
	each(func(file string, doc *yaml.Node, is object) {
		if at, other := last[is], strict.Position(file, doc); at != (lab.Position{}) && at != other && !l.isOwn(file) {
			l.note(finding.DuplicateObject, other, fmt.Sprintf("%s %s is defined again", is.kind, is.name), "Argo CD applies the last one: "+at.String())
			return
		}
		found = append(found, l.addObject(t, file, doc)...)
	})
	return found
}

// rootIsSynced records the root's addresses as written: the root is itself synced from Git.
func (l *loader) rootIsSynced() {
	for _, root := range l.rootApplications() {
		if root.written == nil {
			continue
		}
		for _, source := range root.written.Spec.All() {
			l.served(source.RepoURL)
		}
	}
}

// addObject records an object of the hub, and returns the trees that it syncs.
func (l *loader) addObject(t tree, file string, doc *yaml.Node) []tree {
	kind := strict.Text(doc, "kind")
	l.updater(doc)
	if l.unwatched(t, file, doc) {
		return nil
	}
	l.hold(t, doc)
	if appset.OfArgoCD(doc) {
		l.estate.Notes = append(l.estate.Notes, l.api().Ignored(file, doc)...)
	}
	switch kind {
	case "AppProject":
		l.project(t, file, doc)
	case "ApplicationSet":
		l.addSet(t, file, doc)
	case "Application":
		app, problems := l.api().ParseApplication(file, doc)
		if l.isOwn(file) {
			l.problems = append(l.problems, problems...)
		} else if l.rejects(t, file, doc) {
			return nil
		}
		if app != nil && l.first(file, doc) {
			p := plainApplication{Template: app, file: file, at: strict.Position(file, doc), manual: t.manual, wave: waveOf(t, file, doc)}
			if t.rendering == "" {
				p.doc = doc
			}
			l.plain = append(l.plain, p)
			return l.trees(app, t.manual, p.at)
		}
	}
	return nil
}

// rejects leaves out an object of another repository that the API server rejects.
func (l *loader) rejects(t tree, file string, doc *yaml.Node) bool {
	problems := l.api().Rejected(file, doc)
	if len(problems) == 0 {
		return false
	}
	if name := cmp.Or(strict.Text(doc, "metadata", "name"), "without a name"); l.first(file, doc) {
		if strict.Text(doc, "kind") == "ApplicationSet" {
			name = lab.SetName(name)
		}
		l.addLeftOut(waveOf(t, file, doc), lab.Generated{At: problems[0].Position, Application: lab.Application{Name: name, Addon: name, LeftOut: "the API server rejects it: " + problems[0].Message}})
	}
	return true
}

// foundAt identifies an object. Objects that a template generates in a loop share a position.
type foundAt struct {
	lab.Position
	kind, name string
}

// first records an object, and reports whether it is new.
func (l *loader) first(file string, doc *yaml.Node) bool {
	at := foundAt{strict.Position(file, doc), strict.Text(doc, "kind"), strict.Text(doc, "metadata", "name")}
	if l.found[at] {
		return false
	}
	l.found[at] = true
	return true
}
