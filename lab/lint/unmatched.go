package lint

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// pins finds versions for environments none of whose clusters has the addon.
func (l *linter) pins() {
	for _, a := range l.Estate.Addons {
		for env := range a.Versions {
			var of []string
			unsure := env == ""
			for _, c := range l.Estate.Clusters {
				if c.Environment != env {
					continue
				}
				_, known := c.Selected[a.Name]
				unsure = unsure || c.Has(a.Name) || !known && l.Estate.Hub().Engine.Type != lab.EngineFlux
				of = append(of, c.Name)
			}
			if !unsure && len(of) > 0 {
				l.add(finding.Finding{
					Rule: finding.PinUnused, Position: a.Position("version." + env),
					Message: fmt.Sprintf("version %s of addon %s is for environment %s, none of whose clusters has it: %s", a.Versions[env], a.Name, env, some(of)),
				})
			}
		}
	}
}

// A probe marks what an entry of a kustomization matches: an image by its tag, other objects by a field.
const (
	probeTag   = "lab-probe-"
	probeField = "labProbe"
	probeFile  = "lab-probe" // annotation of all that a kustomization builds
)

// probe is an entry with a number of its own.
type probe struct {
	at   lab.Position
	text string

	list  string // of a Kustomization's spec, to which patches of others may add; empty for others
	index int
}

const deletion = "$patch: delete" // in a patch

// probes are the entries of a kustomization, or of a source's options.
type probes struct {
	list   []probe
	at     func(key string, i int) lab.Position
	ofSpec bool
}

func (p *probes) add(key string, i int, text string) string {
	of := probe{at: p.at(key, i), text: text}
	if p.ofSpec {
		of.list, of.index = key, i
	}
	p.list = append(p.list, of)
	return strconv.Itoa(len(p.list))
}

// unmatched finds entries of kustomizations that match nothing in any application: kustomize is silent about these.
func (l *linter) unmatched() {
	matched, by := map[probe]bool{}, map[probe]application{}
	var roots []string
	for _, c := range l.Estate.Clusters {
		roots = append(roots, lab.FluxRootFile(c.Name)) // with patches for whatever a repository may have
	}
	unsure := false // an application may read more than is known
	for _, a := range l.apps {
		unsure = unsure || a.broken
		for _, p := range a.parts {
			tried, hit := p.probed()
			for of := range tried {
				by[of] = a
				matched[of] = matched[of] || hit[of]
			}
		}
	}
	for of, a := range by {
		if !matched[of] && !unsure && !slices.Contains(roots, of.at.File) && (of.list == "" || l.writes(of)) {
			l.add(finding.Finding{Rule: finding.EntryUnmatched, Position: of.at, Subject: finding.Subject{Application: a.Name}, Message: of.text + " matches no object"})
		}
	}
}

// writes reports whether an entry is written where it is said to be, and not added by a patch.
func (l *linter) writes(of probe) bool {
	text, err := l.text(of.at.File)
	if err != nil {
		return false
	}
	docs, _ := strict.Parse(of.at.File, []byte(text))
	return slices.ContainsFunc(docs, func(doc *yaml.Node) bool {
		n := strict.Get(doc, "spec", of.list, of.index)
		return n != nil && n.Line == of.at.Line
	})
}

