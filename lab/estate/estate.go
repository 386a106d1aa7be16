// Package estate strictly reads clusters, environments and addons from an estate's folders, and reports all problems
// with their positions.
package estate

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/desired"
	"homelab/lab/estate/document"
	"homelab/lab/estate/judge"
	"homelab/lab/estate/mount"
	"homelab/lab/estate/project"
	"homelab/lab/finding"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Option changes how an estate is read.
type Option func(*loader)

// WithCharts also checks that every chart used by a cluster is available.
func WithCharts(have func(lab.ChartUse) bool) Option { return func(l *loader) { l.haveChart = have } }

// WithImages maps image references to lab's components, "" for images that only a registry has.
func WithImages(component func(ref string) string) Option {
	return func(l *loader) { l.component = component }
}

// WithoutLoadBalancer rejects clusters with several control planes: kind's load balancer image is only in registries.
func WithoutLoadBalancer() Option { return func(l *loader) { l.facts.NoLoadBalancer = true } }

// Supplied returns the options for a source of images and charts. The engine fetches charts of foreign repositories.
func Supplied(from interface {
	HasChart(name, version string) bool
	ByRef(image string) string
	Origin() lab.Origin
},
) []Option {
	options := []Option{WithCharts(func(c lab.ChartUse) bool { return c.Repository != "" || from.HasChart(c.Name, c.Version) }), WithImages(from.ByRef)}
	if from.Origin() != lab.OriginRegistry {
		options = append(options, WithoutLoadBalancer())
	}
	return options
}

// Load reads the estate in fsys. dir is its absolute path on disk, or empty if embedded; name is the lab's name, part of
// every container name.
//
// On disk, fsys should be os.OpenRoot(dir).FS(), which does not follow links out of the estate: these are problems.
// All problems of the estate are returned in one *lab.Error.
func Load(fsys fs.FS, dir, name string, options ...Option) (*lab.Estate, error) {
	l, err := readAll(fsys, dir, name, options)
	if err != nil {
		return nil, err
	}
	return l.estate, nil
}

func readAll(fsys fs.FS, dir, name string, options []Option) (*loader, error) {
	l, err := inspect(fsys, dir, name, options)
	if err == nil && len(l.problems) > 0 {
		return nil, invalid(l.problems)
	}
	return l, err
}

// inspect reads an estate with or without problems.
func inspect(fsys fs.FS, dir, name string, options []Option) (*loader, error) {
	if !document.IsName(name) {
		return nil, &lab.Error{
			Exit: lab.ExitInvalid, Code: "invalid_name", Message: fmt.Sprintf("%q cannot be the name of a lab", name),
			Cure: "lower-case letters, digits and hyphens: --name NAME",
		}
	}
	l := newLoader(fsys, dir, name)
	for _, o := range options {
		o(l)
	}
	l.manifest()
	l.walk(l.values)
	if !l.isFlux() {
		l.selected()
	}
	l.facts.Reads = l.readLabels()
	l.add(judge.Clusters(l.estate, l.facts))
	l.order()
	if l.isFlux() {
		l.fluxExpand()
	} else {
		l.keep()
		l.expand()
		l.estate.LinksOut = l.mounted.LinksOut()
	}
	l.unsyncedRoots()
	l.relate()
	needs.Settle(l.estate)
	l.lackedCharts()
	l.add(judge.Estate(l.estate, l.facts))
	if l.everyEngine && len(l.problems) == 0 {
		l.elsewhere()
	}
	return l, nil
}

func newLoader(fsys fs.FS, dir, name string) *loader {
	l := &loader{files: files{fsys: fsys}, estate: &lab.Estate{Name: name, Dir: dir, FS: fsys}, facts: judge.Facts{Roles: map[string]bool{}}, parsed: map[string][]*yaml.Node{}, budget: render.NewBudget(), chartBudget: render.NewBudget()}
	l.found, l.held, l.renderings, l.projects = map[foundAt]bool{}, map[tree]contents{}, map[string]rendering{}, map[string]judge.Project{project.Default: {Known: true}}
	l.digested, l.searched, l.fetched, l.registrations = map[[2]string]string{}, map[[3]string]bool{}, map[string][]string{}, map[string]lab.Registration{}
	l.units, l.charts, l.chartFolders, l.hasFolders, l.resolve = map[string]needs.Unit{}, map[lab.ChartUse]openedChart{}, map[string]bool{}, map[string]bool{}, l.mounted.File
	l.mounted.FS, l.mounted.Dir = fsys, dir
	return l
}

