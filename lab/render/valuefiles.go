package render

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/sandbox"
)

// valueFile is a file in the repository of an Application, or in one that it refers to.
type valueFile struct {
	fsys fs.FS
	ref  string // name of the source that has it; empty for the Application's own
	name string
}

// options returns the options of a chart, if there are any.
func (s Source) options() appset.Helm {
	if s.Helm == nil {
		return appset.Helm{}
	}
	return *s.Helm
}

// named returns the value files and patterns as an Application names them.
func (s Source) named(o appset.Helm) ([]valueFile, error) {
	list := make([]valueFile, 0, len(o.ValueFiles))
	for _, name := range o.ValueFiles {
		fsys, file, err := s.valueFile(name)
		if err != nil {
			return nil, err
		}
		f := valueFile{fsys: fsys, name: file}
		if ref, _, _ := strings.Cut(name, "/"); s.ref(ref) != nil {
			f.ref = ref[1:]
		}
		list = append(list, f)
	}
	return list, nil
}

// valueFiles returns the value files in the order in which Helm gets them. Since 3.4, patterns stand for what they match, and a file is taken once: where it is
// named, or else where a pattern first matches it.
func (s Source) valueFiles(o appset.Helm) ([]valueFile, error) {
	named, err := s.named(o)
	if err != nil || !s.Minor.Has(4) {
		return named, err
	}
	var taken []valueFile
	add := func(f valueFile) {
		if !slices.ContainsFunc(taken, f.same) {
			taken = append(taken, f)
		}
	}
	for i, f := range named {
		if !isPattern(f.name) {
			add(f)
			continue
		}
		if strings.Count(f.name, "{")+strings.Count(f.name, "**") > maxWild { // each multiplies what is searched
			return nil, failed(s.Path, sandbox.Over("the pattern %s searches too much", o.ValueFiles[i]))
		}
		matches, err := doublestar.Glob(f.fsys, f.name)
		if err != nil {
			return nil, failed(s.Path, fmt.Errorf("value file %s: %w", o.ValueFiles[i], err))
		}
		if len(matches) == 0 && !o.IgnoreMissingValueFiles {
			return nil, invalid(lab.Position{File: s.Path}, fmt.Sprintf("no file matches %s, a pattern of its value files", o.ValueFiles[i]), "write one, or set helm.ignoreMissingValueFiles")
		}
		for _, name := range matches {
			match := valueFile{f.fsys, f.ref, name}
			if !slices.ContainsFunc(named, match.same) {
				add(match)
			}
		}
	}
	return taken, nil
}

func (f valueFile) same(g valueFile) bool { return f.ref == g.ref && f.name == g.name }

// maxWild limits the parts of a pattern that search folders or alternatives.
const maxWild = 5

// isPattern reports whether Argo CD takes the path of a value file as a pattern.
func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// underPath returns the cure for a value file that exists below the path of its source, which does not count for $REF, or "".
func (s Source) underPath(f valueFile) string {
	for _, of := range s.Sources {
		if file := path.Join(of.Path, f.name); of.Path != "" && of.Ref != "" && f.ref == of.Ref && isFile(f.fsys, file) {
			return "the path of the source with ref " + of.Ref + " does not count: write $" + of.Ref + "/" + file
		}
	}
	return ""
}

// Layer is a file with values of a chart.
type Layer struct {
	Ref  string // name of the source that has it; empty for the chart's own repository
	File string
}

// Layers returns the value files of a chart, the last of which wins: its own, and those of the Application. It returns nil for other sources, and if one is unavailable.
func (s Source) Layers() []Layer {
	if s.Path = path.Clean(s.Path); TypeOf(s.FS, s.Source) != Helm {
		return nil
	}
	files, err := s.valueFiles(s.options())
	if err != nil {
		return nil
	}
	layers := []Layer{{File: path.Join(s.Path, "values.yaml")}}
	for _, f := range files {
		layers = append(layers, Layer{Ref: f.ref, File: f.name})
	}
	return layers
}

// Entry is an entry of an Application's value files.
type Entry struct {
	Layer          // a file or a pattern
	Found []string // files
}

// Entries returns the value files as an Application names them, or nil if not all of them can be looked up. A chart that is not here may refer to others' files.
func (s Source) Entries() []Entry {
	if s.Helm == nil {
		return nil
	}
	named, err := s.named(*s.Helm)
	if err != nil {
		return nil
	}
	var list []Entry
	for _, f := range named {
		e := Entry{Layer: Layer{Ref: f.ref, File: f.name}}
		switch {
		case f.fsys == nil:
			return nil
		case isFile(f.fsys, f.name):
			e.Found = []string{f.name}
		case isPattern(f.name) && s.Minor.Has(4):
			if e.Found, err = doublestar.Glob(f.fsys, f.name); err != nil {
				return nil
			}
		}
		list = append(list, e)
	}
	return list
}
