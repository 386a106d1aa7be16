package resourceset

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab/strict"
)

// Annotations by which the operator reads other objects: https://fluxoperator.dev/docs/crd/resourceset/#copying-data-from-existing-configmaps-and-secrets
const (
	copyFrom              = Group + "/copyFrom"
	convertKubeConfigFrom = Group + "/convertKubeConfigFrom"
	checksumFrom          = Group + "/checksumFrom"
)

// owner begins the labels of a ResourceSet's objects.
const owner = "resourceset." + Group + "/"

// references resolves what an object has of others, or says what is not known of it.
func (x *expansion) references(n *yaml.Node, of source) {
	at, title := x.at(of.node), strict.Title(n)
	if from := strict.Text(n, "metadata", "annotations", copyFrom); from != "" && !x.copied(n, from) {
		x.note(at, "the data of %s is not known: it is that of %s in the cluster", title, from)
	}
	if from := strict.Text(n, "metadata", "annotations", convertKubeConfigFrom); from != "" {
		x.note(at, "address and ca.crt of %s are not known: they are in the kubeconfig of Secret %s in the cluster", title, from)
	}
	for path := range strict.Scalars(n) {
		if len(path) > 1 && path[len(path)-1] == checksumFrom && path[len(path)-2] == "annotations" {
			x.note(at, "annotation %s/checksum of %s is known only to a running operator", Group, title)
			return
		}
	}
}

// Partial reports whether the data of an object that a ResourceSet makes is another one's, which only the cluster knows.
func Partial(n *yaml.Node) bool {
	return strict.Text(n, "metadata", "annotations", copyFrom) != "" && strict.Text(n, "metadata", "labels", owner+"name") != "" && strict.Get(n, "data") == nil
}

// copied sets the data of an object to that of another one of its kind, and reports whether that is known.
func (x *expansion) copied(n *yaml.Node, from string) bool {
	namespace, name, _ := strings.Cut(from, "/")
	if x.Data == nil {
		return false
	}
	data := x.Data(strict.Text(n, "kind"), namespace, name)
	if data == nil {
		return false
	}
	field := strict.Get(n, "data")
	if field == nil || field.Kind != yaml.MappingNode {
		field = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line}
		strict.Set(n, "data", field)
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		value := data[key]
		if strict.Text(n, "kind") == "Secret" {
			value = base64.StdEncoding.EncodeToString([]byte(value))
		}
		strict.Set(field, key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Line: n.Line})
	}
	return true
}
