package render

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// maxBases limits the number of bases, counted with repetitions.
const maxBases = 1000

// scanner walks a kustomization's inputs and finds what kustomize would fetch or run.
type scanner struct {
	*repository
	bases int
	load  load              // of the open kustomization
	known map[string]weight // of files
	taken func(data []byte) // called for every kustomization and every file that is included
	fetch func(url string)  // called for every remote input; if nil, these are errors
	enter func(dir string)  // called for the folder of every kustomization, whose files are not weighed then; may be nil
	loose bool              // allow files outside the kustomization's folder

	source    *Source                   // whose charts are inflated, or nil
	namespace string                    // of the kustomizations that include the open one
	pulled    map[string]lab.ChartFiles // of chart repositories, by the folder in which kustomize would have them

	inflatedFor   map[string]string // the namespace, by kustomization
	inflatedCount map[string]int    // resources, likewise
}

// remote is the error of a remote input, if it is one.
func (s *scanner) remote(at lab.Position, url, message string) error {
	if s.fetch != nil {
		s.fetch(url)
		return nil
	}
	return remote(at, url, message)
}

// folders are the fields that name other kustomizations or files; names are those that name files, also in plugin
// configurations.
var (
	folders = []string{"resources", "bases", "components", "generators", "transformers", "validators"}
	names   = []string{"crds", "configurations", "path", "files", "env", "envs", "patchesStrategicMerge"}
)

// folder scans the kustomization of a folder.
func (s *scanner) folder(dir string, open []string) error {
	if s.bases++; s.bases > maxBases {
		return failed(dir, fmt.Errorf("consists of more than %d kustomizations", maxBases))
	}
	if s.enter != nil {
		s.enter(dir)
	}
	for _, name := range Kustomizations {
		file := path.Join(dir, name)
		written := isFile(s.FS, file)
		if !written && s.edited[file] == nil {
			continue
		}
		open = append(slices.Clone(open), dir)
		outer := s.load
		s.load = load{}
		defer func() { s.load = outer.plus(s.load.weight) }()
		var inflated kustomizationCharts
		if s.source != nil {
			inflated = s.chartsOf(file)
			above := s.namespace
			s.namespace = inflated.Namespace
			defer func() { s.namespace = above }()
		}
		var err error
		if written {
			var data []byte
			if data, err = s.budget.read(s.FS, file); err == nil { // unedited, for line numbers
				if s.taken != nil {
					s.taken(data)
				}
				// Of duplicate fields, rewrite keeps the last.
				if docs, problems := strict.Parse(file, data); len(docs) == 0 || len(problems) == 0 || s.edited[file] == nil {
					err = s.file(file, data, open, true)
				}
			}
		}
		if err == nil && s.edited[file] != nil {
			err = s.file(file, s.edited[file], open, true)
		}
		if err == nil && s.source != nil {
			err = s.inflate(file, inflated)
		}
		if err == nil {
			if err = s.spend(); err != nil {
				err = failed(file, err)
			}
		}
		return err
	}
	return nil
}

