// Package fluxset generates the files that assign addons to clusters for Flux, and expands Kustomizations into
// applications. It is pure.
package fluxset

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/strict"
)

// Mark is the first line of every file that lab writes for Flux.
const Mark = "# Written by lab from cluster.yaml and addons/: do not edit, lab generate writes it again.\n"

// namesFile configures kustomize to update ConfigMap names in HelmReleases, so that changed values change the release.
const namesFile = lab.ClustersDir + "/flux-names.yaml"

// Dir returns the folder of an addon's manifests for Flux.
func Dir(addon string) string { return path.Join(lab.AddonsDir, addon, "flux") }

// PinFile returns the patch that pins an addon's version in an environment.
func PinFile(addon, environment string) string {
	return path.Join(Dir(addon), "versions", environment+".yaml")
}

// Files returns the files by which Flux finds the addons of every cluster, by path. Addons without manifests for Flux are
// left out.
func Files(fsys fs.FS, clusters []lab.Cluster) (map[string]string, error) {
	files := map[string]string{namesFile: Mark + nameReference}
	order, _ := ReadOrder(fsys)
	hub := lab.Cluster{}
	if i := slices.IndexFunc(clusters, func(c lab.Cluster) bool { return c.Role == lab.RoleHub }); i >= 0 {
		hub = clusters[i]
	}
	for _, c := range clusters {
		dir := path.Join(lab.ClustersDir, c.Name)
		c := target{c, hub.Engine.Everywhere(), sourceOf(fsys, hub.Name)}
		if c.standalone {
			c.source = sourceOf(fsys, c.Name)
		}
		var apps []any
		addons := addonsOf(fsys, c.Cluster)
		for _, addon := range addons {
			applies, kept, err := release(fsys, addon)
			if err != nil {
				return nil, err
			}
			app := application(c, addon, applies)
			for _, n := range order[addon] {
				if slices.Contains(addons, n.Addon) {
					app.Spec.DependsOn = append(app.Spec.DependsOn, kustomizev1.DependencyReference{Name: n.Addon})
				}
			}
			if kept {
				app.Spec.DeletionPolicy = kustomizev1.DeletionPolicyOrphan // the release still reads its values
			}
			apps = append(apps, app)
			text, err := kustomization(fsys, c, addon, applies)
			if err != nil {
				return nil, err
			}
			files[path.Join(dir, "addons", addon, "kustomization.yaml")] = text
		}
		resources := []string{}
		if c.runs() {
			resources = append(resources, flux.Namespace)
		}
		var err error
		switch {
		case c.standalone:
			err = bootstrap(fsys, files, hub.Name, c.Name)
		case c.runs():
			err = list(fsys, files, c.Name)
		}
		if err != nil {
			return nil, err
		}
		if len(apps) > 0 {
			text, err := documents(apps)
			if err != nil {
				return nil, err
			}
			files[path.Join(dir, "flux.yaml")] = text
			resources = append(resources, "flux.yaml")
		}
		if c.Role == lab.RoleHub && !c.standalone {
			for _, other := range clusters {
				if other.Name != c.Name {
					resources = append(resources, "../"+other.Name)
				}
			}
			slices.Sort(resources[1:])
		}
		text, err := documents([]any{folder{kustomizeVersion, "Kustomization", "", resources, nil, nil, nil, nil}})
		if err != nil {
			return nil, err
		}
		files[path.Join(dir, "kustomization.yaml")] = text
	}
	return files, nil
}

type target struct {
	lab.Cluster
	standalone bool   // every cluster runs its own Flux
	source     string // the GitRepository of the estate
}

// runs reports whether Flux runs on the cluster itself.
func (t target) runs() bool { return t.standalone || t.Role == lab.RoleHub }

