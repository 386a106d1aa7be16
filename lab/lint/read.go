package lint

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/bridge"
	"homelab/lab/cloud"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/render"
)

// valueFile matches those of lab's layout: folder, cluster or environment, addon.
var valueFile = regexp.MustCompile(`^(clusters|environments)/([^/]+)/addons/([^/]+)/[^/]+\.ya?ml$`)

// misplaced matches files in such a folder that are named like them.
var misplaced = regexp.MustCompile(`^((?:clusters|environments)/[^/]+)/(?:.*/)?values[^/]*\.ya?ml$`)

// valueFiles finds value files that no application reads.
func (l *linter) valueFiles() {
	read := l.readable()
	l.walk(func(file, _ string) {
		m := valueFile.FindStringSubmatch(file)
		if l.read[file] || path.Base(file) == "kustomization.yaml" {
			return
		}
		if m == nil {
			l.misplaced(file, read)
			return
		}
		var near []string
		for name := range read {
			if path.Dir(name) == path.Dir(file) {
				near = append(near, path.Base(name))
			}
		}
		has := false
		for _, a := range l.apps {
			c, _ := l.Estate.Cluster(a.Cluster)
			if a.Addon != m[3] || !(m[1] == lab.ClustersDir && a.Cluster == m[2] || m[1] == lab.EnvironmentsDir && (m[2] == lab.DefaultEnvironment || c.Environment == m[2])) {
				continue
			}
			if !a.complete {
				return
			}
			has = true
		}
		if what := l.unknown(m[1], m[2]); what != "" && !slices.ContainsFunc(l.apps, func(a application) bool { return a.mayRead(file) }) {
			l.add(finding.Finding{Rule: finding.ValueFileUnread, Position: lab.Position{File: file, Line: 1}, Message: "no application reads this file: " + what})
			return
		}
		if !has || len(near) == 0 {
			return // the layout is another one: what reads the folder is unknown
		}
		slices.Sort(near)
		l.add(finding.Finding{Rule: finding.ValueFileUnread, Position: lab.Position{File: file, Line: 1}, Message: "no application of " + m[3] + " reads this file, only " + strings.Join(slices.Compact(near), ", ") + " in this folder"})
	})
}

// unknown returns that a folder of values is of no cluster or environment, or "".
func (l *linter) unknown(dir, name string) string {
	if dir == lab.ClustersDir {
		if _, known := l.Estate.Cluster(name); !known {
			return lab.ClusterFile(name) + " does not exist"
		}
	} else if _, known := l.Estate.Environment(name); !known && name != lab.DefaultEnvironment {
		return path.Join(lab.EnvironmentsDir, name, "environment.yaml") + " does not exist"
	}
	return ""
}

// readable returns the value files that applications read, or would if they existed.
func (l *linter) readable() map[string]bool {
	list := map[string]bool{}
	for name := range l.tried {
		if ext := path.Ext(name); (ext == ".yaml" || ext == ".yml") && !slices.Contains(render.Kustomizations, path.Base(name)) {
			list[name] = true
		}
	}
	for _, a := range l.apps {
		c, known := l.Estate.Cluster(a.Cluster)
		if _, own := l.Estate.Addon(a.Addon); known && own && a.Engine == lab.EngineFlux && len(a.Parts) > 1 { // lab generate looks for them
			for _, layer := range fluxset.Layers(c, a.Addon) {
				list[layer.File] = true
			}
		}
	}
	return list
}

// misplaced finds a value file that is not in the folder of an addon, where others of its cluster or environment would be read.
func (l *linter) misplaced(file string, read map[string]bool) {
	m := misplaced.FindStringSubmatch(file)
	if m == nil || slices.ContainsFunc(l.apps, func(a application) bool { return a.mayRead(file) }) {
		return
	}
	var near, same []string
	for name := range read {
		switch {
		case path.Dir(name) == path.Dir(file):
			return // of a chart, or of another layout
		case !strings.HasPrefix(name, m[1]+"/addons/"):
		case path.Base(path.Dir(name)) == path.Base(path.Dir(file)):
			same = append(same, name)
		default:
			near = append(near, name)
		}
	}
	if len(same) > 0 {
		near = same
	}
	if len(near) > 0 {
		l.add(finding.Finding{Rule: finding.ValueFileUnread, Position: lab.Position{File: file, Line: 1}, Message: "no application reads this file, but " + some(near)})
	}
}

// mayRead reports whether a generator of an application matches a file, or not all that it reads is known and its manifest mentions the folder, or patterns of files.
func (a application) mayRead(file string) bool {
	if slices.ContainsFunc(a.Matches, func(of appset.Match) bool { return of.File == file }) {
		return true
	}
	if a.complete {
		return false
	}
	text, err := json.Marshal(a.Manifest)
	return err != nil || strings.Contains(string(text), path.Dir(file)) || pathPattern.Match(text)
}

// pathPattern matches a text with a pattern of files.
var pathPattern = regexp.MustCompile(`"[^"]*(/[^"]*\*|\*[^"]*/)`)

// wholeMetadata matches a template that reads all labels or annotations.
var wholeMetadata = regexp.MustCompile(`\{\{[^}]*metadata\.(annotations|labels)\s*[^.\s"\[\w]`)

