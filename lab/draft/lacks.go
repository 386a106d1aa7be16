package draft

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"homelab/lab"
	"homelab/lab/draft/fluxroot"
	"homelab/lab/fill"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// lacks holds what the repositories read but do not contain.
type lacks struct {
	seeds      []*seed
	sources    []byHand
	namespaces map[namespace]lab.Position // in use
	has        map[namespace]bool         // applied
	unsure     map[namespace]bool         // used before it is certain that they are applied
	reached    fluxset.Expansion          // from the first root, with all that
}

// namespace is a namespace of Flux's cluster, or of a remote one.
type namespace struct{ cluster, name string }

func (l *lacks) size() int {
	n := len(l.seeds) + len(l.sources)
	for _, s := range l.seeds {
		n += len(s.keys)
	}
	return n
}

// lack adds what the roots' applications lack, and finds the roots' patches. Paths come first: a variable of one seed may be
// a different folder for each cluster.
func (d *drafting) lack(l *lacks, roots []fluxroot.Root) {
	d.Without = slices.Clone(d.unbuilt)
	expanded := make([]fluxset.Expansion, len(roots))
	found := map[string]bool{}
	for i := range roots {
		r := &roots[i]
		for _, left := range r.Left {
			d.Without = append(d.Without, Left(left))
		}
		expanded[i] = d.adapt(l, r)
		for _, app := range slices.Concat(expanded[i].Roots, expanded[i].Applications) {
			d.paths(r, app, found)
		}
	}
	for name := range found {
		for i := range d.estate.Clusters {
			if c := &d.estate.Clusters[i]; c.Metadata[name] == "" && slices.ContainsFunc(roots, func(r fluxroot.Root) bool { return r.Cluster == c.Name }) {
				c.Metadata[name] = c.Name
			}
		}
	}
	l.reached = expanded[0]
	for i := range roots {
		l.namespacesOf(expanded[i])
		for _, app := range slices.Concat(expanded[i].Roots, expanded[i].Applications) {
			d.components(app)
			l.source(roots[i], app)
			for j := range app.Reads {
				if at := &app.Reads[j].At; at.File == lab.FluxRootFile(roots[i].Cluster) { // generated from theirs
					*at = lab.Position{File: roots[i].At.File, Line: roots[i].At.Line}
				}
			}
			d.reads(&l.seeds, roots[i].Cluster, app)
		}
		for _, app := range expanded[i].Sets { // nothing applies them, but they are rendered
			d.components(app)
		}
	}
	for _, s := range l.seeds {
		d.differing(s)
	}
}

// differing makes the data of a seed that clusters have with different values variables of the clusters.
func (d *drafting) differing(s *seed) {
	for name, of := range s.found {
		if _, same := s.same(name); same || d.bridged(name) != "" {
			continue
		}
		for i := range d.estate.Clusters {
			if c := &d.estate.Clusters[i]; of[c.Name] != "" {
				c.Metadata[name] = of[c.Name]
			}
		}
	}
}

func (d *drafting) adapt(l *lacks, r *fluxroot.Root) fluxset.Expansion {
	r.Adaptation = fluxset.Adaptation{}
	x := d.expandRoot(*r, l)
	for _, root := range x.Roots {
		if root.Name != r.Name {
			continue
		}
		m := x.Adapt(root)
		r.Adaptation = m
		for _, o := range m.Without {
			left := Left{At: lab.Position{File: o.File, Line: o.Line}, Why: o.Why}
			if !slices.Contains(d.Without, left) {
				d.Without = append(d.Without, left)
			}
			if fluxset.Encrypted(o.Node) && !d.isKubeconfig(o.Document) {
				l.encrypted(o.Document)
			}
		}
	}
	if len(r.Adaptation.Patches) == 0 {
		return x
	}
	return d.expandRoot(*r, l)
}

// components enables additional controllers that an application needs.
func (d *drafting) components(app fluxset.Application) {
	hub := &d.estate.Clusters[0]
	i := slices.IndexFunc(app.Objects, func(o render.Document) bool { return fluxset.IsGenerator(o.Node) })
	if i < 0 || slices.Contains(hub.Engine.Extra, flux.SourceWatcher) {
		return
	}
	hub.Engine.Extra = append(hub.Engine.Extra, flux.SourceWatcher)
	o := app.Objects[i]
	d.note(Key{In: "cluster " + hub.Name, Name: "componentsExtra", Value: flux.SourceWatcher, How: Found, At: lab.Position{File: o.File, Line: o.Line}})
}

// namespacesOf records the namespaces that applications create and use.
func (l *lacks) namespacesOf(x fluxset.Expansion) {
	creators := map[namespace][]fluxset.Application{}
	apps := slices.Concat(x.Roots, x.Applications)
	for _, app := range apps {
		for _, o := range app.Objects {
			if strict.Text(o.Node, "kind") == "Namespace" {
				of := namespace{app.Remote, strict.Text(o.Node, "metadata", "name")}
				creators[of] = append(creators[of], app)
				l.has[of] = true
			}
		}
	}
	for _, app := range apps {
		if app.Remote != "" && app.LeftOut != "" {
			continue
		}
		for of, at := range used(app) {
			l.namespaces[of] = first(l.namespaces[of], at)
			l.unsure[of] = l.unsure[of] || !slices.ContainsFunc(creators[of], func(c fluxset.Application) bool {
				return c.Key() == app.Key() || slices.Contains(app.After, c.Key()) || c.Certain && !slices.Contains(c.After, app.Key())
			})
		}
	}
}

