package draft

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/bridge"
)

func (d *drafting) inputs() bridge.Inputs { return bridge.InputsOf(d.estate) }

// read gives the annotations and labels that templates read and that no lab has.
func (d *drafting) read() {
	var all []use
	for _, doc := range d.docs {
		all = append(all, doc.uses...)
	}
	var paths []string // keys that make up paths, in the order of the files
	for _, u := range all {
		switch {
		case u.label:
			d.label(u)
		case u.field == "repoURL":
			d.give(u, d.repositoryFor(u.key).URL, Found)
		case u.field == "targetRevision" || u.field == "revision":
			if r := d.repositoryBeside(u, all); r != nil {
				d.give(u, r.Branch, Found)
			}
		case slices.Contains([]string{"path", "valueFiles"}, u.field) && !slices.Contains(paths, u.key):
			paths = append(paths, u.key)
		}
	}
	d.solve(paths, all)
	for _, u := range all {
		if !u.label && !u.guarded && !slices.Contains(paths, u.key) {
			d.madeUp(u)
		}
	}
}

// given reports whether the clusters have a key, by lab or by the draft.
func (d *drafting) given(key string, label bool) bool {
	for _, c := range d.estate.Clusters {
		reg := d.registered(c)
		has := reg.Annotations
		if label {
			has = reg.Labels
		}
		if _, ok := has[key]; !ok && d.hosts(&c) && !d.bare(c) {
			return false
		}
	}
	return true
}

// give writes an annotation for all clusters, over lab's own.
func (d *drafting) give(u use, value, how string) {
	def := d.environment(lab.DefaultEnvironment)
	if _, has := def.Metadata[u.key]; has {
		return
	}
	def.Metadata[u.key] = value
	d.note(Key{Name: u.key, Value: value, How: how, At: u.at})
}

func (d *drafting) label(u use) {
	if u.guarded || d.given(u.key, true) || strings.HasPrefix(u.key, "enable_") {
		return
	}
	def := d.environment(lab.DefaultEnvironment)
	def.Labels[u.key] = "lab"
	d.note(Key{Name: u.key, Label: true, Value: "lab", How: MadeUp, At: u.at})
}

// madeUp gives an annotation that nothing else defines.
func (d *drafting) madeUp(u use) {
	addon := false // lab makes up what addons read of themselves
	for _, suffix := range []string{"_namespace", "_service_account", "_iam_role_arn"} {
		addon = addon || strings.HasSuffix(u.key, suffix)
	}
	switch {
	case d.given(u.key, false):
		return
	case addon && strings.HasSuffix(u.key, "_namespace"):
		d.give(u, strings.ReplaceAll(strings.TrimSuffix(u.key, "_namespace"), "_", "-"), MadeUp)
	default:
		d.give(u, strings.ReplaceAll(u.key, "_", "-"), MadeUp)
	}
}

// repositoryFor is the repository that an annotation is called after; the first where it is called after none.
func (d *drafting) repositoryFor(key string) *lab.Repository {
	word, _, _ := strings.Cut(key, "_")
	stem := strings.TrimSuffix(strings.ToLower(word), "s")
	for i := range d.estate.Repositories {
		if r := &d.estate.Repositories[i]; strings.Contains(r.Name, stem) {
			return r
		}
	}
	return &d.estate.Repositories[0]
}

// repositoryBeside is the repository whose revision an annotation is: the one that the annotation's own group, or its document, reads; nil where that is none of ours.
func (d *drafting) repositoryBeside(u use, all []use) *lab.Repository {
	group, _, _ := strings.Cut(u.key, "_")
	for _, other := range all {
		if prefix, _, _ := strings.Cut(other.key, "_"); other.field == "repoURL" && !other.label && prefix == group {
			return d.repositoryFor(other.key)
		}
	}
	if _, suffix, _ := strings.Cut(u.key, "_repo_"); suffix == "revision" {
		return d.repositoryFor(u.key)
	}
	return nil
}

