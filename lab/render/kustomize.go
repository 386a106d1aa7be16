package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/appset"
	"homelab/lab/sandbox"
	"homelab/lab/strict"
)

// kustomize renders like `kustomize build` after Argo CD's edits for the source's options.
func (s Source) kustomize() ([]Document, error) {
	r := newRepository(s.FS, s.Budget)
	file := kustomizationIn(s.FS, s.Path)
	if file == "" {
		return nil, failed(s.Path, errors.New("contains no kustomization.yaml"))
	}
	edit := func(k map[string]any) error {
		if o := s.Source.Kustomize; o != nil {
			return s.options(r, k, o)
		}
		return nil
	}
	return s.build(&scanner{repository: r}, file, edit, krusty.MakeDefaultOptions())
}

func newRepository(fsys fs.FS, all *Budget) *repository {
	return &repository{FS: fsys, budget: one(all), edited: map[string][]byte{}, read: map[string][]byte{}}
}

// kustomizationIn returns the file of a folder's kustomization, or "".
func kustomizationIn(fsys fs.FS, dir string) string {
	for _, name := range Kustomizations {
		if file := path.Join(dir, name); isFile(fsys, file) {
			return file
		}
	}
	return ""
}

// build builds the kustomization in file after an edit.
func (s Source) build(scan *scanner, file string, edit func(k map[string]any) error, options *krusty.Options) (docs []Document, err error) {
	r := scan.repository
	defer func() {
		if r := recover(); r != nil { // kustomize and its libraries panic on some invalid files
			docs, err = nil, failed(file, fmt.Errorf("kustomize: %v", r))
		}
	}()
	if err := r.edit(file, edit); err != nil {
		return nil, failed(file, err)
	}
	if err := scan.folder(s.Path, nil); err != nil { // first, as kustomize would fetch and clone
		return nil, err
	}
	limitCopies()
	built, err := krusty.MakeKustomizer(options).Run(r, path.Join("/", s.Path))
	if err != nil {
		if culprit := r.malformed(); culprit != nil {
			return nil, culprit
		}
		return nil, failed(file, errors.New(shorter(err.Error())))
	}
	sources := map[string][]*yaml.Node{}
	size := 0
	for _, res := range built.Resources() {
		doc, n, err := s.built(r, file, res, sources)
		if err != nil {
			return nil, failed(file, err)
		}
		if size += n; size > maxOutput {
			return nil, failed(file, sandbox.ErrHuge)
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// twice matches kustomize's error for a file that it cannot read as manifests, and then not as a folder either.
var twice = regexp.MustCompile(`accumulating resources: accumulation err='(.*)': must build at directory: '[^']*': file is not directory`)

// shorter returns an error of kustomize with relative names, and without its second attempt to read a file.
func shorter(message string) string {
	return twice.ReplaceAllString(strings.ReplaceAll(message, "'/", "'"), "$1")
}

// built converts a resource, with the line numbers of its source.
func (s Source) built(r *repository, file string, res *resource.Resource, sources map[string][]*yaml.Node) (Document, int, error) {
	origin, err := res.GetOrigin()
	if err != nil {
		return Document{}, 0, err
	}
	from := file
	if origin != nil {
		switch {
		case origin.Path != "":
			from = path.Join(s.Path, origin.Path)
		case origin.ConfiguredIn != "":
			from = path.Join(s.Path, origin.ConfiguredIn)
		}
	}
	if err := res.SetOrigin(nil); err != nil {
		return Document{}, 0, err
	}
	text, err := res.AsYAML()
	if err != nil {
		return Document{}, 0, err
	}
	docs, err := documents(from, string(text), []int{})
	if err != nil || len(docs) != 1 {
		return Document{}, 0, errors.Join(err, fmt.Errorf("%s %s: %d documents", res.GetKind(), res.GetName(), len(docs)))
	}
	candidates := []string{from}
	if origin == nil || origin.Path == "" && origin.ConfiguredBy.Kind == "PatchTransformer" { // a patch that replaces all annotations drops the origin
		candidates = slices.Sorted(maps.Keys(r.read))
	}
	var best *yaml.Node
	for _, name := range candidates {
		if _, known := sources[name]; !known {
			sources[name], _ = strict.Parse(name, r.read[name])
		}
		for _, n := range sources[name] {
			// Undo prefixes and suffixes: kustomize does not keep the original name.
			was := strict.Text(n, "metadata", "name")
			if was == "" || strict.Text(n, "kind") != res.GetKind() || !strings.Contains(res.GetName(), was) {
				continue
			}
			of := strict.Text(best, "metadata", "name")
			inNamespace := func(n *yaml.Node) bool { return strict.Text(n, "metadata", "namespace") == res.GetNamespace() }
			if best == nil || len(was) > len(of) || was == of && inNamespace(n) && !inNamespace(best) {
				best, docs[0].File = n, name
			}
		}
	}
	if best != nil {
		place(docs[0].Node, best)
	}
	return docs[0], len(text), nil
}

// place sets a node's lines to those of its source; nodes not in the source get their parent's.
func place(n, from *yaml.Node) {
	n.Line, n.Column = from.Line, from.Column
	if n.Kind != from.Kind || n.Value != from.Value {
		n.Column = 0 // differs in the source
	}
	for i, c := range n.Content {
		origin := &yaml.Node{Line: from.Line}
		switch {
		case n.Kind == yaml.MappingNode && from.Kind == yaml.MappingNode:
			for j := 0; j+1 < len(from.Content); j += 2 {
				if from.Content[j].Value == n.Content[i-i%2].Value {
					origin = from.Content[j+i%2]
				}
			}
		case n.Kind == yaml.SequenceNode && from.Kind == yaml.SequenceNode && i < len(from.Content):
			origin = from.Content[i]
		}
		place(c, origin)
	}
}

// edit overlays a kustomization with an edit and enables origin annotations.
func (r *repository) edit(file string, edit func(k map[string]any) error) error {
	data, err := r.ReadFile(file)
	if err != nil {
		return err
	}
	k := map[string]any{}
	if err := sigsyaml.Unmarshal(data, &k); err != nil {
		return err
	}
	if err := edit(k); err != nil {
		return err
	}
	k["buildMetadata"] = append(list(k["buildMetadata"]), "originAnnotations")
	edited, err := json.Marshal(k)
	if err != nil {
		return err
	}
	r.edited[file] = edited
	return nil
}

// options applies a source's options to a kustomization, like `kustomize edit` in Argo CD.
func (s Source) options(r *repository, k map[string]any, o *appset.Kustomize) error {
	for key, value := range map[string]string{"namePrefix": o.NamePrefix, "nameSuffix": o.NameSuffix, "namespace": o.Namespace} {
		if value != "" {
			k[key] = s.substitute(value)
		}
	}
	for _, text := range o.Images {
		name, image := image(s.substitute(text))
		images := slices.DeleteFunc(list(k["images"]), func(i any) bool { have, _ := i.(map[string]any); return have["name"] == name })
		k["images"] = append(images, image)
	}
	for _, replica := range o.Replicas {
		count := replica.Count.IntValue()
		replicas := slices.DeleteFunc(list(k["replicas"]), func(i any) bool { have, _ := i.(map[string]any); return have["name"] == replica.Name })
		k["replicas"] = append(replicas, map[string]any{"name": replica.Name, "count": count})
	}
	labels, annotations := maps.Clone(o.CommonLabels), maps.Clone(o.CommonAnnotations)
	for key, value := range labels {
		labels[key] = s.substitute(value)
	}
	if o.CommonAnnotationsEnvsubst {
		for key, value := range annotations {
			annotations[key] = s.substitute(value)
		}
	}
	if o.LabelWithoutSelector && len(labels) > 0 {
		k["labels"] = append(list(k["labels"]), map[string]any{"pairs": labels, "includeSelectors": false, "includeTemplates": o.LabelIncludeTemplates})
	} else if err := add(k, "commonLabels", labels, o.ForceCommonLabels); err != nil {
		return err
	}
	if err := add(k, "commonAnnotations", annotations, o.ForceCommonAnnotations); err != nil {
		return err
	}
	for _, p := range o.Patches {
		var patch map[string]any
		data, err := json.Marshal(p)
		if err == nil {
			err = json.Unmarshal(data, &patch)
		}
		if err != nil {
			return err
		}
		k["patches"] = append(list(k["patches"]), patch)
	}
	for _, c := range o.Components {
		if dir := path.Join(s.Path, c); o.IgnoreMissingComponents && (!r.Exists(dir) || s.Minor.Has(6) && kustomizationIn(r.FS, dir) == "") {
			continue
		}
		k["components"] = append(list(k["components"]), c)
	}
	return nil
}

// add adds entries to a map of a kustomization; existing keys are an error unless forced.
func add(k map[string]any, field string, pairs map[string]string, force bool) error {
	if len(pairs) == 0 {
		return nil
	}
	have, _ := k[field].(map[string]any)
	if have == nil {
		have = map[string]any{}
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if _, there := have[key]; there && !force {
			return fmt.Errorf("%s: %s exists, and the Application does not force it", field, key)
		}
		have[key] = pairs[key]
	}
	k[field] = have
	return nil
}

// image parses an argument of `kustomize edit set image`: name=new:tag@digest.
func image(text string) (name string, entry map[string]any) {
	name, to, renamed := strings.Cut(text, "=")
	if !renamed {
		to = name
	}
	entry = map[string]any{}
	if at := strings.Index(to, "@"); at >= 0 {
		to, entry["digest"] = to[:at], to[at+1:]
	}
	if colon := strings.LastIndex(to, ":"); colon > strings.LastIndex(to, "/") {
		to, entry["newTag"] = to[:colon], to[colon+1:]
	}
	if renamed {
		if to != "*" {
			entry["newName"] = to
		}
	} else {
		name = to
	}
	entry["name"] = name
	return name, entry
}

func list(v any) []any { l, _ := v.([]any); return l }
