package render

import (
	"bytes"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
)

// unstable matches functions of templates whose result differs from call to call: https://masterminds.github.io/sprig/
var unstable = regexp.MustCompile(`\b(rand[A-Z]\w+|randInt|uuidv4|shuffle|gen[A-Z]\w+|bcrypt|htpasswd|encryptAES|now|ago)\b`)

// Unstable returns where the first field is written that differs if a chart is rendered again, such as a random password, and the functions in that line; no function
// if nothing differs. docs are what it was rendered to, of which those that ignored returns true for do not count.
func Unstable(s Source, docs []Document, ignored func(Document) bool) (at lab.Position, functions []string) {
	if TypeOf(s.FS, s.Source) != Helm || !s.mayDiffer(docs, ignored) {
		return at, nil
	}
	again, err := Render(s)
	if err != nil || len(again) != len(docs) {
		return at, nil
	}
	for i, d := range docs {
		if n := differs(d.Node, again[i].Node); n != nil && !ignored(d) {
			at = lab.Position{File: d.File, Line: n.Line}
			break
		}
	}
	data, err := fs.ReadFile(s.FS, at.File)
	lines := strings.Split(string(data), "\n")
	if at.File == "" || err != nil {
		return at, nil
	}
	if at.Line > 0 && at.Line <= len(lines) {
		functions = unstable.FindAllString(lines[at.Line-1], -1)
	}
	if len(functions) == 0 {
		functions = unstable.FindAllString(string(data), -1)
	}
	slices.Sort(functions)
	return at, slices.Compact(functions)
}

// mayDiffer reports whether a chart has a function whose result differs, outside of templates that make nothing but ignored objects.
func (s Source) mayDiffer(docs []Document, ignored func(Document) bool) bool {
	counts := map[string]bool{} // files of objects: whether one is not ignored
	for _, d := range docs {
		counts[d.File] = counts[d.File] || !ignored(d)
	}
	b, o := one(s.Budget), s.options()
	may := unstable.MatchString(o.Values) || o.ValuesObject != nil && unstable.Match(o.ValuesObject.Raw)
	_ = fs.WalkDir(s.FS, path.Clean(s.Path), func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // Render reports it
		}
		if data, err := b.read(s.FS, file); err == nil && bytes.Contains(data, []byte("{{")) && unstable.Match(data) {
			shared := bytes.Contains(data, []byte("define")) || bytes.Contains(data, []byte("set ")) || !strings.Contains(file, "templates/")
			may = may || counts[file] || shared
		}
		return nil
	})
	return may
}

// differs returns the first node of a that has another value in b.
func differs(a, b *yaml.Node) *yaml.Node {
	if a.Value != b.Value || a.Kind != b.Kind || len(a.Content) != len(b.Content) {
		return a
	}
	for i := range a.Content {
		if n := differs(a.Content[i], b.Content[i]); n != nil {
			return n
		}
	}
	return nil
}
