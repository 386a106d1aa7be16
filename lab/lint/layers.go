package lint

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/finding"
	"homelab/lab/needs"
	"homelab/lab/strict"
)

// entry is an entry that names values, with what it stands for in all applications that have it.
type entry struct {
	by     application
	layers []desired.Layer
}

// layers finds entries that the engine leaves out for all clusters, and that cannot be meant so: a file or an object of almost the same name is unused, or the folder
// that they lead to does not exist.
func (l *linter) layers() {
	entries := map[[2]string]*entry{}
	used := map[string]bool{} // files and objects
	for _, a := range l.apps {
		if a.Layers == nil {
			continue
		}
		for _, layer := range a.Layers() {
			used[cmp.Or(layer.File, layer.Object)] = layer.Exists || used[cmp.Or(layer.File, layer.Object)]
			key := [2]string{layer.At.String()}
			if a.Set == "" {
				key[1] = layer.Entry // the position may be that of the whole Application
			}
			if entries[key] == nil {
				entries[key] = &entry{by: a}
			}
			entries[key].layers = append(entries[key].layers, layer)
		}
	}
	objects := l.data()
	for _, e := range entries {
		if slices.ContainsFunc(e.layers, func(layer desired.Layer) bool { return !layer.Optional }) {
			continue
		}
		if e.layers[0].File != "" {
			l.absentFiles(*e, used)
		} else {
			l.absentData(*e, used, objects)
		}
	}
}

// say adds what is wrong with an entry.
func (e entry) say(l *linter, message, cure string) {
	l.add(finding.Finding{
		Rule: finding.OptionalMissing, Position: e.layers[0].At, Subject: finding.Subject{Application: e.by.Name}, Message: message, Cure: cure,
	})
}

// some lists texts without repetitions, at most five.
func some(list []string) string {
	const most = 5
	slices.Sort(list)
	list = slices.Compact(list)
	text := strings.Join(list[:min(most, len(list))], ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// absentFiles judges an entry of value files.
func (l *linter) absentFiles(e entry, used map[string]bool) {
	var tried []string
	alike, folder, homeless := "", "", true
	for _, layer := range e.layers {
		if layer.Exists {
			return
		}
		tried = append(tried, layer.File)
		files, within := l.file(layer.File)
		top, _, nested := strings.Cut(within, "/")
		_, err := fs.Stat(files, top)
		homeless = homeless && nested && !valueFile.MatchString(layer.File) && !strings.ContainsAny(top, "*?[{") && err != nil
		folder = top
		if found := l.alike(files, within); alike == "" && found != "" {
			name := strings.TrimSuffix(layer.File, within) + found
			own := valueFile.MatchString(name) && path.Dir(name) == path.Dir(layer.File) // said of the file
			if l.whole && !own && !l.read[name] && !used[name] {
				alike = name
			}
		}
	}
	switch {
	case alike != "":
		e.say(l, "no value file of this entry exists for any cluster: "+some(tried), fmt.Sprintf("did you mean %q, which nothing reads?", alike))
	case homeless:
		e.say(l, fmt.Sprintf("no value file of this entry exists for any cluster, and no folder %s: %s", folder, some(tried)), "")
	}
}

// alike returns an existing file whose path differs from another by one misspelt word, or "".
func (l *linter) alike(files fs.FS, name string) string {
	steps := strings.Split(name, "/")
	for i, step := range steps {
		parent := path.Join(".", path.Join(steps[:i]...))
		entries, err := fs.ReadDir(files, parent)
		if err != nil {
			break
		}
		for _, e := range entries {
			_, cluster := l.Estate.Cluster(e.Name())
			_, env := l.Estate.Environment(e.Name())
			found := path.Join(parent, e.Name(), path.Join(steps[i+1:]...))
			if !cluster && !env && similar(step, e.Name()) && isFile(files, found) {
				return found
			}
		}
	}
	return ""
}

// similar reports whether one of the words in a name is written in another way.
func similar(name, as string) bool {
	words := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	}
	a, b := words(name), words(as)
	differ := 0
	for i := 0; i < len(a) && len(a) == len(b); i++ {
		if a[i] == b[i] {
			continue
		}
		if differ++; !misspelt(a[i], b[i]) && !strings.EqualFold(a[i], b[i]) && a[i]+"s" != b[i] && b[i]+"s" != a[i] && a[i]+b[i] != "yamlyml" && a[i]+b[i] != "ymlyaml" {
			return false
		}
	}
	return differ == 1
}

// data is an object with values.
type data struct {
	at   lab.Position
	keys []string
}

// data returns the ConfigMaps and Secrets of all applications, by cluster and name.
func (l *linter) data() map[string]data {
	list := map[string]data{}
	for _, a := range l.apps {
		for _, o := range a.objects {
			if kind := strict.Text(o.Node, "kind"); kind != "ConfigMap" && kind != "Secret" {
				continue
			}
			d := data{at: lab.Position{File: o.File, Line: o.Line}}
			for _, field := range []string{"data", "stringData", "binaryData"} {
				for key := range strict.Pairs(o.Node, field) {
					d.keys = append(d.keys, key.Value)
				}
			}
			list[o.Cluster+" "+o.ID()] = d
		}
	}
	return list
}

// absentData judges an entry of ConfigMaps or Secrets.
func (l *linter) absentData(e entry, used map[string]bool, objects map[string]data) {
	var tried, keys []string
	alike, missing := "", true // in all of them
	for _, layer := range e.layers {
		home := l.Estate.Hub().Name
		if l.Estate.Hub().Engine.Everywhere() {
			home = e.by.Cluster
		}
		tried = append(tried, layer.Object)
		if layer.Exists {
			of, known := objects[home+" "+layer.Object]
			keys = append(keys, of.keys...)
			missing = missing && known && layer.Key != "" && !slices.Contains(of.keys, layer.Key)
			continue
		}
		kind, namespace, name := needs.Split(layer.Object)
		for _, other := range slices.Sorted(maps.Keys(objects)) {
			cluster, id, _ := strings.Cut(other, " ")
			ofKind, in, as := needs.Split(id)
			if cluster == home && kind == ofKind && !used[id] && (in == namespace && similar(name, as) && !l.named(id, as, "") || in != namespace && name == as && !l.named(id, as, in)) {
				alike = cmp.Or(alike, fmt.Sprintf("%s (%s)", id, objects[other].at))
			}
		}
	}
	key := e.layers[0].Key
	exists := slices.ContainsFunc(e.layers, func(layer desired.Layer) bool { return layer.Exists })
	switch {
	case exists && missing:
		e.say(l, fmt.Sprintf("no object of this entry has the key %s: %s has %s", key, some(tried), cmp.Or(some(keys), "none")), "")
	case !exists && alike != "" && l.whole:
		e.say(l, "no object of this entry exists for any cluster: "+some(tried), "did you mean "+alike+", which nothing reads?")
	}
}

// named reports whether an object, of a namespace if one is given, has the name of another in one of its fields.
func (l *linter) named(id, name, namespace string) bool {
	return slices.ContainsFunc(l.apps, func(a application) bool {
		return !a.complete || slices.ContainsFunc(a.objects, func(o desired.Object) bool {
			if o.ID() == id || namespace != "" && strict.Text(o.Node, "metadata", "namespace") != namespace {
				return false
			}
			for keys, n := range strict.Scalars(o.Node) {
				if n.Value == name && (len(keys) == 0 || keys[0] != "metadata") {
					return true
				}
			}
			return false
		})
	})
}