// addonsOf returns a cluster's addons that have manifests for Flux.
func addonsOf(fsys fs.FS, c lab.Cluster) []string {
	var names []string
	for name, on := range c.Addons {
		if on && len(manifests(fsys, name)) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// manifests returns an addon's files for Flux, without versions.
func manifests(fsys fs.FS, addon string) []string {
	entries, _ := fs.ReadDir(fsys, Dir(addon))
	var names []string
	for _, e := range entries {
		if ext := path.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
			names = append(names, path.Join(Dir(addon), e.Name()))
		}
	}
	return names
}

// release reports whether an addon is a HelmRelease, applied on the hub rather than on the cluster itself, and whether it
// is kept when the addon is disabled.
func release(fsys fs.FS, addon string) (found, kept bool, err error) {
	docs, err := documentsOf(fsys, addon)
	for _, d := range docs {
		if strict.Text(d.node, "kind") == "HelmRelease" {
			found, kept = true, kept || strict.Text(d.node, "metadata", "annotations", flux.Prune) == "disabled"
		}
	}
	return found, kept, err
}

const up = "../../../../" // from clusters/NAME/addons/ADDON to the estate

const kustomizeVersion = "kustomize.config.k8s.io/v1beta1"

// folder has the fields of a kustomization.yaml that lab writes.
type folder struct {
	APIVersion     string      `json:"apiVersion"`
	Kind           string      `json:"kind"`
	Namespace      string      `json:"namespace,omitempty"`
	Resources      []string    `json:"resources"`
	Configurations []string    `json:"configurations,omitempty"`
	Generator      []configMap `json:"configMapGenerator,omitempty"`
	Options        any         `json:"generatorOptions,omitempty"`
	Patches        []patch     `json:"patches,omitempty"`
}

type configMap struct {
	Name     string   `json:"name"`
	Files    []string `json:"files,omitempty"`
	Literals []string `json:"literals,omitempty"`
	Options  any      `json:"options,omitempty"`
}

type patch struct {
	Path   string            `json:"path,omitempty"`
	Target map[string]string `json:"target,omitempty"`
	Patch  string            `json:"patch,omitempty"`
}

const nameReference = `nameReference:
- kind: ConfigMap
  version: v1
  fieldSpecs:
  - kind: HelmRelease
    path: spec/valuesFrom/name
`

// kustomization returns the kustomization of an addon on a cluster: manifests, pinned version and layers of values.
func kustomization(fsys fs.FS, c target, addon string, release bool) (string, error) {
	k := folder{APIVersion: kustomizeVersion, Kind: "Kustomization"}
	own := false
	for _, name := range manifests(fsys, addon) {
		own = own || path.Base(name) == "kustomization.yaml"
	}
	if own {
		k.Resources = []string{up + Dir(addon)}
	} else {
		for _, name := range manifests(fsys, addon) {
			k.Resources = append(k.Resources, up+name)
		}
	}
	if pin := PinFile(addon, c.Environment); exists(fsys, pin) {
		k.Patches = append(k.Patches, patch{Path: up + pin})
	}
	if release {
		k.Namespace = flux.NamespaceOf(c.Name)
		k.Configurations = []string{"../../../" + path.Base(namesFile)}
		k.layers(fsys, c.Cluster, addon)
		if !c.runs() {
			k.Patches = append(k.Patches, patch{
				Target: map[string]string{"kind": "HelmRelease"},
				Patch:  "- op: add\n  path: /spec/kubeConfig\n  value: {secretRef: {name: " + flux.ClusterKubeconfig + "}}\n",
			})
		}
	}
	return documents([]any{k})
}

func exists(fsys fs.FS, name string) bool {
	if name == "" {
		return false
	}
	_, err := fs.Stat(fsys, name)
	return err == nil
}

// application returns the Flux Kustomization of an addon on a cluster.
func application(c target, addon string, release bool) kustomizev1.Kustomization {
	k := kustomizev1.Kustomization{
		TypeMeta:   metav1.TypeMeta{APIVersion: kustomizev1.GroupVersion.String(), Kind: kustomizev1.KustomizationKind},
		ObjectMeta: metav1.ObjectMeta{Name: addon, Namespace: flux.NamespaceOf(c.Name)},
		Spec: kustomizev1.KustomizationSpec{
			SourceRef:     kustomizev1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: c.source, Namespace: flux.Namespace},
			Path:          "./" + path.Join(lab.ClustersDir, c.Name, "addons", addon),
			Interval:      metav1.Duration{Duration: interval},
			RetryInterval: &metav1.Duration{Duration: retry},
			Timeout:       &metav1.Duration{Duration: timeout},
			Prune:         true,
			Wait:          true,
			PostBuild: &kustomizev1.PostBuild{
				Substitute:     map[string]string{"quote": `"`}, // keeps numbers strings: ${quote}${aws_account_id}${quote}
				SubstituteFrom: []kustomizev1.SubstituteReference{{Kind: "ConfigMap", Name: flux.ClusterVars}},
			},
		},
	}
	if !release && !c.runs() {
		k.Spec.KubeConfig = &meta.KubeConfigReference{SecretRef: &meta.SecretKeyReference{Name: flux.ClusterKubeconfig}}
	}
	return k
}

// documents formats a generated file.
func documents(objects []any) (string, error) {
	out := Mark
	for i, o := range objects {
		data, err := yaml.Marshal(o)
		if err != nil {
			return "", err
		}
		var m map[string]any
		if err := yaml.Unmarshal(data, &m); err != nil {
			return "", err
		}
		delete(m, "status")
		if meta, _ := m["metadata"].(map[string]any); meta != nil {
			delete(meta, "creationTimestamp")
		}
		if data, err = yaml.Marshal(m); err != nil {
			return "", err
		}
		if i > 0 {
			out += "---\n"
		}
		out += string(data)
	}
	return out, nil
}

// Marked reports whether lab wrote a file.
func Marked(data []byte) bool { return strings.HasPrefix(string(data), Mark) }

// Stale returns a problem for each generated file that differs, is missing, or is left over.
func Stale(fsys fs.FS, clusters []lab.Cluster) (lab.Problems, error) {
	want, err := Files(fsys, clusters)
	if err != nil {
		return nil, err
	}
	const cure = "lab generate writes it"
	var ps lab.Problems
	add := func(file, message, cure string) {
		ps = append(ps, lab.Problem{Code: finding.GeneratedStale, Position: lab.Position{File: file, Line: 1}, Message: message, Cure: cure})
	}
	for name, text := range want {
		switch have, err := fs.ReadFile(fsys, name); {
		case err != nil:
			add(name, "does not exist, but Flux needs it", cure)
		case string(have) == text:
		case !Marked(have):
			add(name, "was not written by lab", "move it away and run lab generate")
		default:
			add(name, "is stale: edited, or older than cluster.yaml and addons/", cure)
		}
	}
	left, err := Left(fsys, want)
	for _, name := range left {
		add(name, "is left over: no longer needed", "lab generate removes it")
	}
	ps.Sort()
	return ps, err
}

// Left returns files that lab wrote but no longer generates.
func Left(fsys fs.FS, want map[string]string) ([]string, error) {
	var left []string
	for _, pattern := range []string{"clusters/*/flux.yaml", "clusters/*/kustomization.yaml", "clusters/*/addons/*/kustomization.yaml", "clusters/*/flux-system/*.yaml"} {
		names, err := fs.Glob(fsys, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if _, wanted := want[name]; wanted {
				continue
			}
			data, err := fs.ReadFile(fsys, name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if Marked(data) {
				left = append(left, name)
			}
		}
	}
	return left, nil
}
