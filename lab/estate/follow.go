package estate

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/gobwas/glob"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/strict"
)

// plainApplication is an Application that is written as such.
type plainApplication struct {
	*appset.Template
	file string
	at   lab.Position
}

// tree is a folder that an Application syncs to the hub as plain manifests.
type tree struct {
	repo             *lab.Repository // nil for the estate
	dir              string          // within the repository
	recurse          bool
	include, exclude string
}

// follow finds every ApplicationSet that the root leads to: in the folders that it syncs, and in those that Applications made on the way sync.
func (l *loader) follow() {
	pending := l.rootTrees()
	followed := map[string]bool{} // sets whose Applications were looked at
	var seen []tree
	for len(pending) > 0 {
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
				continue // said when the set is expanded for what it makes
			}
			for _, app := range x.Applications {
				pending = append(pending, l.trees(&app.Template)...)
			}
		}
	}
}

// rootTrees are what the Applications of the root sync; the estate stands at the address of the first, whatever that is.
func (l *loader) rootTrees() []tree {
	var trees []tree
	for _, doc := range l.rootDocs {
		switch text(doc, "kind") {
		case "ApplicationSet":
			l.addSet(lab.RootFile, doc)
		case "Application":
			app, _ := appset.ParseApplication(lab.RootFile, doc)
			if app == nil {
				continue
			}
			for _, source := range app.Spec.All() {
				r, _ := l.source(source.RepoURL)
				trees = append(trees, l.treeOf(r, source)...)
			}
		}
	}
	if len(trees) == 0 || l.badRoot { // what it should have led to is looked at all the same
		trees = append(trees, tree{dir: lab.AddonsDir, recurse: true})
	}
	return trees
}

// trees are the folders of the estate and of mounted repositories that an Application syncs to the hub.
func (l *loader) trees(app *appset.Template) []tree {
	hub := ""
	for _, c := range l.estate.Clusters {
		if c.Role == lab.RoleHub {
			hub = c.Name
		}
	}
	if d := app.Spec.Destination; d.Server != appset.InCluster && d.Name != hub && d.Name != appset.InClusterName {
		return nil
	}
	var trees []tree
	for _, source := range app.Spec.All() {
		if r, ok := l.source(source.RepoURL); ok {
			trees = append(trees, l.treeOf(r, source)...)
		}
	}
	return trees
}

// treeOf is the folder of a source that Argo CD takes for plain manifests.
func (l *loader) treeOf(r *lab.Repository, source appset.Source) []tree {
	dir := path.Clean(source.Path)
	if source.Chart != "" || source.Path == "" || source.Helm != nil || source.Kustomize != nil || source.Plugin != nil || !fs.ValidPath(dir) || r != nil && !r.Has(source.TargetRevision) {
		return nil
	}
	for _, file := range []string{"Chart.yaml", "kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if l.exists(within(r, path.Join(dir, file))) {
			return nil
		}
	}
	t := tree{repo: r, dir: dir}
	if d := source.Directory; d != nil {
		t.recurse, t.include, t.exclude = d.Recurse, d.Include, d.Exclude
	}
	return []tree{t}
}

// takes reports whether the tree has a file: Argo CD matches the path from the folder on, and a star stands for slashes too.
func (t tree) takes(file string) bool {
	rel, ok := strings.CutPrefix(file, strings.TrimSuffix(t.dir, "/")+"/")
	if t.dir == "." {
		rel, ok = file, true
	}
	if ext := path.Ext(file); !ok || ext != ".yaml" && ext != ".yml" && ext != ".json" || !t.recurse && strings.Contains(rel, "/") {
		return false
	}
	return (t.exclude == "" || !Globs(t.exclude, rel)) && (t.include == "" || Globs(t.include, rel))
}

func Globs(pattern, name string) bool {
	g, err := glob.Compile(pattern)
	return err == nil && g.Match(name)
}

