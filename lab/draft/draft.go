// Package draft writes an estate for existing Git repositories: the clusters that their ApplicationSets select or that
// Flux has folders for, the keys that they read, and roots that sync them.
package draft

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/bridge"
	"homelab/lab/draft/fluxroot"
	"homelab/lab/estate"
	"homelab/lab/fill"
	"homelab/lab/fluxset"
	"homelab/lab/render"
)

// Origins of a value.
const (
	Found = "found" // in the repositories, or by the bridge
	Open  = "open"  // a placeholder
)

// CodeNothing is the code of the error about repositories that deploy nothing.
const CodeNothing = "no_applications"

// Key is something that the repositories read or select clusters by: a label, an annotation, a key of a ConfigMap or
// Secret, or a whole ConfigMap or Secret.
type Key struct {
	Name  string
	In    string // ConfigMap or Secret, "configmap flux-system/settings"; empty for labels and annotations
	Label bool
	Value string
	How   string       // Found or Open
	Type  fill.Type    // of an open value
	At    lab.Position // first read
}

// Switch is an addon and whether it is enabled.
type Switch struct {
	Addon string
	On    bool
	Why   string // reason if off
	At    lab.Position
}

// Draft is an estate to be written.
type Draft struct {
	Files        fstest.MapFS
	Repositories []lab.Repository
	Clusters     []string // hub first
	Namespace    string   // of the engine; empty for the default

	Keys   []Key
	Addons []Switch
	Roots  []lab.Position // of the ApplicationSets and Applications that the root syncs
	Beside []lab.Position // of unreachable ones, which the root does not sync

	Without []Left // objects that the draft leaves out, labels that no cluster has
	Choices []Choice

	Objects bool // roots of Flux apply more than themselves

	asked   map[string]Choice // all, also of one, by About
	guessed []Known           // clusters without a registration
	made    *drafting
}

// Choice is one of several that fit equally well.
type Choice struct {
	About string // label tier of cluster prod
	Took  string
	Of    []string
	At    lab.Position // that asks for it
}

// Left is a left-out object.
type Left struct {
	At  lab.Position
	Why string
}

// Wishes are what a user wants of a draft.
type Wishes struct {
	Root     string            // FILE within a repository, or as printed; the only root
	Took     map[string]string // by Choice.About
	Clusters []Known           // of Argo CD, beside those that the repositories name

	like *drafting // another state of the same repositories: what is a guess is as there
}

// drafting is a draft in the making: what a scan found, and what follows from it.
type drafting struct {
	Draft
	scan
	graph
	wishes Wishes
	estate *lab.Estate // its clusters and environments
	keys   map[string]*Key
	answer answer // addresses and folders in annotations

	alone    bool // the hub is the only cluster
	invented bool // the spoke is not in the repositories

	remotes []target     // clusters that a Flux on the hub manages
	unbuilt []Left       // roots that Flux cannot build
	vague   []vague      // charts of Applications whose values may not be here
	unread  lab.Problems // kustomizations of charts that cannot be rendered

	budget   *render.Budget
	rendered map[string]bool // sources of Applications
	tried    map[folder]bool
	expanded map[*document]expanded
	reach    map[folder]map[string]bool // what kustomizations include
	trees    map[string]*tree           // by folder of the repository
	followed map[string]fluxset.Expansion
}

// draft begins a draft of what was scanned.
func (s scan) draft(name string, wishes Wishes) *drafting {
	s.docs, s.defined = slices.Clone(s.docs), maps.Clone(s.defined)
	s.projects, s.permitted, s.secrets, s.unnamed = slices.Clip(s.projects), slices.Clip(s.permitted), slices.Clip(s.secrets), slices.Clip(s.unnamed)
	return &drafting{
		Draft: Draft{asked: map[string]Choice{}}, scan: s, wishes: wishes, estate: &lab.Estate{Name: name, Repositories: s.repositories}, keys: map[string]*Key{}, budget: render.NewBudget(),
		rendered: map[string]bool{}, tried: map[folder]bool{}, expanded: map[*document]expanded{}, reach: map[folder]map[string]bool{},
		followed: map[string]fluxset.Expansion{},
	}
}

