// Package source builds images from Go modules and Debian packages, without a registry or docker build. recipes.yaml
// says what to build; this package compiles programs, installs Debian root file systems and assembles images.
package source

import (
	"embed"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

//go:embed recipes.yaml files
var embedded embed.FS

// RecipesFile is the file name in errors of the built-in recipes.
const RecipesFile = "recipes.yaml"

// Kind is the kind of a component.
type Kind string

const (
	KindPrograms Kind = "programs" // programs compiled from a Go module
	KindRootFS   Kind = "rootfs"   // a Debian root file system as one layer
	KindImage    Kind = "image"    // a container image
	KindNode     Kind = "node"     // a node image for Kind, with nested images
)

// Recipes are all components, in the order in which `lab up` needs them.
type Recipes struct {
	Go         string            `yaml:"go"`       // version of the Go toolchain that compiles them; its modules have recorded sums
	Versions   map[string]string `yaml:"versions"` // of what placeholders name
	Variants   []Variant         `yaml:"variants"`
	Components []*Component      `yaml:"components"`

	arch string // of the container engine, for which images are built
	keys map[string]string
}

// Component is a recipe. The fields in use depend on its kind.
type Component struct {
	Name    string `yaml:"name" json:"name"`
	Kind    Kind   `yaml:"kind" json:"kind"`
	Version string `yaml:"version" json:"version,omitempty"` // of the module or of the image's content
	Seconds int    `yaml:"seconds" json:"-"`                 // estimate, measured on two cores with empty caches; not part of the key

	VariantOf string `yaml:"-" json:"-"` // component that it is another version of

	// Programs.
	Module   string            `yaml:"module" json:"module,omitempty"`
	Path     string            `yaml:"path" json:"path,omitempty"`         // that the module declares, if another: the programs' import path
	Own      bool              `yaml:"own" json:"own,omitempty"`           // lab's own, embedded source
	Packages []string          `yaml:"packages" json:"packages,omitempty"` // ./cmd/x, relative to the module
	CGO      bool              `yaml:"cgo" json:"cgo,omitempty"`
	Tags     []string          `yaml:"tags" json:"tags,omitempty"`
	LDFlags  []string          `yaml:"ldflags" json:"ldflags,omitempty"`
	Local    string            `yaml:"local" json:"local,omitempty"`     // version for the module's `replace X => ./dir`; such lines are dropped without it
	Replace  map[string]string `yaml:"replace" json:"replace,omitempty"` // module -> module@version, overrides the module's own
	Adds     map[string]string `yaml:"adds" json:"adds,omitempty"`       // file of the module -> its text: what upstream's release generates and programs embed
	With     string            `yaml:"with" json:"with,omitempty"`       // component whose dependency versions are used, so that they are compiled once
	Except   []string          `yaml:"except" json:"except,omitempty"`   // prefixes of modules that keep their own versions: released together, and With's lacks some
	C        map[string]string `yaml:"c" json:"c,omitempty"`             // program -> its only C file in the module

	// RootFS.
	Suite  string   `yaml:"suite" json:"suite,omitempty"`
	Debian []string `yaml:"debian" json:"debian,omitempty"` // packages
	Remove []string `yaml:"remove" json:"remove,omitempty"` // globs of files to leave out

	// Image and node.
	Ref        string    `yaml:"ref" json:"ref,omitempty"` // name in manifests and charts
	Base       string    `yaml:"base" json:"base,omitempty"`
	Contents   []Content `yaml:"contents" json:"contents,omitempty"`
	Entrypoint []string  `yaml:"entrypoint" json:"entrypoint,omitempty"`
	Cmd        []string  `yaml:"cmd" json:"cmd,omitempty"`
	Env        []string  `yaml:"env" json:"env,omitempty"`
	User       string    `yaml:"user" json:"user,omitempty"`
	WorkDir    string    `yaml:"workdir" json:"workdir,omitempty"`
	Ports      []string  `yaml:"ports" json:"ports,omitempty"`
	Volumes    []string  `yaml:"volumes" json:"volumes,omitempty"`
	StopSignal string    `yaml:"stopsignal" json:"stopsignal,omitempty"`
	Charts     []string  `yaml:"charts" json:"-"`   // charts whose pods run the image: "NAME", or "NAME VERSION" for one version
	Optional   bool      `yaml:"optional" json:"-"` // not needed by the default estate: bundled only if present

	// Node.
	Preload    []string `yaml:"preload" json:"preload,omitempty"`       // nested images
	Containerd string   `yaml:"containerd" json:"containerd,omitempty"` // component that imports them
	Kubernetes string   `yaml:"kubernetes" json:"kubernetes,omitempty"` // component whose kubeadm lists the required images
}

// Content is an entry of an image: exactly one of From, Module, File, Text, Link and Dir is set.
type Content struct {
	From   string   `yaml:"from" json:"from,omitempty"`     // a component: programs or rootfs
	Paths  []string `yaml:"paths" json:"paths,omitempty"`   // of From: program names, or globs in the rootfs, with their shared libraries
	Module string   `yaml:"module" json:"module,omitempty"` // module@version; Path is a file or folder in it
	Path   string   `yaml:"path" json:"path,omitempty"`
	// Const is a string constant of the Go file Path. With gives other values to constants in it.
	Const string            `yaml:"const" json:"const,omitempty"`
	With  map[string]string `yaml:"with" json:"with,omitempty"`

	File string `yaml:"file" json:"file,omitempty"` // one of lab's own files
	Text string `yaml:"text" json:"text,omitempty"`
	Link string `yaml:"link" json:"link,omitempty"` // target of a symlink
	Dir  bool   `yaml:"dir" json:"dir,omitempty"`

	To     string `yaml:"to" json:"to,omitempty"`         // absolute path in the image; a trailing slash means a folder
	Mode   string `yaml:"mode" json:"mode,omitempty"`     // octal; default 0644, 0755 for folders and programs
	Owner  string `yaml:"owner" json:"owner,omitempty"`   // uid:gid
	Append bool   `yaml:"append" json:"append,omitempty"` // to the image's existing file
}

// Builtin returns the built-in recipes, for images of this machine's architecture.
var Builtin = sync.OnceValues(func() (*Recipes, error) { return parseFor(runtime.GOARCH) })

// For returns the built-in recipes, for images of an architecture.
func For(arch string) (*Recipes, error) {
	if arch == runtime.GOARCH {
		return Builtin()
	}
	return parseFor(arch)
}

func parseFor(arch string) (*Recipes, error) {
	data, err := embedded.ReadFile(RecipesFile)
	if err != nil {
		return nil, fmt.Errorf("recipes: %w", err)
	}
	r, err := Parse(RecipesFile, data)
	if err != nil || arch == r.arch {
		return r, err
	}
	r.arch = arch
	return r, r.addKeys()
}

// Images returns the components that are images of their own, without those inside of node images.
func (r *Recipes) Images() []*Component {
	var inside []string
	for _, c := range r.Components {
		inside = append(inside, c.Preload...)
	}
	return slices.DeleteFunc(slices.Clone(r.Components), func(c *Component) bool {
		return c.Kind != KindImage && c.Kind != KindNode || slices.Contains(inside, c.Name)
	})
}

// Modules returns the Go modules that an image is built from, PATH@VERSION, without their dependencies.
func (r *Recipes) Modules(name string) []string {
	var list []string
	var add func(name string)
	add = func(name string) {
		c, ok := r.Get(name)
		if !ok {
			return
		}
		if c.Kind == KindPrograms && !c.Own {
			list = append(list, c.at())
		}
		for _, content := range c.Contents {
			if content.Module != "" {
				list = append(list, content.Module)
			}
		}
		for _, need := range c.Needs() {
			add(need)
		}
	}
	add(name)
	slices.Sort(list)
	return slices.Compact(list)
}

// Get returns a component by name.
func (r *Recipes) Get(name string) (*Component, bool) {
	i := r.index(name)
	if i < 0 {
		return nil, false
	}
	return r.Components[i], true
}

func (r *Recipes) index(name string) int {
	return slices.IndexFunc(r.Components, func(c *Component) bool { return c.Name == name })
}

// ImagesOf returns the components whose images a chart's pods run.
func (r *Recipes) ImagesOf(chart, version string) []string {
	var names []string
	for _, c := range r.Components {
		if slices.Contains(c.Charts, chart) || slices.Contains(c.Charts, chart+" "+version) {
			names = append(names, c.Name)
		}
	}
	return names
}

// fromHub adds what is left out of references to Docker Hub: "nginx:1" is docker.io/library/nginx:1, and "lab/gate:v1" docker.io/lab/gate:v1.
func fromHub(ref string) string {
	host, rest, found := strings.Cut(ref, "/")
	switch {
	case !found:
		return "docker.io/library/" + ref
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		return "docker.io/" + ref
	case host == "index.docker.io":
		return "docker.io/" + rest
	}
	return ref
}

// ByRef returns the component of an image, "ghcr.io/stefanprodan/podinfo:6.9.2"; empty for others.
func (r *Recipes) ByRef(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	for _, c := range r.Components {
		if ref != "" && (c.Ref == ref || fromHub(c.Ref) == fromHub(ref)) {
			return c.Name
		}
	}
	return ""
}

// Needs returns the dependencies of c.
func (c *Component) Needs() []string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add(c.Base)
	for _, content := range c.Contents {
		add(content.From)
	}
	for _, name := range c.Preload {
		add(name)
	}
	add(c.Containerd)
	add(c.Kubernetes)
	return names
}
