package render

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// Kustomization is a folder with the options of a Kustomization of Flux.
type Kustomization struct {
	FS   fs.FS          // the whole repository
	Path string         // a folder in FS
	Spec map[string]any // of the Kustomization; its build options are honoured

	// Variables are those of spec.postBuild; nil disables substitution.
	Variables map[string]string

	Budget *Budget           // of all renderings, or nil
	Note   func(lab.Problem) // called for what Flux does without a word; may be nil
}

// Build builds a folder like Flux's kustomize-controller: without a kustomization, all manifests in it; files outside the
// folder may be included. It also returns unset variables without a default, which the controller replaces by "". Its
// errors are *Error.
func (k Kustomization) Build() ([]Document, []Unset, error) {
	dir := k.folder("")
	r := newRepository(k.FS, k.Budget)
	file := kustomizationIn(k.FS, dir)
	if file == "" {
		if info, err := fs.Stat(k.FS, dir); err != nil || !info.IsDir() {
			return nil, nil, failed(dir, errors.New("no such folder"))
		}
		file = path.Join(dir, Kustomizations[0])
		resources, err := manifestsIn(k.FS, dir)
		if err != nil {
			return nil, nil, failed(dir, err)
		}
		text, err := sigsyaml.Marshal(map[string]any{"apiVersion": types.KustomizationVersion, "kind": types.KustomizationKind, "resources": resources})
		if err != nil {
			return nil, nil, failed(dir, err)
		}
		r.edited[file] = text
	} else if err := r.rewrite(file); err != nil {
		return nil, nil, failed(file, err)
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	s := Source{FS: r.FS, Source: appset.Source{Path: dir}}
	docs, err := s.build(&scanner{repository: r, loose: true}, file, k.edit, options)
	if invalid := new(Error); errors.As(err, &invalid) && invalid.File == file && !isFile(k.FS, file) {
		invalid.File = dir // the kustomization is generated
	}
	if err != nil {
		return docs, nil, err
	}
	var unset []Unset
	for i := range docs {
		var missing []Unset
		before := docs[i].Node
		if k.Variables != nil {
			if missing, err = k.substitute(&docs[i], r); err != nil {
				return nil, nil, err
			}
		}
		unset = append(unset, missing...)
		k.common(docs[i])
		if docs[i].Node != before {
			if err := refused(docs[i]); err != nil {
				return nil, nil, err
			}
		}
	}
	return docs, unset, nil
}

// managedBy is the label that buildMetadata: [managedByLabel] sets to the version of the program, which is not ours.
const managedBy = "app.kubernetes.io/managed-by"

// common sets spec.commonMetadata. Flux reads labels and annotations as texts: if one is not, it sees none of them and replaces them by its own.
func (k Kustomization) common(doc Document) {
	common, _ := k.Spec["commonMetadata"].(map[string]any)
	metadata := strict.Get(doc.Node, "metadata")
	if strings.HasPrefix(strict.Text(metadata, "labels", managedBy), "kustomize-(") {
		set(doc.Node, "kustomize", "metadata", "labels", managedBy)
	}
	for _, field := range []string{"labels", "annotations"} {
		pairs := texts(common[field])
		at := strict.Get(metadata, field)
		key, value := notText(at)
		if key != "" && (field == "labels" || len(pairs) > 0) {
			i := slices.Index(metadata.Content, at)
			metadata.Content = slices.Delete(slices.Clone(metadata.Content), i-1, i+1)
			if k.Note != nil {
				k.Note(lab.Problem{
					Code: finding.InvalidSubstitution, Position: lab.Position{File: doc.File, Line: cmp.Or(at.Line, doc.Line)},
					Message: fmt.Sprintf("%s: Flux drops all of metadata.%s, as %s is %s, not a string",
						strict.Title(doc.Node), field, key, value),
					Cure: quoteVariable,
				})
			}
		}
		for _, key := range slices.Sorted(maps.Keys(pairs)) {
			set(doc.Node, pairs[key], "metadata", field, key)
		}
	}
}

func texts(v any) map[string]string {
	of, _ := v.(map[string]any)
	pairs := map[string]string{}
	for key, value := range of {
		if text, ok := value.(string); ok {
			pairs[key] = text
		}
	}
	return pairs
}

// rewrite overlays a kustomization like the controller: without unknown fields, and with the last of duplicate ones.
func (r *repository) rewrite(file string) error {
	data, err := r.ReadFile(file)
	if err != nil {
		return err
	}
	var known types.Kustomization
	if err := sigsyaml.Unmarshal(data, &known); err != nil {
		return err
	}
	r.edited[file], err = sigsyaml.Marshal(known)
	return err
}

// manifestsIn lists the manifests of a folder without a kustomization, and its folders with one, relative to it.
func manifestsIn(fsys fs.FS, dir string) ([]string, error) {
	var names []string
	err := fs.WalkDir(fsys, dir, func(name string, e fs.DirEntry, err error) error {
		rel := name
		if dir != "." {
			rel = strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
		}
		switch ext := path.Ext(name); {
		case err != nil:
			return err
		case name == dir:
		case e.IsDir() && kustomizationIn(fsys, name) != "":
			names = append(names, rel)
			return fs.SkipDir
		case !e.IsDir() && (ext == ".yaml" || ext == ".yml"):
			names = append(names, rel)
		}
		if len(names) > maxFiles {
			return errTooMuch
		}
		return nil
	})
	return names, err
}

// edit applies the build options of the spec, as the controller does.
func (k Kustomization) edit(to map[string]any) error {
	for from, field := range map[string]string{"targetNamespace": "namespace", "namePrefix": "namePrefix", "nameSuffix": "nameSuffix"} {
		if v, _ := k.Spec[from].(string); v != "" {
			to[field] = v
		}
	}
	for field, more := range map[string][]any{"patches": list(k.Spec["patches"]), "components": k.components()} {
		if len(more) > 0 {
			to[field] = append(list(to[field]), more...)
		}
	}
	for _, image := range list(k.Spec["images"]) {
		to["images"] = withImage(list(to["images"]), image)
	}
	if len(list(to["resources"])) == 0 { // so that kustomize does not call it empty
		to["buildMetadata"] = []any{types.OriginAnnotations}
	}
	if build := list(k.Spec["buildMetadata"]); len(build) > 0 {
		to["buildMetadata"] = build
	}
	return nil
}

// withImage returns images with another one, whose fields replace those of the one with its name. A tag and a digest replace each other.
func withImage(images []any, image any) []any {
	is, _ := image.(map[string]any)
	i := slices.IndexFunc(images, func(i any) bool { have, _ := i.(map[string]any); return have["name"] == is["name"] })
	if i < 0 {
		return append(images, image)
	}
	have, _ := images[i].(map[string]any)
	if is["newTag"] != nil || is["digest"] != nil {
		delete(have, "newTag")
		delete(have, "digest")
	}
	maps.Copy(have, is)
	return images
}

// components returns spec.components, without missing ones if missing ones are ignored.
func (k Kustomization) components() []any {
	all := list(k.Spec["components"])
	if ignore, _ := k.Spec["ignoreMissingComponents"].(bool); !ignore {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(c any) bool {
		name, _ := c.(string)
		_, err := fs.Stat(k.FS, k.folder(name))
		return err != nil
	})
}

// folder returns a folder relative to the built one; the repository itself if it is outside.
func (k Kustomization) folder(name string) string {
	dir := path.Clean(strings.TrimPrefix(path.Join("/", k.Path, name), "/"))
	if !fs.ValidPath(dir) {
		return "."
	}
	return dir
}