// New drafts an estate for repositories, in any order. Flux's folders win over Applications if there is nothing else, or if they are synced and
// nothing leads to the Applications.
func New(name string, repositories []lab.Repository, wishes Wishes) (*Draft, error) {
	s, err := scanned(repositories)
	if err != nil {
		return nil, err
	}
	ofFlux := wishes
	if like := wishes.like; like != nil {
		if _, argo := like.Files[lab.RootFile]; argo {
			ofFlux.like = nil
		} else {
			wishes.like = nil
		}
	}
	var beside []lab.Position
	roots, bootstrapped := s.flux.Roots()
	var unsure lab.Problems
	for _, left := range s.flux.Packed() {
		s.unnamed, unsure = append(s.unnamed, Left(left)), append(unsure, lab.Problem{Position: left.At, Message: left.Why})
	}
	if len(s.docs) > 0 && bootstrapped {
		d := s.draft(name, wishes)
		d.converge()
		if d.roots(); !d.leading && len(d.own) == 0 {
			beside, s.docs = positions(s.docs), nil
		}
	}
	for _, r := range s.flux.Unsure() {
		if unsure = append(unsure, lab.Problem{Position: r.At, Message: "Flux may sync its folder to a cluster, or one above it: lab init --root " + lab.Quote(r.Dir)}); wishes.Root != "" {
			roots = append(roots, r)
		}
	}
	if len(s.docs) == 0 && len(roots) > 0 {
		if wishes.Root != "" {
			roots = slices.DeleteFunc(roots, func(r fluxroot.Root) bool {
				return !wishes.isRoot(r.Repo, strings.TrimPrefix(r.At.File, r.Repo.Dir+"/")) && path.Clean(wishes.Root) != r.Dir
			})
			if len(roots) == 0 {
				roots = s.flux.Above(path.Clean(wishes.Root))
			}
			if len(roots) == 0 {
				return nil, noRoot(wishes.Root)
			}
		}
		d := s.draft(name, ofFlux)
		d.Beside = beside
		return d.fluxDraft(roots)
	}
	d := s.draft(name, wishes)
	d.Namespace = engineNamespace(d.docs)
	d.converge()
	if more := d.addresses(); len(more) > len(repositories) { // also of what nothing leads to without them
		return New(name, more, wishes)
	}
	d.follow()
	if found := engineNamespace(d.docs); found != d.Namespace { // also of what charts and kustomizations contain
		d = s.draft(name, wishes)
		d.Namespace = found
		d.follow()
	}
	if more := d.addresses(); len(more) > len(repositories) {
		return New(name, more, wishes)
	}
	if len(d.docs) == 0 {
		return nil, &lab.Error{
			Exit: lab.ExitInvalid, Code: CodeNothing, Problems: slices.Concat(d.generators(), d.unread, unsure),
			Message: "no ApplicationSet or Application in " + joinedDirs(repositories) + ", and no folder that Flux syncs to a cluster",
			Cure:    "name the repository that contains them, or a folder in which you write the first one: lab init --from DIR --from DIR NEW",
		}
	}
	if wishes.Root != "" && len(d.Roots) == 0 {
		return nil, noRoot(wishes.Root)
	}
	d.switches()
	d.namespaces()
	return d.done(d.write()), nil
}

// follow finds the clusters, keys and roots. They depend on the folders that roots render, which are added, and not on what nothing leads to, which is dropped.
func (d *drafting) follow() {
	var beside []lab.Position
	for {
		d.converge()
		if d.roots(); d.folders() {
			continue
		}
		if len(d.Beside) == 0 {
			d.Beside = append(beside, d.unlinked()...)
			return
		}
		beside = append(beside, d.Beside...)
		d.docs = slices.DeleteFunc(d.docs, func(doc *document) bool {
			for ; doc.from != nil; doc = doc.from {
			}
			return slices.Contains(d.Beside, doc.at)
		})
	}
}

