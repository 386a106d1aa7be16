package draft

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"homelab/lab"
	"homelab/lab/draft/fluxroot"
	"homelab/lab/draft/manifest"
	"homelab/lab/fill"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
)

// seedsAddon returns the addon with the namespaces, ConfigMaps, Secrets and ServiceAccounts that do not come from Git upstream.
func (d *drafting) seedsAddon() string { return d.flux.Free("seeds") }

// seed is a ConfigMap, Secret or ServiceAccount that the repositories reference but do not contain.
type seed struct {
	kind, namespace, name string
	remote                string // cluster that lacks it, or empty for Flux's
	reader                string // cluster of the application that reads it
	of                    string // type of a Secret
	at                    lab.Position
	keys                  []seedKey
	variables             bool                         // its keys are variables
	bound                 bool                         // a ServiceAccount with a role
	found                 map[string]map[string]string // data in the repositories, which is applied too late, by key and cluster
}

func (s *seed) String() string {
	return strings.TrimSpace(s.remote + " " + strings.ToLower(s.kind) + " " + s.namespace + "/" + s.name)
}

// is reports whether a read is of the seed.
func (s *seed) is(r fluxset.Read) bool {
	return s.kind == r.Kind && s.namespace == r.Namespace && s.name == r.Name && s.remote == r.Cluster
}

// same returns the value of a key in the repositories, if all clusters have the same.
func (s *seed) same(name string) (string, bool) {
	values := slices.Compact(slices.Sorted(maps.Values(s.found[name])))
	if len(values) != 1 {
		return "", false
	}
	return values[0], true
}

// read adds a key. Of several types, the first that is not any text counts.
func (s *seed) read(k fluxset.ReadKey, kind fill.Type) {
	i := slices.IndexFunc(s.keys, func(o seedKey) bool { return o.Name == k.Name })
	if i < 0 {
		s.keys = append(s.keys, seedKey{k, kind})
		return
	}
	s.keys[i].kind, s.keys[i].Text = cmp.Or(s.keys[i].kind, kind), s.keys[i].Text || k.Text
}

// seeds returns the addon's files, for all clusters with a root, or nil if nothing is missing, and what the repositories lack.
func (d *drafting) seeds(roots []fluxroot.Root) (files, *lacks) {
	for i := range d.estate.Clusters {
		c := &d.estate.Clusters[i]
		if slices.ContainsFunc(roots, func(r fluxroot.Root) bool { return r.Cluster == c.Name }) {
			c.Addons[d.seedsAddon()] = true
		}
	}
	l := &lacks{namespaces: map[namespace]lab.Position{}, has: map[namespace]bool{}, unsure: map[namespace]bool{}}
	for range deepest { // set variables may reveal more
		before := l.size()
		d.lack(l, roots)
		var keys []string
		for _, s := range l.seeds {
			for _, k := range s.keys {
				keys = append(keys, k.Name)
			}
		}
		if d.provide(keys); l.size() == before {
			break
		}
	}
	for of := range l.namespaces {
		owner, _ := flux.ClusterOf(of.name)
		_, ofCluster := d.estate.Cluster(owner)
		if ofCluster && of.cluster == "" || l.has[of] && !l.unsure[of] || builtin(of.name) && !(of.cluster != "" && of.name == flux.Namespace) {
			delete(l.namespaces, of)
		}
	}
	for _, s := range l.seeds { // seeds need their namespaces early
		if of := (namespace{s.remote, s.namespace}); !builtin(s.namespace) {
			l.namespaces[of] = first(l.namespaces[of], s.at)
		}
	}
	for _, s := range l.sources {
		if of := (namespace{"", s.namespace}); !builtin(s.namespace) {
			l.namespaces[of] = first(l.namespaces[of], s.at)
		}
	}
	out := files{}
	home := d.seed(out, l, "", d.seedsAddon(), roots[0].At)
	for i := range d.estate.Clusters {
		c := &d.estate.Clusters[i]
		if !home {
			delete(c.Addons, d.seedsAddon())
		}
		if addon := d.seedsAddon() + "-" + c.Name; c.Role == lab.RoleSpoke && d.seed(out, l, c.Name, addon, roots[0].At) {
			c.Addons[addon] = true
		}
	}
	return out, l
}