// reference is a template's reference to a key, in both kinds of templates.
func reference(key string) *regexp.Regexp {
	return regexp.MustCompile(`\{\{[^{}]*\bmetadata\.annotations\.` + regexp.QuoteMeta(key) + `\b[^{}]*\}\}`)
}

// solve finds the folders that annotations stand for: those with which most of the paths that are made of them exist.
func (d *drafting) solve(keys []string, all []use) {
	solved := map[string]string{}
	for _, tails := range []bool{true, false} { // what is followed by more of a path is recognized by that
		for _, key := range keys {
			if _, done := solved[key]; done {
				continue
			}
			value, at, ok := d.folderFor(key, all, solved, tails)
			switch {
			case ok:
				solved[key] = value
				d.give(at, value, Found)
			case !tails && !d.given(key, false):
				d.note(Key{Name: key, How: Open, At: at.at})
			}
		}
	}
}

// folderFor tries the folders of the repository that a key is of.
func (d *drafting) folderFor(key string, all []use, solved map[string]string, tails bool) (string, use, bool) {
	var at use
	scores := map[string]int{}
	r := d.repositoryFor(key)
	candidates := dirs(r.FS)
	for _, u := range all {
		if u.key != key || u.label || u.field != "path" && u.field != "valueFiles" {
			continue
		}
		if at.doc == nil {
			at = u
		}
		text := u.text
		for known, value := range solved {
			text = reference(known).ReplaceAllString(text, value)
		}
		if u.field == "valueFiles" {
			_, rest, ok := strings.Cut(text, "/")
			if strings.HasPrefix(text, "$") && ok {
				text = rest
			}
		}
		loc := reference(key).FindStringIndex(text)
		if loc == nil || strings.Contains(text[:loc[0]], "{{") {
			continue
		}
		before, tail := text[:loc[0]], text[loc[1]:]
		tail, _, open := strings.Cut(tail, "{{")
		if open { // as far as whole folders go
			tail = tail[:strings.LastIndex(tail, "/")+1]
		}
		if (strings.Trim(tail, "/") != "") != tails {
			continue
		}
		for _, dir := range candidates {
			value, ok := strings.CutPrefix(dir, strings.TrimSuffix(before, "/"))
			if before != "" && (!ok || value != "" && value[0] != '/') {
				continue
			}
			if value = strings.TrimPrefix(value, "/"); tail != "" && !strings.HasPrefix(tail, "/") && value != "" {
				value += "/"
			}
			full := path.Clean(before + value + tail)
			if !fs.ValidPath(full) {
				continue
			}
			if tails {
				if _, err := fs.Stat(r.FS, full); err == nil {
					scores[value]++
				}
			} else if n := d.holds(r, full, u.doc); n > 0 {
				scores[value] += n*maxDepth + depth(value) // the deepest that has them all
			}
		}
	}
	best, found := "", false
	for _, value := range sortedKeys(scores) {
		if !found || scores[value] > scores[best] {
			best, found = value, true
		}
	}
	return best, at, found
}

// holds counts the documents below a folder that are not in the folder of the one that asks.
func (d *drafting) holds(r *lab.Repository, dir string, but *document) int {
	n := 0
	for _, doc := range d.docs {
		if doc.repo == r && doc != but && path.Dir(doc.file) != path.Dir(but.file) && (dir == "." || strings.HasPrefix(doc.file, dir+"/")) {
			n++
		}
	}
	return n
}

// maxDepth is deeper than folders are.
const maxDepth = 1000

func depth(dir string) int {
	if dir == "" {
		return 0
	}
	return 1 + strings.Count(dir, "/")
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return keys
}

// dirs are the folders of a repository, the root as "".
func dirs(fsys fs.FS) []string {
	var list []string
	_ = fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || !e.IsDir():
			return nil //nolint:nilerr // a folder that cannot be read is no candidate
		case name == ".":
			list = append(list, "")
		case strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		default:
			list = append(list, name)
		}
		return nil
	})
	return list
}
