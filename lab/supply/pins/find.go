package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/modfile"

	"homelab/lab"
	"homelab/lab/supply/registry"
	"homelab/lab/supply/source"
)

// The files with pins, besides workflows and scripts.
const (
	imagesFile  = "lab/supply/registry/pins.yaml"
	recipesFile = "lab/supply/source/recipes.yaml"
	chartsFile  = "lab/supply/chart/recipes.yaml"
	frontMod    = "lab/front/module/mod" // of a program that lab carries as source
	frontSum    = "lab/front/module/sum"
)

// What is the kind of a pin.
type What string

// The kinds of pins.
const (
	Module What = "module"
	Recipe What = "recipe"
	Image  What = "image"
	Chart  What = "chart"
	Action What = "action"
	Go     What = "go"
	Debian What = "debian"
)

// Pin is a version that the repository names, in one or several places.
type Pin struct {
	What          What
	Name, Version string
	Source        Source
	At            []Place
}

// Place is where a version stands, with the text that stands there: "COMMIT # VERSION" for an action.
type Place struct {
	lab.Position
	Offset int
	Text   string
}

// Source is where versions of a pin are served: Module, Image, Chart, Action, or "" if nowhere.
type Source struct {
	Of         What
	Name, From string // From is a chart's repository
}

func moduleSource(name string) Source { return Source{Of: Module, Name: name} }

// finder collects pins and all problems of the files.
type finder struct {
	files    fs.FS
	pins     []*Pin
	problems lab.Problems
}

// find returns all pins of a repository. The texts are read as lines, so that versions can be changed in place; whether they are valid, their parsers say.
func find(files fs.FS) ([]*Pin, error) {
	f := finder{files: files}
	f.images()
	f.charts()
	f.recipes()
	for _, file := range []string{"go.mod", ".tools/go.mod", frontMod} {
		f.goMod(file)
	}
	f.scripts()
	f.actions()
	slices.SortStableFunc(f.pins, func(a, b *Pin) int { return strings.Compare(string(a.What)+" "+a.Name, string(b.What)+" "+b.Name) })
	f.problems.Sort()
	return f.pins, f.problems.Err()
}

func (f *finder) wrong(file string, line int, message, cure string) {
	f.problems = append(f.problems, lab.Problem{Position: lab.Position{File: file, Line: line}, Message: message, Cure: cure})
}

func (f *finder) read(file string) string {
	data, err := fs.ReadFile(f.files, file)
	if err != nil {
		f.wrong(file, 0, "cannot be read", "run it in a checkout of the repository")
	}
	if path.Ext(file) == ".yaml" {
		f.parsed(file, data, yaml.Unmarshal(data, &yaml.Node{}))
	}
	return string(data)
}

var errorAt = regexp.MustCompile(`line ([0-9]+)|(?:image|chart) ([^\s:]+)`)

// parsed adds the error of a file's parser, with the line that it names, or that of the pin which it names.
func (f *finder) parsed(file string, data []byte, err error) {
	var problems lab.Problems
	if err == nil || errors.As(err, &problems) {
		f.problems = append(f.problems, problems...)
		return
	}
	line := 0
	if m := errorAt.FindStringSubmatch(err.Error()); m != nil && m[2] != "" {
		line = 1 + bytes.Count(data[:max(0, bytes.Index(data, []byte("name: "+m[2]+"\n")))], []byte("\n"))
	} else if m != nil {
		line, _ = strconv.Atoi(m[1])
	}
	f.wrong(file, line, err.Error(), "correct it")
}

// add adds a pin or another place of one. The first source that is known counts.
func (f *finder) add(what What, name string, from Source, at Place) {
	version := at.Text[strings.LastIndexByte(at.Text, ' ')+1:]
	i := slices.IndexFunc(f.pins, func(p *Pin) bool {
		return p.What == what && p.Name == name && (p.Version == version || what == Image && same(p.Version, version))
	})
	if i < 0 {
		i = len(f.pins)
		f.pins = append(f.pins, &Pin{What: what, Name: name, Version: version})
	}
	p := f.pins[i]
	if p.Source.Of == "" {
		p.Source = from
	}
	p.At = append(p.At, at)
}

