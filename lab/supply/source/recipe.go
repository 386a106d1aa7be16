// Package source builds images from Go modules and Debian packages, without a registry or docker build. recipes.yaml
// says what to build; this package compiles programs, installs Debian root file systems and assembles images.
package source

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
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
	Components []*Component `yaml:"components"`

	arch string // of the container engine, for which images are built
	keys map[string]string
}

// Component is a recipe. The fields in use depend on its kind.
type Component struct {
	Name    string `yaml:"name" json:"name"`
	Kind    Kind   `yaml:"kind" json:"kind"`
	Version string `yaml:"version" json:"version,omitempty"` // of the module or of the image's content
	Seconds int    `yaml:"seconds" json:"-"`                 // estimate, measured on two cores with empty caches; not part of the key

	// Programs.
	Module   string            `yaml:"module" json:"module,omitempty"`
	Own      bool              `yaml:"own" json:"own,omitempty"`           // lab's own, embedded source
	Packages []string          `yaml:"packages" json:"packages,omitempty"` // ./cmd/x, relative to the module
	CGO      bool              `yaml:"cgo" json:"cgo,omitempty"`
	Tags     []string          `yaml:"tags" json:"tags,omitempty"`
	LDFlags  []string          `yaml:"ldflags" json:"ldflags,omitempty"`
	Local    string            `yaml:"local" json:"local,omitempty"`     // version for the module's `replace X => ./dir`; such lines are dropped without it
	Replace  map[string]string `yaml:"replace" json:"replace,omitempty"` // module -> module@version, overrides the module's own
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
	File   string   `yaml:"file" json:"file,omitempty"` // one of lab's own files
	Text   string   `yaml:"text" json:"text,omitempty"`
	Link   string   `yaml:"link" json:"link,omitempty"` // target of a symlink
	Dir    bool     `yaml:"dir" json:"dir,omitempty"`

	To     string `yaml:"to" json:"to,omitempty"`         // absolute path in the image; a trailing slash means a folder
	Mode   string `yaml:"mode" json:"mode,omitempty"`     // octal; default 0644, 0755 for folders and programs
	Owner  string `yaml:"owner" json:"owner,omitempty"`   // uid:gid
	Append bool   `yaml:"append" json:"append,omitempty"` // to the image's existing file
}

// Builtin returns the built-in recipes, for images of this machine's architecture.
func Builtin() (*Recipes, error) { return For(runtime.GOARCH) }

