package draft

import (
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/estate"
)

// namespaces adds to each cluster the namespaces that its Applications expect and the repositories do not create.
func (d *drafting) namespaces() {
	type place struct{ cluster, namespace string }
	created, at := map[place]bool{}, map[place]lab.Position{}
	var expected []place
	w := d.world()
	for _, doc := range d.docs {
		for _, app := range d.applications(doc) {
			cluster, err := w.Destination(app.Spec.Destination)
			to := place{cluster, app.Spec.Destination.Namespace}
			switch {
			case err != nil, len(validation.IsDNS1123Label(to.namespace)) > 0, d.defined[to.namespace]:
			case app.Spec.SyncPolicy != nil && slices.Contains(app.Spec.SyncPolicy.SyncOptions, appset.CreateNamespace):
				created[to] = true
			case !slices.Contains(expected, to):
				expected, at[to] = append(expected, to), doc.at
			}
		}
	}
	for i := range d.estate.Clusters {
		c := &d.estate.Clusters[i]
		for _, to := range expected {
			known := slices.Contains(estate.InitialNamespaces, to.namespace) || c.Role == lab.RoleHub && to.namespace == estate.NamespaceOf(d.estate)
			if to.cluster == c.Name && !known && !created[to] {
				c.Namespaces = append(c.Namespaces, to.namespace)
				d.note(namespaceKey(to.namespace, at[to]))
			}
		}
	}
}

func namespaceKey(name string, at lab.Position) Key {
	return Key{In: "namespace " + name, How: MadeUp, At: at}
}

// namespaceList returns a cluster's namespaces, each with the file and line that expects it.
func (d *drafting) namespaceList(c lab.Cluster) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, name := range c.Namespaces {
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: name}
		if k, ok := d.keys[namespaceKey(name, lab.Position{}).id()]; ok {
			n.LineComment = k.How + ": " + k.At.String()
		}
		list.Content = append(list.Content, n)
	}
	return list
}
