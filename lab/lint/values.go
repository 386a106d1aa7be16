package lint

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// known are the values that a chart knows.
type known struct {
	all    bool // whatever there is: it is used, or how is unknown
	fields map[string]*known
	schema string // of the chart: its keys are known at any depth
}

// add adds a path, with all below it.
func (k *known) add(keys ...string) {
	for _, key := range keys {
		k = k.field(key)
	}
	k.all = true
}

func (k *known) field(key string) *known {
	if k.fields == nil {
		k.fields = map[string]*known{}
	}
	if k.fields[key] == nil {
		k.fields[key] = &known{}
	}
	return k.fields[key]
}

// defaults adds a chart's default values. An empty mapping or a list may be of anything.
func (k *known) defaults(n *yaml.Node) {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		k.all = true
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "<<" {
			k.all = true
			return
		}
		k.field(n.Content[i].Value).defaults(n.Content[i+1])
	}
}

var (
	valuesWord = regexp.MustCompile(`\.Values\b`)
	dotted     = regexp.MustCompile(`^(\.[A-Za-z_]\w*)+`)
	indexed    = regexp.MustCompile(`\bindex\s+\(?\$?[\w.]*$`) // before .Values
	literals   = regexp.MustCompile(`^\)?((?:\s+"[^"]+")+)`)
	quoted     = regexp.MustCompile(`"([^"]+)"`)
)

// mentioned adds the values that a text mentions: .Values.image.tag, index .Values "image" "tag". A text with all values knows anything.
func (k *known) mentioned(text string) {
	for _, at := range valuesWord.FindAllStringIndex(text, -1) {
		rest := text[at[1]:]
		if found := dotted.FindString(rest); found != "" {
			k.add(strings.Split(found[1:], ".")...)
			continue
		}
		found := literals.FindString(rest)
		if found == "" || !indexed.MatchString(text[max(0, at[0]-100):at[0]]) {
			k.all = true
			return
		}
		var keys []string
		for _, m := range quoted.FindAllStringSubmatch(found, -1) {
			keys = append(keys, m[1])
		}
		k.add(keys...)
	}
}

// chartValues returns the values that the chart of a part knows, or nil if the part is not made from a chart.
func (p part) chartValues() *known {
	if len(p.Layers) == 0 {
		return nil
	}
	k := &known{}
	dir, files := path.Dir(p.Layers[0].File), p.trees[""]
	k.add("global")
	err := fs.WalkDir(files, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !p.read[""][name] && path.Ext(name) != ".tgz" {
			return nil
		}
		data, err := fs.ReadFile(files, name)
		text := string(data)
		switch {
		case err != nil:
			return err
		case path.Ext(name) == ".tgz":
			k.all = true
		case path.Base(name) == "values.schema.json":
			k.schema += text
		case name == path.Join(dir, "values.yaml"):
			docs, _ := strict.Parse(name, data)
			for _, doc := range docs {
				if doc.Kind == yaml.MappingNode {
					k.defaults(doc)
				}
			}
			k.all = k.all || len(docs) > 1
		case name == path.Join(dir, "Chart.yaml"):
			k.dependencies(files, dir, data)
		}
		k.mentioned(text)
		return nil
	})
	k.all = k.all || err != nil
	return k
}

// dependencies adds the values of subcharts, and those that enable them.
func (k *known) dependencies(files fs.FS, dir string, data []byte) {
	var chart struct {
		Dependencies []struct {
			Name, Alias, Condition string
			ImportValues           []any `yaml:"import-values"`
		}
	}
	if yaml.Unmarshal(data, &chart) != nil {
		k.all = true
	}
	for _, d := range chart.Dependencies {
		if _, err := fs.Stat(files, path.Join(dir, "charts", d.Name)); err != nil || len(d.ImportValues) > 0 {
			k.all = true
		}
		k.add("tags")
		k.add(d.Name)
		k.add(d.Alias)
		for condition := range strings.SplitSeq(d.Condition, ",") {
			k.add(strings.Split(strings.TrimSpace(condition), ".")...)
		}
	}
}

// unused visits the topmost values that a chart does not know.
func (k *known) unused(n *yaml.Node, at []string, visit func(at []string, key *yaml.Node)) {
	root := k
	k.unknown(n, at, func(at []string, key *yaml.Node) {
		if !strings.Contains(root.schema, strconv.Quote(key.Value)) {
			visit(at, key)
		}
	})
}

func (k *known) unknown(n *yaml.Node, at []string, visit func(at []string, key *yaml.Node)) {
	if k.all || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		// An anchor is for other values; null removes a default.
		if value.Anchor != "" || key.Value == "<<" || strings.HasPrefix(key.Value, "x-") || strings.HasPrefix(key.Value, "_") || strict.IsNull(value) {
			continue
		}
		below, of := append(slices.Clone(at), key.Value), k.fields[key.Value]
		if of == nil {
			visit(below, key)
			continue
		}
		of.unknown(value, below, visit)
	}
}

// layer is where values are written: a value file, or the options of parts.
type layer struct {
	isFile bool
	values []*yaml.Node // as each chart has them that has them
	unused map[string][]unused
}

// unused is a value that a chart does not know.
type unused struct {
	by application
	at lab.Position
}

