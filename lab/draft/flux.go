package draft

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/draft/fluxroot"
	"homelab/lab/estate/mount"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// fluxDraft drafts an estate with one Flux per cluster, or a hub whose Flux manages the spokes.
func (d *drafting) fluxDraft(roots []fluxroot.Root) (*Draft, error) {
	nameClusters(roots) // before the repositories get their own addresses
	for _, r := range roots {
		if mount.IsAddress(r.URL) && !strings.Contains(r.URL, "${") { // no placeholder
			r.Repo.URL = r.URL
		}
	}
	roots, err := d.buildable(roots)
	if err != nil {
		return nil, err
	}
	for _, r := range roots {
		d.Roots = append(d.Roots, r.At)
	}
	if len(roots) == 1 {
		d.remotes = d.remoteClusters(roots[0], d.expandRoot(roots[0], &lacks{}))
	}
	d.fluxClusters(roots)
	seeds, l := d.seeds(roots)
	for len(roots) == 1 { // what was missing may refer to more
		found := d.remoteClusters(roots[0], l.reached)
		if secrets(found) <= secrets(d.remotes) {
			break
		}
		d.remotes, d.estate.Clusters, d.estate.Environments, d.keys, d.Choices, d.Addons = found, nil, nil, map[string]*Key{}, nil, nil
		d.fluxClusters(roots)
		seeds, l = d.seeds(roots)
	}
	d.Beside = append(d.Beside, d.flux.Unreached(d.reaches(roots, l))...)
	out := d.estateFiles()
	maps.Copy(out, seeds)
	for _, r := range roots {
		c, _ := d.estate.Cluster(r.Cluster)
		after := ""
		if c.Addons[d.seedsAddon()] {
			after = d.seedsAddon()
		}
		out[lab.FluxRootFile(r.Cluster)] = r.Manifest(d.estateName(), after)
	}
	written, err := fluxset.Files(out.fs(), d.estate.Clusters)
	if err != nil {
		return nil, err
	}
	maps.Copy(out, written)
	return d.done(out.fs()), nil
}

// reaches returns a function that reports whether the roots lead to a file, also at another revision, or a kustomization patches with it.
func (d *drafting) reaches(roots []fluxroot.Root, l *lacks) func(file string) bool {
	files, folders := map[string]bool{}, []string{}            // folders of what cannot be built
	for _, left := range slices.Concat(d.unbuilt, d.Without) { // reached before that
		files[left.At.File] = true
	}
	for _, r := range roots {
		files[r.At.File] = true
		x := d.expandRoot(r, l)
		for _, app := range slices.Concat(x.Roots, x.Applications, x.Sets) {
			files[app.At.File] = true
			for _, o := range app.Objects {
				files[o.File] = true
				d.Objects = d.Objects || o.File != r.At.File && o.File != app.At.File
			}
			for _, r := range d.estate.Repositories {
				if len(app.Objects) == 0 && app.Path != "" { // not of the estate
					folders = append(folders, path.Join(r.Dir, app.Path)+"/")
				}
			}
		}
	}
	for _, k := range d.kustomizations {
		for _, name := range listed(k, "patches", "patchesStrategicMerge") {
			files[path.Join(k.repo.Dir, name)] = true
		}
	}
	for file := range maps.Clone(files) {
		for _, r := range d.estate.Repositories {
			if rest, of := strings.CutPrefix(file, r.Dir+"@"); of {
				_, name, _ := strings.Cut(rest, "/")
				files[path.Join(r.Dir, name)] = true
			}
		}
	}
	return func(file string) bool {
		return files[file] || slices.ContainsFunc(folders, func(dir string) bool { return strings.HasPrefix(file, dir) })
	}
}

// fluxClusters adds a cluster for each root. A lone one is the hub; of several, the one so named, or an additional one.
func (d *drafting) fluxClusters(roots []fluxroot.Root) {
	name, spokes := "hub", slices.Clone(d.remotes)
	if i := slices.IndexFunc(roots, func(r fluxroot.Root) bool { return len(roots) == 1 || control.MatchString(r.Cluster) }); i >= 0 {
		name = roots[i].Cluster
	}
	hub := d.hub(name)
	hub.Engine = lab.EngineSpec{Type: lab.EngineFlux, Shape: lab.ShapeStandalone}
	if len(spokes) > 0 {
		hub.Engine.Shape = lab.ShapeHub
	}
	for _, r := range roots {
		if r.Cluster != name {
			spokes = append(spokes, target{name: r.Cluster})
		}
	}
	slices.SortStableFunc(spokes, func(a, b target) int { return cmp.Compare(rank(a.name), rank(b.name)) })
	for _, t := range spokes {
		environment := cmp.Or(stageOf(t.name), t.name)
		if e := d.environment(environment); e.Order == 0 {
			e.Order = len(d.estate.Environments) - 1
		}
		d.spoke(t, environment)
	}
	d.guessed = nil // each has a folder
}

// estateName returns the name of the estate's own GitRepository and Kustomization.
func (d *drafting) estateName() string { return d.flux.Free(bridge.Estate) }

// layers are usual names of folders inside a cluster's.
var layers = regexp.MustCompile(`^(flux|flux-system|cluster|config|bootstrap)$`)

// number matches names of folders that are ambiguous without the folder above.
var number = regexp.MustCompile(`^[0-9]+$`)

