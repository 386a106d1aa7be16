// Package fluxroot finds the roots of Flux in repositories: the folders that it syncs to clusters. It writes them as the manifests with which a cluster of the lab
// does the same.
package fluxroot

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/draft/manifest"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Candidates are the objects of Flux in repositories that may be or lead to roots.
type Candidates struct {
	kustomizations []synced
	repositories   []synced // GitRepositories
	instances      []synced // specs of FluxInstances, of Flux Operator
	releases       []synced // HelmReleases, which may be patches

	packed []packed // known once all are added
	unsure []Root
}

type synced struct {
	repo *lab.Repository
	file string // within the repository
	node *yaml.Node
	at   lab.Position
}

// syncs returns the folder of a Kustomization, "." for the whole repository.
func (d synced) syncs() string {
	return path.Clean(strings.TrimPrefix(path.Join("/", strict.Text(d.node, "spec", "path")), "/"))
}

// ofArtifact reports whether a Kustomization reads something that was pushed, possibly a folder of a repository, and not a repository.
func (d synced) ofArtifact() bool {
	return strict.Text(d.node, "spec", "sourceRef", "kind") != "GitRepository"
}

// Add keeps an object of a file, if it is of Flux.
func (s *Candidates) Add(r *lab.Repository, file string, n *yaml.Node) {
	group, _, _ := strings.Cut(strict.Text(n, "apiVersion"), "/")
	doc := synced{repo: r, file: file, node: n, at: strict.Position(path.Join(r.Dir, file), n)}
	switch kind := strict.Text(n, "kind"); {
	case group == "kustomize.toolkit.fluxcd.io" && kind == "Kustomization":
		s.kustomizations = append(s.kustomizations, doc)
	case group == "source.toolkit.fluxcd.io" && kind == "GitRepository":
		s.repositories = append(s.repositories, doc)
	case group == "fluxcd.controlplane.io" && kind == "FluxInstance":
		doc.node = strict.Get(n, "spec")
		s.instances = append(s.instances, doc)
	case group == "helm.toolkit.fluxcd.io" && kind == "HelmRelease":
		s.releases = append(s.releases, doc)
		if doc.node = strict.Get(strict.Get(strict.Get(n, "spec"), "values"), "instance"); strict.Get(doc.node, "sync") != nil { // of the chart flux-instance
			s.instances = append(s.instances, doc)
		}
	}
}

// Free returns a name that no Kustomization or GitRepository has.
func (s *Candidates) Free(name string) string {
	for slices.ContainsFunc(slices.Concat(s.kustomizations, s.repositories), func(o synced) bool { return strict.Text(o.node, "metadata", "name") == name }) {
		name = "lab-" + name
	}
	return name
}

// Unreached returns the Kustomizations and HelmReleases in files that are not reached.
func (s *Candidates) Unreached(reached func(file string) bool) []lab.Position {
	var list []lab.Position
	for _, o := range slices.Concat(s.kustomizations, s.releases) {
		complete := strict.Get(o.node, "spec", "sourceRef") != nil || strict.Get(o.node, "spec", "chart", "spec", "sourceRef") != nil || strict.Get(o.node, "spec", "chartRef") != nil
		if complete && !reached(o.at.File) && !s.mayPack(o.repo, o.file) {
			list = append(list, o.at)
		}
	}
	return list
}

// Root is a folder that Flux syncs to a cluster.
type Root struct {
	Cluster    string // set by the caller
	Repo       *lab.Repository
	Tree       *lab.Repository // Repo at the root's revision
	Dir        string          // synced folder
	At         lab.Position
	URL        string             // the repository's own address, or empty
	Name       string             // of the GitRepository and of the Kustomization
	Spec       *yaml.Node         // of the Kustomization, or nil
	Adaptation fluxset.Adaptation // that makes it work here
	Left       []Left             // files that the root hides

	ref    *yaml.Node // of the revision; nil for the checked-out branch
	ignore string     // spec.ignore of the GitRepository
	hidden []string   // files
}

// Left is an object that a root leaves out.
type Left struct {
	At  lab.Position
	Why string
}