// each calls a function with the groups of every match of an expression in a part of a file, and the place of group v, a version.
func each(file, text string, from, to int, expression string, use func(group []string, at Place)) {
	re := regexp.MustCompile(expression)
	v := re.SubexpIndex("v")
	for _, m := range re.FindAllStringSubmatchIndex(text[from:to], -1) {
		var group []string
		for i := 0; i < len(m); i += 2 {
			group = append(group, text[from:to][max(0, m[i]):max(0, m[i+1])])
		}
		offset := from + max(0, m[2*v])
		use(group, Place{lab.Position{File: file, Line: 1 + strings.Count(text[:offset], "\n")}, offset, group[v]})
	}
}

func (f *finder) images() {
	text := f.read(imagesFile)
	_, err := registry.Parse([]byte(text))
	f.parsed(imagesFile, []byte(text), err)
	each(imagesFile, text, 0, len(text), `- name: (\S+).*\n +ref: (\S+):(?<v>\S+)`, func(g []string, at Place) {
		name := g[1]
		if base, _, ok := registry.Variant(name); ok {
			name = base // and its version stands in its name as well
		}
		f.add(Image, name, Source{Of: Image, Name: g[2]}, at)
	})
	each(imagesFile, text, 0, len(text), `- name: (\S+)-(?<v>[0-9]+\.[0-9]+\.[0-9]+)\s.*\n? +ref: (\S+):`, func(g []string, at Place) {
		f.add(Image, g[1], Source{Of: Image, Name: g[3]}, at)
	})
	each(imagesFile, text, 0, len(text), `- name: (\S+)\n +version: (?<v>\S+).*\n +from: (\S+)`, func(g []string, at Place) {
		f.add(Chart, g[1], Source{Chart, g[1], g[3]}, at)
	})
}

// moduleAt is a module at a version, and never at a placeholder.
const moduleAt = `([a-z0-9-]+(?:\.[a-z0-9-]+)+/[^\s@"']+)@(?<v>v[0-9][^\s"',}]*)`

// modulesAt finds the modules that a file names with versions. What scripts install may be a package of one.
func (f *finder) modulesAt(file, text string) {
	each(file, text, 0, len(text), moduleAt, func(g []string, at Place) {
		module := g[1]
		for dir := g[1]; dir != "."; dir = path.Dir(dir) {
			if slices.ContainsFunc(f.pins, func(p *Pin) bool { return p.Source == moduleSource(dir) }) {
				module = dir
				break
			}
		}
		f.add(Module, module, moduleSource(module), at)
	})
}

// charts finds the charts that are made from modules. One that lies in a module as it is has versions of its own, which only its repository lists.
func (f *finder) charts() {
	text := f.read(chartsFile)
	each(chartsFile, text, 0, len(text), `- name: (\S+)\n +version: (?<v>\S+)\n +kind: (\S+)\n +module: (\S+)@`, func(g []string, at Place) {
		from := moduleSource(g[4])
		if g[3] == "folder" {
			from = Source{}
			if i := slices.IndexFunc(f.pins, func(p *Pin) bool { return p.What == Chart && p.Name == g[1] }); i >= 0 {
				from = f.pins[i].Source
			}
		}
		f.add(Chart, g[1], from, at)
	})
	f.modulesAt(chartsFile, text)
}

// recipes finds the pins of what is built from source. A version with a placeholder is none: what it stands for is.
func (f *finder) recipes() {
	text := f.read(recipesFile)
	_, err := source.Parse(recipesFile, []byte(text))
	f.parsed(recipesFile, []byte(text), err)
	top := max(0, strings.Index(text, "\ncomponents:"))
	each(recipesFile, text, 0, top, `(?m)^go: (?<v>\S+)`, func(_ []string, at Place) { f.add(Go, "go", moduleSource("go"), at) })
	version := func(g []string, at Place) {
		var from Source
		placeholder := regexp.QuoteMeta("v$(" + g[1] + ")")
		if m := regexp.MustCompile(`module: (\S+?)(?:\n  version: |@)` + placeholder).FindStringSubmatch(text); m != nil {
			major, _, _ := strings.Cut(at.Text, ".")
			from = moduleSource(strings.ReplaceAll(m[1], "$("+g[1]+".major)", major))
		}
		f.add(Recipe, g[1], from, at)
	}
	each(recipesFile, text, 0, top, `\n  (\S+): (?<v>[0-9]\S*)`, version)
	variants := strings.Index(text[:top], "\nvariants:")
	if variants < 0 {
		variants = top
	}
	each(recipesFile, text, variants, top, `[{ ]([a-z0-9-]+): (?<v>[0-9][^\s,}]*)`, version)
	for from := top; from < len(text); {
		to := len(text)
		if i := strings.Index(text[from+1:], "\n- name: "); i >= 0 {
			to = from + 1 + i
		}
		f.component(text, from, to)
		from = to
	}
	f.modulesAt(recipesFile, text)
}

