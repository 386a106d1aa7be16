// Package estate reads an estate from its folders: clusters, environments and addons, strictly, with all problems at once and each with its place.
package estate

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/strict"
)

// Option changes how an estate is read.
type Option func(*loader)

// WithCharts also checks that every chart that a cluster of the estate gets can be had.
func WithCharts(have func(Chart) bool) Option { return func(l *loader) { l.haveChart = have } }

// WithImages distinguishes images that lab has, and their components, from those that only a registry has.
func WithImages(component func(ref string) string) Option {
	return func(l *loader) { l.component = component }
}

// WithoutLoadBalancer refuses clusters of several control planes: kind puts a load balancer before them, whose image only registries have.
func WithoutLoadBalancer() Option { return func(l *loader) { l.noLoadBalancer = true } }

// Supplied is what an estate can have where images and charts come from somewhere. A chart from a repository that is not lab's is the engine's to fetch.
func Supplied(from interface {
	HasChart(name, version string) bool
	ByRef(image string) string
	Origin() lab.Origin
},
) []Option {
	options := []Option{WithCharts(func(c Chart) bool { return c.Repository != "" || from.HasChart(c.Name, c.Version) }), WithImages(from.ByRef)}
	if from.Origin() != lab.OriginRegistry {
		options = append(options, WithoutLoadBalancer())
	}
	return options
}

// Load reads the estate in fsys. dir is its absolute path on disk, empty for an embedded one; name is the lab's name, which is part of every container's.
//
// On disk, let fsys be os.OpenRoot(dir).FS(): links that lead out of the estate are problems then, and never followed.
// Everything wrong with the estate comes as lab.Problems in one *lab.Error.
func Load(fsys fs.FS, dir, name string, options ...Option) (*lab.Estate, error) {
	if !isLabel(name) {
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
	l.hub()
	if !l.isFlux() {
		l.selected()
	}
	for _, c := range l.estate.Clusters {
		l.cluster(c)
	}
	l.order()
	if l.isFlux() {
		l.fluxExpand()
	} else {
		l.expand()
	}
	l.idle()
	l.ports()
	l.leavesOut()
	l.servers()
	l.pulled()
	if l.haveChart != nil {
		l.problems = append(l.problems, CheckCharts(l.estate, l.haveChart)...)
	}
	if len(l.problems) > 0 {
		return nil, invalid(l.problems)
	}
	if l.everyEngine {
		l.elsewhere()
	}
	return l.estate, nil
}

func newLoader(fsys fs.FS, dir, name string) *loader {
	l := &loader{files: files{fsys: fsys}, estate: &lab.Estate{Name: name, Dir: dir, FS: fsys}, roles: map[string]bool{}, parsed: map[string][]*yaml.Node{}}
	l.found, l.held, l.renderings, l.projects = map[foundAt]bool{}, map[tree]holding{}, map[string]rendering{}, map[string]*project{defaultProject: nil}
	l.beyond = l.mountOf
	return l
}

// manifest reads the clusters, and the addons that the engine has manifests of.
func (l *loader) manifest() {
	l.environments()
	l.clusters()
	l.mounts()
	l.chosen()
	if l.isFlux() {
		l.fluxAddons()
		return
	}
	l.root()
	l.addons()
	l.describe() // an addon's namespace is part of what the bridge says of it
	l.describe()
}

// DefaultName is the name of a lab whose estate lies in dir.
func DefaultName(dir string) string {
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(filepath.Base(dir)), "-")
	name = strings.Trim(name[:min(len(name), 30)], "-")
	if name == "" {
		return "homelab"
	}
	return name
}

func invalid(ps lab.Problems) error {
	ps.Sort()
	ps = slices.Compact(ps) // clusters of one environment find its problems once each
	count := "1 problem"
	if len(ps) > 1 {
		count = fmt.Sprintf("%d problems", len(ps))
	}
	return &lab.Error{Exit: lab.ExitInvalid, Code: "invalid_estate", Message: count + " in the estate, nothing was touched", Problems: bounded(ps)}
}

