package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/provenance"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kustomize/v5/commands/edit"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/openapi/kubernetesapi"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
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
	o := s.Source.Kustomize
	if o == nil {
		o = &appset.Kustomize{}
	}
	if o.Version != "" {
		return nil, failed(s.Path, fmt.Errorf("kustomize.version %s: the lab's Argo CD has no other version of kustomize", o.Version))
	}
	if err := s.edit(r, o); err != nil {
		return nil, failed(file, err)
	}
	scan := &scanner{repository: r, source: &s, pulled: map[string]lab.ChartFiles{}, inflatedFor: map[string]string{}, inflatedCount: map[string]int{}}
	docs, err := s.build(scan, file, func(k map[string]any) error { return s.extend(r, k, o) }, krusty.MakeDefaultOptions())
	for _, d := range docs { // the library names its own version
		if by := strict.Get(d.Node, "metadata", "labels", konfig.ManagedbyLabelKey); by != nil && by.Value == "kustomize-"+provenance.GetProvenance().Semver() {
			by.Value = "kustomize-" + kustomizeVersion(s.Minor)
		}
	}
	return docs, err
}

// kustomizeVersion returns the version of kustomize beside a minor of Argo CD.
func kustomizeVersion(m argo.Minor) string {
	if m.Has(6) {
		return "v5.8.3"
	}
	return "v5.8.1"
}

