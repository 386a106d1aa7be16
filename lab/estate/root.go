package estate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

var rootKinds = []string{"Application", "ApplicationSet", "AppProject"}

// root checks the app of apps, which is applied late in a run: errors would cost minutes there.
func (l *loader) root() {
	if !l.exists(lab.RootFile) {
		l.fail(lab.RootFile, "does not exist", "it contains the Application that syncs "+lab.AddonsDir+"/*/applicationset.yaml; lab init DIR writes a starter")
		return
	}
	if !l.inside(lab.RootFile) {
		return // reported by walk
	}
	before := len(l.problems)
	defer func() { l.badRoot = len(l.problems) > before }()
	taken, leads := map[string]lab.Position{}, false
	for _, doc := range l.documentsOf(lab.RootFile) {
		l.problems = append(l.problems, escapes(lab.RootFile, doc)...)
		l.rootDocs = append(l.rootDocs, doc)
		leads = l.rootDocument(doc) || leads
		kind, name := strict.Text(doc, "kind"), strict.Text(doc, "metadata", "name")
		if first, twice := taken[kind+"/"+name]; twice && name != "" {
			l.at(finding.DuplicateName, strict.Position(lab.RootFile, strict.Get(doc, "metadata", "name")), fmt.Sprintf("a second %s %s", kind, name), fmt.Sprintf("the name is taken in line %d", first.Line))
			continue
		}
		taken[kind+"/"+name] = strict.Position(lab.RootFile, doc)
	}
	if !leads && len(l.problems) == before {
		l.fail(lab.RootFile, "contains no Application or ApplicationSet", "add the one that syncs "+lab.AddonsDir+"/*/applicationset.yaml")
	}
}

// rootDocument checks an object of the app of apps and reports whether it leads to others.
func (l *loader) rootDocument(doc *yaml.Node) bool {
	at := strict.Position(lab.RootFile, doc)
	kind := strict.Text(doc, "kind")
	if !ofEngine(doc) {
		cure := "it may contain " + strings.Join(rootKinds, ", ") + "; move others to a folder that one of them syncs"
		l.at(finding.InvalidRoot, at, fmt.Sprintf("%q of %q is not allowed in an app of apps", kind, strict.Text(doc, "apiVersion")), cure)
		return false
	}
	if strict.Text(doc, "metadata", "name") == "" {
		l.at(finding.InvalidField, at, "metadata.name is missing", "")
	}
	if kind == "Application" {
		one, several := strict.Get(doc, "spec", "source"), strict.Get(doc, "spec", "sources")
		if (one == nil || one.Kind != yaml.MappingNode) && (several == nil || several.Kind != yaml.SequenceNode || len(several.Content) == 0) {
			l.at(finding.InvalidRoot, at, "spec.source is missing", "set spec.source or spec.sources to the folder that it syncs")
		}
	}
	return kind != "AppProject"
}

func (l *loader) rootProjects() {
	for _, doc := range l.rootDocs {
		if strict.Text(doc, "kind") != "Application" {
			continue
		}
		if project := strict.Text(doc, "spec", "project"); l.isMissing(project) {
			l.addProblem(lab.Problem{
				Code: finding.ProjectMissing, Position: strict.Position(lab.RootFile, strict.Get(doc, "spec", "project")),
				Message: fmt.Sprintf("application %s: project %q does not exist", strict.Text(doc, "metadata", "name"), project), Cure: "add an AppProject of that name to this file",
			})
		} else if app, _ := l.api().ParseApplication(lab.RootFile, doc); app != nil && l.has(app.Spec.Project) && l.projects[app.Spec.Project].Project != nil {
			l.permitsRoot(doc, app)
		}
	}
}

// permitsRoot checks that the project of a root's Application permits it with its addresses in the forge.
func (l *loader) permitsRoot(doc *yaml.Node, app *appset.Template) {
	for i, original := range l.rootDocs {
		if original != doc {
			continue
		}
		applied, _ := l.api().ParseApplication(lab.RootFile, l.appliedRoot()[i])
		if applied == nil {
			return
		}
		if why := l.forbidden(applied, l.estate.Hub().Name); why != "" {
			l.addProblem(lab.Problem{
				Code: finding.NotPermitted, Position: strict.Position(lab.RootFile, strict.Get(doc, "spec", "project")), Message: fmt.Sprintf("application %s: %s", app.Metadata.Name, why),
				Cure: "give it a separate project in this file",
			})
		}
	}
}