// bounded keeps the first problems of each file: beyond them a file is not what it was taken for, and the other files' would be lost in the crowd.
func bounded(ps lab.Problems) lab.Problems {
	const most = 50
	inFile := map[string]int{}
	for _, p := range ps {
		inFile[p.File]++
	}
	var kept lab.Problems
	seen := map[string]int{}
	for _, p := range ps {
		switch seen[p.File]++; {
		case seen[p.File] <= most:
			kept = append(kept, p)
		case seen[p.File] == most+1:
			p.Message, p.Cure = fmt.Sprintf("and %d more in this file", inFile[p.File]-most), ""
			kept = append(kept, p)
		}
	}
	return kept
}

type loader struct {
	files
	estate *lab.Estate
	engine lab.EngineType // asked for; empty for the estate's own

	component   func(ref string) string // nil if nothing is known of images
	ungenerated bool                    // lab's files for Flux are about to be written
	everyEngine bool                    // addons of the other engine are asked for too
	other       *loader
	haveChart   func(Chart) bool
	mounted     []lab.Repository // by another reading
	others      revisions        // of mounted repositories that are read

	parsed   map[string][]*yaml.Node // documents, by file
	rootDocs []*yaml.Node
	badRoot  bool
	sets     []set
	plain    []plainApplication
	found    map[foundAt]bool // every Application and ApplicationSet that the root leads to

	projects map[string]*project // that the root brings; nil permits everything
	unsure   bool                // part of what it leads to is not known, and may have more of them

	held       map[tree]holding
	renderings map[string]rendering

	rendered    int           // charts and kustomizations so far
	renderedFor time.Duration // how long that took
	endless     bool          // reported as too much

	noLoadBalancer bool

	roles map[string]bool // cluster -> its role could be read
}

// documents reads the document of every folder in dir that has one of lab's.
func (l *loader) documents(dir, document string, read func(folder, file string, data []byte)) (found bool) {
	folders, _ := l.folders(dir)
	for _, folder := range folders {
		file := path.Join(dir, folder, document)
		if !l.exists(file) {
			l.misnamed(path.Join(dir, folder), document)
			continue
		}
		if data := l.read(file); data == nil {
			found = true // what it holds was not to be read, which is noted
		} else if !foreign(file, data) {
			found = true
			read(folder, file, data)
		}
	}
	return found
}

// misnamed reports a folder whose document seems to have another name.
func (l *loader) misnamed(dir, document string) {
	entries, _ := fs.ReadDir(l.fsys, dir)
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	switch near := strict.Closest(document, names); {
	case near != "":
		l.note(lab.Position{File: path.Join(dir, near)}, "is not read", "lab reads "+document)
	case len(entries) == 0 && l.inside(dir):
		l.note(lab.Position{File: path.Join(dir, document)}, "is not there: the folder is empty", "")
	}
}

// foreign reports whether a document is another tool's.
func foreign(file string, data []byte) bool {
	docs, problems := strict.Parse(file, data)
	if len(problems) > 0 || len(docs) == 0 {
		return false
	}
	is, kind := text(docs[0], "apiVersion"), text(docs[0], "kind")
	group, _, _ := strings.Cut(is, "/")
	near := strict.Closest(is, []string{APIVersion}) != "" || strict.Closest(kind, []string{"Cluster", "Environment"}) != ""
	return strings.Contains(group, ".") || is != "" && group != "lab" && !near
}

func (l *loader) environments() {
	l.documents(lab.EnvironmentsDir, "environment.yaml", func(folder, file string, data []byte) {
		e, problems := readEnvironment(file, data)
		l.problems = append(l.problems, problems...)
		e.Name = folder // what it calls itself was checked
		l.estate.Environments = append(l.estate.Environments, e)
	})
}

func (l *loader) clusters() {
	found := l.documents(lab.ClustersDir, "cluster.yaml", func(folder, file string, data []byte) {
		c, problems := readCluster(file, data, l.estate.Dir)
		l.problems = append(l.problems, problems...)
		l.roles[folder] = c.Role != ""
		if c.Name != folder && isLabel(c.Name) && l.exists(lab.ClusterFile(c.Name)) {
			l.problems = append(l.problems, lab.Problem{
				Position: c.Position("metadata.name"), Message: fmt.Sprintf("a second cluster %s", c.Name),
				Cure: "the name is taken by " + lab.ClusterFile(c.Name),
			})
		}
		c.Name = folder
		l.estate.Clusters = append(l.estate.Clusters, c)
	})
	if !found {
		l.fail(lab.ClusterFile("hub"), "no clusters: an estate has a hub at least", "lab init DIR writes an estate to start from")
	}
}

