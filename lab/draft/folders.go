package draft

import (
	"cmp"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/draft/manifest"
	"homelab/lab/estate"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// folder is a chart or a kustomization of a repository.
type folder struct {
	repo *lab.Repository
	dir  string
	file string // Chart.yaml or the kustomization, within the repository
}

// folders adds the charts and kustomizations of Applications that are applied by hand, as no Application syncs them: kustomizations of what would be a root, and if nothing
// else leads anywhere, kustomizations of charts, and charts. It reports whether there were any.
func (d *drafting) folders() bool {
	found := false
	for _, k := range d.kustomized(d.leads) {
		if doc := d.folderDocument(k); doc != nil {
			d.docs, found = append(d.docs, doc), true
		}
	}
	if found || d.leading {
		return found
	}
	for _, k := range d.kustomized(func(k folder) bool { return len(listed(k, "helmCharts")) > 0 }) {
		if doc := d.folderDocument(k); doc != nil {
			d.docs, found = append(d.docs, doc), true
		} else if why, rendered := lacking(k); !rendered {
			d.unread = append(d.unread, lab.Problem{Position: lab.Position{File: path.Join(k.repo.Dir, k.file), Line: 1}, Message: "may make Applications: " + why})
		}
	}
	if found {
		return true
	}
	for _, c := range d.charts {
		if d.tried[c] || d.synced(c) || !mentionsApplications(c) {
			continue
		}
		d.tried[c] = true
		docs := slices.DeleteFunc(slices.Clone(d.templates[c]), func(doc *document) bool { return strings.Contains(manifest.Encode(doc.node), "{{") }) // if it cannot be rendered
		if doc := d.folderDocument(c); doc != nil {
			docs = []*document{doc}
		} else if why, rendered := lacking(c); why != "" && (rendered || len(docs) == 0) {
			docs, d.vague = nil, append(d.vague, vague{c, why})
		}
		d.docs, found = append(d.docs, docs...), found || len(docs) > 0
	}
	return found
}

// vague is a chart of Applications that cannot be a root with its own values.
type vague struct {
	folder
	why string
}

// valueless returns the charts whose values are not here, as no Application that was found since syncs them.
func (d *drafting) valueless() []Left {
	var list []Left
	for _, c := range d.vague {
		if !d.synced(c.folder) {
			list = append(list, Left{At: lab.Position{File: path.Join(c.repo.Dir, c.file), Line: 1}, Why: c.why + ": the chart is installed with values that are not here"})
		}
	}
	return list
}

// unlinked returns the charts of Applications that nothing leads to, as something else is the root: each might be it.
func (d *drafting) unlinked() []lab.Position {
	if d.wishes.Root != "" || !d.leading {
		return nil
	}
	var list []lab.Position
	for _, c := range d.charts {
		if d.tried[c] || d.synced(c) || !mentionsApplications(c) {
			continue
		}
		if doc := d.folderDocument(c); doc != nil {
			list = append(list, doc.at)
		}
	}
	return list
}

// leads reports whether a kustomization contains a root.
func (d *drafting) leads(k folder) bool {
	reached := d.reached(k)
	return slices.ContainsFunc(d.docs, func(doc *document) bool {
		return d.taken[doc] && doc.from == nil && doc.repo.Name == k.repo.Name && reached[doc.file]
	})
}

// kustomized returns the kustomizations, not included by others, that are as asked.
func (d *drafting) kustomized(is func(folder) bool) []folder {
	below := map[string]bool{}
	for k, names := range d.includes {
		for _, name := range names {
			below[k.repo.Name+"/"+name] = true
		}
	}
	var list []folder
	for _, k := range d.kustomizations {
		if !below[k.repo.Name+"/"+k.dir] && !d.tried[k] && !d.synced(k) && is(k) {
			d.tried[k] = true
			list = append(list, k)
		}
	}
	return list
}

// reached returns the folders and files that a kustomization includes, directly or through others.
func (d *drafting) reached(k folder) map[string]bool {
	if d.reach[k] == nil {
		d.reach[k] = map[string]bool{}
		d.reachFrom(k, d.reach[k])
	}
	return d.reach[k]
}

func (d *drafting) reachFrom(k folder, seen map[string]bool) {
	for _, name := range d.includes[k] {
		if seen[name] {
			continue
		}
		seen[name] = true
		if i := slices.IndexFunc(d.kustomizations, func(o folder) bool { return o.repo == k.repo && o.dir == name }); i >= 0 {
			d.reachFrom(d.kustomizations[i], seen)
		}
	}
}

// listed returns the local folders and files in fields of a kustomization.
func listed(k folder, fields ...string) []string {
	data, err := fs.ReadFile(k.repo.FS, k.file)
	if err != nil {
		return nil // reported when it is rendered
	}
	docs, _ := strict.Parse(k.file, data)
	var list []string
	for _, doc := range docs {
		for _, field := range fields {
			for _, entry := range strict.List(doc, field) {
				if name := path.Join(k.dir, cmp.Or(strict.Text(entry, "path"), entry.Value)); fs.ValidPath(name) {
					list = append(list, name)
				}
			}
		}
	}
	return list
}

// synced reports whether an Application renders a folder.
func (d *drafting) synced(f folder) bool {
	return slices.ContainsFunc(d.docs, func(doc *document) bool {
		return !doc.folder && slices.ContainsFunc(d.applications(doc), func(app *appset.Template) bool {
			return slices.ContainsFunc(d.foldersOf(app), func(s folderSource) bool {
				return s.repo.Dir == f.repo.Dir && path.Clean(s.Path) == f.dir && s.Directory == nil
			})
		})
	})
}

// mentionsApplications reports whether a chart that can be installed has templates of Applications, or a library beside it that it uses.
func mentionsApplications(f folder) bool {
	in := func(dir string) bool {
		from := render.Source{FS: f.repo.FS, Source: appset.Source{Path: path.Join(dir, "templates"), Directory: &appset.Directory{}}}
		return render.Mentions(from, argo.Group) && render.Mentions(from, "kind: Application")
	}
	library, uses := libraries(f, f.file)
	return !library && (in(f.dir) || slices.ContainsFunc(uses, func(dir string) bool {
		is, _ := libraries(f, path.Join(dir, "Chart.yaml"))
		return is && in(dir)
	}))
}

// libraries reports whether a chart is a library, and returns the folders of the charts that it depends on.
func libraries(f folder, file string) (library bool, uses []string) {
	data, _ := fs.ReadFile(f.repo.FS, file) // of what does not exist, nothing
	docs, _ := strict.Parse(file, data)
	for _, doc := range docs {
		library = library || strict.Text(doc, "type") == "library"
		for _, d := range strict.List(doc, "dependencies") {
			if at, ok := strings.CutPrefix(strict.Text(d, "repository"), "file://"); ok {
				uses = append(uses, path.Join(path.Dir(file), at))
			}
		}
	}
	return library, uses
}

// folderDocument returns an Application that syncs a folder, or nil if it renders to more than Applications, ApplicationSets, projects and namespaces. A chart may
// need one of its value files for that. Of a kustomization that changes Applications, it deletes the rest.
func (d *drafting) folderDocument(f folder) *document {
	doc := &document{repo: f.repo, file: f.file, at: lab.Position{File: path.Join(f.repo.Dir, f.file), Line: 1}, app: rootOf(f), folder: true}
	doc.app.Spec.Destination.Namespace = estate.NamespaceOf(d.estate)
	if leadsOnly(f, doc.app) {
		return doc
	}
	values := Choice{About: "value file of chart " + f.dir, At: doc.at}
	for _, name := range valueFiles(f) {
		if doc.app.Spec.Source.Helm = (&appset.Helm{ValueFiles: []string{name}}); leadsOnly(f, doc.app) {
			values.Of = append(values.Of, name)
		}
	}
	if len(values.Of) == 0 {
		doc.app.Spec.Source.Helm = nil
		return d.changed(f, doc.app)
	}
	doc.values, doc.app.Spec.Source.Helm.ValueFiles = values, []string{d.picked(values)}
	return doc
}

// rootOf returns an Application that syncs a folder to the engine's cluster.
func rootOf(f folder) *appset.Template {
	app := &appset.Template{Metadata: appset.Metadata{Name: "root"}}
	app.Spec.Project = "default"
	app.Spec.Source = &appset.Source{RepoURL: f.repo.URL, Path: f.dir, TargetRevision: "HEAD"}
	app.Spec.Destination.Server = appset.InCluster
	return app
}

// leadsOnly reports whether an Application of a folder contains Applications, and nothing else but projects and namespaces.
func leadsOnly(f folder, app *appset.Template) bool {
	leading, others := contents(f, app)
	return len(leading) > 0 && len(others) == 0 && (path.Base(f.file) != "Chart.yaml" || !slices.ContainsFunc(leading, func(o render.Document) bool { return missing(o) != "" }))
}

// lacking returns what a folder of Applications lacks with its own values, or "", and whether it can be rendered with them.
func lacking(f folder) (why string, rendered bool) {
	app := rootOf(f)
	objects, err := folderSource{Source: *app.Spec.Source, repo: f.repo, app: app}.render()
	switch {
	case err != nil:
		return err.Error(), false
	case len(objects) == 0 && path.Base(f.file) == "Chart.yaml":
		return "makes nothing with its own values", true
	}
	for _, o := range objects {
		if what := missing(o); what != "" {
			return strict.Title(o.Node) + " has no " + what, true
		}
	}
	return "", true
}

// missing returns what Argo CD requires of an Application that it does not have, or "".
func missing(o render.Document) string {
	app, problems := appset.ParseApplication(o.File, o.Node)
	if len(problems) > 0 || app == nil || strict.Text(o.Node, "kind") != "Application" {
		return ""
	}
	to := app.Spec.Destination
	switch {
	case slices.ContainsFunc(app.Spec.All(), func(s appset.Source) bool { return s.RepoURL == "" }):
		return "repoURL"
	case to.Server == "" && to.Name == "":
		return "destination"
	}
	return ""
}

// contents returns the Applications and ApplicationSets of an Application's folder, and what is neither, nor a project or a namespace.
func contents(f folder, app *appset.Template) (leading, others []render.Document) {
	objects, err := folderSource{Source: *app.Spec.Source, repo: f.repo, app: app}.render()
	if err != nil {
		return nil, nil
	}
	for _, o := range objects {
		switch kind := strict.Text(o.Node, "kind"); {
		case kind == "Namespace" || kind == "AppProject":
		case (kind == "Application" || kind == "ApplicationSet") && strings.HasPrefix(strict.Text(o.Node, "apiVersion"), argo.Group):
			leading = append(leading, o)
		default:
			others = append(others, o)
		}
	}
	return leading, others
}

// changed returns an Application that syncs a kustomization without what is not Argo CD's, or nil if the Applications and ApplicationSets in it are those of its files.
func (d *drafting) changed(f folder, app *appset.Template) *document {
	if path.Base(f.file) == "Chart.yaml" {
		return nil
	}
	leading, others := contents(f, app)
	reached := d.reached(f)
	asWritten := func(o render.Document) bool {
		return slices.ContainsFunc(d.docs, func(doc *document) bool {
			return doc.from == nil && doc.repo.Name == f.repo.Name && reached[doc.file] && d.same(doc.node, o.Node)
		})
	}
	if !slices.ContainsFunc(leading, func(o render.Document) bool { return !asWritten(o) }) {
		return nil
	}
	doc := &document{repo: f.repo, file: f.file, at: lab.Position{File: path.Join(f.repo.Dir, f.file), Line: 1}, app: app, folder: true}
	app.Spec.Source.Kustomize = &appset.Kustomize{}
	for _, o := range others {
		doc.left = append(doc.left, Left{At: lab.Position{File: path.Join(f.repo.Dir, o.File), Line: o.Line}, Why: "it is beside Applications that are applied by hand"})
		patch := without(o.Node, strict.Text(o.Node, "metadata", "name"), "not Argo CD's")
		var typed appset.KustomizePatch
		if patch.Decode(&typed) != nil {
			return nil
		}
		doc.patches, app.Spec.Source.Kustomize.Patches = append(doc.patches, patch), append(app.Spec.Source.Kustomize.Patches, typed)
	}
	if !leadsOnly(f, app) { // patches come before replacements, which may read what they delete
		return nil
	}
	return doc
}

// same reports whether a manifest is as written, but for the engine's namespace.
func (d *drafting) same(written, rendered *yaml.Node) bool {
	var a, b map[string]any
	if written.Decode(&a) != nil || rendered.Decode(&b) != nil {
		return false
	}
	if of, is := b["metadata"].(map[string]any); is && of["namespace"] == estate.NamespaceOf(d.estate) && strict.Text(written, "metadata", "namespace") == "" {
		delete(of, "namespace")
	}
	return reflect.DeepEqual(a, b)
}

// valueFiles returns the value files beside a chart's own, in the order of promotion of the environments in their names.
func valueFiles(f folder) []string {
	if path.Base(f.file) != "Chart.yaml" {
		return nil
	}
	entries, _ := fs.ReadDir(f.repo.FS, f.dir)
	var names []string
	for _, e := range entries {
		if name := e.Name(); e.Type().IsRegular() && name != "values.yaml" && strings.Contains(name, "values") && slices.Contains([]string{".yaml", ".yml"}, path.Ext(name)) {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(stageOf(a)), rank(stageOf(b))) })
	return names
}