// converge finds the clusters and keys, which may depend on what charts and kustomizations contain, and the reverse.
func (d *drafting) converge() {
	like := d.wishes.like
	d.alone = like != nil && like.alone
	for range deepest {
		d.guessed = nil
		d.estate.Clusters, d.estate.Environments, d.keys, d.Choices, d.Without = nil, nil, map[string]*Key{}, nil, slices.Clone(d.unnamed)
		d.search()
		d.environments()
		d.provide(d.annotations())
		d.selected()
		d.read()
		switch {
		case like == nil && !d.alone && d.perCluster():
			d.alone = true
		case d.render():
		case like == nil && !d.alone && d.idle():
			d.alone = true
		default:
			return
		}
	}
}

func (d *drafting) done(f fstest.MapFS) *Draft {
	for _, k := range d.keys {
		d.Keys = append(d.Keys, *k)
	}
	slices.SortFunc(d.Keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.In, b.In), cmp.Compare(a.Name, b.Name), cmp.Compare(fmt.Sprint(a.Label), fmt.Sprint(b.Label)))
	})
	d.Files, d.Repositories, d.Without = f, d.estate.Repositories, slices.Concat(d.Without, d.valueless(), d.doubled)
	for _, doc := range d.docs {
		if d.taken[doc] {
			d.Without = append(d.Without, doc.left...)
		}
		if d.own[doc] && d.taken[doc] && doc.app != nil {
			d.Without = append(d.Without, d.exclusions(doc).left...)
		}
	}
	for _, c := range d.estate.Clusters {
		d.Clusters = append(d.Clusters, c.Name)
	}
	d.made = d
	return &d.Draft
}

func joinedDirs(repositories []lab.Repository) string {
	var list []string
	for _, r := range repositories {
		list = append(list, r.Dir)
	}
	return strings.Join(list, ", ")
}

func (d *drafting) environment(name string) *lab.Environment {
	for i := range d.estate.Environments {
		if d.estate.Environments[i].Name == name {
			return &d.estate.Environments[i]
		}
	}
	d.estate.Environments = append(d.estate.Environments, lab.Environment{Name: name, Labels: map[string]string{}, Metadata: map[string]string{}})
	return &d.estate.Environments[len(d.estate.Environments)-1]
}

// choose returns one of the values that fit equally well, and keeps the choice.
func (d *drafting) choose(c Choice) string {
	c.Took = d.picked(c)
	d.asked[c.About] = c
	if len(c.Of) > 1 && !slices.ContainsFunc(d.Choices, func(o Choice) bool { return o.About == c.About }) {
		d.Choices = append(d.Choices, c)
	}
	return c.Took
}

// picked returns the wanted value of a choice, or the first.
func (d *drafting) picked(c Choice) string {
	if like := d.wishes.like; like != nil && like.asked[c.About].Took != "" {
		return like.asked[c.About].Took
	}
	if slices.Contains(c.Of, d.wishes.Took[c.About]) {
		return d.wishes.Took[c.About]
	}
	return c.Of[0]
}

func noRoot(file string) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "no root in " + file, Cure: "name a file with an ApplicationSet, an Application, a chart or a kustomization, or a folder that Flux syncs: init.md lists those that were found"}
}

// isRoot reports whether a file, or its folder, is the wanted root.
func (w Wishes) isRoot(r *lab.Repository, file string) bool {
	wanted, _, _ := strings.Cut(w.Root, ":")
	wanted = path.Clean(wanted)
	return wanted == file || wanted == path.Join(r.Dir, file) || wanted == path.Dir(file) || wanted == path.Join(r.Dir, path.Dir(file))
}

// note records a key at the first position where it is read.
func (d *drafting) note(k Key) {
	if _, known := d.keys[k.id()]; !known {
		d.keys[k.id()] = &k
	}
}

func positions(docs []*document) []lab.Position {
	var list []lab.Position
	for _, doc := range docs {
		list = append(list, doc.at)
	}
	return list
}

func (k Key) id() string { return k.In + fmt.Sprint(k.Label, k.Name) }

func (d *drafting) world() appset.World { return estate.World(d.estate, d.estate.Clusters) }

func (d *drafting) registered(c lab.Cluster) lab.Registration {
	return bridge.Registered(d.estate, c, d.inputs())
}

type files map[string]string

const filesMode = 0o644

func (f files) fs() fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range f {
		out[name] = &fstest.MapFile{Data: []byte(text), Mode: filesMode}
	}
	return out
}