// addons finds the ApplicationSets that the root leads to, and looks at what else lies in the folder of addons.
func (l *loader) addons() {
	l.follow()
	folders, _ := l.folders(lab.AddonsDir)
	for _, file := range l.manifests(lab.AddonsDir) {
		if file != lab.RootFile {
			l.beside(file)
		}
	}
	for _, folder := range folders {
		dir := path.Join(lab.AddonsDir, folder)
		if a, ok := l.estate.Addon(folder); ok && len(a.Sets) > 0 && (!isLabel(folder) || len(folder) > 53) {
			l.fail(dir, fmt.Sprintf("%q cannot be the name of an addon", folder), "lower-case letters, digits and hyphens, at most 53 as for a Helm release")
		}
		sets := 0
		for _, file := range l.manifests(dir) {
			sets += l.beside(file)
		}
		wrong := slices.ContainsFunc(l.problems, func(p lab.Problem) bool { return p.File == dir || strings.HasPrefix(p.File, dir+"/") })
		file := path.Join(dir, "applicationset.yaml")
		switch {
		case sets > 0 || wrong || !l.inside(dir):
		case l.exists(file) && len(l.documentsOf(file)) == 0:
			l.fail(file, "the file is empty", "it holds an ApplicationSet")
		case l.spokenOf(folder):
			l.fail(file, "is not there", "clusters switch the addon on")
		}
	}
}

// beside checks the paths of a manifest, and reports ApplicationSets in it that no root leads to. It returns how many sets there are.
func (l *loader) beside(file string) (sets int) {
	if l.inChart(file) {
		return 0 // and no manifest before it is rendered
	}
	for _, doc := range l.documentsOf(file) {
		if text(doc, "kind") != "ApplicationSet" { // what those make is looked at when it is known
			l.problems = append(l.problems, escapes(file, doc)...)
			continue
		}
		sets++
		at := strict.Position(file, doc)
		if !l.found[foundAt{at, "ApplicationSet", text(doc, "metadata", "name")}] {
			l.note(at, "no Application of "+lab.RootFile+" syncs this ApplicationSet", "")
		}
	}
	return sets
}

// documentsOf are the documents of a manifest, its problems noted.
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

// reads are the labels and annotations that a set cannot do without.
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

// set notes the name of an ApplicationSet, which no other may have: the engine would have one of the two.
func (l *loader) set(addon *lab.Addon, file string, doc *yaml.Node) {
	name := text(doc, "metadata", "name")
	if name == "" {
		l.at(strict.Position(file, doc), "metadata.name is missing", "")
		return
	}
	for _, other := range append(l.estate.Addons, *addon) {
		if slices.Contains(other.Sets, name) {
			l.at(strict.Position(file, get(doc, "metadata", "name")), fmt.Sprintf("a second ApplicationSet %s", name), "the name is taken by "+other.File)
		}
	}
	addon.Sets = append(addon.Sets, name)
}

// values checks that a values file is one, and that it is not for an addon that is misspelt, which the engine would never say.
func (l *loader) values(file string) {
	m := regexp.MustCompile(`^(?:clusters|environments)/[^/]+/addons/([^/]+)/[^/]+\.ya?ml$`).FindStringSubmatch(file)
	if m == nil {
		return
	}
	for _, doc := range l.documentsOf(file) {
		if doc.Kind != yaml.MappingNode {
			l.problems = append(l.problems, lab.Problem{Position: strict.Position(file, doc), Message: "values are a mapping, not " + strict.KindOf(doc)})
		}
	}
	names := l.addonNames()
	if best := strict.Closest(m[1], names); best != "" && best != m[1] && !slices.Contains(names, m[1]) {
		l.note(lab.Position{File: file}, fmt.Sprintf("values for an addon %s that is not there", m[1]), fmt.Sprintf("did you mean %q?", best))
	}
}

func (l *loader) addonNames() []string {
	var names []string
	for _, a := range l.estate.Addons {
		names = append(names, a.Name)
		if a.Chart != "" && a.Chart != a.Name {
			names = append(names, a.Chart)
		}
	}
	return names
}
