package draft

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/fstest"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/draft/manifest"
	"homelab/lab/estate"
	"homelab/lab/fill"
)

func (d *drafting) write() fstest.MapFS {
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
		out[lab.EnvironmentsDir+"/"+e.Name+"/environment.yaml"] = manifest.Environment(e, manifest.Origins{Label: d.comment(true), Metadata: d.comment(false)})
	}
	for _, c := range d.estate.Clusters {
		out[lab.ClusterFile(c.Name)] = manifest.Cluster(c, d.switched(c), manifest.Origins{
			Label: d.registeredComment(c.Name, true), Metadata: d.registeredComment(c.Name, false),
			Namespace: func(name string) string { return d.origin(namespaceKey(name, lab.Position{})) },
			Secret:    func(k lab.KubeconfigSecret) string { return d.origin(Key{In: "secret " + k.String(), Name: k.Key}) },
		})
	}
	return out
}

// switched returns the switches of a cluster.
func (d *drafting) switched(c lab.Cluster) manifest.Mapping {
	addons := manifest.Mapping{}
	for _, a := range d.Addons {
		if on, ok := c.Addons[a.Addon]; ok {
			addons.Add(a.Addon, on)
			addons.Comment(a.Why)
		}
	}
	return addons
}

// origin returns where a key comes from, or "".
func (d *drafting) origin(of Key) string {
	switch k, ok := d.keys[of.id()]; {
	case !ok:
		return ""
	case k.How == Open:
		return fill.Comment(k.Type, k.At)
	default:
		return k.How + ": " + k.At.String()
	}
}

// comment returns the origin of a key's value.
func (d *drafting) comment(label bool) func(string) string {
	return func(name string) string { return d.origin(Key{Name: name, Label: label}) }
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
		if own := d.origin(Key{In: labelsOf(cluster), Name: name, Label: label}); own != "" {
			return own
		}
		for _, c := range d.Choices {
			if c.About == (Key{Label: label}).Kind()+" "+name+" of cluster "+cluster {
				return comment(name) + ", one of " + strings.Join(c.Of, ", ")
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
		anything := []map[string]string{{"group": "*", "kind": "*"}}
		spec := manifest.Of("sourceRepos", []string{"*"}, "destinations", []map[string]string{{"namespace": "*", "server": "*"}}, "clusterResourceWhitelist", anything)
		b.WriteString(d.argo("AppProject", name, spec) + "---\n")
	}
	for _, doc := range d.docs {
		if d.taken[doc] && d.own[doc] {
			b.WriteString(manifest.Encode(d.syncable(doc)) + "---\n")
		}
	}
	var sources []*yaml.Node
	for _, s := range d.sources() {
		m := manifest.Of("repoURL", s.repo.URL, "path", s.dir, "targetRevision", "HEAD")
		if s.helm != nil {
			m.Add("helm", manifest.Of("valueFiles", s.helm.ValueFiles))
		}
		if len(s.patches) > 0 {
			m.Add("kustomize", manifest.Of("patches", &yaml.Node{Kind: yaml.SequenceNode, Content: s.patches}))
		}
		switch len(s.files) {
		case 0:
		case 1:
			m.Add("directory", manifest.Of("include", s.files[0]))
		default:
			m.Add("directory", manifest.Of("include", "{"+strings.Join(s.files, ",")+"}"))
		}
		sources = append(sources, &m.Node)
	}
	if len(sources) == 0 {
		return strings.TrimSuffix(b.String(), "---\n")
	}
	spec := manifest.Of("project", "default")
	if len(sources) == 1 {
		spec.Add("source", sources[0])
	} else {
		spec.Add("sources", &yaml.Node{Kind: yaml.SequenceNode, Content: sources})
	}
	spec.Add("destination", manifest.Of("server", appset.InCluster, "namespace", estate.NamespaceOf(d.estate)))
	spec.Add("syncPolicy", manifest.Of("automated", manifest.Of("prune", true, "selfHeal", true)))
	return b.String() + d.argo("Application", d.rootName(), spec)
}

// rootName returns a name that no Application of the repositories has.
func (d *drafting) rootName() string {
	taken := map[string]bool{}
	for _, doc := range d.docs {
		for _, app := range d.applications(doc) {
			taken[app.Metadata.Name] = taken[app.Metadata.Name] || !doc.folder
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

func (d *drafting) argo(kind, name string, spec *manifest.Mapping) string {
	return manifest.Object("argoproj.io/v1alpha1", kind, manifest.Of("name", name, "namespace", estate.NamespaceOf(d.estate)), "spec", spec)
}
