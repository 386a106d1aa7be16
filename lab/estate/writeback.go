package estate

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"homelab/lab/strict"
)

// writesBack notes that Argo CD Image Updater commits with Argo CD's credentials of a repository, by an Application's annotation or by an ImageUpdater. With
// git:secret:NAMESPACE/NAME it has its own, and without git it commits nothing.
func (l *loader) writesBack(methods ...string) {
	if slices.ContainsFunc(methods, func(m string) bool { return m == "git" || m == "git:repocreds" }) {
		l.estate.WritesBack = true
	}
}

// updater looks at an ImageUpdater, whose applications may have methods of their own.
func (l *loader) updater(doc *yaml.Node) {
	if strict.Text(doc, "kind") != "ImageUpdater" {
		return
	}
	l.writesBack(strict.Text(doc, "spec", "writeBackConfig", "method"))
	if list := strict.Get(doc, "spec", "applicationRefs"); list != nil && list.Kind == yaml.SequenceNode {
		for _, ref := range list.Content {
			l.writesBack(strict.Text(ref, "writeBackConfig", "method"))
		}
	}
}