// bridgeKeys finds labels and annotations that the estate's own documents write and no file reads.
func (l *linter) bridgeKeys() {
	type written struct {
		at   lab.Position
		what string
	}
	keys := map[string][]written{}
	collect := func(what string, of map[string]string, at func(string) lab.Position, field string) {
		for key := range of {
			if !strings.Contains(key, "/") {
				keys[key] = append(keys[key], written{at(field + "." + key), what})
			}
		}
	}
	for _, e := range l.Estate.Environments {
		collect("label", e.Labels, e.Position, "spec.labels")
		collect("annotation", e.Metadata, e.Position, "spec.metadata")
	}
	documents := map[string]bool{}
	for _, c := range l.Estate.Clusters {
		documents[c.File] = true
		collect("label", c.Labels, c.Position, "spec.labels")
		collect("annotation", c.Metadata, c.Position, "spec.metadata")
	}
	for _, e := range l.Estate.Environments {
		documents[e.File] = true
	}
	if len(keys) == 0 {
		return
	}
	all := false
	search := func(text string) {
		all = all || wholeMetadata.MatchString(text)
		for key := range keys {
			if mentions(text, key) || mentions(text, flux.VariableName(key)) {
				delete(keys, key)
			}
		}
	}
	l.walk(func(file, text string) {
		if !documents[file] {
			search(text)
		}
	})
	for file := range l.read { // of other folders
		if text, err := l.text(file); err == nil {
			search(text)
		}
	}
	if all {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		for _, w := range keys[key] {
			l.add(finding.Finding{Rule: finding.BridgeKeyUnread, Position: w.at, Message: fmt.Sprintf("nothing reads the %s %s", w.what, key)})
		}
	}
}

// mentions reports whether a text has a word.
func mentions(text, word string) bool {
	part := func(b byte) bool {
		return b == '_' || b == '-' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	for from := 0; word != ""; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			break
		}
		i += from
		end := i + len(word)
		if (i == 0 || !part(text[i-1])) && (end == len(text) || !part(text[end])) {
			return true
		}
		from = i + 1
	}
	return false
}

// keyRead matches a label or annotation in a template: .metadata.labels.KEY, index .metadata.labels "KEY".
var keyRead = regexp.MustCompile(`metadata\.(labels|annotations)(?:\.([A-Za-z_]\w*)|\s+"([^"]+)")`)

// misspeltKeys finds labels and annotations that sets read, that no cluster has and whose name is much like another's.
func (l *linter) misspeltKeys() {
	def, _ := l.Estate.Environment(lab.DefaultEnvironment)
	has := map[string]map[string]bool{"labels": {}, "annotations": {}}
	for _, c := range l.Estate.Clusters {
		env, _ := l.Estate.Environment(c.Environment)
		reg := bridge.Build(l.Estate.Name, env, def, c, bridge.InputsOf(l.Estate))
		for key := range reg.Labels {
			has["labels"][key] = true
		}
		for key := range reg.Annotations {
			has["annotations"][key] = true
		}
	}
	other := map[string]bool{} // of clouds that no cluster has
	for _, provider := range []string{cloud.AWS, cloud.Azure, cloud.GCP} {
		scope := cloud.Scope{Lab: l.Estate.Name}
		for _, f := range cloud.Facts(cloud.Complete(lab.Cloud{Provider: provider}, scope), scope) {
			other[f.Key] = true
		}
	}
	sets := map[string]bool{}
	for _, a := range l.Estate.Addons {
		sets[a.File] = true
	}
	for _, file := range slices.Sorted(maps.Keys(sets)) {
		text, err := l.text(file)
		if err != nil {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			code, _, _ := strings.Cut(line, " #")
			for _, m := range keyRead.FindAllStringSubmatch(code, -1) {
				key := m[2] + m[3]
				if !strings.Contains(code, "{{") || has[m[1]][key] || other[key] || strings.Contains(key, "/") {
					continue
				}
				known := slices.Sorted(maps.Keys(has[m[1]]))
				if at := slices.IndexFunc(known, func(other string) bool { return misspelt(key, other) }); at >= 0 {
					l.add(finding.Finding{
						Rule: finding.BridgeKeyTypo, Position: lab.Position{File: file, Line: i + 1},
						Message: fmt.Sprintf("no cluster has the %s %s", strings.TrimSuffix(m[1], "s"), key), Cure: fmt.Sprintf("did you mean %q?", known[at]),
					})
				}
			}
		}
	}
}

// misspelt reports whether a word is another with one letter more, less or changed, or with two swapped. Digits tell names apart.
func misspelt(word, as string) bool {
	if len(word) < 6 {
		return false
	}
	for word != "" && as != "" && word[0] == as[0] {
		word, as = word[1:], as[1:]
	}
	for word != "" && as != "" && word[len(word)-1] == as[len(as)-1] {
		word, as = word[:len(word)-1], as[:len(as)-1]
	}
	swapped := len(word) == 2 && len(as) == 2 && word[0] == as[1] && word[1] == as[0]
	return !strings.ContainsAny(word+as, "0123456789") && (swapped || len(word) < 2 && len(as) < 2)
}