// rootNames returns the names of the root's Applications, with the root's file.
func (l *loader) rootNames() map[string]string {
	names := map[string]string{}
	for _, doc := range l.rootDocs {
		if strict.Text(doc, "kind") == "Application" {
			names[strict.Text(doc, "metadata", "name")] = lab.RootFile
		}
	}
	return names
}

// isRoot reports whether a synced Application is in the root's file or a copy of one there.
func (l *loader) isRoot(app plainApplication) bool {
	if app.file == lab.RootFile {
		return true
	}
	for _, doc := range l.rootDocs {
		root, _ := l.api().ParseApplication(lab.RootFile, doc)
		if root == nil || strict.Text(doc, "kind") != "Application" || root.Metadata.Name != app.Metadata.Name {
			continue
		}
		syncs := func(a, b appset.Source) bool {
			return lab.RepositoryKey(a.RepoURL) == lab.RepositoryKey(b.RepoURL) && a.Path == b.Path
		}
		return slices.EqualFunc(root.Spec.All(), app.Spec.All(), syncs)
	}
	return false
}

// isRootSet reports whether a synced ApplicationSet is a copy of one in the root's file.
func (l *loader) isRootSet(file string, doc *yaml.Node) bool {
	spec := func(n *yaml.Node) (v any) {
		if n = strict.Get(n, "spec"); n == nil || n.Decode(&v) != nil {
			return nil
		}
		return v
	}
	return file != lab.RootFile && slices.ContainsFunc(l.rootDocs, func(root *yaml.Node) bool {
		return strict.Text(root, "kind") == "ApplicationSet" && strict.Text(root, "metadata", "name") == strict.Text(doc, "metadata", "name") &&
			reflect.DeepEqual(spec(root), spec(doc))
	})
}

// appliedRoot returns the root's objects as applied: references to the estate's address (that of the first Git source of
// the first Application) and to mounted repositories are replaced by addresses in the forge.
func (l *loader) appliedRoot() []*yaml.Node {
	in := l.inputs()
	estate, known := "", false
	for _, doc := range l.rootDocs {
		if strict.Text(doc, "kind") != "Application" || known {
			continue
		}
		sources := strict.Get(doc, "spec", "sources")
		if sources == nil {
			sources = &yaml.Node{Content: []*yaml.Node{strict.Get(doc, "spec", "source")}}
		}
		for _, s := range sources.Content {
			if _, mounted := in.Mounted(strict.Text(s, "repoURL")); !known && strict.Text(s, "chart") == "" && !mounted {
				estate, known = lab.RepositoryKey(strict.Text(s, "repoURL")), true
			}
		}
	}
	point := func(source *yaml.Node, revision string) {
		address := strict.Get(source, "repoURL")
		if address == nil || strict.Text(source, "chart") != "" || strings.Contains(address.Value, "{{") {
			return
		}
		r, mounted := in.Mounted(address.Value)
		switch {
		case mounted:
			address.Value = in.MirrorURL(r)
		case known && lab.RepositoryKey(address.Value) == estate:
			address.Value = in.RepoURL
		}
		if n := strict.Get(source, revision); n != nil && address.Value == in.RepoURL {
			n.Value = in.RepoRevision
		}
	}
	var docs []*yaml.Node
	for _, doc := range l.rootDocs {
		doc = clone(doc)
		sources(doc, point)
		docs = append(docs, doc)
	}
	return docs
}

// sources visits the sources of Applications and Git generators in a document, with the key of their revision.
func sources(n *yaml.Node, visit func(source *yaml.Node, revision string)) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			switch n.Content[i-1].Value {
			case "source":
				visit(c, "targetRevision")
			case "sources":
				for _, s := range c.Content {
					visit(s, "targetRevision")
				}
			case "git":
				visit(c, "revision")
			}
		}
		sources(c, visit)
	}
}

func clone(n *yaml.Node) *yaml.Node {
	out := *n
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		out.Content[i] = clone(c)
	}
	return &out
}