// used returns the namespaces that an application uses.
func used(app fluxset.Application) map[namespace]lab.Position {
	uses := map[namespace]lab.Position{}
	for _, o := range app.Objects {
		use := func(cluster, name string) {
			if of := (namespace{cluster, name}); name != "" {
				uses[of] = first(uses[of], lab.Position{File: o.File, Line: o.Line})
			}
		}
		in := strict.Text(o.Node, "metadata", "namespace")
		if strict.Text(o.Node, "kind") != "Namespace" {
			use(app.Remote, in)
		}
		if strict.Text(o.Node, "kind") != "HelmRelease" {
			continue
		}
		remote := app.RemoteOf(o)
		use(remote, strict.Text(o.Node, "spec", "storageNamespace"))
		if strict.Text(o.Node, "spec", "install", "createNamespace") != "true" {
			use(remote, cmp.Or(strict.Text(o.Node, "spec", "targetNamespace"), in))
		}
	}
	return uses
}

// decryption matches keys of Secrets that kustomize-controller parses, in ImportKeys of internal/decryptor. One that is invalid fails every Kustomization with the
// Secret in spec.decryption, even if it has nothing to decrypt.
var decryption = regexp.MustCompile(`\.(agekey|asc)$|^sops\.(aws-kms|azure-kv|gcp-kms)$`)

// encrypted adds a seed for an encrypted ConfigMap or Secret, without keys for decryption.
func (l *lacks) encrypted(o render.Document) {
	kind, name, in := strict.Text(o.Node, "kind"), fluxset.Name(o.Node), cmp.Or(strict.Text(o.Node, "metadata", "namespace"), corev1.NamespaceDefault)
	if kind != "Secret" && kind != "ConfigMap" {
		return
	}
	at := lab.Position{File: o.File, Line: o.Line}
	i := slices.IndexFunc(l.seeds, func(s *seed) bool { return s.kind == kind && s.namespace == in && s.name == name })
	if i < 0 {
		l.seeds = append(l.seeds, &seed{kind: kind, namespace: in, name: name, at: at, found: map[string]map[string]string{}})
		i = len(l.seeds) - 1
	}
	l.seeds[i].of = strict.Text(o.Node, "type")
	for _, key := range slices.Sorted(maps.Keys(fluxset.Data(o.Node))) {
		if !decryption.MatchString(key) && !strings.HasPrefix(key, "sops_") { // the latter are SOPS's own in a file of variables
			l.seeds[i].read(fluxset.ReadKey{Name: key, At: at}, fill.Text)
		}
	}
}

// paths sets the cluster's variables in paths of Kustomizations to existing folders, preferably named after the cluster or
// its environment.
func (d *drafting) paths(r *fluxroot.Root, app fluxset.Application, found map[string]bool) {
	c := &d.estate.Clusters[slices.IndexFunc(d.estate.Clusters, func(c lab.Cluster) bool { return c.Name == r.Cluster })]
	for _, u := range app.Unset {
		before, after, _ := strings.Cut(u.Text, "${"+u.Name+"}")
		if _, has := c.Metadata[u.Name]; has || u.Kind != "Kustomization" || !slices.Equal(u.Field, []string{"spec", "path"}) || strings.Contains(before+after, "${") {
			continue
		}
		dir := path.Clean(strings.TrimPrefix(path.Join("/", path.Dir(before+"x")), "/"))
		entries, _ := fs.ReadDir(r.Tree.FS, cmp.Or(dir, "."))
		var fit []string
		for _, e := range entries {
			value, fits := strings.CutPrefix(e.Name(), strings.TrimSuffix(path.Base(before+"x"), "x"))
			info, err := fs.Stat(r.Tree.FS, path.Join(dir, e.Name(), after))
			if fits && err == nil && info.IsDir() {
				fit = append(fit, value)
			}
		}
		if len(fit) > 0 {
			best := d.choose(Choice{About: "annotation " + u.Name + " of cluster " + c.Name, At: u.At, Of: highest(fit, func(value string) int { return closeness(value, r.Cluster) })})
			c.Metadata[u.Name], found[u.Name] = best, true
			d.note(Key{Name: u.Name, Value: best, How: Found, At: u.At})
		}
	}
}

// closeness returns how well a folder's name matches a cluster.
func closeness(folder, cluster string) int {
	switch stage := stageOf(cluster); {
	case folder == cluster:
		return 3
	case stage != "" && stageOf(folder) == stage, hasWords(cluster, folder):
		return 2
	case folder == "base" || folder == "components":
		return 0
	default:
		return 1
	}
}