// manifest reads the environments, the clusters and the addons with manifests for the engine.
func (l *loader) manifest() {
	l.environments()
	l.clusters()
	l.mounts()
	l.chooseEngine()
	l.kubeconfigSecrets()
	if l.isFlux() {
		l.fluxAddons()
		return
	}
	l.root()
	l.addons()
	l.describe() // twice, as the bridge contains the namespaces of addons
	l.describe()
}

// DefaultName returns the name of a lab whose estate is in dir.
func DefaultName(dir string) string {
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(filepath.Base(dir)), "-")
	name = strings.Trim(name[:min(len(name), 30)], "-")
	if name == "" {
		return "homelab"
	}
	return name
}

type loader struct {
	files
	estate *lab.Estate
	engine lab.EngineType // overrides the hub's, unless empty
	asked  Asked          // overrides the hub's version

	component   func(ref string) string // nil if unknown
	ungenerated bool                    // skip lab's files for Flux
	everyEngine bool                    // also read the other engine's addons
	other       *loader
	haveChart   func(lab.ChartUse) bool
	openChart   func(lab.ChartUse) (lab.ChartFiles, error) // nil if no chart can be read
	charts      map[lab.ChartUse]openedChart

	chartFolders map[string]bool // names of the trees of charts, NAME-VERSION

	mounted mount.Mounts
	earlier []lab.Cluster // see WithLeft

	parsed   map[string][]*yaml.Node // documents, by file
	rootDocs []*yaml.Node
	badRoot  bool
	sets     []set
	plain    []plainApplication
	found    map[foundAt]bool // Applications and ApplicationSets reached from the root

	projects map[string]judge.Project // reached from the root
	unsure   bool                     // unknown sources may contain more

	held       map[tree]contents
	units      map[string]needs.Unit // by Application, for Argo CD
	roots      []tree
	renderings map[string]rendering
	hasFolders map[string]bool
	apps       []desired.App
	digested   map[[2]string]string // of files and folders in trees
	searched   map[[3]string]bool   // files and folders that may contain a word
	fetched    map[string][]string  // addresses, by source

	registrations map[string]lab.Registration // by cluster
	templates     render.Templates            // of charts, for all renderings

	rendered    int            // charts and kustomizations so far
	budget      *render.Budget // of all renderings
	chartBudget *render.Budget // of those of charts of chart repositories: they are not the estate's, which is valid however large they are
	endless     bool           // limit reported

	facts judge.Facts
}

// documents reads lab's document in each folder of dir.
func (l *loader) documents(dir, name string, read func(folder, file string, data []byte)) (found bool) {
	folders, _ := l.folders(dir)
	for _, folder := range folders {
		file := path.Join(dir, folder, name)
		if !l.exists(file) {
			l.misnamed(path.Join(dir, folder), name)
			continue
		}
		if data := l.read(file); data == nil {
			found = true // unreadable, which is reported
		} else if !document.IsForeign(file, data) {
			found = true
			read(folder, file, data)
		}
	}
	return found
}

// misnamed notes a folder whose document seems misnamed.
func (l *loader) misnamed(dir, name string) {
	entries, _ := fs.ReadDir(l.fsys, dir)
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	switch near := strict.Closest(name, names); {
	case near != "":
		l.note(finding.NotRead, lab.Position{File: path.Join(dir, near)}, "is not read", "lab reads "+name)
	case len(entries) == 0 && l.inside(dir):
		l.note(finding.NotRead, lab.Position{File: path.Join(dir, name)}, "does not exist: the folder is empty", "")
	}
}

func (l *loader) environments() {
	l.documents(lab.EnvironmentsDir, "environment.yaml", func(folder, file string, data []byte) {
		e, problems := document.Environment(file, data)
		l.problems = append(l.problems, problems...)
		e.Name = folder // document reported a mismatch
		l.estate.Environments = append(l.estate.Environments, e)
	})
}

func (l *loader) clusters() {
	found := l.documents(lab.ClustersDir, "cluster.yaml", func(folder, file string, data []byte) {
		c, problems := document.Cluster(file, data, l.estate.Dir)
		l.problems = append(l.problems, problems...)
		l.facts.Roles[folder] = c.Role != ""
		if c.Name != folder && document.IsName(c.Name) && l.exists(lab.ClusterFile(c.Name)) {
			l.at(finding.DuplicateName, c.Position("metadata.name"), fmt.Sprintf("a second cluster %s", c.Name), "the name is taken by "+lab.ClusterFile(c.Name))
		}
		c.Name = folder
		l.estate.Clusters = append(l.estate.Clusters, c)
	})
	if !found {
		l.fail(lab.ClusterFile("hub"), "no clusters: an estate has at least a hub", "lab init DIR writes a starter estate")
	}
}