var (
	componentName   = regexp.MustCompile(`^\n- name: (\S+?)(?:-program)?(?:\n| )`)
	componentModule = regexp.MustCompile(`\n  module: (\S+)`)
	componentRef    = regexp.MustCompile(`\n  ref: (\S+):\S+`)
)

// component finds the version of a component, wherever it stands there, its charts and its suite of Debian.
func (f *finder) component(text string, from, to int) {
	first := func(re *regexp.Regexp) string { return append(re.FindStringSubmatch(text[from:to]), "", "")[1] }
	name, module, repository := first(componentName), first(componentModule), first(componentRef)
	own := strings.HasPrefix(strings.TrimPrefix(repository, "docker.io/"), "lab/") // no registry has it
	var source Source
	switch {
	case module != "":
		source = moduleSource(module)
	case repository != "" && !own:
		source = Source{Of: Image, Name: repository}
	}
	each(recipesFile, text, from, to, `\n  suite: (?<v>\S+)`, func(_ []string, at Place) { f.add(Debian, "debian", Source{}, at) })
	each(recipesFile, text, from, to, `\n  charts: \[(\S+) (?<v>[^\]]+)\]`, func(g []string, at Place) { f.add(Chart, g[1], Source{}, at) })
	each(recipesFile, text, from, to, `\n  version: "?(?<v>v?[0-9][^"\s]*)`, func(_ []string, version Place) {
		if strings.Contains(version.Text, "$(") || own && !strings.Contains(version.Text, ".") {
			return
		}
		each(recipesFile, text, from, to, `[ :="@](?<v>`+regexp.QuoteMeta(version.Text)+`)["\]]?(?:[ \n]|$)`, func(_ []string, at Place) { f.add(Recipe, name, source, at) })
	})
}

// goMod finds the direct requirements of a go.mod and its tools' modules.
func (f *finder) goMod(file string) {
	text := f.read(file)
	mod, err := modfile.Parse(file, []byte(text), nil)
	if err != nil {
		f.wrong(file, 0, err.Error(), "correct it")
		return
	}
	at := func(line *modfile.Line, version string) Place {
		offset := line.Start.Byte + strings.Index(text[line.Start.Byte:], version)
		return Place{lab.Position{File: file, Line: line.Start.Line}, offset, version}
	}
	if mod.Go != nil && file != frontMod { // there it is the oldest language that the program needs
		f.add(Go, "go", moduleSource("go"), at(mod.Go.Syntax, mod.Go.Version))
	}
	for _, r := range mod.Require {
		tool := slices.ContainsFunc(mod.Tool, func(t *modfile.Tool) bool { return strings.HasPrefix(t.Path+"/", r.Mod.Path+"/") })
		if !r.Indirect || tool {
			f.add(Module, r.Mod.Path, moduleSource(r.Mod.Path), at(r.Syntax, r.Mod.Version))
		}
	}
}

// scripts finds the programs that scripts install.
func (f *finder) scripts() {
	for _, pattern := range []string{".ci/*", ".bench/*", "Taskfile.yml"} {
		files, _ := fs.Glob(f.files, pattern)
		for _, file := range files {
			f.modulesAt(file, f.read(file))
		}
	}
}

// actions finds what hosted workflows use; each must be pinned by its commit.
func (f *finder) actions() {
	files, _ := fs.Glob(f.files, ".github/workflows/*.y*ml")
	for _, file := range files {
		text := f.read(file)
		each(file, text, 0, len(text), `\buses: +([^./@\s]+/[^/@\s]+)(?:[^@\n]*@(?<v>[0-9a-f]{40} # v[0-9.]+))?`, func(g []string, at Place) {
			if at.Text == "" {
				line := 1 + strings.Count(text[:strings.Index(text, g[0])], "\n")
				f.wrong(file, line, fmt.Sprintf("action %s is not pinned by its commit", g[1]), "write OWNER/NAME@COMMIT # vX.Y.Z")
				return
			}
			f.add(Action, g[1], Source{Of: Action, Name: g[1]}, at)
		})
	}
}
