package draft

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/estate"
)

func (d *drafting) write() fs.FS {
	out := d.estateFiles()
	missing := d.missingProjects()
	out[lab.RootFile] = d.root(missing)
	reach := estate.Reached(out.fs(), d.estate.Name, d.estate.Repositories, d.projects)
	if len(reach.Projects) > 0 { // also of generated Applications
		missing = append(missing, reach.Projects...)
		slices.Sort(missing)
		out[lab.RootFile] = d.root(slices.Compact(missing))
	}
	if len(reach.Addons) > 0 { // of sets that nothing leads to
		d.Addons = slices.DeleteFunc(d.Addons, func(s Switch) bool { return slices.Contains(reach.Addons, s.Addon) })
		maps.Copy(out, d.estateFiles())
	}
	return out.fs()
}

func (d *drafting) estateFiles() files {
	out := files{}
	for _, e := range d.estate.Environments {
		spec := mapping{}
		if e.Name != lab.DefaultEnvironment {
			spec.add("order", e.Order)
		}
		if e.Cloud.Provider != "" {
			spec.add("cloud", plain("provider", e.Cloud.Provider))
		}
		spec.addTexts("labels", e.Labels, d.comment(true))
		spec.addTexts("metadata", e.Metadata, d.comment(false))
		text := labDocument("Environment", e.Name, spec)
		if e.Name == lab.DefaultEnvironment {
			text = d.open() + text
		}
		out[lab.EnvironmentsDir+"/"+e.Name+"/environment.yaml"] = text
	}
	for _, c := range d.estate.Clusters {
		spec := mapping{}
		spec.add("role", string(c.Role))
		if c.Environment != "" {
			spec.add("environment", c.Environment)
		}
		switch {
		case c.Engine.Type == lab.EngineFlux:
			engine := plain("type", string(c.Engine.Type))
			engine.add("shape", string(c.Engine.Shape))
			if len(c.Engine.Extra) > 0 {
				engine.add("componentsExtra", c.Engine.Extra)
			}
			spec.add("engine", engine)
		case c.Engine.Namespace != "":
			spec.add("engine", plain("namespace", c.Engine.Namespace))
		}
		if c.Server != "" {
			spec.add("server", c.Server)
			spec.comment("as in manifests")
		}
		spec.addTexts("repositories", c.Mounts, nil)
		if len(c.Namespaces) > 0 {
			spec.add("namespaces", d.namespaceList(c))
		}
		if len(c.KubeconfigSecrets) > 0 {
			spec.add("kubeconfigSecrets", d.kubeconfigSecrets(c))
		}
		spec.addTexts("labels", c.Labels, d.registeredComment(c.Name, true))
		spec.addTexts("metadata", c.Metadata, d.registeredComment(c.Name, false))
		addons := mapping{}
		for _, a := range d.Addons {
			if on, ok := c.Addons[a.Addon]; ok {
				addons.add(a.Addon, on)
				addons.comment(a.Why)
			}
		}
		if len(addons.node.Content) > 0 {
			spec.add("addons", &addons.node)
		}
		out[lab.ClusterFile(c.Name)] = labDocument("Cluster", c.Name, spec)
	}
	return out
}

// kubeconfigSecrets returns a cluster's Secrets on the hub, each with the file and line that refers to it.
func (d *drafting) kubeconfigSecrets(c lab.Cluster) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, k := range c.KubeconfigSecrets {
		m := plain("namespace", k.Namespace)
		m.add("name", k.Name)
		if k.Key != lab.FluxKubeconfigKey {
			m.add("key", k.Key)
		}
		m.node.Style = yaml.FlowStyle
		if of, ok := d.keys[(Key{In: "secret " + k.String(), Name: k.Key}).id()]; ok {
			m.node.LineComment = Found + ": " + of.At.String()
		}
		list.Content = append(list.Content, &m.node)
	}
	return list
}

// open returns a comment with the keys without a value.
func (d *drafting) open() string {
	var b strings.Builder
	for _, k := range d.Keys {
		if k.How == Open {
			fmt.Fprintf(&b, "# set spec.metadata.%s: %s reads it\n", k.Name, k.At)
		}
	}
	return b.String()
}

// comment returns the origin of a key's value.
func (d *drafting) comment(label bool) func(string) string {
	return func(name string) string {
		k, ok := d.keys[fmt.Sprint(label, name)]
		if !ok {
			return ""
		}
		return k.How + ": " + k.At.String()
	}
}

// registeredComment is like comment, for a cluster that may have a Secret.
func (d *drafting) registeredComment(cluster string, label bool) func(string) string {
	comment := d.comment(label)
	return func(name string) string {
		for _, t := range d.secrets {
			values := t.metadata
			if label {
				values = t.labels
			}
			if _, ok := values[name]; ok && t.name == cluster {
				return Found + ": " + t.at.String()
			}
		}
		return comment(name)
	}
}