// sync reads what a tree brings to the hub, and returns the trees that its Applications sync.
func (l *loader) sync(t tree) []tree {
	var found []tree
	fsys := l.fsys
	if t.repo != nil {
		fsys = t.repo.FS
	}
	_ = fs.WalkDir(fsys, t.dir, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // noted by the walk over the estate
		case e.IsDir():
			if file != t.dir && !t.recurse || e.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		case file == lab.RootFile && t.repo == nil || !t.takes(file):
			return nil
		}
		file = within(t.repo, file)
		for _, doc := range l.documentsOf(file) {
			switch text(doc, "kind") {
			case "ApplicationSet":
				l.addSet(file, doc)
			case "Application":
				app, problems := appset.ParseApplication(file, doc)
				if l.problems = append(l.problems, problems...); app != nil {
					l.plain = append(l.plain, plainApplication{app, file, strict.Position(file, doc)})
					found = append(found, l.trees(app)...)
				}
			}
		}
		return nil
	})
	return found
}

// addSet notes an ApplicationSet, and the addon that it is of.
func (l *loader) addSet(file string, doc *yaml.Node) {
	at := strict.Position(file, doc)
	if slices.ContainsFunc(l.found, func(p lab.Position) bool { return p == at }) {
		return
	}
	l.found = append(l.found, at)
	s, problems := appset.Parse(file, doc)
	l.problems = append(l.problems, problems...)
	addon := l.addonOf(file, doc, s)
	l.set(addon, file, doc)
	if addon.File == "" {
		addon.File = file
		addon.Positions[""] = at
	}
	if at := get(doc, "spec", "generators"); at != nil {
		addon.Positions["generators"] = strict.Position(file, at)
	}
	if s != nil && len(problems) == 0 {
		l.sets = append(l.sets, set{Set: s, addon: addon.Name})
		addon.Reads = append(addon.Reads, reads(s)...)
	}
}

// addonOf is the addon of a set: the one that the label is for by which the set is switched on, or else the folder that it stands in, or its own name.
func (l *loader) addonOf(file string, doc *yaml.Node, s *appset.Set) *lab.Addon {
	name := text(doc, "metadata", "name")
	if rest, ok := strings.CutPrefix(file, lab.AddonsDir+"/"); ok && strings.Contains(rest, "/") {
		name, _, _ = strings.Cut(rest, "/")
	}
	if s != nil {
		// A folder that clusters speak of keeps its name: what its set asks for may be misspelt.
		if key := switchOf(s); key != "" && key != lab.AddonKey(name) && (!l.spokenOf(name) || l.spokenOf(strings.ReplaceAll(key, "_", "-"))) {
			name = strings.ReplaceAll(key, "_", "-")
		}
	}
	for i := range l.estate.Addons {
		if l.estate.Addons[i].Name == name {
			return &l.estate.Addons[i]
		}
	}
	l.estate.Addons = append(l.estate.Addons, lab.Addon{Name: name, Versions: map[string]string{}, Positions: map[string]lab.Position{}})
	return &l.estate.Addons[len(l.estate.Addons)-1]
}

// spokenOf reports whether a cluster switches an addon on or off.
func (l *loader) spokenOf(addon string) bool {
	return slices.ContainsFunc(l.estate.Clusters, func(c lab.Cluster) bool { _, ok := c.Addons[addon]; return ok })
}

// readsLabel reports whether a set selects by a label, or a template of one reads it.
func (l *loader) readsLabel(label string) bool {
	return slices.ContainsFunc(l.sets, func(s set) bool {
		return s.hears(label) || slices.ContainsFunc(s.Refs(), func(r appset.Ref) bool { return slices.Equal(r.Path, []string{"metadata", "labels", label}) })
	})
}

// switchOf is the addon whose label the first generator that asks for one asks to be "true".
func switchOf(s *appset.Set) string {
	for _, selector := range s.Selectors() {
		keys := make([]string, 0, 1)
		for key := range selector.MatchLabels {
			keys = append(keys, key)
		}
		for _, e := range selector.MatchExpressions {
			keys = append(keys, e.Key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if addon, ok := strings.CutPrefix(key, lab.EnableLabel("")); ok && (set{Set: s}).hears(key) {
				return addon
			}
		}
	}
	return ""
}
