package draft

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/strict"
)

// namespaces adds to each cluster the namespaces that Applications are in or deploy to, and the repositories do not create.
func (d *drafting) namespaces() {
	type place struct{ cluster, namespace string }
	created, at := map[place]bool{}, map[place]lab.Position{}
	var expected []place
	w := d.world()
	for _, doc := range d.docs {
		expect := func(cluster, namespace string) {
			to := place{cluster, namespace}
			if len(validation.IsDNS1123Label(namespace)) == 0 && !d.defined[namespace] && !slices.Contains(expected, to) {
				expected, at[to] = append(expected, to), doc.at
			}
		}
		expect(d.estate.Hub().Name, strict.Text(doc.node, "metadata", "namespace"))
		for _, app := range d.applications(doc) {
			cluster, err := w.Destination(app.Spec.Destination)
			switch to := app.Spec.Destination.Namespace; {
			case err != nil:
			case app.Spec.CreatesNamespace():
				created[place{cluster, to}] = true
			default:
				expect(cluster, to)
			}
		}
	}
	for i := range d.estate.Clusters {
		c := &d.estate.Clusters[i]
		present := estate.Namespaces(d.estate, c.Name)
		for _, to := range expected {
			if to.cluster == c.Name && !slices.Contains(present, to.namespace) && !created[to] {
				c.Namespaces = append(c.Namespaces, to.namespace)
				d.note(namespaceKey(to.namespace, at[to]))
			}
		}
	}
}

func namespaceKey(name string, at lab.Position) Key {
	return Key{In: "namespace " + name, How: Found, At: at}
}
