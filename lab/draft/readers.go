package draft

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/strict"
)

// reader is a path that a set reads at an address. Both may refer to annotations.
type reader struct {
	address, text string
	must          bool // nothing works without it
	generated     bool // by a generator, which makes of it what there is
	chart         bool // the path is that of a chart
	doc           *document

	segs []segment // of text
	part bool      // that text goes on, unknown
	n    int       // of readers with the same text and address
}

// readers returns what a set reads in its sources and Git generators.
func (doc *document) readers() []reader {
	var list []reader
	var walk func(n *yaml.Node, refs map[string]string)
	walk = func(n *yaml.Node, refs map[string]string) {
		if sources := strict.List(n, "sources"); len(sources) > 0 {
			refs = map[string]string{}
			for _, s := range sources {
				refs["$"+strict.Text(s, "ref")] = strict.Text(s, "repoURL")
			}
		}
		if address := strict.Text(n, "repoURL"); address != "" {
			list = append(list, doc.readersAt(n, address, refs)...)
		}
		for _, c := range n.Content {
			walk(c, refs)
		}
	}
	walk(doc.node, nil)
	return list
}

// readersAt returns what a source or a Git generator reads. Refs are the addresses of named sources.
func (doc *document) readersAt(n *yaml.Node, address string, refs map[string]string) []reader {
	var list []reader
	add := func(address, text string, must, generated bool) {
		if text != "" {
			list = append(list, reader{address: address, text: text, must: must, generated: generated, doc: doc})
		}
	}
	dir := strict.Text(n, "path")
	if strict.Get(n, "chart") == nil {
		add(address, dir, true, false)
		if strict.Get(n, "helm") != nil && len(list) > 0 {
			list[0].chart = true
		}
	}
	for _, p := range slices.Concat(strict.List(n, "directories"), strict.List(n, "files")) {
		if strict.Text(p, "exclude") != "true" {
			add(address, strict.Text(p, "path"), true, true)
		}
	}
	for _, f := range strict.List(n, "helm", "valueFiles") {
		ref, rest, _ := strings.Cut(f.Value, "/")
		switch {
		case strings.HasPrefix(ref, "$"):
			add(refs[ref], rest, false, false)
		case strings.HasPrefix(f.Value, "/"):
			add(address, f.Value[1:], false, false)
		case dir != "":
			add(address, dir+"/"+f.Value, false, false)
		}
	}
	return list
}

// segment is a part of a path: an annotation's value, or a text.
type segment struct{ key, text string }

// segments splits a path at its references to keys. What follows another template or a pattern is unknown: then the path is only the folder before.
func segments(text string, keys []string) (list []segment, part bool) {
	for text != "" {
		first, key := []int{len(text), len(text)}, ""
		for _, k := range keys {
			if loc := reference(k).FindStringIndex(text); loc != nil && loc[0] < first[0] {
				first, key = loc, k
			}
		}
		if before := text[:first[0]]; before != "" {
			i := strings.IndexAny(before, "*?[")
			if j := strings.Index(before, "{{"); j >= 0 && (i < 0 || j < i) {
				i = j
			}
			if i >= 0 {
				if before = before[:strings.LastIndex(before[:i], "/")+1]; before != "" {
					list = append(list, segment{text: before})
				}
				return list, true
			}
			list = append(list, segment{text: before})
		}
		if key != "" {
			list = append(list, segment{key: key})
		}
		text = text[first[1]:]
	}
	return list, false
}

// matches calls yield with the values that a path with some of them known may have for the others, so that it is name. Values of adjacent keys are split between folders.
func matches(name string, segs []segment, known map[string]string, yield func(map[string]string)) {
	if len(segs) == 0 {
		if name == "" {
			yield(known)
		}
		return
	}
	s, rest := segs[0], segs[1:]
	if value, has := known[s.key]; has || s.key == "" {
		if after, ok := strings.CutPrefix(name, s.text+value); ok {
			matches(after, rest, known, yield)
		}
		return
	}
	for i := 0; i <= len(name); i++ {
		switch {
		case len(rest) == 0 && i < len(name), len(rest) > 0 && rest[0].key == "" && !strings.HasPrefix(name[i:], rest[0].text):
			continue
		case len(rest) > 0 && rest[0].key != "" && i > 0 && name[i-1] != '/':
			continue
		}
		matches(name[i:], rest, joined(known, map[string]string{s.key: name[:i]}), yield)
	}
}

// tree has the folders and files of a repository, and the folders that hold sets or can be rendered.
type tree struct {
	names   []string
	folders map[string]bool
	holds   map[string]bool
}

func (d *drafting) tree(r *lab.Repository) *tree {
	if t, known := d.trees[r.Dir]; known {
		return t
	}
	t := &tree{folders: map[string]bool{}, holds: map[string]bool{}}
	_ = fs.WalkDir(r.FS, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // unreadable folders are not candidates
		case e.IsDir() && name != "." && slices.Contains(skipped, e.Name()):
			return fs.SkipDir
		}
		t.names, t.folders[name] = append(t.names, name), e.IsDir()
		return nil
	})
	for _, f := range slices.Concat(d.charts, d.kustomizations) {
		if f.repo.Dir == r.Dir {
			t.holds[f.dir] = true
		}
	}
	for _, doc := range d.docs {
		if doc.repo.Dir == r.Dir {
			for dir := path.Dir(doc.file); !t.holds[dir]; dir = path.Dir(dir) {
				t.holds[dir] = true
			}
		}
	}
	d.trees[r.Dir] = t
	return t
}

// holding counts the documents below a folder, except in the folder of one. Stacks side by side, which have the same documents, count as one.
func (d *drafting) holding(r *lab.Repository, dir string, but *document) int {
	titles := map[string]bool{}
	for _, doc := range d.docs {
		if doc.repo.Dir == r.Dir && doc != but && path.Dir(doc.file) != path.Dir(but.file) && (dir == "." || strings.HasPrefix(doc.file, dir+"/")) {
			if titles[doc.title()] && doc.from == nil {
				return 1
			}
			titles[doc.title()] = true
		}
	}
	return len(titles)
}
