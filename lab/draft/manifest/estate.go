package manifest

import (
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/flux"
)

// Origins return the comments on the values of an estate's document.
type Origins struct {
	Label, Metadata, Namespace func(name string) string
	Secret                     func(lab.KubeconfigSecret) string
}

// Environment returns the document of an environment.
func Environment(e lab.Environment, of Origins) string {
	spec := &Mapping{}
	if e.Name != lab.DefaultEnvironment {
		spec.Add("order", e.Order)
	}
	if e.Cloud.Provider != "" {
		spec.Add("cloud", Of("provider", e.Cloud.Provider))
	}
	spec.addTexts("labels", e.Labels, of.Label)
	spec.addTexts("metadata", e.Metadata, of.Metadata)
	return document("Environment", e.Name, spec)
}

// Cluster returns the document of a cluster with switches of addons.
func Cluster(c lab.Cluster, addons Mapping, of Origins) string {
	spec := Of("role", string(c.Role))
	if c.Environment != "" {
		spec.Add("environment", c.Environment)
	}
	switch {
	case c.Engine.Type == lab.EngineFlux:
		engine := Of("type", string(c.Engine.Type), "shape", string(c.Engine.Shape))
		if len(c.Engine.Extra) > 0 {
			engine.Add("componentsExtra", c.Engine.Extra)
		}
		spec.Add("engine", engine)
	case c.Engine.Namespace != "":
		spec.Add("engine", Of("namespace", c.Engine.Namespace))
	}
	if c.Server != "" {
		spec.Add("server", c.Server)
		spec.Comment("as in manifests")
	}
	spec.addTexts("repositories", c.Mounts, nil)
	spec.addList("namespaces", namespaces(c.Namespaces, of))
	spec.addList("kubeconfigSecrets", secrets(c.KubeconfigSecrets, of))
	spec.addTexts("labels", c.Labels, of.Label)
	spec.addTexts("metadata", c.Metadata, of.Metadata)
	if len(addons.Node.Content) > 0 {
		spec.Add("addons", &addons)
	}
	return document("Cluster", c.Name, spec)
}

func namespaces(names []string, of Origins) []*yaml.Node {
	var list []*yaml.Node
	for _, name := range names {
		list = append(list, &yaml.Node{Kind: yaml.ScalarNode, Value: name, LineComment: of.Namespace(name)})
	}
	return list
}

func secrets(all []lab.KubeconfigSecret, of Origins) []*yaml.Node {
	var list []*yaml.Node
	for _, k := range all {
		m := Of("namespace", k.Namespace, "name", k.Name)
		if k.Key != flux.KubeconfigKey {
			m.Add("key", k.Key)
		}
		m.Node.Style, m.Node.LineComment = yaml.FlowStyle, of.Secret(k)
		list = append(list, &m.Node)
	}
	return list
}

func document(kind, name string, spec *Mapping) string {
	return Object(lab.APIVersion, kind, Of("name", name), "spec", spec)
}