// nameClusters names clusters after their folders, with the stage above. Equal names become the parts of the paths in which they differ.
func nameClusters(list []fluxroot.Root) {
	same := map[string][]*fluxroot.Root{}
	for i := range list {
		r := &list[i]
		name := strings.TrimPrefix(path.Base(r.Dir), ".")
		if of := path.Dir(r.Dir); layers.MatchString(name) && path.Base(path.Dir(of)) == lab.ClustersDir {
			name = path.Base(of)
		}
		if above := path.Base(path.Dir(r.Dir)); above != "." && (number.MatchString(name) || stageOf(name) == "" && stageOf(above) != "") {
			name = above + "-" + name
		}
		r.Cluster = clusterName(cmp.Or(name, path.Base(lab.RepositoryKey(r.Repo.URL))))
		same[r.Cluster] = append(same[r.Cluster], r)
	}
	for _, roots := range same {
		if len(roots) == 1 {
			continue
		}
		common := strings.Split(roots[0].Dir, "/")
		for _, r := range roots {
			parts := strings.Split(r.Dir, "/")
			for i := range common {
				if i >= len(parts)-1 || parts[i] != common[i] {
					common = common[:i]
					break
				}
			}
		}
		for _, r := range roots {
			parts := strings.Split(r.Dir, "/")[len(common):]
			if last := len(parts) - 1; last > 0 && layers.MatchString(parts[last]) {
				parts = parts[:last]
			}
			r.Cluster = clusterName(strings.Join(parts, "-"))
		}
	}
}

// buildable returns the roots that Flux can build, without those that are part of another one. What cannot be built is left out; it is an error if nothing remains.
func (d *drafting) buildable(roots []fluxroot.Root) ([]fluxroot.Root, error) {
	d.unbuilt = slices.Clone(d.unnamed)
	var problems lab.Problems
	reaches := map[string][]string{} // folders of roots -> Kustomizations
	at := func(p lab.Position) string { return fmt.Sprintf("%s:%d", p.File, p.Line) }
	roots = slices.DeleteFunc(slices.Clone(roots), func(r fluxroot.Root) bool {
		r.WithoutVariables()
		x := d.expandRoot(r, &lacks{})
		for _, p := range x.Problems {
			d.unbuilt = append(d.unbuilt, Left{At: r.At, Why: fmt.Sprintf("cannot be built: %s: %s", p.Position, p.Message)})
		}
		for _, app := range x.Applications {
			reaches[at(r.At)] = append(reaches[at(r.At)], at(app.At))
		}
		problems = append(problems, x.Problems...)
		return len(x.Problems) > 0
	})
	all := slices.Clone(roots)
	roots = slices.DeleteFunc(roots, func(r fluxroot.Root) bool {
		return slices.ContainsFunc(all, func(o fluxroot.Root) bool {
			return slices.Contains(reaches[at(o.At)], at(r.At)) && !slices.Contains(reaches[at(r.At)], at(o.At))
		})
	})
	if len(roots) == 0 {
		return nil, &lab.Error{
			Exit: lab.ExitInvalid, Code: "unbuildable", Message: "no folder that Flux syncs to a cluster can be built, nothing was written", Problems: problems,
			Cure: "fix them, or copy what they include by address into the repository",
		}
	}
	return roots, nil
}

// accessWords are the words in names of Secrets that do not name a cluster.
var accessWords = regexp.MustCompile(`(^|-)(cluster|kubeconfig|kube|config|kcfg|secret|access|remote|admin|flux)(-|$)`)

// remoteClusters returns the clusters whose kubeconfigs the Kustomizations and HelmReleases below a root refer to, and the repositories do not contain.
func (d *drafting) remoteClusters(root fluxroot.Root, x fluxset.Expansion) []target {
	var list []target
	seen := map[string]bool{}
	for _, app := range slices.Concat(x.Roots, x.Applications) {
		for _, k := range app.Kubeconfigs {
			if k.Name == "" || seen[k.String()] || x.Has(fluxset.Read{Kind: "Secret", Namespace: k.Namespace, Name: k.Name}) {
				continue
			}
			seen[k.String()] = true
			name := remoteName(k.KubeconfigSecret)
			if name == root.Cluster {
				name += "-spoke"
			}
			i := slices.IndexFunc(list, func(t target) bool { return t.name == name })
			if i < 0 {
				list, i = append(list, target{name: name}), len(list)
			}
			list[i].secrets = append(list[i].secrets, k)
		}
	}
	return list
}

func secrets(of []target) int {
	n := 0
	for _, t := range of {
		n += len(t.secrets)
	}
	return n
}

// isKubeconfig reports whether lab provides the content of a Secret.
func (d *drafting) isKubeconfig(o render.Document) bool {
	return strict.Text(o.Node, "kind") == "Secret" && slices.ContainsFunc(d.remotes, func(t target) bool {
		return slices.ContainsFunc(t.secrets, func(k fluxset.Kubeconfig) bool {
			return k.Name == fluxset.Name(o.Node) && k.Namespace == strict.Text(o.Node, "metadata", "namespace")
		})
	})
}

// remoteName names a cluster after the Secret with its kubeconfig, or after the namespace if that is generic.
func remoteName(k lab.KubeconfigSecret) string {
	stem := k.Name
	for before := ""; stem != before; {
		before = stem
		stem = strings.Trim(accessWords.ReplaceAllString(stem, "$1$3"), "-.")
	}
	if in, ok := flux.ClusterOf(k.Namespace); ok && k.Name == flux.ClusterKubeconfig {
		return in
	}
	if stem == "" && !builtin(k.Namespace) {
		stem = strings.TrimPrefix(k.Namespace, "cluster-")
	}
	return cmp.Or(clusterName(stem), string(lab.RoleSpoke))
}

// scope returns the scope of a cluster's Flux.
func (d *drafting) scope(cluster string) flux.Scope {
	if len(d.remotes) == 0 {
		return flux.Scope{Home: cluster}
	}
	return flux.ScopeOf(cluster, d.estate.Clusters)
}
