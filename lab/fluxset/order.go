package fluxset

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// Annotations for an addon's dependencies, separated by commas, on any object in its folder. Unlike spec.dependsOn of a
// HelmRelease, they are not limited to HelmReleases.
const (
	NeedsAnnotation = "lab.homelab/needs" // required on the same cluster
	AfterAnnotation = "lab.homelab/after" // if present on the cluster
)

// Need is an addon that must be ready before another starts.
type Need struct {
	Addon    string
	Optional bool // may be missing on the cluster
	At       lab.Position
}

// Order maps addons to their dependencies.
type Order map[string][]Need

// ReadOrder reads the order of addons from their manifests for Flux, ignoring invalid manifests.
func ReadOrder(fsys fs.FS) (Order, lab.Problems) {
	r := orderReader{order: Order{}, docs: map[string][]document{}, releases: map[string]string{}}
	entries, _ := fs.ReadDir(fsys, lab.AddonsDir)
	for _, e := range entries {
		if docs, _ := documentsOf(fsys, e.Name()); len(docs) > 0 {
			r.docs[e.Name()] = docs
		}
	}
	addons := slices.Sorted(maps.Keys(r.docs))
	for _, addon := range addons {
		for _, d := range r.docs[addon] {
			if strict.Text(d.node, "kind") == "HelmRelease" {
				r.releases[strict.Text(d.node, "metadata", "name")] = addon
			}
		}
	}
	for _, addon := range addons {
		for _, d := range r.docs[addon] {
			r.dependsOn(addon, d)
			r.annotated(addon, d, NeedsAnnotation, false)
			r.annotated(addon, d, AfterAnnotation, true)
		}
	}
	r.cycles()
	return r.order, r.problems
}

type document struct {
	file string
	node *yaml.Node
}

// documentsOf returns an addon's manifests for Flux. With an error, those without it.
func documentsOf(fsys fs.FS, addon string) (docs []document, failed error) {
	for _, file := range manifests(fsys, addon) {
		data, err := fs.ReadFile(fsys, file)
		nodes, problems := strict.Parse(file, data)
		if err == nil && len(problems) > 0 {
			err = problems
		}
		failed = cmp.Or(failed, err)
		for _, n := range nodes {
			docs = append(docs, document{file, n})
		}
	}
	return docs, failed
}

type orderReader struct {
	order    Order
	docs     map[string][]document // by addon
	releases map[string]string     // HelmRelease -> addon
	problems lab.Problems
}

func (r *orderReader) fail(at lab.Position, message, cure string) {
	r.problems = append(r.problems, lab.Problem{Code: finding.InvalidDependency, Position: at, Message: message, Cure: cure})
}

func (r *orderReader) add(addon string, n Need) {
	if i := slices.IndexFunc(r.order[addon], func(x Need) bool { return x.Addon == n.Addon }); i >= 0 {
		r.order[addon][i].Optional = r.order[addon][i].Optional && n.Optional
		return
	}
	r.order[addon] = append(r.order[addon], n)
}

// dependsOn reads spec.dependsOn of a HelmRelease. Releases in other namespaces are not addons of the cluster.
func (r *orderReader) dependsOn(addon string, d document) {
	if strict.Text(d.node, "kind") != "HelmRelease" {
		return
	}
	own := strict.Text(d.node, "metadata", "name")
	for _, entry := range strict.List(d.node, "spec", "dependsOn") {
		at, name := strict.Position(d.file, entry), strict.Text(entry, "name")
		if name == "" || strict.Text(entry, "namespace") != "" {
			continue
		}
		of, known := r.releases[name]
		switch {
		case name == own:
			r.fail(at, fmt.Sprintf("HelmRelease %s depends on itself", own), "")
		case known && of == addon: // left to Flux
		case known:
			r.add(addon, Need{Addon: of, At: at})
		case r.docs[name] != nil:
			r.fail(at, fmt.Sprintf("HelmRelease %s depends on addon %s, which is not a HelmRelease", own, name), fmt.Sprintf("use the annotation %s: %s", NeedsAnnotation, name))
		default:
			r.fail(at, fmt.Sprintf("HelmRelease %s depends on %s, which is not a HelmRelease of any addon", own, name), didYouMean(name, slices.Collect(maps.Keys(r.releases))))
		}
	}
}

func (r *orderReader) annotated(addon string, d document, key string, optional bool) {
	n := strict.Get(d.node, "metadata", "annotations", key)
	if n == nil {
		return
	}
	at := strict.Position(d.file, n)
	for name := range strings.SplitSeq(n.Value, ",") {
		switch name = strings.TrimSpace(name); {
		case name == addon:
			r.fail(at, fmt.Sprintf("addon %s needs itself", addon), "")
		case r.docs[name] == nil:
			r.fail(at, fmt.Sprintf("%s: %q is not an addon with manifests for Flux", key, name), didYouMean(name, slices.Collect(maps.Keys(r.docs))))
		default:
			r.add(addon, Need{Addon: name, Optional: optional, At: at})
		}
	}
}

func didYouMean(name string, known []string) string {
	slices.Sort(known)
	if best := strict.Closest(name, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "there are " + strings.Join(known, ", ")
}

// cycles reports each cycle once, at the dependency that closes it.
func (r *orderReader) cycles() {
	const open, done = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(string)
	visit = func(addon string) {
		state[addon] = open
		path = append(path, addon)
		for _, n := range r.order[addon] {
			switch state[n.Addon] {
			case 0:
				visit(n.Addon)
			case open:
				ring := slices.Concat(path[slices.Index(path, n.Addon):], []string{n.Addon})
				r.fail(n.At, "dependency cycle: "+strings.Join(ring, " needs "), "remove one of these dependencies")
			}
		}
		path = path[:len(path)-1]
		state[addon] = done
	}
	for _, addon := range slices.Sorted(maps.Keys(r.order)) {
		if state[addon] == 0 {
			visit(addon)
		}
	}
}