// addons finds the ApplicationSets reached from the root, and checks other manifests in the addons folder.
func (l *loader) addons() {
	l.follow()
	folders, _ := l.folders(lab.AddonsDir)
	for _, file := range l.manifests(lab.AddonsDir) {
		if file != lab.RootFile {
			l.checkManifest(file)
		}
	}
	for _, folder := range folders {
		dir := path.Join(lab.AddonsDir, folder)
		if a, ok := l.estate.Addon(folder); ok && len(a.Sets) > 0 && (!document.IsName(folder) || len(folder) > 53) {
			l.fail(dir, fmt.Sprintf("%q cannot be the name of an addon", folder), "lower-case letters, digits and hyphens, at most 53 as for a Helm release")
		}
		sets := 0
		for _, file := range l.manifests(dir) {
			sets += l.checkManifest(file)
		}
		wrong := slices.ContainsFunc(l.problems, func(p lab.Problem) bool { return p.File == dir || strings.HasPrefix(p.File, dir+"/") })
		file := path.Join(dir, "applicationset.yaml")
		switch {
		case sets > 0 || wrong || !l.inside(dir):
		case l.exists(file) && len(l.documentsOf(file)) == 0:
			l.fail(file, "the file is empty", "write an ApplicationSet")
		case l.toggled(folder):
			l.fail(file, "does not exist", "clusters enable the addon")
		}
	}
}

// checkManifest checks a manifest's paths, notes what generates applications but is unreachable from the root, and counts all ApplicationSets.
func (l *loader) checkManifest(file string) (sets int) {
	if l.inChart(file) {
		return 0 // not YAML until rendered
	}
	for _, doc := range l.documentsOf(file) {
		kind, at := strict.Text(doc, "kind"), strict.Position(file, doc)
		if kind == "ApplicationSet" { // paths of sets are checked in their Applications
			sets++
		} else {
			l.problems = append(l.problems, escapes(file, doc)...)
		}
		if strings.HasPrefix(strict.Text(doc, "apiVersion"), argo.Group) && (kind == "ApplicationSet" || kind == "Application") && !l.found[foundAt{at, kind, strict.Text(doc, "metadata", "name")}] {
			l.note(finding.NotRead, at, "no Application of "+lab.RootFile+" syncs this "+kind, "")
		}
	}
	return sets
}

// documentsOf returns the documents of a manifest, and records its problems.
func (l *loader) documentsOf(file string) []*yaml.Node {
	if docs, ok := l.parsed[file]; ok {
		return docs
	}
	var docs []*yaml.Node
	if data := l.read(file); data != nil {
		var problems lab.Problems
		docs, problems = strict.Parse(file, data)
		l.problems = append(l.problems, problems...)
	}
	l.parsed[file] = docs
	return docs
}

// reads returns the labels and annotations that a set requires.
func reads(s *appset.Set) []lab.Read {
	var list []lab.Read
	for _, ref := range s.Refs() {
		if ref.Guarded || len(ref.Path) != 3 || ref.Path[0] != "metadata" || ref.Path[1] != "labels" && ref.Path[1] != "annotations" {
			continue
		}
		r := lab.Read{Key: ref.Path[2], Label: ref.Path[1] == "labels", At: ref.Position}
		if !slices.ContainsFunc(list, func(x lab.Read) bool { return x.Key == r.Key && x.Label == r.Label }) {
			list = append(list, r)
		}
	}
	return list
}

// set records the name of an ApplicationSet, which must be unique.
func (l *loader) set(addon *lab.Addon, file string, doc *yaml.Node) {
	name := strict.Text(doc, "metadata", "name")
	if name == "" {
		l.at(finding.InvalidField, strict.Position(file, doc), "metadata.name is missing", "")
		return
	}
	for _, other := range append(l.estate.Addons, *addon) {
		if slices.Contains(other.Sets, name) {
			l.at(finding.DuplicateName, strict.Position(file, strict.Get(doc, "metadata", "name")), fmt.Sprintf("a second ApplicationSet %s", name), "the name is taken by "+other.File)
		}
	}
	addon.Sets = append(addon.Sets, name)
}

// values checks a values file and its addon's name.
func (l *loader) values(file string) {
	m := regexp.MustCompile(`^(?:clusters|environments)/[^/]+/addons/([^/]+)/[^/]+\.ya?ml$`).FindStringSubmatch(file)
	if m == nil {
		return
	}
	for _, doc := range l.documentsOf(file) {
		if doc.Kind != yaml.MappingNode {
			l.problems = append(l.problems, lab.Problem{Code: finding.InvalidValues, Position: strict.Position(file, doc), Message: "values are a mapping, not " + strict.KindOf(doc)})
		}
	}
	l.add(judge.Values(l.estate, m[1], file))
}