// seed adds the addon with what a remote cluster lacks, or Flux's if remote is empty. It reports whether there is anything.
func (d *drafting) seed(out files, l *lacks, remote, addon string, root lab.Position) bool {
	var texts, names []string
	for of := range l.namespaces {
		if of.cluster == remote {
			names = append(names, of.name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		texts = append(texts, manifest.Object("v1", "Namespace", manifest.Of("name", name)))
		d.note(Key{In: strings.TrimSpace(remote + " namespace " + name), How: Found, At: l.namespaces[namespace{remote, name}]})
	}
	for _, s := range l.seeds {
		if s.remote == remote {
			texts = append(texts, d.seedText(s))
		}
	}
	for _, s := range l.sources {
		if remote == "" {
			texts = append(texts, s.text())
			d.note(Key{In: s.String(), Name: "url", Value: s.of.Repo.URL, How: Found, At: s.at})
		}
	}
	if len(texts) == 0 {
		return false
	}
	d.Addons = append(d.Addons, Switch{Addon: addon, On: true, At: root})
	out[path.Join(fluxset.Dir(addon), "seeds.yaml")] = "# Objects that the repositories read but do not contain: upstream they do not come from Git.\n" + strings.Join(texts, "---\n")
	return true
}

func first(a, b lab.Position) lab.Position {
	if a.File != "" {
		return a
	}
	return b
}

func builtin(namespace string) bool {
	return namespace == corev1.NamespaceDefault || namespace == flux.Namespace || strings.HasPrefix(namespace, "kube-")
}

// expandRoot follows a root through the repositories, once with the same data.
func (d *drafting) expandRoot(r fluxroot.Root, l *lacks) fluxset.Expansion {
	file := lab.FluxRootFile(r.Cluster)
	in, text := d.inputs(), r.Manifest(d.estateName(), "")
	for _, s := range l.sources {
		text += "---\n" + s.text()
	}
	scope := d.scope(r.Cluster)
	same := fmt.Sprint(file, text, scope)
	for _, s := range l.seeds {
		same += fmt.Sprintln(s.kind, s.remote, s.namespace, s.name, d.dataOf(r.Cluster, s))
	}
	if x, known := d.followed[same]; known {
		return x
	}
	x := fluxset.Expand(fluxset.World{
		FS: files{file: text}.fs(), Budget: d.budget, Scope: scope, Extra: []string{flux.SourceWatcher}, Artifacts: true,
		Vars:    func(string, string) map[string]string { return nil },
		Assumed: func(read fluxset.Read) map[string]string { return d.assumed(r.Cluster, l, read) },
		Repository: func(url, revision string) (fs.FS, string, error) {
			m, mounted := in.Mounted(url)
			if !mounted {
				return nil, "", &fluxset.Absent{}
			}
			at, err := m.Of(revision)
			if err != nil {
				return nil, "", &fluxset.Absent{}
			}
			return at.FS, at.Dir, nil
		},
	}, file)
	d.followed[same] = x
	return x
}

// assumed returns the future data of a cluster's seed.
func (d *drafting) assumed(cluster string, l *lacks, read fluxset.Read) map[string]string {
	i := slices.IndexFunc(l.seeds, func(s *seed) bool { return s.is(read) })
	if i < 0 {
		return nil
	}
	return d.dataOf(cluster, l.seeds[i])
}

func (d *drafting) dataOf(cluster string, s *seed) map[string]string {
	data := map[string]string{}
	for _, k := range s.keys {
		of := d.valueOf(s, k)
		if of.variable != "" {
			of.text = d.variable(cmp.Or(s.reader, cluster), of.variable)
		}
		data[k.Name] = of.text
	}
	return data
}

// secretWord matches names of variables that belong in a Secret, if there is one.
var secretWord = regexp.MustCompile(`(?i)password|passwd|token|secret|private|credential|api_?key`)

// reads adds seeds for an application. An unset variable goes to the first that may contain it.
func (d *drafting) reads(list *[]*seed, cluster string, app fluxset.Application) {
	var open []*seed // possible sources of variables
	for _, r := range app.Reads {
		if r.Known || r.Name == "" {
			continue
		}
		i := slices.IndexFunc(*list, func(s *seed) bool { return s.is(r) })
		var s *seed
		if i >= 0 {
			s = (*list)[i]
		} else {
			s = &seed{kind: r.Kind, namespace: r.Namespace, name: r.Name, remote: r.Cluster, at: r.At, bound: r.Bound, found: map[string]map[string]string{}}
			if c, known := d.estate.Cluster(app.Cluster); known && c.Role == lab.RoleSpoke && len(d.remotes) > 0 {
				s.reader = c.Name
			}
		}
		if s.variables = s.variables || r.Variables; r.Variables {
			open = append(open, s)
		}
		if r.Optional && r.Late == nil {
			continue
		}
		if i < 0 {
			*list = append(*list, s)
		}
		for _, name := range slices.Sorted(maps.Keys(r.Late)) {
			s.read(fluxset.ReadKey{Name: name, At: r.At}, fill.Text)
			if s.found[name] == nil {
				s.found[name] = map[string]string{}
			}
			s.found[name][cluster] = r.Late[name]
		}
		for _, k := range r.Keys {
			s.read(k, fill.Text)
		}
	}
	for _, u := range app.Unset {
		if len(open) == 0 {
			return
		}
		i := max(slices.IndexFunc(open, func(s *seed) bool { return (s.kind == "Secret") == secretWord.MatchString(u.Name) }), 0)
		open[i].read(fluxset.ReadKey{Name: u.Name, At: u.At}, d.kindOf(app, u))
		if !slices.Contains(*list, open[i]) {
			*list = append(*list, open[i])
		}
	}
}

func (d *drafting) seedText(s *seed) string {
	field := "data"
	if s.kind == "Secret" {
		field = "stringData"
	}
	data := manifest.Mapping{}
	for _, k := range s.keys {
		of, comment, how := d.valueOf(s, k), Found+": "+k.At.String(), Found
		text := strings.ReplaceAll(of.text, "${", "$${") // no variable
		switch {
		case of.open:
			comment, how = fill.Comment(s.kindOf(k), k.At), Open
		case of.variable != "" && s.reader != "": // Flux's cluster has other values
			of.text = d.variable(s.reader, of.variable)
			text = of.text
		case of.variable != "":
			of.text = "${" + of.variable + "}"
			text = "${quote}" + of.text + "${quote}"
		}
		data.Add(k.Name, text)
		data.Comment(comment)
		d.note(Key{In: s.String(), Name: k.Name, Value: of.text, How: how, Type: s.kindOf(k), At: k.At})
	}
	if len(s.keys) == 0 {
		d.note(Key{In: s.String(), How: Found, At: s.at})
	}
	meta := manifest.Of("name", s.name, "namespace", s.namespace)
	if len(s.found) > 0 { // then it is the repositories'
		meta.Add("annotations", map[string]string{kustomizev1.GroupVersion.Group + "/ssa": kustomizev1.IfNotPresentValue})
	}
	if s.variables && len(s.keys) == 0 {
		data.Add("lab_seed", "")
		data.Comment("without any variable, Flux would not apply defaults either")
	}
	text := manifest.Object("v1", s.kind, meta, "type", s.of, field, &data)
	if s.kind == rbacv1.ServiceAccountKind && !s.bound {
		text += "---\n" + binding(s)
	}
	return text
}

// binding makes a ServiceAccount cluster-admin, as no repository limits it.
func binding(s *seed) string {
	role := manifest.Of("apiGroup", rbacv1.GroupName, "kind", "ClusterRole", "name", "cluster-admin")
	role.Comment("no repository binds a role to the account")
	subjects := []map[string]string{{"kind": s.kind, "name": s.name, "namespace": s.namespace}}
	return manifest.Object(rbacv1.SchemeGroupVersion.String(), "ClusterRoleBinding", manifest.Of("name", s.namespace+"-"+s.name), "roleRef", role, "subjects", subjects)
}

// byHand is a GitRepository that Kustomizations refer to and nothing creates: upstream it is created by hand, for the repository that contains them.
type byHand struct {
	namespace, name string
	of              fluxroot.Root
	at              lab.Position // of a Kustomization
}

func (s byHand) String() string { return "gitrepository " + s.namespace + "/" + s.name }

func (s byHand) text() string { return s.of.Source(s.namespace, s.name) }

// source adds the missing sources of an application and of its charts, if the root's repository has their folders.
func (l *lacks) source(r fluxroot.Root, app fluxset.Application) {
	add := func(missing, dir string, at lab.Position) {
		of, ok := strings.CutPrefix(missing, "GitRepository ")
		namespace, name, _ := strings.Cut(of, "/")
		if !ok || dir == "." || name == "" || slices.ContainsFunc(l.sources, func(s byHand) bool { return s.namespace == namespace && s.name == name }) {
			return
		}
		if info, err := fs.Stat(r.Tree.FS, strings.TrimPrefix(path.Join("/", dir), "/")); err == nil && info.IsDir() {
			l.sources = append(l.sources, byHand{namespace, name, r, at})
		}
	}
	add(app.Missing, app.Path, app.At)
	for _, release := range app.Releases {
		if release.URL == "" {
			add(release.Source, release.Folder, release.At)
		}
	}
}