func newRepository(fsys fs.FS, all *Budget) *repository {
	return &repository{FS: fsys, budget: one(all), edited: map[string][]byte{}, read: map[string][]byte{}, inflated: map[string][]Document{}}
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
	defer func() {
		if openapi.GetSchemaVersion() != kubernetesapi.DefaultOpenAPI { // a variable of the library
			openapi.ResetOpenAPI()
		}
	}()
	built, err := krusty.MakeKustomizer(options).Run(r, path.Join("/", s.Path))
	if err != nil {
		if culprit := r.malformed(); culprit != nil {
			return nil, culprit
		}
		if scan.source != nil && strings.Contains(err.Error(), "must specify --enable-helm") {
			const plugin = "HelmChartInflationGenerator"
			return nil, remote(lab.Position{File: file}, plugin, "has a chart in generators, as "+plugin+": lab knows only those in helmCharts")
		}
		return nil, failed(file, errors.New(shorter(err.Error())))
	}
	sources := map[string][]Document{}
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

// asFile is kustomize's first attempt to read a folder, as a file.
var asFile = regexp.MustCompile(`accumulation err='accumulating resources from '[^']*': [^']* is not a regular file': `)

// shorter returns an error of kustomize with relative names, and without its vain attempts to read a file as a folder or a folder as a file.
func shorter(message string) string {
	message = asFile.ReplaceAllString(strings.ReplaceAll(message, "'/", "'"), "")
	return twice.ReplaceAllString(message, "$1")
}

// built converts a resource, with the line numbers of its source.
func (s Source) built(r *repository, file string, res *resource.Resource, sources map[string][]Document) (Document, int, error) {
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
	if !r.origins {
		if err := res.SetOrigin(nil); err != nil {
			return Document{}, 0, err
		}
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
		candidates = slices.Concat(slices.Sorted(maps.Keys(r.read)), slices.Sorted(maps.Keys(r.inflated)))
	}
	var best *yaml.Node
	for _, name := range candidates {
		if _, known := sources[name]; !known {
			sources[name] = r.manifests(name)
		}
		for _, d := range sources[name] {
			n := d.Node
			// Undo prefixes and suffixes: kustomize does not keep the original name.
			was := strict.Text(n, "metadata", "name")
			if was == "" || strict.Text(n, "kind") != res.GetKind() || !strings.Contains(res.GetName(), was) {
				continue
			}
			of := strict.Text(best, "metadata", "name")
			inNamespace := func(n *yaml.Node) bool { return strict.Text(n, "metadata", "namespace") == res.GetNamespace() }
			if best == nil || len(was) > len(of) || was == of && inNamespace(n) && !inNamespace(best) {
				best, docs[0].File = n, d.File
			}
		}
	}
	if best != nil {
		Place(docs[0].Node, best)
	}
	return docs[0], len(text), nil
}

// Place sets a node's lines to those of its source; nodes not in the source get their parent's.
func Place(n, from *yaml.Node) {
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
		Place(c, origin)
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
	metadata := list(k["buildMetadata"])
	if r.origins = slices.Contains(metadata, any(types.OriginAnnotations)); !r.origins {
		k["buildMetadata"] = append(metadata, types.OriginAnnotations)
	}
	edited, err := json.Marshal(k)
	if err != nil {
		return err
	}
	r.edited[file] = edited
	return nil
}

// edits are the arguments of `kustomize edit` with which Argo CD applies a source's options.
func (s Source) edits(o *appset.Kustomize) ([][]string, error) {
	var all [][]string
	add := func(values []string, args ...string) {
		if len(values) > 0 {
			all = append(all, append(args, values...))
		}
	}
	set := func(field, value string) {
		if value != "" {
			add([]string{value}, "set", field, "--")
		}
	}
	flags := func(what string, names map[string]bool) []string {
		args := []string{"add", what}
		for name, given := range names {
			if given {
				args = append(args, "--"+name)
			}
		}
		return args
	}
	pairs := func(of map[string]string, substitute bool) []string {
		var list []string
		for _, key := range slices.Sorted(maps.Keys(of)) {
			value := of[key]
			if substitute {
				value = s.substitute(value)
			}
			list = append(list, key+":"+value)
		}
		return list
	}
	set("nameprefix", o.NamePrefix)
	set("namesuffix", o.NameSuffix)
	var images, replicas []string
	for _, image := range o.Images {
		images = append(images, s.substitute(image))
	}
	for _, r := range o.Replicas {
		count, err := strconv.Atoi(r.Count.String())
		if err != nil {
			return nil, fmt.Errorf("replicas of %s: %s is not a number", r.Name, r.Count.String())
		}
		replicas = append(replicas, fmt.Sprintf("%s=%d", r.Name, count))
	}
	add(images, "set", "image")
	add(replicas, "set", "replicas")
	add(pairs(o.CommonLabels, true), flags("label", map[string]bool{
		"force": o.ForceCommonLabels, "without-selector": o.LabelWithoutSelector, "include-templates": o.LabelIncludeTemplates,
	})...)
	add(pairs(o.CommonAnnotations, o.CommonAnnotationsEnvsubst), flags("annotation", map[string]bool{"force": o.ForceCommonAnnotations})...)
	set("namespace", o.Namespace)
	return all, nil
}

// edit applies a source's options to its kustomization like Argo CD.
func (s Source) edit(r *repository, o *appset.Kustomize) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("kustomize: %v", p)
		}
	}()
	provide := provider.NewDefaultDepProvider()
	edits, err := s.edits(o)
	if err != nil {
		return err
	}
	for _, args := range edits {
		cmd := edit.NewCmdEdit(folder{r, s.Path}, provide.GetFieldValidator(), provide.GetResourceFactory(), io.Discard)
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err != nil {
			message, there := strings.CutSuffix(err.Error(), ". Use --force to override.")
			if there {
				message += ": set kustomize.forceCommonLabels or forceCommonAnnotations"
			}
			return fmt.Errorf("kustomize edit %s: %s", strings.Join(args[:2], " "), message)
		}
	}
	return nil
}

// extend applies the options for which there is no command, or one that would fetch.
func (s Source) extend(r *repository, k map[string]any, o *appset.Kustomize) error {
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
	for _, c := range s.components(r, o) {
		if !slices.Contains(list(k["components"]), any(c)) {
			k["components"] = append(list(k["components"]), c)
		}
	}
	for key, value := range k {
		if key != "apiVersion" && key != "kind" && value != nil {
			return nil
		}
	}
	return errors.New("is empty")
}

// components returns the folders of a source's components. `kustomize edit` would clone those that do not exist.
func (s Source) components(r *repository, o *appset.Kustomize) []string {
	var found []string
	for _, c := range o.Components {
		dir := path.Join(s.Path, c)
		if o.IgnoreMissingComponents && (!r.Exists(dir) || s.Minor.Has(6) && kustomizationIn(r.FS, dir) == "") {
			continue
		}
		matches, _ := (folder{r, s.Path}).Glob(c) // a wrong pattern matches nothing
		if len(matches) == 0 {
			matches = []string{c}
		}
		if found = append(found, matches...); o.IgnoreMissingComponents && s.Minor.Has(6) {
			break // Argo CD 3.6 takes the first that exists
		}
	}
	return found
}

func list(v any) []any { l, _ := v.([]any); return l }
