package fluxset

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// bridgeKey is the key of the layer with the infrastructure's values.
const bridgeKey = "bridge.yaml"

// BridgeFile returns an addon's optional last layer of values, in which a cluster's variables are substituted.
func BridgeFile(addon string) string { return path.Join(Dir(addon), "values", bridgeKey) }

// Layer is a layer of an addon's values, last wins.
type Layer struct{ Key, File string }

// Layers returns an addon's layers of values on a cluster, without the bridge's.
func Layers(c lab.Cluster, addon string) []Layer {
	values := func(dir, name string) string { return path.Join(dir, name, "addons", addon, "values.yaml") }
	layers := []Layer{{"default.yaml", values(lab.EnvironmentsDir, lab.DefaultEnvironment)}}
	if c.Environment != "" {
		layers = append(layers, Layer{"environment.yaml", values(lab.EnvironmentsDir, c.Environment)})
	} else {
		layers = append(layers, Layer{"environment.yaml", ""})
	}
	return append(layers, Layer{"cluster.yaml", values(lab.ClustersDir, c.Name)})
}

// layers adds the ConfigMaps that an addon's HelmReleases read values from.
func (k *folder) layers(fsys fs.FS, c lab.Cluster, addon string) {
	values := configMap{Name: addon + "-values"}
	for _, l := range Layers(c, addon) {
		switch {
		case !exists(fsys, l.File):
			values.Literals = append(values.Literals, l.Key+"={}")
		case path.Dir(l.File) == path.Join(lab.ClustersDir, c.Name, "addons", addon):
			values.Files = append(values.Files, l.Key+"="+path.Base(l.File))
		default:
			values.Files = append(values.Files, l.Key+"="+up+l.File)
		}
	}
	asIs := map[string]any{"annotations": map[string]string{"kustomize.toolkit.fluxcd.io/substitute": "disabled"}}
	if !exists(fsys, BridgeFile(addon)) {
		k.Generator, k.Options = []configMap{values}, asIs
		return
	}
	// The name has a digest of the variables: a change creates a new ConfigMap and upgrades the release atomically.
	bridge := configMap{Name: bridgeName(addon) + "${" + flux.VarsDigest + "}", Files: []string{bridgeKey + "=" + up + BridgeFile(addon)}, Options: map[string]any{"immutable": true}}
	values.Options = asIs
	k.Generator = []configMap{values, bridge}
	docs, _ := documentsOf(fsys, addon)
	for _, d := range docs {
		if strict.Text(d.node, "kind") != "HelmRelease" {
			continue
		}
		layer := fmt.Sprintf("{kind: ConfigMap, name: %q, valuesKey: %s}", bridge.Name, bridgeKey)
		op := "- op: add\n  path: /spec/valuesFrom/-\n  value: " + layer + "\n"
		if strict.Get(d.node, "spec", "valuesFrom") == nil {
			op = "- op: add\n  path: /spec/valuesFrom\n  value: [" + layer + "]\n"
		}
		k.Patches = append(k.Patches, patch{Target: map[string]string{"kind": "HelmRelease", "name": strict.Text(d.node, "metadata", "name")}, Patch: op})
	}
}

func bridgeName(addon string) string { return addon + "-bridge-" }

// bridged checks an addon's bridge layer after substitution.
func (x *expander) bridged(addon, cluster string, o render.Document) {
	if strict.Text(o.Node, "kind") != "ConfigMap" || !strings.HasPrefix(strict.Text(o.Node, "metadata", "name"), bridgeName(addon)) || !exists(x.FS, BridgeFile(addon)) {
		return
	}
	for _, p := range checkLayer(BridgeFile(addon), []byte(strict.Text(o.Node, "data", bridgeKey))) {
		p.Message += ", with the variables of cluster " + cluster
		x.Problems = append(x.Problems, p)
	}
}

// CheckBridge checks an addon's bridge layer before substitution.
func CheckBridge(fsys fs.FS, addon string) lab.Problems {
	file := BridgeFile(addon)
	data, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil
	}
	problems := checkLayer(file, data)
	if found, _, err := release(fsys, addon); err == nil && !found {
		problems = append(problems, lab.Problem{
			Code: finding.InvalidAddon, Position: lab.Position{File: file, Line: 1}, Message: "addon " + addon + " has no HelmRelease to take values", Cure: "write ${variables} in its manifests",
		})
	}
	return problems
}

func checkLayer(file string, data []byte) lab.Problems {
	doc, problems := strict.ParseOne(file, data)
	if len(problems) == 0 && doc.Kind != yaml.MappingNode {
		problems = lab.Problems{{Code: finding.InvalidAddon, Position: strict.Position(file, doc), Message: "contains no values"}}
	}
	return problems
}