// Roots finds the folders of clusters: those synced by a Kustomization inside, as after `flux bootstrap`, and those of a
// FluxInstance; else folders in clusters/ with Kustomizations; else folders of Kustomizations that no other one syncs; else those in clusters/ that include
// HelmReleases. It reports whether they are synced.
func (s *Candidates) Roots() (list []Root, bootstrapped bool) {
	add := func(r Root) {
		if !slices.ContainsFunc(list, func(o Root) bool { return o.Repo == r.Repo && o.Dir == r.Dir }) {
			list = append(list, r)
		}
	}
	for _, k := range s.kustomizations {
		dir := k.syncs()
		if !s.bootstraps(k) || dir == "." && (path.Base(path.Dir(k.file)) != flux.Namespace || k.ofArtifact()) {
			continue
		}
		r := Root{Repo: k.repo, Dir: dir, At: k.at, Name: cmp.Or(strict.Text(k.node, "metadata", "name"), flux.Namespace), Spec: k.built()}
		for _, g := range s.repositories {
			if g.beside(k, r.Spec) {
				r.reads(g.node)
			}
		}
		if r.Tree != nil {
			k.repo = r.Tree
			r.Spec = k.built()
		}
		add(r)
	}
	for _, i := range s.instances {
		sync := strict.Get(i.node, "sync")
		dir := path.Clean(strict.Text(sync, "path"))
		if sync == nil || !fs.ValidPath(dir) {
			continue
		}
		name := cmp.Or(strict.Text(sync, "name"), flux.Namespace)
		r := Root{Repo: i.repo, Dir: dir, At: i.at, Name: name, Spec: i.instance(name)}
		kind := strict.Text(sync, "kind")
		if kind == "GitRepository" {
			r.URL = strict.Text(sync, "url")
			if ref := strict.Text(sync, "ref"); ref != "" {
				r.follow(&manifest.Of("name", ref).Node)
			}
		}
		if info, err := fs.Stat(cmp.Or(r.Tree, r.Repo).FS, dir); err == nil && info.IsDir() && slices.Contains([]string{"GitRepository", "OCIRepository"}, kind) { // or its artifact
			add(r)
		}
	}
	if len(list) == 0 {
		for _, r := range s.generated() {
			add(r)
		}
	}
	bootstrapped = len(list) > 0
	if len(list) == 0 {
		for _, k := range s.kustomizations {
			if dir, is := clusterOf(k.file); is && !s.mayPack(k.repo, k.file) {
				add(Root{Repo: k.repo, Dir: dir, At: k.at, Name: flux.Namespace})
			}
		}
		if others := slices.DeleteFunc(slices.Clone(list), func(r Root) bool { return path.Base(r.Dir) == "base" }); len(others) > 0 { // what they share
			list = others
		}
	}
	for _, itself := range []bool{false, true} { // what only syncs itself counts if there is nothing else
		if len(list)+len(s.unsure) > 0 {
			break
		}
		for _, k := range s.kustomizations {
			if k.within() == itself && !s.leadsTo(k) && !s.mayPack(k.repo, k.file) && strict.Get(k.node, "spec", "sourceRef") != nil { // no patch
				add(Root{Repo: k.repo, Dir: path.Dir(k.file), At: k.at, Name: flux.Namespace})
			}
		}
		list, s.unsure = s.sure(list)
	}
	if len(list) == 0 {
		list = s.unsynced()
	}
	for _, of := range [][]Root{list, s.unsure} {
		for i := range of {
			r := &of[i]
			if r.Tree == nil {
				r.Tree = r.Repo
			}
			r.withoutRemote()
		}
	}
	return list, bootstrapped
}

// Unsure returns folders with Kustomizations that nothing syncs, once Roots has looked for others: whether they are clusters or parts of one is not in the repositories.
func (s *Candidates) Unsure() []Root { return s.unsure }

// Above returns the folder as a root, if it is above one of those.
func (s *Candidates) Above(dir string) []Root {
	for _, r := range s.unsure {
		if dir == "." || strings.HasPrefix(r.Dir, dir+"/") {
			r.Dir, r.hidden, r.Left = dir, nil, nil
			r.withoutRemote()
			return []Root{r}
		}
	}
	return nil
}

