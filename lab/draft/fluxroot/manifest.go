package fluxroot

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/draft/manifest"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/strict"
)

const sourceVersion, kustomizeVersion = "source.toolkit.fluxcd.io/v1", "kustomize.toolkit.fluxcd.io/v1"

// withoutFlux deletes objects that install Flux.
var withoutFlux = []fluxset.Patch{fluxset.WithoutFlux(), fluxset.WithoutOperator()}

// Manifest returns the root of a cluster: the estate's folder of the cluster, under a name, then the root's with its Kustomization's spec, after another Kustomization
// unless that is empty.
func (r *Root) Manifest(estate, after string) string {
	var b strings.Builder
	b.WriteString("# Flux's root: the estate, then " + path.Join(r.Tree.Dir, r.Dir) + ", both from the lab's forge.\n")
	b.WriteString(object(sourceVersion, "GitRepository", estate, fetch(fluxset.Anywhere, branch("main"))) + "---\n")
	b.WriteString(object(kustomizeVersion, "Kustomization", estate, reconcile(estate, path.Join(lab.ClustersDir, r.Cluster))) + "---\n")
	source := cmp.Or(strict.Text(r.Spec, "sourceRef", "name"), r.Name)
	from := fetch(r.Repo.URL, r.revision())
	ignore := r.ignore
	for _, name := range r.hidden {
		ignore = strings.TrimLeft(strings.TrimRight(ignore, "\n")+"\n/"+name+"\n", "\n")
	}
	if ignore != "" {
		from.Add("ignore", ignore)
	}
	b.WriteString(object(sourceVersion, "GitRepository", source, from) + "---\n")
	spec := reconcile(source, r.Dir)
	for key, value := range strict.Pairs(r.Spec) {
		switch key.Value {
		case "path", "prune", "sourceRef", "interval", "retryInterval", "patches", "dependsOn", "suspend", "patchesStrategicMerge", "patchesJson6902", "validation": // the last are of old APIs
		case "healthChecks":
			if checks := r.Adaptation.HealthChecks(value); len(checks.Content) > 0 {
				spec.Add(key.Value, checks)
			}
		default:
			spec.Add(key.Value, value)
		}
	}
	spec.Add("patches", r.patches())
	if after != "" {
		spec.Add("dependsOn", []map[string]string{{"name": after, "namespace": flux.NamespaceOf(r.Cluster)}})
	}
	b.WriteString(object(kustomizeVersion, "Kustomization", r.Name, spec))
	return b.String()
}

// patches returns the patches of the root's Kustomization, then lab's, with their reasons.
func (r *Root) patches() *yaml.Node {
	patches := &yaml.Node{Kind: yaml.SequenceNode}
	add := func(patch any, comment string) {
		var n yaml.Node
		if err := n.Encode(patch); err != nil {
			panic(err) // our own text
		}
		n.HeadComment = cmp.Or(comment, n.HeadComment)
		patches.Content = append(patches.Content, &n)
	}
	for _, p := range fluxset.Patches(r.Spec) {
		add(p, "")
	}
	for _, p := range slices.Concat(withoutFlux, r.Adaptation.Patches) {
		comment := ""
		if p.Why != "" {
			comment = p.Why + ": " + p.At.String()
		}
		add(p, comment)
	}
	return patches
}

// WithoutVariables drops the root's variables, which may not be known yet.
func (r *Root) WithoutVariables() {
	if strict.Get(r.Spec, "postBuild") == nil {
		return
	}
	kept := *r.Spec
	kept.Content = nil
	for key, value := range strict.Pairs(r.Spec) {
		if key.Value != "postBuild" {
			kept.Content = append(kept.Content, key, value)
		}
	}
	r.Spec = &kept
}

// Source returns a GitRepository of the root's repository and revision.
func (r *Root) Source(namespace, name string) string {
	return manifest.Object(sourceVersion, "GitRepository", manifest.Of("name", name, "namespace", namespace), "spec", fetch(r.Repo.URL, r.revision()))
}

// revision returns the reference to the root's revision.
func (r *Root) revision() *yaml.Node { return cmp.Or(r.ref, branch(r.Repo.Branch)) }

func branch(name string) *yaml.Node { return &manifest.Of("branch", name).Node }

func fetch(url string, ref *yaml.Node) *manifest.Mapping {
	return manifest.Of("interval", "1m0s", "url", url, "ref", ref)
}

func reconcile(source, dir string) *manifest.Mapping {
	if dir == "." {
		dir = ""
	}
	return manifest.Of("interval", "10m0s", "retryInterval", "15s", "path", "./"+dir, "prune", true, "sourceRef", manifest.Of("kind", "GitRepository", "name", source))
}

func object(apiVersion, kind, name string, spec *manifest.Mapping) string {
	return manifest.Object(apiVersion, kind, manifest.Of("name", name, "namespace", flux.Namespace), "spec", spec)
}
