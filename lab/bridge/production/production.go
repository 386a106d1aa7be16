// Package production takes over the bridge of a real cluster: what Terraform or OpenTofu wrote for it, or its Secret on the real hub. It is pure.
package production

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/tofu"
)

// Bridge is what production says of a cluster.
type Bridge struct {
	From        string // "state, module.bootstrap.kubernetes_secret_v1.cluster[0]"
	Secret      bool   // it is a Secret, whose keys are exactly those that templates read; else they are names of outputs
	Labels      map[string]string
	Annotations map[string]string
	Left        []Left
}

// Left is a value that is not taken over.
type Left struct{ Key, Reason string }

const (
	sensitive = "sensitive"
	unknown   = "not known before the plan is applied"
	shapeless = "neither a text nor a list or mapping of texts"
)

// Find returns the bridge of a cluster in a file of Terraform or OpenTofu, or in the manifest of a Secret. A cluster Secret that a module manages says more than outputs.
// resource selects one of several by its address.
func Find(data []byte, cluster, resource string) (Bridge, error) {
	var manifest struct {
		Kind     string
		Metadata struct{ Labels, Annotations map[string]string }
	}
	if err := yaml.Unmarshal(data, &manifest); err == nil && manifest.Kind == "Secret" {
		if manifest.Metadata.Labels[argo.SecretType] != argo.SecretTypeCluster {
			return Bridge{}, fmt.Errorf("the Secret registers no cluster: it has no label %s: %s", argo.SecretType, argo.SecretTypeCluster)
		}
		b := Bridge{From: "Secret", Secret: true, Labels: manifest.Metadata.Labels, Annotations: manifest.Metadata.Annotations}
		b.drop()
		return b, nil
	}
	f, err := tofu.Read(data)
	if err != nil {
		return Bridge{}, err
	}
	registrations := slices.DeleteFunc(f.Secrets, func(s tofu.Secret) bool { return s.Labels[argo.SecretType] != argo.SecretTypeCluster })
	var found []tofu.Secret
	for _, s := range registrations {
		if resource == s.Address || resource == "" && (len(registrations) == 1 || s.Labels["cluster_name"] == cluster || s.Annotations["cluster_name"] == cluster) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 1:
		b := Bridge{From: string(f.Kind) + ", " + found[0].Address, Secret: true, Labels: found[0].Labels, Annotations: found[0].Annotations}
		b.drop()
		for _, key := range found[0].Sensitive {
			b.Left = append(b.Left, Left{key, sensitive})
		}
		return b, nil
	case len(registrations) > 0:
		var names []string
		for _, s := range registrations {
			names = append(names, s.Address)
		}
		return Bridge{}, fmt.Errorf("which of these registers the cluster? --resource ADDRESS names it: %s", strings.Join(names, ", "))
	case resource != "":
		return Bridge{}, fmt.Errorf("no cluster Secret %s", resource)
	case len(f.Outputs) == 0:
		return Bridge{}, errors.New("neither outputs nor a Secret that registers a cluster")
	}
	b := Bridge{From: string(f.Kind), Labels: map[string]string{}, Annotations: map[string]string{}}
	for _, o := range f.Outputs {
		switch {
		case o.Sensitive:
			b.Left = append(b.Left, Left{o.Name, sensitive})
		case o.Unknown:
			b.Left = append(b.Left, Left{o.Name, unknown})
		default:
			b.output(o.Name, o.Value, cluster)
		}
	}
	return b, nil
}

// drop leaves what belongs to the tools that manage a Secret, not to the bridge.
func (b *Bridge) drop() {
	foreign := func(key, _ string) bool {
		prefix, _, named := strings.Cut(key, "/")
		return named && (prefix+"/" == argo.Prefix || strings.HasSuffix(prefix, "kubernetes.io"))
	}
	b.Labels, b.Annotations = maps.Clone(b.Labels), maps.Clone(b.Annotations)
	maps.DeleteFunc(b.Labels, foreign)
	maps.DeleteFunc(b.Annotations, foreign)
}

// output takes an output over: a mapping with the cluster's name as key by that key; one with the keys metadata and addons, as the GitOps Bridge's module takes them, as
// annotations and labels; any other by each of its keys.
func (b *Bridge) output(name string, value any, cluster string) {
	if text, ok := Text(value); ok {
		b.Annotations[name] = text
		return
	}
	m, ok := value.(map[string]any)
	if !ok {
		b.Left = append(b.Left, Left{name, shapeless})
		return
	}
	if of, ok := m[cluster]; ok {
		b.output(name, of, cluster)
		return
	}
	if parts := slices.Sorted(maps.Keys(m)); slices.Equal(parts, []string{"addons", "metadata"}) || slices.Equal(parts, []string{"metadata"}) {
		b.mapping(b.Labels, name+".addons", m["addons"])
		b.mapping(b.Annotations, name+".metadata", m["metadata"])
		return
	}
	b.mapping(b.Annotations, name, m)
}

func (b *Bridge) mapping(into map[string]string, name string, value any) {
	m, ok := value.(map[string]any)
	if !ok && value != nil {
		b.Left = append(b.Left, Left{name, shapeless})
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		text, ok := Text(m[key])
		if !ok {
			b.Left = append(b.Left, Left{name + "." + key, shapeless})
			continue
		}
		into[key] = text
	}
}

// Text returns a scalar, or a list of these separated by commas.
func Text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	case []any:
		var texts []string
		for _, e := range v {
			if _, nested := e.([]any); nested {
				return "", false
			}
			text, ok := Text(e)
			if !ok {
				return "", false
			}
			texts = append(texts, text)
		}
		return strings.Join(texts, ","), true
	}
	return "", false
}

// Difference compares a registration of the lab with production.
type Difference struct {
	Label      bool
	Key        string
	Lab        string // empty if it is only in production
	Production string // empty if it is only in the lab
	InLab      bool
	InProd     bool
}

// Diff returns the differences between the lab's registration and production's, labels first. Keys that only describe the lab are ignored.
func Diff(r lab.Registration, b Bridge) []Difference {
	var list []Difference
	compare := func(label bool, ours, theirs map[string]string) {
		keys := maps.Clone(ours)
		maps.Copy(keys, theirs)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			o, in := ours[key]
			p, there := theirs[key]
			if Own(key) || in && there && o == p {
				continue
			}
			list = append(list, Difference{Label: label, Key: key, Lab: o, Production: p, InLab: in, InProd: there})
		}
	}
	annotations := b.Annotations
	if b.Secret {
		compare(true, lab.Strings(r.Labels), b.Labels)
	} else { // outputs have names of their own
		annotations = maps.Clone(annotations)
		for _, f := range fields {
			for _, key := range f.keys[1:] {
				if v, ok := annotations[key]; ok && f.provider == r.Labels["cloud"].Value {
					delete(annotations, key)
					annotations[f.keys[0]] = v
				}
			}
		}
	}
	compare(false, lab.Strings(r.Annotations), annotations)
	return list
}

// Own reports whether the lab sets a key itself, as it describes the lab.
func Own(key string) bool {
	return strings.HasPrefix(key, "addons_repo_") || slices.Contains([]string{"addons_chart_repo_url", "cluster_name", "environment", "kubernetes_version"}, key)
}
