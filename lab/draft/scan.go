package draft

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/draft/field"
	"homelab/lab/draft/fluxroot"
	"homelab/lab/draft/terraform"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// document is an ApplicationSet or an Application of a repository.
type document struct {
	repo *lab.Repository
	file string // within the repository
	node *yaml.Node
	at   lab.Position
	set  *appset.Set      // nil for an Application
	app  *appset.Template // nil for an ApplicationSet
	uses []use
	from *document // whose chart or kustomization generated it, or nil

	values  Choice       // of a folder: the value file of its chart
	folder  bool         // an Application of lab's for a folder that no other syncs; file is its Chart.yaml or kustomization
	patches []*yaml.Node // of a folder: they delete what is not Argo CD's
	left    []Left       // that
}

// template returns the Application, or that of a set.
func (doc *document) template() *appset.Template {
	if doc.set != nil {
		return &doc.set.Spec.Template
	}
	return doc.app
}

// title identifies the object.
func (doc *document) title() string {
	return strict.Title(doc.node)
}

// use is a reference to a label or annotation in a template.
type use struct {
	key     string
	label   bool
	guarded bool
	decides bool   // what is generated, or from which folder
	field   string // of the text: repoURL, path, valueFiles
	text    string
	address string   // repoURL of the source or generator that it is in
	dir     string   // path of the source
	value   []string // keys of the chart's value that it is
	doc     *document
	at      lab.Position
}

var engineGroups = []string{argo.Group, "toolkit.fluxcd.io/", "fluxcd.controlplane.io/"}

// mostFiles is the maximum number of files in a repository.
const mostFiles = 20_000

// mostBytes is the maximum size of a file that is read.
const mostBytes = 10 << 20

// skipped are the names of folders without manifests of the repository's own.
var skipped = []string{".git", ".github", ".gitlab", ".terraform", "node_modules", "vendor"}

// manifests are the extensions of files with manifests.
var manifests = []string{".yaml", ".yml", ".json"}

// scan is what is in the files of repositories.
type scan struct {
	repositories           []lab.Repository
	docs                   []*document
	unnamed                []Left               // documents whose name or namespace is invalid, such as a placeholder, and what syncs artifacts
	secrets                []target             // registered clusters
	projects               []string             // names
	permitted              []appset.Destination // by these
	defined                map[string]bool      // namespaces with a manifest
	charts, kustomizations []folder
	includes               map[folder][]string    // local folders and files in kustomizations
	templates              map[folder][]*document // documents in the templates of charts
	flux                   fluxroot.Candidates
	types                  *field.Types
	terraform              map[string][]string // values that Terraform gives annotations
}

