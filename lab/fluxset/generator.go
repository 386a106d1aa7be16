package fluxset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/bmatcuk/doublestar/v4"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/flux"
	"homelab/lab/render"
	"homelab/lab/strict"
)

const externalArtifact = "ExternalArtifact"

// IsGenerator reports whether source-watcher generates ExternalArtifacts from an object: https://fluxcd.io/flux/components/source/artifactgenerators/
func IsGenerator(n *yaml.Node) bool {
	return strict.Text(n, "kind") == "ArtifactGenerator" && strings.HasPrefix(strict.Text(n, "apiVersion"), "source.extensions.fluxcd.io/")
}

// tree holds the files of a source and their origins.
type tree struct {
	fs.FS
	dir     string            // of a repository; empty for the estate
	origins map[string]string // path in the estate by path, if composed
	url     string            // of the repository, or of the first one
	mounted bool              // from a mounted repository
}

// place returns the path of a file or folder in the estate.
func (t tree) place(name string) string {
	name = path.Clean(strings.TrimPrefix(path.Join("/", name), "/"))
	for at := name; t.origins != nil; at = path.Dir(at) {
		if from, ok := t.origins[at]; ok {
			return path.Join(from, strings.TrimPrefix(strings.TrimPrefix(name, at), "/"))
		}
		if at == "." || at == "/" {
			return name
		}
	}
	return path.Join(t.dir, name)
}

var errNoSource = errors.New("does not exist")

// treeOf returns the files of a source. The error is errNoSource, *Absent, or why it is unavailable.
func (x *expander) treeOf(source string) (tree, error) { return x.treeWithin(source, 0) }

func (x *expander) treeWithin(source string, depth int) (tree, error) {
	if name, ok := strings.CutPrefix(source, externalArtifact+" "); ok {
		return x.generated(source, name, depth)
	}
	url, known := x.Sources[source]
	if !known {
		return tree{}, errNoSource
	}
	fsys, dir, err := x.Repository(url, x.revision(source))
	if err != nil {
		return tree{url: url}, err
	}
	t := tree{FS: fsys, dir: dir, url: url, mounted: dir != ""}
	if t.mounted {
		t.FS = x.artifact(source, fsys)
	}
	return t, nil
}

type output struct {
	of     *yaml.Node        // the generator
	copies []copying         // in order
	alias  map[string]string // sources
}

// copying is a rule for copying files into an artifact.
type copying struct {
	alias, from, to string
	into            bool // to is a folder
	exclude         []string
	strategy        string
}

// generated returns the files of an ExternalArtifact.
func (x *expander) generated(source, name string, depth int) (tree, error) {
	if known, ok := x.made[source]; ok {
		return known, nil
	}
	if depth > maxDepth {
		return tree{}, fmt.Errorf("artifacts nest more than %d deep", maxDepth)
	}
	o, err := x.outputOf(name, depth)
	if err != nil {
		return tree{}, err
	}
	if !slices.Contains(x.Extra, flux.SourceWatcher) {
		return tree{}, fmt.Errorf("ArtifactGenerator %s needs source-watcher, which is not installed: spec.engine.componentsExtra of the hub", strict.Text(o.of, "metadata", "name"))
	}
	files := fstest.MapFS{}
	t := tree{FS: files, origins: map[string]string{}}
	for _, c := range o.copies {
		of, known := o.alias[c.alias]
		if !known {
			return tree{}, fmt.Errorf("no source @%s", c.alias)
		}
		from, err := x.treeWithin(of, depth+1)
		if t.url = cmp.Or(t.url, from.url); err != nil {
			return t, fromSource(of, err)
		}
		t.mounted = t.mounted || from.mounted
		if err := c.copy(files, t.origins, from); err != nil {
			return t, err
		}
	}
	x.made[source] = t
	return t, nil
}

// fromSource adds the source to an error, unless it may be available elsewhere.
func fromSource(source string, err error) error {
	var absent *Absent
	if errors.As(err, &absent) && absent.Why == "" {
		return err
	}
	if errors.Is(err, errNoSource) {
		return fmt.Errorf("source %s does not exist", source)
	}
	return fmt.Errorf("%s: %w", source, err)
}

