package draft

import (
	"bytes"
	"cmp"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/estate/mount"
	"homelab/lab/fluxset"
	"homelab/lab/strict"
)

// syncs are candidates for Flux's roots.
type syncs struct {
	kustomizations []synced
	repositories   []synced // GitRepositories
	instances      []synced // specs of FluxInstances, of Flux Operator
	releases       []synced // HelmReleases, which may be patches
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

func (s *syncs) add(r *lab.Repository, file string, n *yaml.Node) {
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

// free returns a name that no Kustomization or GitRepository has.
func (s *syncs) free(name string) string {
	for slices.ContainsFunc(slices.Concat(s.kustomizations, s.repositories), func(o synced) bool { return strict.Text(o.node, "metadata", "name") == name }) {
		name = "lab-" + name
	}
	return name
}

type fluxRoot struct {
	cluster string
	repo    *lab.Repository
	tree    *lab.Repository // repo at its revision
	ref     *yaml.Node      // of the revision; nil for the checked-out branch
	dir     string          // synced folder
	at      lab.Position
	url     string     // the repository's own address, or empty
	name    string     // of the GitRepository and of the Kustomization
	spec    *yaml.Node // of the Kustomization, or nil

	adaptation fluxset.Adaptation // that makes it work here
	ignore     string             // spec.ignore of the GitRepository
	hidden     []string           // files
	left       []Left             // because of these
}

// roots finds the folders of clusters: those synced by a Kustomization inside, as after `flux bootstrap`, and those of a
// FluxInstance; else folders in clusters/ with Kustomizations; else folders of Kustomizations that no other one syncs; else those in clusters/ that include
// HelmReleases. It reports whether they are synced.
func (s *syncs) roots() (list []fluxRoot, bootstrapped bool) {
	add := func(r fluxRoot) {
		if !slices.ContainsFunc(list, func(o fluxRoot) bool { return o.repo == r.repo && o.dir == r.dir }) {
			list = append(list, r)
		}
	}
	for _, k := range s.kustomizations {
		dir := k.syncs()
		if dir != "." && !strings.HasPrefix(k.file, dir+"/") || dir == "." && (path.Base(path.Dir(k.file)) != lab.FluxNamespace || k.ofArtifact()) {
			continue
		}
		r := fluxRoot{repo: k.repo, dir: dir, at: k.at, name: cmp.Or(strict.Text(k.node, "metadata", "name"), lab.FluxNamespace), spec: k.built()}
		for _, g := range s.repositories {
			if strict.Text(g.node, "metadata", "name") == strict.Text(r.spec, "sourceRef", "name") && g.repo == k.repo && strings.HasPrefix(g.file, path.Dir(k.file)) {
				r.reads(g.node)
			}
		}
		if r.tree != nil {
			k.repo = r.tree
			r.spec = k.built()
		}
		add(r)
	}
	for _, i := range s.instances {
		sync := strict.Get(i.node, "sync")
		dir := path.Clean(strict.Text(sync, "path"))
		if sync == nil || !fs.ValidPath(dir) {
			continue
		}
		name := cmp.Or(strict.Text(sync, "name"), lab.FluxNamespace)
		r := fluxRoot{repo: i.repo, dir: dir, at: i.at, name: name, spec: i.instance(name)}
		kind := strict.Text(sync, "kind")
		if kind == "GitRepository" {
			r.url = strict.Text(sync, "url")
			if ref := strict.Text(sync, "ref"); ref != "" {
				r.follow(&plain("name", ref).node)
			}
		}
		if info, err := fs.Stat(cmp.Or(r.tree, r.repo).FS, dir); err == nil && info.IsDir() && slices.Contains([]string{"GitRepository", "OCIRepository"}, kind) { // or its artifact
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
			parts := strings.Split(path.Dir(k.file), "/")
			if i := slices.Index(parts, lab.ClustersDir); i >= 0 && i+1 < len(parts) {
				add(fluxRoot{repo: k.repo, dir: path.Join(parts[:i+2]...), at: k.at, name: lab.FluxNamespace})
			}
		}
	}
	if len(list) == 0 {
		for _, k := range s.kustomizations {
			if dir := path.Dir(k.file); !s.leadsTo(k) && strict.Get(k.node, "spec", "sourceRef") != nil { // no patch
				add(fluxRoot{repo: k.repo, dir: dir, at: k.at, name: lab.FluxNamespace})
			}
		}
	}
	if len(list) == 0 {
		list = s.unsynced()
	}
	for i := range list {
		r := &list[i]
		if r.tree == nil {
			r.tree = r.repo
		}
		r.withoutRemote()
	}
	nameClusters(list)
	return list, bootstrapped
}

// layers are usual names of folders inside a cluster's.
var layers = regexp.MustCompile(`^(flux|flux-system|cluster|config|bootstrap)$`)

// number matches names of folders that are ambiguous without the folder above.
var number = regexp.MustCompile(`^[0-9]+$`)

// nameClusters names clusters after their folders, with the stage above. Equal names become the parts of the paths in which they differ.
func nameClusters(list []fluxRoot) {
	same := map[string][]*fluxRoot{}
	for i := range list {
		r := &list[i]
		name := strings.TrimPrefix(path.Base(r.dir), ".")
		if above := path.Base(path.Dir(r.dir)); above != "." && (number.MatchString(name) || !stage.MatchString(name) && stage.MatchString(above)) {
			name = above + "-" + name
		}
		r.cluster = clusterName(cmp.Or(name, path.Base(lab.RepositoryKey(r.repo.URL))))
		same[r.cluster] = append(same[r.cluster], r)
	}
	for _, roots := range same {
		if len(roots) == 1 {
			continue
		}
		common := strings.Split(roots[0].dir, "/")
		for _, r := range roots {
			parts := strings.Split(r.dir, "/")
			for i := range common {
				if i >= len(parts)-1 || parts[i] != common[i] {
					common = common[:i]
					break
				}
			}
		}
		for _, r := range roots {
			parts := strings.Split(r.dir, "/")[len(common):]
			if last := len(parts) - 1; last > 0 && layers.MatchString(parts[last]) {
				parts = parts[:last]
			}
			r.cluster = clusterName(strings.Join(parts, "-"))
		}
	}
}

// reads sets what the root has of its GitRepository.
func (r *fluxRoot) reads(repository *yaml.Node) {
	r.url, r.ignore = strict.Text(repository, "spec", "url"), strict.Text(repository, "spec", "ignore")
	r.follow(strict.Get(repository, "spec", "ref"))
}

// follow makes the root read the revision of its GitRepository, if the clone has it.
func (r *fluxRoot) follow(ref *yaml.Node) {
	at, err := r.repo.Of(cmp.Or(fluxset.Revision(ref), fluxset.DefaultBranch))
	if err == nil && at != r.repo {
		r.tree, r.ref = at, cmp.Or(ref, branch(fluxset.DefaultBranch))
	}
}

// leadsTo reports whether another Kustomization syncs k's folder.
func (s *syncs) leadsTo(k synced) bool {
	return slices.ContainsFunc(s.kustomizations, func(o synced) bool {
		dir := o.syncs()
		return o.repo == k.repo && o.at != k.at && dir != "." && strings.HasPrefix(k.file, dir+"/")
	})
}

// fluxDraft drafts an estate with one Flux per cluster, or a hub whose Flux manages the spokes.
func (d *drafting) fluxDraft(roots []fluxRoot) (*Draft, error) {
	for _, r := range roots {
		if mount.IsAddress(r.url) && !strings.Contains(r.url, "${") { // no placeholder
			r.repo.URL = r.url
		}
	}
	roots, err := d.buildable(roots)
	if err != nil {
		return nil, err
	}
	for _, r := range roots {
		d.Roots = append(d.Roots, r.at)
	}
	if len(roots) == 1 {
		d.remotes = d.remoteClusters(roots[0])
	}
	d.fluxClusters(roots)
	seeds, err := d.seeds(roots)
	if err != nil {
		return nil, err
	}
	out := d.estateFiles()
	for name, text := range seeds {
		out[name] = text
	}
	for _, r := range roots {
		c, _ := d.estate.Cluster(r.cluster)
		out[lab.FluxRootFile(r.cluster)] = d.sync(r, c.Addons[d.seedsAddon()])
	}
	written, err := fluxset.Files(out.fs(), d.estate.Clusters)
	if err != nil {
		return nil, err
	}
	for name, text := range written {
		out[name] = text
	}
	return d.done(out.fs()), nil
}

// fluxClusters adds a cluster for each root. A lone one is the hub; of several, the one so named, or an additional one.
func (d *drafting) fluxClusters(roots []fluxRoot) {
	d.environment(lab.DefaultEnvironment)
	hub := lab.Cluster{Name: "hub", Role: lab.RoleHub, Provider: lab.ProviderKind, ControlPlanes: 1, Addons: map[string]bool{}, Mounts: map[string]string{}}
	hub.Engine = lab.EngineSpec{Type: lab.EngineFlux, Shape: lab.ShapeStandalone}
	for _, r := range d.estate.Repositories {
		hub.Mounts[r.URL] = r.Dir
	}
	if i := slices.IndexFunc(roots, func(r fluxRoot) bool { return len(roots) == 1 || control.MatchString(r.cluster) }); i >= 0 {
		hub.Name = roots[i].cluster
	}
	spokes := slices.Clone(d.remotes)
	if len(spokes) > 0 {
		hub.Engine.Shape = lab.ShapeHub
	}
	d.estate.Clusters = append(d.estate.Clusters, hub)
	for _, r := range roots {
		if r.cluster != hub.Name {
			spokes = append(spokes, target{name: r.cluster})
		}
	}
	slices.SortStableFunc(spokes, func(a, b target) int { return cmp.Compare(rank(a.name), rank(b.name)) })
	for _, t := range spokes {
		environment := cmp.Or(stage.FindString(t.name), t.name)
		if e := d.environment(environment); e.Order == 0 {
			e.Order = len(d.estate.Environments) - 1
		}
		d.spoke(t, environment)
	}
}

// withoutFlux deletes objects that install Flux.
var withoutFlux = []fluxset.Patch{fluxset.WithoutFlux(), {Target: map[string]string{"group": "fluxcd.controlplane.io"}, Patch: fluxset.Deleted}}

// sync returns a cluster's root: the estate's folder of the cluster, then the repository's with its Kustomization's spec.
func (d *drafting) sync(r fluxRoot, seeded bool) string {
	var b bytes.Buffer
	b.WriteString("# Flux's root: the estate, then " + path.Join(r.tree.Dir, r.dir) + ", both from the lab's forge.\n")
	own := d.flux.free(bridge.Estate)
	b.WriteString(fluxObject("source.toolkit.fluxcd.io/v1", "GitRepository", own, fetch(fluxset.Anywhere, branch("main"))) + "---\n")
	b.WriteString(fluxObject("kustomize.toolkit.fluxcd.io/v1", "Kustomization", own, reconcile(own, path.Join(lab.ClustersDir, r.cluster))) + "---\n")
	source := cmp.Or(strict.Text(r.spec, "sourceRef", "name"), r.name)
	ref := cmp.Or(r.ref, branch(r.repo.Branch))
	from := fetch(r.repo.URL, ref)
	ignore := r.ignore
	for _, name := range r.hidden {
		ignore = strings.TrimLeft(strings.TrimRight(ignore, "\n")+"\n/"+name+"\n", "\n")
	}
	if ignore != "" {
		from.add("ignore", ignore)
	}
	b.WriteString(fluxObject("source.toolkit.fluxcd.io/v1", "GitRepository", source, from) + "---\n")
	spec := reconcile(source, r.dir)
	for i := 0; r.spec != nil && i+1 < len(r.spec.Content); i += 2 {
		switch key := r.spec.Content[i].Value; key {
		case "path", "prune", "sourceRef", "interval", "retryInterval", "patches", "dependsOn", "suspend", "patchesStrategicMerge", "patchesJson6902", "validation": // the last are of old APIs
		case "healthChecks":
			if checks := r.adaptation.HealthChecks(r.spec.Content[i+1]); len(checks.Content) > 0 {
				spec.add(key, checks)
			}
		default:
			spec.add(key, r.spec.Content[i+1])
		}
	}
	patches := &yaml.Node{Kind: yaml.SequenceNode}
	add := func(patch any, comment string) {
		var n yaml.Node
		if err := n.Encode(patch); err != nil {
			panic(err) // our own text
		}
		n.HeadComment = cmp.Or(comment, n.HeadComment)
		patches.Content = append(patches.Content, &n)
	}
	for _, p := range fluxset.Patches(r.spec) {
		add(p, "")
	}
	for _, p := range slices.Concat(withoutFlux, r.adaptation.Patches) {
		comment := ""
		if p.Why != "" {
			comment = p.Why + ": " + p.At.String()
		}
		add(p, comment)
	}
	spec.add("patches", patches)
	if seeded {
		spec.add("dependsOn", []map[string]string{{"name": d.seedsAddon(), "namespace": lab.FluxNamespaceOf(r.cluster)}})
	}
	b.WriteString(fluxObject("kustomize.toolkit.fluxcd.io/v1", "Kustomization", r.name, spec))
	return b.String()
}

func branch(name string) *yaml.Node { return &plain("branch", name).node }

func fetch(url string, ref *yaml.Node) mapping {
	spec := mapping{}
	spec.add("interval", "1m0s")
	spec.add("url", url)
	spec.add("ref", ref)
	return spec
}

func reconcile(source, dir string) mapping {
	if dir == "." {
		dir = ""
	}
	spec := mapping{}
	spec.add("interval", "10m0s")
	spec.add("retryInterval", "15s")
	spec.add("path", "./"+dir)
	spec.add("prune", true)
	spec.add("sourceRef", map[string]string{"kind": "GitRepository", "name": source})
	return spec
}

func fluxObject(apiVersion, kind, name string, spec mapping) string {
	meta := mapping{}
	meta.add("name", name)
	meta.add("namespace", lab.FluxNamespace)
	return object(apiVersion, kind, meta, spec)
}