// root returns the app of apps, which syncs the folders of root documents.
func (d *drafting) root(missing []string) string {
	var b strings.Builder
	b.WriteString("# The root: it syncs everything else.\n")
	for _, name := range missing {
		spec := mapping{}
		spec.add("sourceRepos", []string{"*"})
		spec.add("destinations", []map[string]string{{"namespace": "*", "server": "*"}})
		spec.add("clusterResourceWhitelist", []map[string]string{{"group": "*", "kind": "*"}})
		b.WriteString(d.argo("AppProject", name, spec) + "---\n")
	}
	for _, doc := range d.docs {
		if d.taken[doc] && d.own[doc] {
			b.WriteString(encoded(d.syncable(doc)) + "---\n")
		}
	}
	var sources []*yaml.Node
	for _, s := range d.sources() {
		m := mapping{}
		m.add("repoURL", s.repo.URL)
		m.add("path", s.dir)
		m.add("targetRevision", "HEAD")
		if s.helm != nil {
			m.add("helm", plain("valueFiles", s.helm.ValueFiles))
		}
		switch len(s.files) {
		case 0:
		case 1:
			m.add("directory", plain("include", s.files[0]))
		default:
			m.add("directory", plain("include", "{"+strings.Join(s.files, ",")+"}"))
		}
		sources = append(sources, &m.node)
	}
	if len(sources) == 0 {
		return strings.TrimSuffix(b.String(), "---\n")
	}
	spec := mapping{}
	spec.add("project", "default")
	if len(sources) == 1 {
		spec.add("source", sources[0])
	} else {
		spec.add("sources", &yaml.Node{Kind: yaml.SequenceNode, Content: sources})
	}
	destination := mapping{}
	destination.add("server", "https://kubernetes.default.svc")
	destination.add("namespace", estate.NamespaceOf(d.estate))
	spec.add("destination", &destination.node)
	policy := mapping{}
	policy.add("automated", map[string]bool{"prune": true, "selfHeal": true})
	spec.add("syncPolicy", &policy.node)
	return b.String() + d.argo("Application", d.rootName(), spec)
}

// rootName returns a name that no Application of the repositories has.
func (d *drafting) rootName() string {
	taken := map[string]bool{}
	for _, doc := range d.docs {
		if doc.folder {
			continue
		}
		if doc.set == nil {
			taken[doc.app.Metadata.Name] = true
		} else if x, err := doc.set.Expand(d.world()); err == nil {
			for _, a := range x.Applications {
				taken[a.Metadata.Name] = true
			}
		}
	}
	name := "root"
	for i := 1; taken[name]; i++ {
		name = "lab-root"
		if i > 1 {
			name = fmt.Sprintf("lab-root-%d", i)
		}
	}
	return name
}

func (d *drafting) argo(kind, name string, spec mapping) string {
	meta := mapping{}
	meta.add("name", name)
	meta.add("namespace", estate.NamespaceOf(d.estate))
	return object("argoproj.io/v1alpha1", kind, meta, spec)
}

func labDocument(kind, name string, spec mapping) string {
	return object(lab.APIVersion, kind, *plain("name", name), spec)
}

func object(apiVersion, kind string, meta, spec mapping) string {
	m := mapping{}
	m.add("apiVersion", apiVersion)
	m.add("kind", kind)
	m.add("metadata", &meta.node)
	if len(spec.node.Content) > 0 {
		m.add("spec", &spec.node)
	}
	return encoded(&m.node)
}

// mapping is an ordered YAML mapping.
type mapping struct{ node yaml.Node }

func plain(key string, value any) *mapping {
	m := &mapping{}
	m.add(key, value)
	return m
}

func (m *mapping) add(key string, value any) {
	m.node.Kind = yaml.MappingNode
	var v yaml.Node
	switch value := value.(type) {
	case *yaml.Node:
		v = *value
	case *mapping:
		v = value.node
	default:
		if err := v.Encode(value); err != nil {
			panic(err) // plain values
		}
	}
	m.node.Content = append(m.node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &v)
}

// comment sets the line comment of the last value.
func (m *mapping) comment(text string) {
	m.node.Content[len(m.node.Content)-1].LineComment = text
}

func (m *mapping) addTexts(key string, values map[string]string, comment func(string) string) {
	if len(values) == 0 {
		return
	}
	inner := mapping{}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		inner.add(k, values[k])
		if comment != nil {
			inner.comment(comment(k))
		}
	}
	m.add(key, &inner.node)
}