// unpacked returns a source, or the GitRepository that it is the artifact of: World.Artifacts.
func (x *expander) unpacked(source string) string {
	name, ok := strings.CutPrefix(source, sourcev1.OCIRepositoryKind+" ")
	if git := sourcev1.GitRepositoryKind + " " + name; ok && x.Artifacts && x.of[source] == nil && x.of[git] != nil {
		return git
	}
	return source
}

// sourcesOf returns a source and, for an artifact, those that it is copied from.
func (x *expander) sourcesOf(source string) []string {
	list := []string{source}
	for i := 0; i < len(list) && i < maxDepth; i++ {
		name, ok := strings.CutPrefix(list[i], externalArtifact+" ")
		if !ok {
			continue
		}
		o, _ := x.outputOf(name, 0)
		for _, c := range o.copies {
			if of := o.alias[c.alias]; of != "" && !slices.Contains(list, of) {
				list = append(list, of)
			}
		}
	}
	return list
}

// outputOf finds the generator of an artifact, "NAMESPACE/NAME".
func (x *expander) outputOf(name string, depth int) (output, error) {
	namespace, name, _ := strings.Cut(name, "/")
	failed := errNoSource
	for _, g := range x.generators {
		if strict.Text(g, "metadata", "namespace") != namespace {
			continue
		}
		o := output{of: g, alias: map[string]string{}}
		for _, s := range strict.List(g, "spec", "sources") {
			o.alias[strict.Text(s, "alias")] = x.unpacked(strict.Text(s, "kind") + " " + cmp.Or(strict.Text(s, "namespace"), namespace) + "/" + strict.Text(s, "name"))
		}
		captures := []map[string]string{nil}
		if pattern := strict.Text(g, "spec", "pathPattern"); pattern != "" {
			var err error
			if captures, err = x.captured(o, pattern, depth); err != nil {
				failed = err
				continue
			}
		}
		for _, a := range strict.List(g, "spec", "artifacts") {
			i := slices.IndexFunc(captures, func(c map[string]string) bool { return rendered(strict.Text(a, "name"), c, strings.ToLower) == name })
			if i < 0 {
				continue
			}
			for _, c := range strict.List(a, "copy") {
				rule, err := ruleOf(c, captures[i])
				if err != nil {
					return o, err
				}
				o.copies = append(o.copies, rule)
			}
			return o, nil
		}
	}
	return output{}, failed
}

var capture = regexp.MustCompile(`\\\{([A-Za-z_][A-Za-z0-9_]*)\\\}`)

// captured returns the captures of a pattern, "@alias/apps/{app}", in matching folders.
func (x *expander) captured(o output, pattern string, depth int) ([]map[string]string, error) {
	alias, pattern, _ := strings.Cut(strings.TrimPrefix(pattern, "@"), "/")
	matches, err := regexp.Compile("^" + capture.ReplaceAllString(regexp.QuoteMeta(pattern), `(?P<$1>[^/]+)`) + "$")
	if err != nil {
		return nil, fmt.Errorf("spec.pathPattern: %w", err)
	}
	of, known := o.alias[alias]
	if !known {
		return nil, fmt.Errorf("no source @%s", alias)
	}
	from, err := x.treeWithin(of, depth+1)
	if err != nil {
		return nil, fromSource(of, err)
	}
	var list []map[string]string
	err = fs.WalkDir(from, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if m := matches.FindStringSubmatch(name); m != nil {
			values := map[string]string{}
			for i, of := range matches.SubexpNames()[1:] {
				values[of] = m[i+1]
			}
			list = append(list, values)
		}
		return nil
	})
	return list, err
}

// rendered replaces captures in a text, after change.
func rendered(s string, captures map[string]string, change func(string) string) string {
	for _, name := range slices.Sorted(maps.Keys(captures)) {
		s = strings.ReplaceAll(s, "{"+name+"}", change(captures[name]))
	}
	return s
}

func ruleOf(n *yaml.Node, captures map[string]string) (copying, error) {
	asIs := func(s string) string { return s }
	from, to := rendered(strict.Text(n, "from"), captures, asIs), rendered(strict.Text(n, "to"), captures, asIs)
	c := copying{into: strings.HasSuffix(to, "/"), strategy: strict.Text(n, "strategy")}
	var ok bool
	if c.alias, c.from, ok = strings.Cut(strings.TrimPrefix(from, "@"), "/"); !ok || !strings.HasPrefix(from, "@") {
		return c, fmt.Errorf("cannot copy from %q: not @SOURCE/PATH", from)
	}
	if c.to, ok = strings.CutPrefix(to, "@artifact/"); !ok {
		return c, fmt.Errorf("cannot copy to %q: not @artifact/PATH", to)
	}
	if c.strategy == "Extract" {
		return c, fmt.Errorf("strategy Extract is not supported: %s", from)
	}
	c.to = path.Clean(c.to)
	for _, e := range strict.List(n, "exclude") {
		c.exclude = append(c.exclude, e.Value)
	}
	return c, nil
}

