package fluxset

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/flux"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

const encrypted = "encrypted"

func isImage(n *yaml.Node) bool {
	return strings.HasPrefix(strict.Text(n, "apiVersion"), "image.toolkit.fluxcd.io/")
}

// imageController returns Flux's controller for an object of image automation.
func imageController(n *yaml.Node) string {
	if strict.Text(n, "kind") == "ImageUpdateAutomation" {
		return flux.ImageAutomation
	}
	return flux.ImageReflector
}

// Encrypted reports whether an object, or a value from a generator's file, is encrypted with SOPS.
func Encrypted(n *yaml.Node) bool { return strict.Get(n, sopsKey) != nil || fromFiles(n) }

const (
	sopsKey    = "sops"                 // of SOPS's metadata
	ciphertext = "ENC[AES256_GCM,data:" // begins an encrypted value
)

// marked reports whether SOPS has left its metadata in an object without encrypting anything of it: it marks all objects of a file.
func marked(n *yaml.Node) bool {
	for keys, scalar := range strict.Scalars(n) {
		if keys[0] != sopsKey && strings.Contains(scalar.Value, ciphertext) {
			return false
		}
	}
	return strict.Get(n, sopsKey) != nil
}

func fromFiles(n *yaml.Node) bool {
	if kind := strict.Text(n, "kind"); kind != "Secret" && kind != "ConfigMap" {
		return false
	}
	for _, value := range Data(n) {
		if strings.Contains(value, ciphertext) {
			return true
		}
	}
	return false
}

// Deleted is the patch that deletes its targets.
const Deleted = "$patch: delete\napiVersion: v1\nkind: Any\nmetadata: {name: any}\n"

// Patch is an element of spec.patches.
type Patch struct {
	Target map[string]string `yaml:"target,omitempty"`
	Patch  string            `yaml:"patch"`

	Why string       `yaml:"-"`
	At  lab.Position `yaml:"-"` // of the object
}

// Adaptation is a set of changes that make the Kustomizations of a mounted repository work with the lab's Flux.
type Adaptation struct {
	Patches []Patch   // of the root
	Without []Omitted // at any depth

	gone   map[object]bool // what nothing creates here
	copies map[string]bool // keys of Kustomizations of the root's folder
}

type Omitted struct {
	render.Document
	Why string
}

// Adapt returns the patches for a root of a mounted repository. They delete objects that are encrypted, belong to image automation or install Flux, and
// update old APIs. Patches for a Kustomization below the root are passed on in spec.patches.
func (x Expansion) Adapt(root Application) Adaptation {
	m := Adaptation{gone: map[object]bool{}, copies: map[string]bool{}}
	for _, app := range slices.Concat(x.Roots, x.Applications) {
		for _, o := range app.Objects {
			if kind := strict.Text(o.Node, "kind"); omitted(app, o.Node) != "" && kind != "Secret" && kind != "ConfigMap" { // those are seeded
				m.gone[objectOf(o.Node)] = true
			}
		}
	}
	for _, app := range x.Applications {
		m.copies[app.Key()] = app.mounted && app.Parent == root.Key() && app.Path == root.Path && app.Remote == root.Remote
	}
	m.Patches = x.adapt(&m, root)
	return m
}

// omitted returns why an object cannot work here, or "".
func omitted(app Application, n *yaml.Node) string {
	release := slices.IndexFunc(app.Releases, func(r Release) bool { return r.Name == strict.Text(n, "metadata", "name") })
	undefined := slices.IndexFunc(app.Undefined, func(u Undefined) bool { return len(u.By) == 0 && u.of == objectOf(n) })
	switch {
	case Encrypted(n) && !(app.decrypt && marked(n)):
		return encrypted
	case isImage(n): // a draft enables no image controllers
		return "of image automation"
	case isOperator(n):
		return ofOperator
	case undefined >= 0:
		return app.Undefined[undefined].Why
	case app.Parent == "" && lacksNamespace(n): // what it contains is available without it
		return "without a namespace"
	case strict.Text(n, "kind") == "HelmRelease" && release >= 0 && app.Releases[release].Engine:
		return anotherEngine
	case app.Parent == "":
		o := render.Document{Node: n}
		if p := misfit(o); p != nil {
			return strings.TrimPrefix(p.String(), p.Position.String()+": ")
		}
		return needs.Flux().Rejected(o)
	}
	return ""
}

