package render

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/strict"
)

const (
	corpus = "testdata/cases"

	// host is that of the repositories in the corpus: repo/ is host + "estate.git", repos/NAME host + "NAME.git".
	host = "https://git.example.com/"

	// varies stands for a text that is another at each rendering.
	varies = "(varies)"
)

// versions are those of Argo CD that recorded the corpus, the newest first.
var versions = []string{"3.6.1", "3.2.11"}

// renderCase is an Application with its repositories.
type renderCase struct {
	name, dir    string
	text         []byte
	application  *yaml.Node
	repositories map[string]string // URL -> folder
	destination  cluster
}

// cluster is the destination: testdata/cluster.yaml, or cluster.yaml of a case.
type cluster struct {
	Version     string   `json:"version"`     // v1.37.2
	APIVersions []string `json:"apiVersions"` // of its kinds, as v1 and v1/Pod
}

// want is what the repo-server made of a case: want.yaml, or want.3.2.yaml where that minor does otherwise.
type want struct {
	Types   []string         `json:"types,omitempty"` // of the sources
	Error   string           `json:"error,omitempty"` // first line of the message
	Objects []map[string]any `json:"objects,omitempty"`
}

func decodeFile(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = sigsyaml.UnmarshalStrict(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func casesOf(t *testing.T) []renderCase {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(corpus, "*", "application.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	cases := make([]renderCase, len(files))
	for i, file := range files {
		c := renderCase{dir: filepath.Dir(file), name: filepath.Base(filepath.Dir(file)), repositories: map[string]string{}}
		if c.text, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		docs, problems := strict.Parse(file, c.text)
		if len(problems) > 0 || len(docs) != 1 {
			t.Fatalf("%s: %d documents, %v", file, len(docs), problems)
		}
		c.application = docs[0]
		for _, pattern := range []string{"repo", "repos/*"} {
			dirs, _ := filepath.Glob(filepath.Join(c.dir, pattern))
			for _, dir := range dirs {
				name := filepath.Base(dir)
				if pattern == "repo" {
					name = "estate"
				}
				c.repositories[host+name+".git"] = dir
			}
		}
		destination := filepath.Join(c.dir, "cluster.yaml")
		if _, err := os.Stat(destination); err != nil {
			destination = "testdata/cluster.yaml"
		}
		decodeFile(t, destination, &c.destination)
		cases[i] = c
	}
	return cases
}

func (c renderCase) file(m argo.Minor) string {
	if newest, _ := argo.ParseMinor(versions[0]); m == newest {
		return filepath.Join(c.dir, "want.yaml")
	}
	return filepath.Join(c.dir, "want."+m.String()+".yaml")
}

// want returns what a minor makes of a case, or nil if that is not recorded.
func (c renderCase) want(t *testing.T, m argo.Minor) *want {
	t.Helper()
	for _, file := range []string{c.file(m), filepath.Join(c.dir, "want.yaml")} {
		if _, err := os.Stat(file); err == nil {
			w := new(want)
			decodeFile(t, file, w)
			return w
		}
	}
	return nil
}

// rendered returns what lab makes of a case, and lab's error.
func (c renderCase) rendered(t *testing.T, m argo.Minor) (want, error) {
	t.Helper()
	var w want
	app, problems := appset.API{Minor: m}.ParseApplication("application.yaml", c.application)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	repository := func(url string) fs.FS {
		if dir, ok := c.repositories[url]; ok {
			return os.DirFS(dir)
		}
		return nil
	}
	for _, from := range c.sources(app, m, repository) {
		docs, err := Render(from)
		if err != nil {
			return want{Error: err.Error()}, err
		}
		if err := from.override(); err != nil {
			t.Fatal(err)
		}
		w.Types = append(w.Types, string(TypeOf(from.FS, from.Source)))
		for _, d := range docs {
			data, err := yaml.Marshal(d.Node)
			object := map[string]any{}
			if err == nil {
				err = sigsyaml.Unmarshal(data, &object)
			}
			if err != nil {
				t.Fatalf("%s: %v", d.File, err)
			}
			w.Objects = append(w.Objects, object)
		}
	}
	w.normalise()
	return w, nil
}

// sources returns how the sources of an Application are rendered.
func (c renderCase) sources(app *appset.Template, m argo.Minor, repository func(url string) fs.FS) (list []Source) {
	sources := app.Spec.All()
	for _, source := range sources {
		if len(app.Spec.Sources) > 0 && source.Path == "" && source.Chart == "" {
			continue
		}
		list = append(list, Source{
			FS: repository(source.RepoURL), Source: source, Application: app.Metadata.Name, Project: app.Spec.Project, Namespace: app.Spec.Destination.Namespace,
			KubeVersion: strings.TrimPrefix(c.destination.Version, "v"), APIVersions: c.destination.APIVersions, Minor: m, Sources: app.Spec.Sources,
			Ref: func(name string) fs.FS {
				for _, s := range sources {
					if s.Ref == name {
						return repository(s.RepoURL)
					}
				}
				return nil
			},
		})
	}
	return list
}

// normalise sorts the objects, which the controller does not keep in order, and drops how the controller marks what it owns.
func (w *want) normalise() {
	for _, o := range w.Objects {
		metadata, _ := o["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
			o["metadata"] = metadata
		}
		annotations, _ := metadata["annotations"].(map[string]any)
		delete(annotations, argo.Prefix+"tracking-id")
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	key := func(o map[string]any) []string {
		text := func(v any) string { s, _ := v.(string); return s }
		metadata, _ := o["metadata"].(map[string]any)
		return []string{text(o["apiVersion"]), text(o["kind"]), text(metadata["namespace"]), text(metadata["name"])}
	}
	slices.SortStableFunc(w.Objects, func(a, b map[string]any) int { return slices.Compare(key(a), key(b)) })
}

// settle replaces what varies in a recording in what lab rendered, too.
func settle(recorded, got any) any {
	switch r := recorded.(type) {
	case string:
		if _, ok := got.(string); ok && r == varies {
			return varies
		}
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			for key := range g {
				g[key] = settle(r[key], g[key])
			}
		}
	case []any:
		if g, ok := got.([]any); ok {
			for i := range min(len(r), len(g)) {
				g[i] = settle(r[i], g[i])
			}
		}
	}
	return got
}

func asYAML(t *testing.T, v any) string {
	t.Helper()
	data, err := sigsyaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// exception is a case that lab does not render as recorded.
type exception struct {
	Case    string   `json:"case"`
	Minors  []string `json:"minors,omitempty"` // all if empty
	Unknown bool     `json:"unknown"`          // lab says that it does not know
	Cause   string   `json:"cause"`
}

// TestRecorded compares what lab renders with recordings of the real repo-server: `task record-render`. Exceptions are listed in testdata/exceptions.yaml.
func TestRecorded(t *testing.T) {
	var exceptions []exception
	decodeFile(t, "testdata/exceptions.yaml", &exceptions)
	cases := casesOf(t)
	for _, e := range exceptions {
		if e.Cause == "" || !slices.ContainsFunc(cases, func(c renderCase) bool { return c.name == e.Case }) {
			t.Errorf("exceptions.yaml: %+v is not a case, or lacks a cause", e)
		}
	}
	for _, version := range versions {
		m, _ := argo.ParseMinor(version)
		equal, unknown := 0, 0
		for _, c := range cases {
			t.Run(m.String()+"/"+c.name, func(t *testing.T) {
				i := slices.IndexFunc(exceptions, func(e exception) bool {
					return e.Case == c.name && (len(e.Minors) == 0 || slices.Contains(e.Minors, m.String()))
				})
				difference, open := c.compare(t, m)
				switch {
				case difference == "" && i < 0:
					equal++
				case difference == "":
					t.Error("equals its recording, but is listed in exceptions.yaml")
				case i < 0:
					t.Error(difference)
				case exceptions[i].Unknown != open:
					t.Errorf("unknown: %t in exceptions.yaml\n%s", exceptions[i].Unknown, difference)
				case open:
					unknown++
				}
			})
		}
		t.Logf("Argo CD %s: %d of %d cases equal (%.1f %%), %d unknown", version, equal, len(cases), 100*float64(equal)/float64(len(cases)), unknown)
	}
}

// compare returns how lab differs from a recording, and whether lab says that it does not know.
func (c renderCase) compare(t *testing.T, m argo.Minor) (difference string, open bool) {
	t.Helper()
	recorded := c.want(t, m)
	if recorded == nil {
		t.Fatalf("not recorded: task record-render -- '^%s$'", c.name)
	}
	got, err := c.rendered(t, m)
	var e *Error
	if errors.As(err, &e) && (e.Remote != "" || e.Limit) {
		open = true
	}
	if (err != nil) != (recorded.Error != "") {
		return "recorded: " + cmp.Or(recorded.Error, "no error") + "\nlab: " + cmp.Or(got.Error, "no error"), open
	}
	if err != nil {
		return "", false
	}
	for i := range min(len(recorded.Objects), len(got.Objects)) {
		settle(recorded.Objects[i], got.Objects[i])
	}
	if a, b := []byte(asYAML(t, recorded)), []byte(asYAML(t, got)); !bytes.Equal(a, b) {
		return "- recorded, + lab:\n" + gocmp.Diff(string(a), string(b)), false
	}
	return "", false
}