// values finds values that none of the charts that have them uses.
func (l *linter) values() {
	layers := map[string]*layer{}
	paths := map[string][]string{}
	judge := func(a application, name string, isFile bool, k *known, n *yaml.Node, position func(key *yaml.Node, path []string) lab.Position) {
		of := layers[name]
		if of == nil {
			of = &layer{isFile: isFile, unused: map[string][]unused{}}
			layers[name] = of
		}
		of.values = append(of.values, n)
		k.unused(n, nil, func(path []string, key *yaml.Node) {
			text := strings.Join(path, ".")
			of.unused[text], paths[text] = append(of.unused[text], unused{a, position(key, path)}), path
		})
	}
	charts := map[string]*known{}
	parsed := map[string][]*yaml.Node{} // value files
	for _, a := range l.apps {
		for i, p := range a.parts {
			if len(p.Layers) == 0 {
				continue
			}
			chart := p.Name("", p.Layers[0].File)
			if charts[chart] == nil {
				charts[chart] = p.chartValues()
			}
			var own []*yaml.Node
			for _, layer := range p.Layers[1:] {
				name := p.Name(layer.Ref, layer.File)
				if _, known := parsed[name]; !known {
					parsed[name] = p.documents(layer.Ref, layer.File, name)
				}
				own = append(own, parsed[name]...)
			}
			options := p.written()
			for _, w := range options {
				own = append(own, w.values)
			}
			k := charts[chart].with(own)
			for _, layer := range p.Layers[1:] {
				name := p.Name(layer.Ref, layer.File)
				for _, doc := range parsed[name] {
					judge(a, name, true, k, doc, func(key *yaml.Node, _ []string) lab.Position { return strict.Position(name, key) })
				}
			}
			for _, w := range options {
				name := fmt.Sprintf("%s %d %s", a.At, i, strings.Join(w.at, "."))
				if p.release != "" { // clusters with other versions of the chart may share it
					name = p.release[strings.LastIndex(p.release, "/")+1:] + strings.Join(w.at, ".")
				}
				judge(a, name, false, k, w.values, func(_ *yaml.Node, path []string) lab.Position {
					at := p.At(append(slices.Clone(w.at), path...))
					if len(at) == 0 {
						at = p.At(w.at)
					}
					if len(at) == 0 {
						return a.At
					}
					return at[0]
				})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(layers)) {
		of := layers[name]
		for _, path := range slices.Sorted(maps.Keys(of.unused)) {
			has := 0
			for _, n := range of.values {
				if within(n, paths[path]) {
					has++
				}
			}
			if len(of.unused[path]) < has || slices.ContainsFunc(of.unused[path], func(u unused) bool { return l.unsure(of, name, u.by) }) {
				continue
			}
			for _, u := range of.unused[path] {
				l.add(finding.Finding{
					Rule: finding.ValueUnused, Position: u.at, Subject: finding.Subject{Cluster: u.by.Cluster, Application: u.by.Name},
					Message: fmt.Sprintf("no template of the chart uses %s", path),
				})
			}
		}
	}
}

// within reports whether values have a path.
func within(n *yaml.Node, path []string) bool {
	for _, key := range path {
		if n = strict.Get(n, key); n == nil {
			return false
		}
	}
	return true
}

// unsure reports whether an application that cannot be rendered may have the values, too.
func (l *linter) unsure(of *layer, name string, by application) bool {
	return slices.ContainsFunc(l.apps, func(a application) bool {
		return !a.complete && (a.Addon == by.Addon || of.isFile && !strings.Contains(name, "/"+by.Addon+"/"))
	})
}

// documents returns the documents of a value file.
func (p part) documents(tree, file, name string) []*yaml.Node {
	if p.trees[tree] == nil {
		return nil
	}
	data, err := fs.ReadFile(p.trees[tree], file)
	if err != nil {
		return nil
	}
	docs, _ := strict.Parse(name, data)
	return docs
}

// written is values in the options of a part.
type written struct {
	at     []string // in the options
	values *yaml.Node
}

// written returns the values in the options of a part.
func (p part) written() (list []written) {
	add := func(values any, at ...string) {
		if object, _ := values.(map[string]any); len(object) > 0 {
			if n := (&yaml.Node{}); n.Encode(object) == nil {
				list = append(list, written{at, n})
			}
		}
	}
	helm, _ := p.Options["helm"].(map[string]any)
	add(helm["valuesObject"], "helm", "valuesObject")
	if text, _ := helm["values"].(string); len(list) == 0 && text != "" {
		if docs, problems := strict.Parse("values", []byte(text)); len(problems) == 0 && len(docs) == 1 {
			list = append(list, written{[]string{"helm", "values"}, docs[0]})
		}
	}
	spec, _ := p.Options["spec"].(map[string]any)
	if p.release == "" {
		return list
	}
	add(spec["values"], "spec", "values")
	from, _ := spec["valuesFrom"].([]any)
	for i, values := range from {
		add(values, "spec", "valuesFrom", strconv.Itoa(i))
	}
	return list
}

// with adds what templates in the values themselves mention, for charts that execute them.
func (k *known) with(values []*yaml.Node) *known {
	if slices.ContainsFunc(values, mentionsValues) {
		return &known{all: true}
	}
	return k
}

func mentionsValues(n *yaml.Node) bool {
	return strings.Contains(n.Value, ".Values") || slices.ContainsFunc(n.Content, mentionsValues)
}