func (x Expansion) adapt(m *Adaptation, app Application) []Patch {
	patches := m.adaptEngine(app)
	versions := map[string]bool{}
	target := func(o render.Document) map[string]string {
		kind, name, in := strict.Text(o.Node, "kind"), strict.Text(o.Node, "metadata", "name"), strict.Text(o.Node, "metadata", "namespace")
		is := map[string]string{"kind": regexp.QuoteMeta(kind), "name": regexp.QuoteMeta(Name(o.Node))} // kustomize matches regular expressions
		same := func(other render.Document) bool {
			return strict.Text(other.Node, "kind") == kind && Name(other.Node) == Name(o.Node) && strict.Text(other.Node, "metadata", "namespace") != in
		}
		if in != "" && slices.ContainsFunc(app.Objects, same) {
			is["namespace"] = in
		}
		if Name(o.Node) != name {
			is["name"] += "|" + regexp.QuoteMeta(name)
		}
		for field := range is { // Flux patches before it substitutes variables
			if before := strict.Text(o.Before, "metadata", field); strings.Contains(before, "${") {
				is[field] += "|" + regexp.QuoteMeta(before)
			}
		}
		return is
	}
	add := func(o render.Document, target map[string]string, patch, why string) {
		patches = append(patches, Patch{Target: target, Patch: patch, Why: why, At: lab.Position{File: o.File, Line: o.Line}})
	}
	for _, o := range app.operated {
		if !isInstance(o.Node) {
			m.Without = append(m.Without, Omitted{o, ofOperator})
		}
	}
	leave := func(o render.Document, why string) {
		m.Without = append(m.Without, Omitted{o, why})
		add(o, target(o), Deleted, why)
	}
	for _, o := range app.Objects {
		if (app.engine || app.Parent == "") && isPartOfFlux(o.Node) {
			continue
		}
		if why := omitted(app, o.Node); why != "" {
			leave(o, why)
			continue
		}
		if marked(o.Node) {
			add(o, target(o), patchOf([]operation{{Op: "remove", Path: "/" + sopsKey}}), "metadata of SOPS, which decryption removes")
		}
		if ops := m.healthChecks(o.Node); len(ops) > 0 {
			add(o, target(o), patchOf(ops), "health checks that cannot pass")
		}
		if ops := x.unpacks(o.Node); len(ops) > 0 {
			add(o, target(o), patchOf(ops), "its OCIRepository has artifacts of the repository")
		}
		if served(o.Node) == "" {
			continue
		}
		group, version, _ := strings.Cut(strict.Text(o.Node, "apiVersion"), "/")
		kind := strict.Text(o.Node, "kind")
		if ops := formerFields(o.Node); len(ops) > 0 {
			add(o, target(o), patchOf(ops), "of an old API")
		}
		if of := group + "/" + version + " " + kind; !versions[of] {
			versions[of] = true
			add(o, map[string]string{"group": group, "version": version, "kind": kind}, patchOf([]operation{{"replace", "/apiVersion", served(o.Node)}}), version+" is no longer served")
		}
	}
	for _, o := range app.Objects {
		i := slices.IndexFunc(x.Applications, func(a Application) bool {
			return isKustomization(o.Node) && (a.Parent == app.Key() || m.copies[a.Parent]) && a.Key() == key(o.Node)
		})
		if i < 0 || !x.Applications[i].mounted {
			continue
		}
		child := x.Applications[i]
		if m.copies[child.Key()] { // without the root's patches
			leave(o, "it syncs the folder of the root")
			continue
		}
		if ops := m.independent(o.Node); len(ops) > 0 {
			add(o, target(o), patchOf(ops), "it is part of the root")
		}
		if child.fromOCI {
			add(o, target(o), patchOf([]operation{{"replace", "/spec/sourceRef/kind", sourcev1.GitRepositoryKind}}), "its OCIRepository has artifacts of the repository")
		}
		if more := x.adapt(m, child); len(more) > 0 {
			add(o, target(o), nestedPatch(child, more), "patches for objects below it")
		}
	}
	return united(patches)
}