// probed tries the entries of the kustomizations that a part is built from, and those of its options. Each file is tried alone, without tags of others, which could
// replace its own.
func (p part) probed() (tried, hit map[probe]bool) {
	tried, hit = map[probe]bool{}, map[probe]bool{}
	files := map[string]map[string]any{}
	for name := range p.read[""] {
		if !slices.Contains(render.Kustomizations, path.Base(name)) {
			continue
		}
		data, err := fs.ReadFile(p.trees[""], name)
		var k map[string]any
		if err != nil || sigsyaml.Unmarshal(data, &k) != nil {
			return nil, nil
		}
		files[name] = k
	}
	try := func(options map[string]any, changed map[string]map[string]any, list []probe, controlled bool) {
		docs, err := p.Render(options, func(tree string, fsys fs.FS) fs.FS {
			of := render.Overlay{FS: fsys, Files: map[string][]byte{}}
			for name, k := range changed {
				if text, err := sigsyaml.Marshal(k); err == nil && tree == "" {
					of.Files[name] = text
				}
			}
			return of
		})
		found := found(docs)
		if err != nil || controlled && !found[probeFile] {
			return
		}
		for i, of := range list {
			tried[of] = true
			hit[of] = hit[of] || found[strconv.Itoa(i+1)]
		}
	}
	unsure := slices.ContainsFunc(slices.Collect(maps.Keys(p.read[""])), func(name string) bool {
		data, _ := fs.ReadFile(p.trees[""], name)
		return strings.Contains(string(data), deletion)
	})
	for name, k := range files {
		if k["images"] == nil && k["patches"] == nil && k["replacements"] == nil {
			continue
		}
		data, _ := fs.ReadFile(p.trees[""], name)
		docs, _ := strict.Parse(name, data)
		if len(docs) != 1 {
			continue
		}
		of := &probes{at: func(key string, i int) lab.Position {
			return strict.Position(p.Name("", name), strict.Get(docs[0], key, i))
		}}
		changed := map[string]map[string]any{}
		for other, k := range files {
			changed[other] = untagged(k)
		}
		changed[name] = of.kustomization(k, !unsure)
		annotations, _ := k["commonAnnotations"].(map[string]any)
		annotations = maps.Clone(annotations)
		if annotations == nil {
			annotations = map[string]any{}
		}
		annotations[probeFile] = "1"
		changed[name]["commonAnnotations"] = annotations
		if len(of.list) > 0 {
			try(undeleting(untagged(p.Options)), changed, of.list, true)
		}
	}
	for _, field := range []string{"kustomize", "spec"} { // of Argo CD, and Flux
		k, _ := p.Options[field].(map[string]any)
		if k["images"] == nil && k["patches"] == nil || len(files) == 0 && field == "kustomize" {
			continue
		}
		of := &probes{ofSpec: field == "spec", at: func(key string, i int) lab.Position {
			at := p.At([]string{field, key, strconv.Itoa(i)})
			if len(at) == 0 {
				return lab.Position{}
			}
			return at[0]
		}}
		options := maps.Clone(p.Options)
		options[field] = of.kustomization(k, !unsure)
		if len(of.list) > 0 {
			try(options, nil, of.list, false)
		}
	}
	return tried, hit
}

// untagged returns a kustomization, or options, whose images keep their tags.
func untagged(k map[string]any) map[string]any {
	k = maps.Clone(k)
	for _, field := range []string{"kustomize", "spec"} {
		if of, ok := k[field].(map[string]any); ok {
			of = maps.Clone(of)
			delete(of, "images")
			k[field] = of
		}
	}
	list, _ := k["images"].([]any)
	var images []any
	for _, image := range list {
		if of, ok := image.(map[string]any); ok {
			of = maps.Clone(of)
			delete(of, "newTag")
			delete(of, "digest")
			images = append(images, of)
		}
	}
	if list != nil {
		k["images"] = images
	}
	return k
}

// undeleting returns options without the patches that delete objects, which a file's patches may be for, such as lab's for Flux itself.
func undeleting(options map[string]any) map[string]any {
	options = maps.Clone(options)
	for _, field := range []string{"kustomize", "spec"} {
		of, _ := options[field].(map[string]any)
		list, _ := of["patches"].([]any)
		if len(list) == 0 {
			continue
		}
		of = maps.Clone(of)
		of["patches"] = slices.DeleteFunc(slices.Clone(list), deletes)
		options[field] = of
	}
	return options
}

// deletes reports whether an entry of patches deletes objects.
func deletes(entry any) bool {
	patch, _ := entry.(map[string]any)
	text, _ := patch["patch"].(string)
	return strings.Contains(text, deletion)
}