// sure returns those of several folders that are clusters: they have Kustomizations of the same name, or are the only one that leads to others.
func (s *Candidates) sure(list []Root) (sure, unsure []Root) {
	if len(list) < 2 {
		return list, nil
	}
	in := func(r Root, k synced) bool { return k.repo == r.Repo && path.Dir(k.file) == r.Dir }
	alike := func(r Root) bool {
		return slices.ContainsFunc(s.kustomizations, func(k synced) bool {
			return in(r, k) && slices.ContainsFunc(s.kustomizations, func(o synced) bool {
				return strict.Title(o.node) == strict.Title(k.node) && slices.ContainsFunc(list, func(other Root) bool { return (other.Repo != r.Repo || other.Dir != r.Dir) && in(other, o) })
			})
		})
	}
	leads := func(r Root) bool {
		return slices.ContainsFunc(s.kustomizations, func(k synced) bool {
			return in(r, k) && slices.ContainsFunc(s.kustomizations, func(o synced) bool {
				return o.repo == k.repo && o.at != k.at && k.syncs() != "." && strings.HasPrefix(o.file, k.syncs()+"/")
			})
		})
	}
	not := func(is func(Root) bool) func(Root) bool { return func(r Root) bool { return !is(r) } }
	if sure = slices.DeleteFunc(slices.Clone(list), not(alike)); len(sure) > 0 {
		return sure, nil
	}
	if sure = slices.DeleteFunc(slices.Clone(list), not(leads)); len(sure) == 1 {
		return sure, nil
	}
	return nil, list
}

// within reports whether a Kustomization is in the folder that it syncs, and that is not the whole repository.
func (d synced) within() bool { return strings.HasPrefix(d.file, d.syncs()+"/") }

// beside reports whether a GitRepository is that of a Kustomization's spec, and in its folder.
func (d synced) beside(k synced, spec *yaml.Node) bool {
	return strict.Text(d.node, "metadata", "name") == strict.Text(spec, "sourceRef", "name") && d.repo == k.repo && strings.HasPrefix(d.file, path.Dir(k.file))
}

// bootstraps reports whether a Kustomization that syncs itself is the first of a cluster: it has the name that `flux bootstrap` gives it, syncs a folder of clusters/, comes
// with its source, or reads an artifact. Any other may be an application of a cluster whose first one is not here.
func (s *Candidates) bootstraps(k synced) bool {
	of, _ := clusterOf(k.file)
	return (k.within() || k.syncs() == ".") && (strict.Text(k.node, "metadata", "name") == flux.Namespace || k.syncs() == of || k.ofArtifact() && k.included() ||
		slices.ContainsFunc(s.repositories, func(g synced) bool { return g.beside(k, strict.Get(k.node, "spec")) }))
}

// included reports whether the folder that a Kustomization syncs has it: its kustomization may leave it out. What cannot be built may.
func (d synced) included() bool {
	docs, _, err := render.Kustomization{FS: d.repo.FS, Path: d.syncs()}.Build()
	return err != nil || specOf(docs, strict.Text(d.node, "metadata", "name")) != nil
}

// clusterOf returns the folder in clusters/ that contains a file.
func clusterOf(file string) (dir string, is bool) {
	parts := strings.Split(path.Dir(file), "/")
	i := slices.Index(parts, lab.ClustersDir)
	if i < 0 || i+1 >= len(parts) {
		return "", false
	}
	return path.Join(parts[:i+2]...), true
}

// reads sets what the root has of its GitRepository.
func (r *Root) reads(repository *yaml.Node) {
	r.URL, r.ignore = strict.Text(repository, "spec", "url"), strict.Text(repository, "spec", "ignore")
	r.follow(strict.Get(repository, "spec", "ref"))
}

// Branches counts the branches that the GitRepositories of an address follow, and those that bootstrapped repositories are read by.
func (s *Candidates) Branches(address string) map[string]int {
	votes := map[string]int{}
	for _, g := range s.repositories {
		ref := strict.Get(g.node, "spec", "ref")
		if strict.Text(g.node, "metadata", "name") != flux.Namespace && lab.RepositoryKey(strict.Text(g.node, "spec", "url")) != lab.RepositoryKey(address) {
			continue
		}
		if b := strict.Text(ref, "branch"); b != "" || ref == nil {
			votes[cmp.Or(b, fluxset.DefaultBranch)]++
		}
	}
	return votes
}

// follow makes the root read the revision of its GitRepository, if the clone has it.
func (r *Root) follow(ref *yaml.Node) {
	at, err := r.Repo.Of(cmp.Or(fluxset.Revision(ref), fluxset.DefaultBranch))
	if err == nil && at != r.Repo {
		r.Tree, r.ref = at, cmp.Or(ref, branch(fluxset.DefaultBranch))
	}
}

// leadsTo reports whether another Kustomization syncs k's folder.
func (s *Candidates) leadsTo(k synced) bool {
	return slices.ContainsFunc(s.kustomizations, func(o synced) bool {
		dir := o.syncs()
		return o.repo == k.repo && o.at != k.at && dir != "." && strings.HasPrefix(k.file, dir+"/")
	})
}