// scanned scans repositories, each once if it has several addresses.
func scanned(repositories []lab.Repository) (scan, error) {
	key := map[string]string{} // by folder: further addresses stay after the first
	for _, r := range slices.Backward(repositories) {
		key[r.Dir] = lab.RepositoryKey(r.URL)
	}
	s := scan{repositories: slices.Clone(repositories), defined: map[string]bool{}, templates: map[folder][]*document{}, includes: map[folder][]string{}, types: field.New(), terraform: map[string][]string{}}
	slices.SortStableFunc(s.repositories, func(a, b lab.Repository) int {
		return cmp.Or(cmp.Compare(key[a.Dir], key[b.Dir]), cmp.Compare(a.Dir, b.Dir))
	})
	for i := range s.repositories {
		if r := &s.repositories[i]; i == 0 || r.Dir != s.repositories[i-1].Dir {
			if err := s.walk(r); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// walk adds the files of a repository. Invalid YAML is ignored as a template.
func (s *scan) walk(r *lab.Repository) error {
	looked := 0
	texts := map[string][]string{} // Terraform's files by folder
	err := fs.WalkDir(r.FS, ".", func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", path.Join(r.Dir, file), err)
		case e.IsDir():
			if slices.Contains(skipped, e.Name()) {
				return fs.SkipDir
			}
			return nil
		case e.Type().IsRegular() && e.Name() == "Chart.yaml":
			if dir := path.Dir(file); path.Base(path.Dir(dir)) != "charts" || !isChart(r, path.Dir(path.Dir(dir))) { // no subchart
				s.charts = append(s.charts, folder{r, dir, file})
			}
			return nil
		case e.Type().IsRegular() && slices.Contains(render.Kustomizations, e.Name()):
			k := folder{r, path.Dir(file), file}
			s.kustomizations, s.includes[k] = append(s.kustomizations, k), listed(k, "resources", "bases", "components")
			return nil
		case e.Type().IsRegular() && terraform.Is(file):
			texts[path.Dir(file)] = append(texts[path.Dir(file)], file)
			return nil
		case !e.Type().IsRegular() || !slices.Contains(manifests, path.Ext(file)):
			return nil
		}
		if looked++; looked > mostFiles {
			return &lab.Error{Exit: lab.ExitInvalid, Code: "too_large", Message: fmt.Sprintf("%s has more than %d manifests", r.Dir, mostFiles), Cure: "name the folder in it that contains the ApplicationSets"}
		}
		info, err := e.Info()
		if err != nil || info.Size() > mostBytes {
			return err
		}
		data, err := fs.ReadFile(r.FS, file)
		if err != nil {
			return fmt.Errorf("%s: %w", path.Join(r.Dir, file), err)
		}
		if text := string(data); slices.ContainsFunc(engineGroups, func(group string) bool { return strings.Contains(text, group) }) || strings.Contains(text, "Namespace") || strings.Contains(text, "CustomResourceDefinition") {
			s.documents(r, file, data)
		}
		return nil
	})
	for _, files := range texts {
		for name, list := range terraform.Texts(r.FS, files) {
			s.terraform[name] = append(s.terraform[name], list...)
		}
	}
	return err
}

var (
	generates = regexp.MustCompile(`\bkind['"]?\s*[:=]\s*['"]?Application(Set)?\b`)
	installs  = regexp.MustCompile(`\b(name|chart)['"]?\s*[:=]\s*['"]?(\S+/)?` + argo.AppsChart + `\b|\bresource\s+"` + argo.TerraformApplication + `(_set)?"`) // a chart that makes them of values, and Terraform's provider
)

// generators returns where files that are no manifests make Applications: Jsonnet, charts without values for it, templates of Terraform.
func (d *drafting) generators() lab.Problems {
	var problems lab.Problems
	left := d.valueless()
	for _, l := range left {
		problems = append(problems, lab.Problem{Position: l.At, Message: l.Why})
	}
	for _, r := range d.repositories {
		_ = fs.WalkDir(r.FS, ".", func(file string, e fs.DirEntry, err error) error { // walk reports errors
			if err == nil && e.IsDir() && slices.Contains(skipped, e.Name()) {
				return fs.SkipDir
			}
			if err != nil || !e.Type().IsRegular() || path.Ext(file) == ".md" {
				return nil //nolint:nilerr // see above
			}
			if info, err := e.Info(); err != nil || info.Size() > mostBytes {
				return nil //nolint:nilerr // see above
			}
			if slices.ContainsFunc(left, func(l Left) bool { return strings.HasPrefix(path.Join(r.Dir, file), path.Dir(l.At.File)+"/") }) {
				return nil // as above
			}
			data, err := fs.ReadFile(r.FS, file)
			at := generates.FindIndex(data)
			if !bytes.Contains(data, []byte(argo.Group)) {
				at = installs.FindIndex(data)
			}
			if err == nil && at != nil {
				p := lab.Problem{Position: lab.Position{File: path.Join(r.Dir, file), Line: 1 + bytes.Count(data[:at[0]], []byte("\n"))}, Message: "makes Applications, but is no manifest"}
				if _, err := render.Parse(path.Base(file), data); err != nil && slices.Contains(manifests, path.Ext(file)) {
					p.Message += ": " + err.Error()
				}
				problems = append(problems, p)
			}
			return nil
		})
	}
	return problems
}

// isChart reports whether a folder is a chart.
func isChart(r *lab.Repository, dir string) bool {
	_, err := fs.Stat(r.FS, path.Join(dir, "Chart.yaml"))
	return err == nil
}

func (s *scan) documents(r *lab.Repository, file string, data []byte) {
	docs, err := render.Parse(path.Join(r.Dir, file), data)
	if err != nil {
		return
	}
	for _, doc := range docs {
		s.add(r, file, strict.Items(doc.Node), nil)
	}
}

// add keeps documents of the engines' kinds, and the names of namespaces.
func (s *scan) add(r *lab.Repository, file string, docs []*yaml.Node, from *document) {
	name := path.Join(r.Dir, file)
	for _, n := range docs {
		if from == nil {
			s.flux.Add(r, file, n)
		}
		switch kind := strict.Text(n, "kind"); {
		case kind == "CustomResourceDefinition":
			s.types.Define(n)
		case kind == "Namespace":
			s.defined[strict.Text(n, "metadata", "name")] = true
		case s.chartOf(r, file) == nil || from != nil && kind != "Secret":
			switch t, problem := registered(name, n); {
			case problem != "":
				s.unnamed = append(s.unnamed, Left{At: strict.Position(name, n), Why: problem})
			case t.name != "":
				s.secrets = append(s.secrets, t)
			}
		}
		if !strings.HasPrefix(strict.Text(n, "apiVersion"), argo.Group) {
			continue
		}
		doc := &document{repo: r, file: file, node: n, at: strict.Position(name, n), from: from}
		var problems lab.Problems
		switch strict.Text(n, "kind") {
		case "AppProject":
			s.projects = append(s.projects, strict.Text(n, "metadata", "name"))
			for _, destination := range strict.List(n, "spec", "destinations") {
				s.permitted = append(s.permitted, appset.Destination{Server: strict.Text(destination, "server"), Name: strict.Text(destination, "name")})
			}
			continue
		case "ApplicationSet":
			doc.set, problems = appset.Parse(name, n)
		case "Application":
			doc.app, problems = appset.ParseApplication(name, n)
		default:
			continue
		}
		if len(problems) > 0 || doc.set == nil && doc.app == nil {
			continue // invalid; lab up reports it if the root reaches it
		}
		if doc.set != nil {
			doc.uses = usesOf(doc)
		}
		if chart := s.chartOf(r, file); chart != nil && from == nil {
			s.templates[*chart] = append(s.templates[*chart], doc)
			continue
		}
		if name := strict.Text(n, "metadata", "name"); from == nil && len(validation.IsDNS1123Subdomain(name)) > 0 { // Argo CD would sync nothing that is beside it
			s.unnamed = append(s.unnamed, Left{At: doc.at, Why: fmt.Sprintf("its name is %q", name)})
			continue
		}
		if ns := strict.Text(n, "metadata", "namespace"); from == nil && ns != "" && len(validation.IsDNS1123Label(ns)) > 0 {
			s.unnamed = append(s.unnamed, Left{At: doc.at, Why: fmt.Sprintf("its namespace is %q", ns)})
			continue
		}
		s.docs = append(s.docs, doc)
	}
}

// chartOf returns the chart that a file is a template of, or nil.
func (s *scan) chartOf(r *lab.Repository, file string) *folder {
	i := slices.IndexFunc(s.charts, func(c folder) bool { return c.repo == r && strings.HasPrefix(file, path.Join(c.dir, "templates")+"/") })
	if i < 0 {
		return nil
	}
	return &s.charts[i]
}

// enable is the start of labels that enable addons.
const enable = "enable_"

// switches returns the labels in the selectors of a set that enable addons.
func (doc *document) switches() []string {
	if doc.set == nil {
		return nil
	}
	var list []string
	for _, s := range doc.set.Selectors() {
		for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
			if strings.HasPrefix(key, enable) && s.MatchLabels[key] == "true" {
				list = append(list, key)
			}
		}
		for _, e := range s.MatchExpressions {
			if strings.HasPrefix(e.Key, enable) && (e.Operator == metav1.LabelSelectorOpIn && slices.Contains(e.Values, "true") || e.Operator == metav1.LabelSelectorOpExists) {
				list = append(list, e.Key)
			}
		}
	}
	return list
}