// kustomization returns a kustomization with probes.
func (p *probes) kustomization(k map[string]any, patches bool) map[string]any {
	k = maps.Clone(k)
	list, _ := k["images"].([]any)
	names := map[string]int{} // that an entry has, or makes
	for _, image := range list {
		name, to := imageNames(image)
		names[name]++
		if to != name {
			names[to]++
		}
	}
	var images []any
	for i, image := range list {
		name, _ := imageNames(image)
		if names[name] > 1 { // one may replace the tag of another
			images = append(images, image)
			continue
		}
		tag := probeTag + p.add("images", i, "image "+name)
		switch image := image.(type) {
		case map[string]any:
			image = maps.Clone(image)
			delete(image, "digest")
			delete(image, "tagSuffix")
			image["newTag"] = tag
			images = append(images, image)
		case string:
			old, to, renamed := strings.Cut(image, "=")
			if !renamed {
				to = old
			}
			if to = untag(to) + ":" + tag; renamed {
				to = old + "=" + to
			}
			images = append(images, to)
		}
	}
	if list != nil {
		k["images"] = images
	}
	list, _ = k["patches"].([]any)
	var all []any
	for i, patch := range list {
		of, _ := patch.(map[string]any)
		target, _ := of["target"].(map[string]any)
		if patches && len(target) > 0 {
			number := p.add("patches", i, "the target of this patch, "+selector(target)+",")
			all = append(all, map[string]any{"target": target, "patch": "- {op: add, path: /" + probeField + number + ", value: x}"})
		}
		if !patches || !deletes(patch) { // what is deleted has no probe
			all = append(all, patch)
		}
	}
	if list != nil {
		k["patches"] = all
	}
	list, _ = k["replacements"].([]any)
	all = nil
	for i, replacement := range list {
		of, _ := replacement.(map[string]any)
		targets, _ := of["targets"].([]any)
		var more []any
		for _, t := range targets {
			target, _ := t.(map[string]any)
			if selects, _ := target["select"].(map[string]any); len(selects) > 0 && patches {
				number := p.add("replacements", i, "a target of this replacement, "+selector(selects)+",")
				more = append(more, map[string]any{"select": selects, "reject": target["reject"], "fieldPaths": []any{probeField + number}, "options": map[string]any{"create": true}})
			}
			more = append(more, t)
		}
		if of != nil && targets != nil {
			of = maps.Clone(of)
			of["targets"] = more
		}
		all = append(all, of)
	}
	if list != nil {
		k["replacements"] = all
	}
	return k
}

// imageNames returns the name that an entry matches, and the one that it writes.
func imageNames(image any) (name, to string) {
	switch image := image.(type) {
	case map[string]any:
		name, _ = image["name"].(string)
		if to, _ = image["newName"].(string); to == "" {
			to = name
		}
	case string:
		old, of, renamed := strings.Cut(image, "=")
		if name, to = untag(old), untag(old); renamed {
			to = untag(of)
		}
	}
	return name, to
}

// untag returns an image without its tag and digest.
func untag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i]
	}
	return image
}

// selector describes a target.
func selector(target map[string]any) string {
	var list []string
	for _, key := range []string{"group", "version", "kind", "namespace", "name", "labelSelector", "annotationSelector"} {
		if text := fmt.Sprint(target[key]); target[key] != nil && text != "" {
			list = append(list, key+" "+text)
		}
	}
	return strings.Join(list, ", ")
}

// found returns the numbers of the probes in documents, and whether one is of the probed file.
func found(docs []render.Document) map[string]bool {
	list := map[string]bool{}
	var images func(n *yaml.Node)
	images = func(n *yaml.Node) {
		if _, number, ok := strings.Cut(n.Value, ":"+probeTag); ok {
			list[number] = true
		}
		for _, c := range n.Content {
			images(c)
		}
	}
	for _, d := range docs {
		images(d.Node)
		for key := range strict.Pairs(d.Node) {
			if number, ok := strings.CutPrefix(key.Value, probeField); ok {
				list[number] = true
			}
		}
		if strict.Text(d.Node, "metadata", "annotations", probeFile) != "" {
			list[probeFile] = true
		}
	}
	return list
}