// Mentions reports whether the inputs of a source contain one of the words. Remote inputs are ignored.
func Mentions(s Source, words ...string) bool {
	s.Path = path.Clean(s.Path)
	if !fs.ValidPath(s.Path) {
		return false
	}
	_ = s.override() // Render reports its errors
	b := one(s.Budget)
	found := false
	has := func(data []byte) {
		found = found || slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(data, []byte(word)) })
	}
	if TypeOf(s.FS, s.Source) == Kustomize {
		r := &repository{FS: s.FS, budget: b, read: map[string][]byte{}}
		scan := &scanner{repository: r, taken: has}
		_ = scan.folder(s.Path, nil) // Render reports its errors
		return found
	}
	if h := s.Helm; h != nil {
		has([]byte(h.Values))
		if h.ValuesObject != nil {
			has(h.ValuesObject.Raw)
		}
	}
	_ = fs.WalkDir(s.FS, s.Path, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // Render reports it
		}
		found = found || path.Ext(name) == jsonnetFile // may import it
		if data, err := b.read(s.FS, name); err == nil {
			has(data)
		}
		if found {
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// Fetches returns the addresses that rendering a source fetches: missing dependencies and value files of a chart, and
// remote inputs of a kustomization.
func Fetches(s Source) []string {
	s.Path = path.Clean(s.Path)
	if !fs.ValidPath(s.Path) {
		return nil
	}
	_ = s.override() // Render reports its errors
	var urls []string
	add := func(url string) {
		if url = strings.TrimPrefix(url, "git::"); url != "" && !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	switch TypeOf(s.FS, s.Source) {
	case Kustomize:
		b := one(s.Budget)
		scan := &scanner{repository: &repository{FS: s.FS, budget: b, read: map[string][]byte{}}, fetch: add}
		_ = scan.folder(s.Path, nil) // Render reports its errors
	case Helm:
		for _, url := range Dependencies(s.FS, s.Path) {
			add(url)
		}
		if s.Helm != nil {
			for _, name := range s.Helm.ValueFiles {
				if fetched(name) {
					add(name)
				}
			}
		}
	}
	return urls
}

// Dependencies returns the addresses of a chart's dependencies that are not vendored.
func Dependencies(fsys fs.FS, dir string) []string {
	c, err := loadChart(fsys, dir, one(nil))
	if err != nil {
		return nil
	}
	var urls []string
	for _, d := range c.Metadata.Dependencies {
		if d != nil && !vendored(c, d.Name) && strings.Contains(d.Repository, "://") && !strings.HasPrefix(d.Repository, "file://") {
			urls = append(urls, d.Repository)
		}
	}
	return urls
}

// file scans a kustomization or a plugin configuration.
func (s *scanner) file(file string, data []byte, open []string, kustomization bool) error {
	docs, problems := strict.Parse(file, data)
	if len(problems) > 0 && len(docs) == 0 {
		return &Error{Problem: problems[0]}
	}
	for _, doc := range docs {
		if err := s.node(file, doc, open, kustomization); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) node(file string, n *yaml.Node, open []string, kustomization bool) error {
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			if err := s.node(file, c, open, false); err != nil {
				return err
			}
		}
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		var err error
		switch {
		case kustomization && slices.Contains(folders, key):
			err = s.entries(file, value, open, key)
		case kustomization && slices.Contains(charts, key) && s.fetch != nil:
			for _, c := range value.Content {
				s.fetch(cmp.Or(strict.Text(c, "repo"), strict.Text(c, "chartRepo")))
			}
		case kustomization && slices.Contains(charts, key) && s.source != nil:
		case kustomization && slices.Contains(charts, key) && len(value.Content) > 0:
			err = s.remote(strict.Position(file, n.Content[i]), key, "inflates a Helm chart")
		case slices.Contains(names, key):
			err = s.named(file, value)
		case key == "fieldPaths":
			s.load.paths += len(value.Content)
		default:
			if kustomization && value.Kind == yaml.SequenceNode {
				s.load.changes += len(value.Content)
				if strings.HasSuffix(key, "Generator") {
					s.load.objects += len(value.Content)
				}
			}
			err = s.node(file, value, open, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// named scans a file name or a list of them, possibly of the form "key=name".
func (s *scanner) named(file string, n *yaml.Node) error {
	for _, c := range append(slices.Clone(n.Content), n) {
		_, name, found := strings.Cut(c.Value, "=")
		if c.Kind == yaml.ScalarNode && (fetched(c.Value) || found && fetched(name)) {
			if err := s.remote(strict.Position(file, c), c.Value, "includes "+c.Value); err != nil {
				return err
			}
		}
		if c.Kind == yaml.ScalarNode {
			if err := s.include(path.Join(path.Dir(file), cmp.Or(name, c.Value))); err != nil {
				return err
			}
		}
		if c != n && c.Kind == yaml.MappingNode {
			if err := s.node(file, c, nil, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries scans included folders and files.
func (s *scanner) entries(file string, list *yaml.Node, open []string, field string) error {
	for _, c := range list.Content {
		entry := c.Value
		at := strict.Position(file, c)
		local := path.Join(path.Dir(file), entry)
		plugin := slices.Contains([]string{"generators", "transformers", "validators"}, field)
		var err error
		switch {
		case strings.Contains(entry, "\n"):
			if plugin {
				err = s.file(file, []byte(entry), open, false)
			}
		case cloned(entry): // even if there is a folder of that name
			err = s.remote(at, entry, "includes "+entry)
		case s.IsDir(local):
			if slices.ContainsFunc(open, func(o string) bool { return local == "." || o == local || strings.HasPrefix(o, local+"/") }) {
				err = &Error{Problem: lab.Problem{Code: finding.CannotRender, Position: at, Message: entry + " includes this kustomization: a cycle"}}
			} else {
				err = s.folder(local, open)
			}
		case s.Exists(local):
			if dir := path.Dir(file); !s.loose && dir != "." && !strings.HasPrefix(local, dir+"/") {
				err = &Error{Problem: lab.Problem{
					Code: finding.CannotRender, Position: at, Message: entry + " is outside the kustomization's folder, which kustomize rejects", Cure: "add a kustomization.yaml to its folder and include that",
				}}
			} else if err = s.include(local); err == nil && (plugin || s.taken != nil) {
				data, readErr := s.ReadFile(local)
				if err = readErr; err == nil && s.taken != nil {
					s.taken(data)
				}
				if err == nil && plugin {
					err = s.file(local, data, open, false)
				}
			}
		default:
			err = &Error{Problem: lab.Problem{Code: finding.PathMissing, Position: at, Message: local + " does not exist"}, Missing: local}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetched reports whether kustomize treats a name as a URL.
func fetched(name string) bool {
	scheme, _, ok := strings.Cut(strings.ToLower(name), "://")
	return ok && slices.Contains([]string{"http", "https"}, scheme)
}

// address matches what kustomize clones (git.NewRepoSpecFromURL), and any other scheme.
var address = regexp.MustCompile(`(?i)^(git::)?([a-z][a-z0-9+.-]*://|[a-z][a-z0-9-]*@|github\.com[/:])`)

func cloned(name string) bool { return address.MatchString(name) }
