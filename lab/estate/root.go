package estate

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/strict"
)

// rootKinds are what the app of apps may be made of: everything else comes from the folders that it syncs.
var rootKinds = []string{"Application", "ApplicationSet", "AppProject"}

// root checks the app of apps, which the engine is given late in a run: what is wrong with it would cost minutes there.
func (l *loader) root() {
	if !l.exists(lab.RootFile) {
		l.fail(lab.RootFile, "is not there", "it holds the Application that syncs "+lab.AddonsDir+"/*/applicationset.yaml; lab init DIR writes one to start from")
		return
	}
	if !l.inside(lab.RootFile) {
		return // the walk notes the link
	}
	before, has := len(l.problems), false
	defer func() { l.badRoot = len(l.problems) > before }()
	for _, doc := range l.documentsOf(lab.RootFile) {
		l.problems = append(l.problems, escapes(lab.RootFile, doc)...)
		l.rootDocs = append(l.rootDocs, doc)
		switch isApplication := l.rootDocument(doc); {
		case isApplication && has:
			l.at(strict.Position(lab.RootFile, doc), "a second Application: "+lab.RootFile+" has one, and that one syncs the others", "let the first one sync it, or an ApplicationSet generate it")
		case isApplication:
			has = true
		}
	}
	if !has && len(l.problems) == before {
		l.fail(lab.RootFile, "holds no Application", "write the one that syncs "+lab.AddonsDir+"/*/applicationset.yaml")
	}
}

// rootDocument checks one object of the app of apps, and reports whether it is an Application.
func (l *loader) rootDocument(doc *yaml.Node) bool {
	at := strict.Position(lab.RootFile, doc)
	kind := text(doc, "kind")
	if apiVersion := text(doc, "apiVersion"); !slices.Contains(rootKinds, kind) || !strings.HasPrefix(apiVersion, "argoproj.io/") {
		cure := "it may hold " + strings.Join(rootKinds, ", ") + "; what else there is goes into a folder that one of them syncs"
		l.at(at, fmt.Sprintf("%q of %q is no part of an app of apps", kind, apiVersion), cure)
		return false
	}
	if text(doc, "metadata", "name") == "" {
		l.at(at, "metadata.name is missing", "")
	}
	if kind != "Application" {
		return false
	}
	if source := get(doc, "spec", "source"); source == nil || source.Kind != yaml.MappingNode {
		l.at(at, "spec.source is missing", "lab writes the forge's address to spec.source.repoURL; several sources are for ApplicationSets")
	}
	return true
}
