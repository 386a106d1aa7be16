package draft

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab/strict"
)

// nameTag matches a reference to the name of a cluster, in Go and plain templates.
var nameTag = regexp.MustCompile(`\{\{-?\s*\.?(name|nameNormalized)\s*-?\}\}`)

// common are folders beside those of clusters, or of values of a label.
var common = []string{"_template", "all", "base", "bases", "clusters", "common", "components", "default", "environments", "global", "shared", "template", "templates"}

// fillings returns the texts for which a path exists with them in place of a reference, which ref finds. A further reference or pattern in it may be anything.
func fillings(fsys fs.FS, name string, ref *regexp.Regexp) []string {
	loc := ref.FindStringIndex(name)
	if loc == nil || strings.Contains(name[:loc[0]], "{{") {
		return nil
	}
	dir, prefix := path.Split(strings.TrimLeft(path.Clean("/"+name[:loc[0]]+"x"), "/"))
	prefix = strings.TrimSuffix(prefix, "x")
	suffix, rest, _ := strings.Cut(name[loc[1]:], "/")
	if i := strings.IndexAny(rest, "{*?["); i >= 0 {
		rest = path.Dir(rest[:i] + "x")
	}
	entries, _ := fs.ReadDir(fsys, path.Clean(dir))
	var list []string
	for _, e := range entries {
		text, begins := strings.CutPrefix(e.Name(), prefix)
		text, ends := strings.CutSuffix(text, suffix)
		if !begins || !ends || text == "" || slices.Contains(common, text) {
			continue
		}
		if _, err := fs.Stat(fsys, path.Join(dir, e.Name(), rest)); err == nil {
			list = append(list, text)
		}
	}
	return list
}

// hasKey reports whether a mapping in n has a key.
func hasKey(n *yaml.Node, key string) bool {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Value == key || hasKey(c, key) {
			return true
		}
	}
	return false
}

// clusterFolders returns the clusters after which the folders are named that sets read for them.
func (d *drafting) clusterFolders() []string {
	var names []string
	for _, doc := range d.docs {
		if doc.set == nil || len(doc.set.Selectors()) == 0 {
			continue
		}
		generators := strict.Get(doc.node, "spec", "generators")
		if hasKey(generators, "elements") && hasKey(generators, "name") {
			continue
		}
		files := hasKey(generators, "files") // which may contain names, too
		for _, read := range doc.readers() {
			r := d.repositoryAt(read.address)
			if r == nil || files && !read.generated {
				continue
			}
			for _, name := range fillings(r.FS, read.text, nameTag) {
				if len(validation.IsDNS1123Label(name)) == 0 && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// fit returns the values of a label in a path for which the path exists.
func (d *drafting) fit(u use) []string {
	r := d.repositoryAt(u.address)
	if r == nil || u.field != "path" && u.field != "valueFiles" {
		return nil
	}
	text := u.text
	if _, rest, ok := strings.Cut(text, "/"); u.field == "valueFiles" && strings.HasPrefix(text, "$") && ok {
		text = rest
	} else if u.field == "valueFiles" && !strings.HasPrefix(text, "/") {
		text = path.Join(u.dir, text)
	}
	return slices.DeleteFunc(fillings(r.FS, text, referenceOf("labels", u.key)), func(v string) bool { return len(validation.IsValidLabelValue(v)) > 0 })
}

// fill sets a label that is part of a path to values for which the path exists, each on the cluster that it suits best, and reports whether there are any.
func (d *drafting) fill(u use) bool {
	values := d.fit(u)
	if len(values) == 0 {
		return false
	}
	used := map[string]bool{}
	for i := range d.estate.Clusters {
		c := &d.estate.Clusters[i]
		if _, has := d.registered(*c).Labels[u.key]; has || !d.hosts(c) {
			continue
		}
		best := d.choose(Choice{About: labelOf(u.key, c.Name), At: u.at, Of: highest(values, func(v string) int {
			score := 2 * (closeness(v, c.Name) + closeness(v, c.Environment))
			if !used[v] {
				score++
			}
			return score
		})})
		c.Labels[u.key], used[best] = best, true
	}
	values = slices.DeleteFunc(values, func(v string) bool { return !used[v] })
	d.note(Key{Name: u.key, Label: true, Value: strings.Join(values, ", "), How: Found, At: u.at})
	return true
}
