package fluxset

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fluxcd/flux2/v2/pkg/manifestgen/sync"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/flux"
	"homelab/lab/strict"
)

// Anywhere is the estate's address in generated roots; `lab up` replaces it by the forge's.
const Anywhere = "https://git.example.com/lab/estate.git"

// bootstrap adds a cluster's folder flux-system to files, like `flux bootstrap`. Foreign files are kept.
func bootstrap(fsys fs.FS, files map[string]string, hub, cluster string) error {
	root := lab.FluxRootFile(cluster)
	if !foreign(fsys, root) {
		objects, err := rootOf(fsys, hub, cluster)
		if err != nil {
			return err
		}
		if files[root], err = documents(objects); err != nil {
			return err
		}
	}
	return list(fsys, files, cluster)
}

// list adds the kustomization of a cluster's folder flux-system, unless there is a foreign one.
func list(fsys fs.FS, files map[string]string, cluster string) error {
	root := lab.FluxRootFile(cluster)
	list := path.Join(path.Dir(root), "kustomization.yaml")
	if foreign(fsys, list) {
		return nil
	}
	text, err := documents([]any{folder{APIVersion: kustomizeVersion, Kind: "Kustomization", Resources: []string{path.Base(root)}}})
	files[list] = text
	return err
}

// foreign reports whether a file exists that lab did not write.
func foreign(fsys fs.FS, name string) bool {
	data, err := fs.ReadFile(fsys, name)
	return !errors.Is(err, fs.ErrNotExist) && !Marked(data)
}

// rootOf returns the root of a cluster's Flux: the hub's for the cluster's folder, or a new one like that of `flux bootstrap`, with Anywhere as repository.
func rootOf(fsys fs.FS, hub, cluster string) ([]any, error) {
	file := lab.FluxRootFile(hub)
	fresh := !foreign(fsys, file)
	data, err := fs.ReadFile(fsys, file)
	if fresh {
		o := sync.MakeDefaultOptions()
		o.URL, o.TargetPath = Anywhere, path.Join(lab.ClustersDir, cluster)
		made, failed := sync.Generate(o)
		if err = failed; err == nil {
			data = []byte(made.Content)
		}
	}
	if err != nil {
		return nil, err
	}
	docs, problems := strict.Parse(file, data)
	if len(problems) > 0 {
		return nil, problems
	}
	var objects []any
	for _, doc := range docs {
		var o map[string]any
		if err := doc.Decode(&o); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		switch spec, _ := o["spec"].(map[string]any); {
		case spec == nil || !isKustomization(doc):
		case fresh:
			spec["retryInterval"] = retry.String()
		default:
			spec["path"] = within(strict.Text(doc, "spec", "path"), hub, cluster)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// within moves a path from the hub's folder to a cluster's, and returns others unchanged.
func within(name, hub, cluster string) string {
	rest, ok := strings.CutPrefix(path.Clean(name)+"/", path.Join(lab.ClustersDir, hub)+"/")
	if !ok {
		return name
	}
	return "./" + path.Join(lab.ClustersDir, cluster, rest)
}

// sourceOf returns the name of the estate's GitRepository in a root.
func sourceOf(fsys fs.FS, cluster string) string {
	root := lab.FluxRootFile(cluster)
	data, err := fs.ReadFile(fsys, root)
	if err != nil {
		return flux.Namespace
	}
	docs, _ := strict.Parse(root, data)
	for _, doc := range docs {
		name := strict.Text(doc, "spec", "sourceRef", "name")
		if isKustomization(doc) && path.Clean(strict.Text(doc, "spec", "path")) == path.Join(lab.ClustersDir, cluster) &&
			slices.ContainsFunc(docs, func(n *yaml.Node) bool {
				return strict.Text(n, "kind") == "GitRepository" && strict.Text(n, "metadata", "name") == name
			}) {
			return name
		}
	}
	return flux.Namespace
}