// unpacks returns what makes an ArtifactGenerator copy from the repository instead of its artifacts.
func (x Expansion) unpacks(n *yaml.Node) []operation {
	var ops []operation
	if !IsGenerator(n) {
		return nil
	}
	for i, s := range strict.List(n, "spec", "sources") {
		name := cmp.Or(strict.Text(s, "namespace"), strict.Text(n, "metadata", "namespace")) + "/" + strict.Text(s, "name")
		_, packed := x.Sources[sourcev1.OCIRepositoryKind+" "+name]
		if _, known := x.Sources[sourcev1.GitRepositoryKind+" "+name]; known && !packed && strict.Text(s, "kind") == sourcev1.OCIRepositoryKind {
			ops = append(ops, operation{"replace", fmt.Sprintf("/spec/sources/%d/kind", i), sourcev1.GitRepositoryKind})
		}
	}
	return ops
}

// united unites patches that delete objects of one kind for the same reason. Kustomize annotates every object of a folder with every patch, so that its time grows
// with the cube of their number.
func united(patches []Patch) []Patch {
	var all []Patch
	for _, p := range patches {
		i := slices.IndexFunc(all, func(other Patch) bool {
			return p.Patch == Deleted && other.Patch == Deleted && p.Why == other.Why && maps.Equal(unnamed(p.Target), unnamed(other.Target))
		})
		if i < 0 || p.Target["name"] == "" || all[i].Target["name"] == "" {
			all = append(all, p)
			continue
		}
		all[i].Target = maps.Clone(all[i].Target)
		all[i].Target["name"] += "|" + p.Target["name"]
	}
	return all
}

func unnamed(target map[string]string) map[string]string {
	of := maps.Clone(target)
	delete(of, "name")
	return of
}

// independent returns the operations that remove a Kustomization's dependencies on copies of the root.
func (m Adaptation) independent(n *yaml.Node) []operation {
	var ops []operation
	for i, on := range slices.Backward(strict.List(n, "spec", "dependsOn")) {
		if m.copies[cmp.Or(strict.Text(on, "namespace"), strict.Text(n, "metadata", "namespace"))+"/"+strict.Text(on, "name")] {
			ops = append(ops, operation{Op: "remove", Path: fmt.Sprintf("/spec/dependsOn/%d", i)})
		}
	}
	return ops
}

func nestedPatch(app Application, patches []Patch) string {
	var ops []operation
	if app.patched {
		for _, p := range patches {
			ops = append(ops, operation{"add", "/spec/patches/-", p})
		}
	} else {
		ops = append(ops, operation{"add", "/spec/patches", patches})
	}
	if app.decrypt && slices.ContainsFunc(patches, func(p Patch) bool { return p.Why == encrypted }) {
		ops = append(ops, operation{Op: "remove", Path: "/spec/decryption"}) // its generators' inputs are deleted
	}
	return patchOf(ops)
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `yaml:"op"`
	Path  string `yaml:"path"`
	Value any    `yaml:"value,omitempty"`
}

func patchOf(ops []operation) string {
	out, err := yaml.Marshal(ops)
	if err != nil {
		panic(err) // our own text
	}
	return string(out)
}

var hashed = regexp.MustCompile(`-[a-z0-9]{10}$`)

// Name returns the name of an object in patches: without the digest of a generated object.
func Name(n *yaml.Node) string {
	name := strict.Text(n, "metadata", "name")
	if strict.Get(n, "sops") == nil && fromFiles(n) {
		name = hashed.ReplaceAllString(name, "")
	}
	return name
}