// For returns the built-in recipes, for images of an architecture.
func For(arch string) (*Recipes, error) {
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

// ByRef returns the component of an image, "ghcr.io/stefanprodan/podinfo:6.9.2"; empty for others.
func (r *Recipes) ByRef(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	for _, c := range r.Components {
		if c.Ref == ref && ref != "" {
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

// Parse reads recipes strictly. The error is lab.Problems with lines.
func Parse(file string, data []byte) (*Recipes, error) {
	r := Recipes{arch: runtime.GOARCH}
	var problems lab.Problems
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&r); err != nil && !errors.Is(err, io.EOF) {
		problems = append(problems, yamlProblems(file, err)...)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, problems.Err()
	}
	lines := componentLines(&root)
	r.Components = slices.DeleteFunc(r.Components, func(c *Component) bool { return c == nil })
	for i, c := range r.Components {
		at := lab.Position{File: file}
		if i < len(lines) {
			at.Line = lines[i]
		}
		for _, msg := range r.check(i, c) {
			problems = append(problems, lab.Problem{Position: at, Message: fmt.Sprintf("component %q: %s", c.Name, msg)})
		}
	}
	problems.Sort()
	if err := problems.Err(); err != nil {
		return nil, err
	}
	if err := r.addKeys(); err != nil {
		return nil, err
	}
	return &r, nil
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)`)

func yamlProblems(file string, err error) lab.Problems {
	msgs := []string{err.Error()}
	var te *yaml.TypeError
	if errors.As(err, &te) {
		msgs = te.Errors
	}
	var ps lab.Problems
	for _, msg := range msgs {
		p := lab.Problem{Position: lab.Position{File: file}, Message: strings.TrimPrefix(msg, "yaml: ")}
		if m := yamlLine.FindStringSubmatch(msg); m != nil {
			p.Line, _ = strconv.Atoi(m[1])
			p.Message = m[2]
		}
		ps = append(ps, p)
	}
	return ps
}

func componentLines(root *yaml.Node) []int {
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	doc := root.Content[0]
	for i := 0; i+1 < len(doc.Content); i += 2 {
		if doc.Content[i].Value != "components" {
			continue
		}
		var lines []int
		for _, n := range doc.Content[i+1].Content {
			if n.Tag != "!!null" {
				lines = append(lines, n.Line)
			}
		}
		return lines
	}
	return nil
}

var componentName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// check returns the problems of component i. Dependencies must come first, so there are no cycles.
func (r *Recipes) check(i int, c *Component) []string {
	var msgs []string
	wrong := func(format string, args ...any) { msgs = append(msgs, fmt.Sprintf(format, args...)) }
	if !componentName.MatchString(c.Name) {
		wrong("a name has lower-case letters, digits, dots and dashes")
	}
	if j := r.index(c.Name); j < i {
		wrong("duplicate name")
	}
	switch c.Kind {
	case KindPrograms:
		if _, own := ownSource(c.Module); c.Own && !own {
			wrong("module %q is not one of lab's own", c.Module)
		} else if c.Module == "" || c.Version == "" && !c.Own {
			wrong("programs need module and version")
		}
		if len(c.Packages) == 0 && len(c.C) == 0 {
			wrong("programs need packages or c")
		}
		if with, ok := r.Get(c.With); c.With != "" && (!ok || r.index(c.With) >= i || with.Module == "" || with.Own) {
			wrong("with %q, which is not a compiled component above it", c.With)
		}
		if c.With == "" && len(c.Except) > 0 {
			wrong("except requires with")
		}
	case KindRootFS:
		if c.Suite == "" {
			wrong("a rootfs needs suite")
		}
	case KindImage, KindNode:
		if c.Ref == "" {
			wrong("an image needs ref")
		}
		if c.Kind == KindNode && (c.Containerd == "" || c.Kubernetes == "" || c.Base == "" || c.Version == "") {
			wrong("a node image needs base, version, containerd and kubernetes")
		}
	default:
		wrong("kind %q must be programs, rootfs, image or node", c.Kind)
	}
	for _, need := range c.Needs() {
		if j := r.index(need); j < 0 {
			wrong("needs %q, which does not exist", need)
		} else if j >= i {
			wrong("needs %q, which must be above it", need)
		}
	}
	for n, content := range c.Contents {
		for _, msg := range r.checkContent(content) {
			wrong("contents[%d]: %s", n, msg)
		}
	}
	return msgs
}

func (r *Recipes) checkContent(c Content) []string {
	var msgs []string
	wrong := func(format string, args ...any) { msgs = append(msgs, fmt.Sprintf(format, args...)) }
	sources := 0
	for _, given := range []bool{c.From != "", c.Module != "", c.File != "", c.Text != "", c.Link != "", c.Dir} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		wrong("exactly one of from, module, file, text, link and dir is required")
	}
	if c.From != "" && len(c.Paths) == 0 {
		wrong("from needs paths")
	}
	if c.From == "" && len(c.Paths) > 0 {
		wrong("paths require from")
	}
	if (c.Module != "") != (c.Path != "") {
		wrong("module and path require each other")
	}
	if _, _, ok := strings.Cut(c.Module, "@"); c.Module != "" && !ok {
		wrong("module has the form path@version")
	}
	if c.File != "" {
		if _, err := embedded.ReadFile(path.Join("files", c.File)); err != nil {
			wrong("file %q is not one of lab's own", c.File)
		}
	}
	if from, ok := r.Get(c.From); c.To == "" && (!ok || from.Kind != KindRootFS) {
		wrong("to is missing")
	}
	if c.To != "" && !path.IsAbs(c.To) {
		wrong("to %q is not absolute", c.To)
	}
	if _, err := parseMode(c.Mode, 0); err != nil {
		wrong("mode %q is not octal", c.Mode)
	}
	if _, _, err := parseOwner(c.Owner); err != nil {
		wrong("owner %q is not uid:gid", c.Owner)
	}
	return msgs
}

func parseMode(s string, otherwise int64) (int64, error) {
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(s, 8, 12)
	return int64(n), err
}

func parseOwner(s string) (uid, gid int, err error) {
	if s == "" {
		return 0, 0, nil
	}
	u, g, ok := strings.Cut(s, ":")
	if !ok {
		return 0, 0, fmt.Errorf("owner %q", s)
	}
	if uid, err = strconv.Atoi(u); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(g)
	return uid, gid, err
}