// copy works like cp: for a file, a folder with its content, or matches of a pattern.
func (c copying) copy(to fstest.MapFS, origins map[string]string, from tree) error {
	if !strings.ContainsAny(c.from, "*?[]") {
		name := path.Clean(c.from)
		info, err := fs.Stat(from, name)
		if err != nil {
			return fmt.Errorf("%s does not exist", from.place(name))
		}
		if info.IsDir() {
			return c.add(to, origins, from, name, path.Join(c.to, path.Base(name)), name)
		}
		target := c.to
		if there, err := fs.Stat(to, target); c.into || err == nil && there.IsDir() {
			target = path.Join(target, path.Base(name))
		}
		return c.add(to, origins, from, name, target, ".")
	}
	matches, err := fs.Glob(from, c.from)
	if err != nil || len(matches) == 0 {
		return fmt.Errorf("nothing matches %s", from.place(c.from))
	}
	base := "."
	for part := range strings.SplitSeq(c.from, "/") {
		if strings.ContainsAny(part, "*?[]") {
			break
		}
		base = path.Join(base, part)
	}
	matches = slices.DeleteFunc(matches, func(m string) bool { return c.excludes(m, base) })
	if len(matches) == 0 {
		return fmt.Errorf("all that matches %s is excluded", from.place(c.from))
	}
	dir, all := strings.CutSuffix(c.from, "/**")
	if _, known := origins[c.to]; all && !known {
		origins[c.to] = from.place(dir)
	}
	for _, m := range matches {
		target := m
		if all {
			target = strings.TrimPrefix(m, dir+"/")
		}
		if err := c.add(to, origins, from, m, path.Join(c.to, target), base); err != nil {
			return err
		}
	}
	return nil
}

// add copies a file or a folder with its content.
func (c copying) add(to fstest.MapFS, origins map[string]string, from tree, name, target, base string) error {
	return fs.WalkDir(from, name, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below := strings.TrimPrefix(strings.TrimPrefix(at, name), "/")
		switch {
		case at == name && e.IsDir() || !c.excludes(at, base):
		case e.IsDir():
			return fs.SkipDir
		default:
			return nil
		}
		put := path.Join(target, below)
		if e.IsDir() {
			if _, known := origins[put]; !known {
				origins[put] = from.place(at)
			}
			return nil
		}
		info, err := fs.Stat(from, at)
		if err != nil || info.IsDir() {
			return err // artifacts contain no links to folders
		}
		data, err := fs.ReadFile(from, at)
		if err != nil {
			return err
		}
		if there := to[put]; c.strategy == "Merge" && there != nil {
			if data, err = merged(there.Data, data); err != nil {
				return fmt.Errorf("%s: %w", from.place(at), err)
			}
		}
		to[put], origins[put] = &fstest.MapFile{Data: data, Mode: info.Mode()}, from.place(at)
		return nil
	})
}

// excludes reports whether a file or folder is excluded. Patterns are relative to the source or to base; without a slash
// they match names.
func (c copying) excludes(name, base string) bool {
	return slices.ContainsFunc(c.exclude, func(pattern string) bool {
		return doublestar.MatchUnvalidated(pattern, name) || doublestar.MatchUnvalidated(pattern, strings.TrimPrefix(name, base+"/")) ||
			!strings.Contains(pattern, "/") && doublestar.MatchUnvalidated(pattern, path.Base(name))
	})
}

// merged overlays one document with another like Helm values: maps by key, other values replaced.
func merged(under, over []byte) ([]byte, error) {
	values, top := map[string]any{}, map[string]any{}
	if err := errors.Join(sigsyaml.Unmarshal(under, &values), sigsyaml.Unmarshal(over, &top)); err != nil {
		return nil, err
	}
	if values == nil { // a null document
		values = top
	} else {
		render.Merge(values, top)
	}
	return sigsyaml.Marshal(values)
}
