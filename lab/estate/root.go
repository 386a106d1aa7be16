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
	if !appset.OfArgoCD(doc) {
		cure := "it may contain " + strings.Join(appset.Kinds, ", ") + "; move others to a folder that one of them syncs"
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

// rootApplication is an Application of the root.
type rootApplication struct {
	*yaml.Node
	written, applied *appset.Template // the latter with its addresses in the forge; nil if invalid
}

func (l *loader) rootApplications() []rootApplication {
	var list []rootApplication
	for i, doc := range l.appliedRoot() {
		if strict.Text(doc, "kind") == "Application" {
			written, _ := l.api().ParseApplication(lab.RootFile, l.rootDocs[i])
			applied, _ := l.api().ParseApplication(lab.RootFile, doc)
			list = append(list, rootApplication{l.rootDocs[i], written, applied})
		}
	}
	return list
}

// rootProjects checks that the projects of the root's Applications exist, and permit them.
func (l *loader) rootProjects() {
	for _, root := range l.rootApplications() {
		fail := func(code, why, cure string) {
			at := strict.Position(lab.RootFile, strict.Get(root.Node, "spec", "project"))
			l.addProblem(lab.Problem{Code: code, Position: at, Message: fmt.Sprintf("application %s: %s", strict.Text(root.Node, "metadata", "name"), why), Cure: cure})
		}
		if project := strict.Text(root.Node, "spec", "project"); l.isMissing(project) {
			fail(finding.ProjectMissing, fmt.Sprintf("project %q does not exist", project), "add an AppProject of that name to this file")
		} else if root.applied != nil {
			if why := l.projects[project].Refuses(l.estate, root.applied, l.estate.Hub().Name); why != "" {
				fail(finding.NotPermitted, why, "give it a separate project in this file")
			}
		}
	}
}

// isRoot reports whether a synced Application is in the root's file or a copy of one there.
func (l *loader) isRoot(app plainApplication) bool {
	syncs := func(a, b appset.Source) bool {
		return lab.RepositoryKey(a.RepoURL) == lab.RepositoryKey(b.RepoURL) && a.Path == b.Path
	}
	return app.file == lab.RootFile || slices.ContainsFunc(l.rootApplications(), func(root rootApplication) bool {
		return root.written != nil && root.written.Metadata.Name == app.Metadata.Name && slices.EqualFunc(root.written.Spec.All(), app.Spec.All(), syncs)
	})
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
