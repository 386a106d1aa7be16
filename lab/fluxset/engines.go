package fluxset

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/flux"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// engines are the charts that install Flux or an operator for it.
var engines = []string{"flux2", "flux-operator", "flux-instance"}

// Manifests of Flux have this label, and are published as an artifact of this name: https://fluxcd.io/flux/installation/
// Those before 0.18 have others: https://github.com/fluxcd/flux2/issues/1894
const (
	partOf, partOfFlux = "app.kubernetes.io/part-of", "flux"
	fluxManifests      = "flux-manifests"

	instanceOf, versionOf = "app.kubernetes.io/instance", "app.kubernetes.io/version"
)

const (
	anotherEngine = "another engine"
	replacesFlux  = "would replace the lab's engine"
)

// WithoutFlux returns the patch that deletes the manifests of Flux.
func WithoutFlux() Patch {
	return Patch{Target: map[string]string{"labelSelector": partOf + "=" + partOfFlux}, Patch: Deleted}
}

// withoutFormerFlux returns the patch that deletes old manifests of Flux.
func withoutFormerFlux() Patch {
	return Patch{Target: map[string]string{"labelSelector": instanceOf + "=" + flux.Namespace + "," + versionOf + ",!" + partOf}, Patch: Deleted}
}

func isPartOfFlux(n *yaml.Node) bool {
	return strict.Text(n, "metadata", "labels", partOf) == partOfFlux || isPartOfFormerFlux(n)
}

func isPartOfFormerFlux(n *yaml.Node) bool {
	labels := strict.Get(n, "metadata", "labels")
	return strict.Text(labels, partOf) == "" && strict.Text(labels, instanceOf) == flux.Namespace && strict.Get(labels, versionOf) != nil
}

// installsFlux reports whether manifests install Flux, and are not just about it.
func installsFlux(objects []render.Document) bool {
	return slices.ContainsFunc(objects, func(o render.Document) bool {
		kind := strict.Text(o.Node, "kind")
		return (kind == "Deployment" || kind == "CustomResourceDefinition") && isPartOfFlux(o.Node)
	})
}

// appliesFlux reports whether a Kustomization applies the published manifests of Flux at an address, and no patch of it deletes them.
func appliesFlux(n *yaml.Node, url string) bool {
	without := WithoutFlux()
	return path.Base(url) == fluxManifests && !slices.ContainsFunc(strict.List(n, "spec", "patches"), func(p *yaml.Node) bool {
		return strict.Text(p, "target", "labelSelector") == without.Target["labelSelector"] && strings.TrimSpace(strict.Text(p, "patch")) == strings.TrimSpace(without.Patch)
	})
}

// adaptEngine returns the patches that keep an application from replacing the lab's Flux. A root deletes current manifests anyway.
func (m *Adaptation) adaptEngine(app Application) []Patch {
	var patches []Patch
	add := func(p Patch, at lab.Position) {
		p.Why, p.At = anotherEngine, at
		patches = append(patches, p)
	}
	if app.engine {
		add(WithoutFlux(), app.At)
		m.Without = append(m.Without, Omitted{render.Document{Node: &yaml.Node{Line: app.At.Line}, File: app.At.File}, anotherEngine})
	}
	if i := slices.IndexFunc(app.Objects, func(o render.Document) bool { return isPartOfFormerFlux(o.Node) }); i >= 0 && (app.engine || app.Parent == "") {
		add(withoutFormerFlux(), lab.Position{File: app.Objects[i].File, Line: app.Objects[i].Line})
	}
	return patches
}