// usesOf returns the references to labels and annotations in an ApplicationSet's templates.
func usesOf(doc *document) []use {
	fields := map[lab.Position]use{}
	var walk func(n *yaml.Node, of use)
	walk = func(n *yaml.Node, of use) {
		switch n.Kind {
		case yaml.MappingNode:
			if address := strict.Text(n, "repoURL"); address != "" {
				of.address, of.dir = address, strict.Text(n, "path")
			}
			for i := 0; i+1 < len(n.Content); i += 2 {
				inner := of
				inner.field = n.Content[i].Value
				inner.decides = of.decides || inner.field == "generators" || inner.field == "path" || inner.field == "repoURL"
				switch {
				case of.value != nil:
					inner.value = append(slices.Clone(of.value), inner.field)
				case inner.field == "valuesObject":
					inner.value = []string{}
				case inner.field == "value" && of.field == "parameters":
					inner.value = strings.Split(strict.Text(n, "name"), ".")
				}
				walk(n.Content[i+1], inner)
			}
		case yaml.ScalarNode:
			of.text = n.Value
			fields[strict.Position(doc.set.File, n)] = of
		default:
			for _, c := range n.Content {
				walk(c, of)
			}
		}
	}
	walk(doc.node, use{})
	var list []use
	for _, ref := range doc.set.Refs() {
		if len(ref.Path) != 3 || ref.Path[0] != "metadata" || ref.Path[1] != "labels" && ref.Path[1] != "annotations" {
			continue
		}
		u := fields[ref.Position]
		u.key, u.label, u.guarded, u.doc, u.at = ref.Path[2], ref.Path[1] == "labels", ref.Guarded && !ref.Branch && !(ref.Silent && u.decides), doc, ref.Position
		list = append(list, u)
	}
	return list
}
