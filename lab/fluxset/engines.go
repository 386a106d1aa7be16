package fluxset

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab/render"
	"homelab/lab/strict"
)

// engines are the charts that install Flux or an operator for it.
var engines = []string{"flux2", "flux-operator", "flux-instance"}

// Manifests of Flux have this label, and are published as an artifact of this name: https://fluxcd.io/flux/installation/
const (
	partOf, partOfFlux = "app.kubernetes.io/part-of", "flux"
	fluxManifests      = "flux-manifests"
)

const (
	anotherEngine = "another engine"
	replacesFlux  = "would replace the lab's engine"
)

// WithoutFlux returns the patch that deletes the manifests of Flux.
func WithoutFlux() Patch {
	return Patch{Target: map[string]string{"labelSelector": partOf + "=" + partOfFlux}, Patch: Deleted}
}

func isPartOfFlux(n *yaml.Node) bool {
	return strict.Text(n, "metadata", "labels", partOf) == partOfFlux
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
	return path.Base(url) == fluxManifests && !slices.ContainsFunc(items(strict.Get(n, "spec", "patches")), func(p *yaml.Node) bool {
		return strict.Text(p, "target", "labelSelector") == without.Target["labelSelector"] && strings.TrimSpace(strict.Text(p, "patch")) == strings.TrimSpace(without.Patch)
	})
}

// adaptEngine returns the patches that keep an application from replacing the lab's Flux.
func (m *Adaptation) adaptEngine(app Application) []Patch {
	if !app.engine {
		return nil
	}
	p := WithoutFlux()
	p.Why, p.At = anotherEngine, app.At
	m.Without = append(m.Without, Omitted{render.Document{Node: &yaml.Node{Line: app.At.Line}, File: app.At.File}, p.Why})
	return []Patch{p}
}
