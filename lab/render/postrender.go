package render

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/appset"
	"homelab/lab/strict"
)

// PostRender changes rendered objects like a post-renderer of helm-controller, whose patches and images are those of a kustomization. The objects keep their
// positions. Its errors are *Error.
func PostRender(docs []Document, kustomize map[string]any, all *Budget) ([]Document, error) {
	if len(docs) == 0 {
		return nil, nil
	}
	const output = "helm-output.yaml"
	file := Kustomizations[0]
	kustomization := map[string]any{"apiVersion": types.KustomizationVersion, "kind": types.KustomizationKind, "resources": []any{output}}
	maps.Copy(kustomization, kustomize)
	text, err := sigsyaml.Marshal(kustomization)
	if err != nil {
		return nil, failed(docs[0].File, err)
	}
	var objects bytes.Buffer
	var ends []int // lines
	for _, d := range docs {
		one, err := strict.YAML(d.Node)
		if err != nil {
			return nil, failed(d.File, err)
		}
		objects.WriteString("---\n")
		objects.Write(one)
		ends = append(ends, bytes.Count(objects.Bytes(), []byte("\n")))
	}
	fsys := fstest.MapFS{file: {Data: text, Mode: 0o444}, output: {Data: objects.Bytes(), Mode: 0o444}}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	s := Source{FS: fsys, Source: appset.Source{Path: "."}}
	changed, err := s.build(&scanner{repository: newRepository(fsys, all), loose: true}, file, func(map[string]any) error { return nil }, options)
	if err != nil {
		message := err.Error()
		if e, ok := err.(*Error); ok { //nolint:errorlint // as build returns it
			message = e.Message
		}
		return nil, failed(docs[0].File, postRenderError(message))
	}
	for i, d := range changed {
		at := slices.IndexFunc(ends, func(end int) bool { return d.Line <= end })
		if at < 0 || d.File != output {
			at = 0
		}
		Place(d.Node, docs[at].Node)
		changed[i].File = docs[at].File
	}
	return changed, nil
}

type postRenderError string

func (e postRenderError) Error() string { return "postRenderers: " + string(e) }

// Common sets labels and annotations of objects, as Flux does: of the objects alone, not of their pods.
func Common(docs []Document, labels, annotations map[string]string) {
	for _, d := range docs {
		for field, pairs := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
			for _, key := range slices.Sorted(maps.Keys(pairs)) {
				set(d.Node, pairs[key], "metadata", field, key)
			}
		}
	}
}

// set sets a text in a mapping, and creates the mappings that lead to it.
func set(n *yaml.Node, value string, keys ...string) {
	last := len(keys) - 1
	for _, key := range keys[:last] {
		below := strict.Get(n, key)
		if below == nil || below.Kind != yaml.MappingNode {
			below = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: lineAt(below, n)}
			strict.Set(n, key, below)
		}
		n = below
	}
	strict.Set(n, keys[last], &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: value, Line: lineAt(strict.Get(n, keys[last]), n)})
}

// lineAt returns the line of a node, or of the mapping to which it is added.
func lineAt(n, in *yaml.Node) int {
	if n == nil {
		return in.Line
	}
	return n.Line
}

// Repeated returns the first object with the kind, namespace and name of another, which kustomize rejects.
func Repeated(docs []Document) (Document, bool) {
	seen := map[string]bool{}
	for _, d := range docs {
		group, _, _ := strings.Cut(strict.Text(d.Node, "apiVersion"), "/")
		id := strings.Join([]string{group, strict.Text(d.Node, "kind"), strict.Text(d.Node, "metadata", "namespace"), strict.Text(d.Node, "metadata", "name")}, " ")
		if seen[id] {
			return d, true
		}
		seen[id] = true
	}
	return Document{}, false
}
