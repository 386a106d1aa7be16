package draft

import (
	"bytes"
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/estate"
	"homelab/lab/render"
)

// graph is how documents lead to one another.
type graph struct {
	taken   map[*document]bool // by the root
	own     map[*document]bool // those that sync themselves: roots as they are
	leading bool               // a root leads to others
	doubled []Left             // roots that create what another does
}

// roots finds the documents that lead to others, and those that none leads to. If none leads anywhere, all are roots. Of several that create the same, as there is one
// for each Argo CD, only the first of which it is known what it deploys is.
func (d *drafting) roots() {
	d.graph, d.Roots, d.Beside = graph{taken: map[*document]bool{}, own: map[*document]bool{}}, nil, nil
	d.Choices = slices.DeleteFunc(d.Choices, func(c Choice) bool { return c.About == RootChoice })
	leads := map[*document][]*document{}
	below := map[*document]bool{}
	for _, doc := range d.docs {
		for _, to := range d.leadsTo(doc) {
			if to != doc {
				leads[doc] = append(leads[doc], to)
			} else if !doc.folder {
				d.own[doc] = true
			}
		}
	}
	for _, doc := range d.docs {
		if doc.from == nil {
			continue
		}
		below[doc] = true
		leads[doc.from] = append(leads[doc.from], doc)
		if !doc.from.folder && doc.from.title() == doc.title() {
			d.own[doc.from] = true
		}
		for _, same := range d.docs { // same position
			below[same] = below[same] || !doc.comesFrom(same) && same.repo.Dir == doc.repo.Dir && same.file == doc.file
		}
	}
	for doc, list := range leads {
		for _, to := range list {
			if !slices.Contains(leads[to], doc) || path.Dir(doc.file) < path.Dir(to.file) { // break cycles of two
				below[to] = true
			}
		}
	}
	for doc := range d.own { // it syncs the folder itself
		if f := doc.from; f != nil && f.folder && slices.Contains(leads[doc], f) {
			below[f], below[doc] = true, false
		}
	}
	folders := map[string]bool{} // of those that lead to others
	led := false                 // beyond kustomizations
	for _, doc := range d.docs {
		led = led || len(leads[doc]) > 0 && !doc.kustomized()
		if !below[doc] && len(leads[doc]) > 0 {
			d.leading = true
			if !doc.folder {
				folders[doc.repo.Dir+"/"+path.Dir(doc.file)] = true
			}
		}
	}
	idle := func(doc *document) bool { // nothing leads to it, although something might
		return led || slices.ContainsFunc(d.docs, func(k *document) bool {
			return k.kustomized() && k != doc && k.repo.Dir == doc.repo.Dir && strings.HasPrefix(doc.file, path.Dir(k.file)+"/")
		})
	}
	created, deployed := map[string]lab.Position{}, map[string]lab.Position{}
	docs := slices.Clone(d.docs)
	if like := d.wishes.like; like != nil {
		other := func(doc *document) int {
			return -min(slices.IndexFunc(like.Roots, func(at lab.Position) bool { return at.File == doc.at.File }), 0)
		}
		slices.SortStableFunc(docs, func(a, b *document) int { return cmp.Compare(other(a), other(b)) })
	} else {
		vague := func(doc *document) int {
			if d.known(doc, leads, map[*document]bool{}) {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(docs, func(a, b *document) int { return cmp.Compare(vague(a), vague(b)) })
	}
	for _, doc := range docs {
		if wanted := d.wishes.Root != "" && doc.from == nil && d.wishes.isRoot(doc.repo, doc.file); below[doc] && !wanted {
			continue
		} else if d.wishes.Root != "" && !wanted {
			d.Beside = append(d.Beside, doc.at)
			continue
		}
		creates := doc.creates(leads[doc])
		if i := slices.IndexFunc(creates, func(title string) bool { return created[title].File != "" }); i >= 0 {
			d.another(created[creates[i]], Left{At: doc.at, Why: "another root creates the same: --root FILE takes this one"})
			continue
		}
		if d.wishes.Root == "" && d.unlisted(doc, below) {
			d.Beside = append(d.Beside, doc.at)
			continue
		}
		if d.wishes.Root == "" && d.leading && idle(doc) && !(doc.folder && len(leads[doc]) > 0) && !folders[doc.repo.Dir+"/"+path.Dir(doc.file)] && !d.own[doc] {
			d.Beside = append(d.Beside, doc.at)
			continue
		}
		deploys := d.deploys(leads[doc])
		again := slices.DeleteFunc(slices.Clone(deploys), func(what string) bool { return deployed[what].File == "" })
		if len(again) > len(deploys)/2 {
			d.another(deployed[again[0]], Left{At: doc.at, Why: "another root deploys the same: --root FILE takes this one"})
			continue
		}
		if i := slices.IndexFunc(docs, func(o *document) bool { return d.taken[o] && d.overlays(o, doc) }); i >= 0 {
			d.another(docs[i].at, Left{At: doc.at, Why: "another root is an overlay of the same base: --root FILE takes this one"})
			continue
		}
		for _, title := range creates {
			created[title] = doc.at
		}
		for _, what := range deploys {
			deployed[what] = doc.at
		}
		d.taken[doc] = true
		if len(doc.values.Of) > 0 {
			d.choose(doc.values)
		}
		if doc.app != nil && !doc.folder && len(leads[doc]) > 0 && d.syncable(doc) != doc.node {
			d.own[doc] = true
		}
	}
	order := positions(d.docs)
	slices.SortStableFunc(d.Beside, func(a, b lab.Position) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
	for _, doc := range d.docs {
		if d.taken[doc] {
			d.Roots = append(d.Roots, doc.at)
		}
	}
}

// kustomized reports whether a document is a kustomization that lab syncs.
func (doc *document) kustomized() bool { return doc.folder && path.Base(doc.file) != "Chart.yaml" }

// known reports whether a document leads to an Application that does not only lead on.
func (d *drafting) known(doc *document, leads map[*document][]*document, seen map[*document]bool) bool {
	seen[doc] = true
	return slices.ContainsFunc(d.applications(doc), func(app *appset.Template) bool { return !d.leadsOn(app) }) ||
		slices.ContainsFunc(leads[doc], func(to *document) bool { return !seen[to] && d.known(to, leads, seen) })
}

// RootChoice is what a choice among roots is about.
const RootChoice = "root"

// another leaves a root out that is an alternative to the one that was taken.
func (d *drafting) another(took lab.Position, left Left) {
	d.doubled = append(d.doubled, left)
	i := slices.IndexFunc(d.Choices, func(c Choice) bool { return c.About == RootChoice && c.At == took })
	if i < 0 {
		i, d.Choices = len(d.Choices), append(d.Choices, Choice{About: RootChoice, Took: took.String(), Of: []string{took.String()}, At: took})
	}
	d.Choices[i].Of = append(d.Choices[i].Of, left.At.String())
}

// comesFrom reports whether a document is generated by another, directly or not.
func (doc *document) comesFrom(other *document) bool {
	return doc.from != nil && (doc.from == other || doc.from.comesFrom(other))
}

// overlays reports whether two roots are in kustomizations side by side that include the same folder: each is for another Argo CD.
func (d *drafting) overlays(a, b *document) bool {
	of := func(doc *document) []folder {
		return slices.DeleteFunc(slices.Clone(d.kustomizations), func(k folder) bool {
			return k.repo.Dir != doc.repo.Dir || k.file != doc.file && !d.reached(k)[doc.file]
		})
	}
	return slices.ContainsFunc(of(a), func(k folder) bool {
		return slices.ContainsFunc(of(b), func(o folder) bool {
			return k != o && k.repo == o.repo && path.Dir(k.dir) == path.Dir(o.dir) && slices.ContainsFunc(d.kustomizations, func(base folder) bool {
				return base.repo == k.repo && !d.component(base) && d.reached(k)[base.dir] && d.reached(o)[base.dir]
			})
		})
	})
}

// component reports whether a kustomization is a component, which says nothing about what includes it.
func (d *drafting) component(k folder) bool {
	data, _ := fs.ReadFile(k.repo.FS, k.file)
	return bytes.Contains(data, []byte("kind: Component"))
}

// unlisted reports whether the kustomization of a document's folder includes other roots of the folder, but not this one.
func (d *drafting) unlisted(doc *document, below map[*document]bool) bool {
	i := slices.IndexFunc(d.kustomizations, func(k folder) bool { return k.repo == doc.repo && k.dir == path.Dir(doc.file) })
	if i < 0 || doc.folder || doc.from != nil || slices.Contains(d.includes[d.kustomizations[i]], doc.file) {
		return false
	}
	return slices.ContainsFunc(d.docs, func(o *document) bool {
		return !below[o] && !o.folder && o.repo == doc.repo && slices.Contains(d.includes[d.kustomizations[i]], o.file)
	})
}

// creates returns the titles of the objects that a root creates: itself, unless it is a folder, and what it leads to.
func (doc *document) creates(leads []*document) []string {
	var titles []string
	if !doc.folder {
		titles = append(titles, doc.title())
	}
	for _, to := range leads {
		if !doc.folder || to.from == doc {
			titles = append(titles, to.title())
		}
	}
	return titles
}

// deploys identifies the folders that documents deploy, each with the destination and what its objects are named after, apart from the folder that the document is in.
func (d *drafting) deploys(docs []*document) []string {
	var list []string
	for _, doc := range docs {
		for _, app := range d.applications(doc) {
			to := app.Spec.Destination
			for _, s := range d.foldersOf(app) {
				named := ""
				if k := s.Kustomize; k != nil {
					named = k.NamePrefix + " " + k.NameSuffix
				} else if render.TypeOf(s.repo.FS, s.Source) == render.Helm {
					named = app.Metadata.Name
					if s.Helm != nil {
						named = cmp.Or(s.Helm.ReleaseName, named)
					}
				}
				named = strings.ReplaceAll(named, path.Base(path.Dir(doc.file)), "*")
				list = append(list, strings.Join([]string{s.repo.Dir, path.Clean(s.Path), to.Server, to.Name, to.Namespace, named}, " "))
			}
		}
	}
	return list
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
	for _, source := range d.foldersOf(app) {
		kustomized := d.includedIn(source)
		for _, to := range d.docs {
			if to.from == nil && to.repo.Dir == source.repo.Dir && takes(source.Source, to.file) && (kustomized == nil || kustomized[to.file]) {
				list = append(list, to)
			}
		}
	}
	return list
}

// includedIn returns the files that the kustomization of a source includes, or nil if it has none.
func (d *drafting) includedIn(source folderSource) map[string]bool {
	i := slices.IndexFunc(d.kustomizations, func(k folder) bool { return k.repo.Dir == source.repo.Dir && k.dir == path.Clean(source.Path) })
	if i < 0 || source.Directory != nil || source.Helm != nil {
		return nil
	}
	return d.reached(d.kustomizations[i])
}

// leadsOn reports whether an Application syncs documents, or may generate some, on the hub.
func (d *drafting) leadsOn(app *appset.Template) bool {
	return len(d.below(app)) > 0 || estate.ToHub(d.estate, app) && app.Spec.Destination.Namespace == estate.NamespaceOf(d.estate)
}

// takes reports whether a source includes a file. Charts count as including all files of their folder.
func takes(source appset.Source, file string) bool {
	switch {
	case source.Directory != nil:
		return render.Takes(path.Clean(source.Path), file, *source.Directory)
	case source.Helm != nil || source.Kustomize != nil:
		return render.Takes(path.Clean(source.Path), file, appset.Directory{Recurse: true})
	}
	return render.Takes(path.Clean(source.Path), file, appset.Directory{})
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
		if doc.set != nil {
			want(doc.set.Spec.Template.Spec.Project)
		}
		for _, app := range d.applications(doc) {
			want(app.Spec.Project)
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

// source is a folder that the root syncs, with the included files, or none if it is rendered.
type source struct {
	repo  *lab.Repository
	dir   string
	files []string
	helm  *appset.Helm

	patches []*yaml.Node
}

func (d *drafting) sources() []source {
	var list []source
	for _, doc := range d.docs {
		if !d.taken[doc] || d.own[doc] {
			continue
		}
		dir := path.Dir(doc.file)
		if doc.folder {
			list = append(list, source{repo: doc.repo, dir: dir, helm: doc.app.Spec.Source.Helm, patches: doc.patches})
			continue
		}
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
