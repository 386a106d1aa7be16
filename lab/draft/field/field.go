// Package field tells what the fields of objects and the values of charts take: from the types of Kubernetes and Flux, the definitions in the repositories, and a chart's
// schema or defaults.
package field

import (
	"cmp"
	"io/fs"
	"path"
	"reflect"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	notificationv1 "github.com/fluxcd/notification-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"homelab/lab/fill"
	"homelab/lab/strict"
)

// Types are the known kinds of objects.
type Types struct {
	known   *runtime.Scheme
	schemas map[schema.GroupVersionKind]*yaml.Node // of definitions
}

// New returns the kinds of Kubernetes and Flux.
func New() *Types {
	t := &Types{known: runtime.NewScheme(), schemas: map[schema.GroupVersionKind]*yaml.Node{}}
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, kustomizev1.AddToScheme, helmv2.AddToScheme, sourcev1.AddToScheme, notificationv1.AddToScheme} {
		if err := add(t.known); err != nil {
			panic(err) // duplicate types
		}
	}
	return t
}

// Define adds the kinds of a CustomResourceDefinition.
func (t *Types) Define(n *yaml.Node) {
	versions := strict.Get(n, "spec", "versions")
	if versions == nil {
		return
	}
	for _, v := range versions.Content {
		kind := schema.GroupVersionKind{Group: strict.Text(n, "spec", "group"), Version: strict.Text(v, "name"), Kind: strict.Text(n, "spec", "names", "kind")}
		t.schemas[kind] = strict.Get(v, "schema", "openAPIV3Schema")
	}
}

// Of returns the type of the field of an object at a path of keys, without the indexes of lists.
func (t *Types) Of(apiVersion, kind string, keys []string) fill.Type {
	of := schema.FromAPIVersionAndKind(apiVersion, kind)
	if s := t.schemas[of]; s != nil {
		return inSchema(s, keys)
	}
	object, err := t.known.New(of)
	if err != nil {
		return fill.Text
	}
	return inStruct(reflect.TypeOf(object).Elem(), keys)
}

// inStruct returns the type of a field of a Go type, by the names in JSON.
func inStruct(t reflect.Type, keys []string) fill.Type {
	name := ""
	if len(keys) > 0 {
		name = keys[len(keys)-1]
	}
	for {
		switch {
		case t == reflect.TypeFor[resource.Quantity]():
			return quantity(name)
		case t == reflect.TypeFor[metav1.Duration]():
			return fill.Duration
		case t == reflect.TypeFor[intstr.IntOrString]():
			return integer(name)
		case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
			t = t.Elem()
			continue
		case t.Kind() == reflect.Bool:
			return fill.Boolean
		case t.Kind() == reflect.Int32, t.Kind() == reflect.Int64, t.Kind() == reflect.Int:
			return integer(name)
		case t.Kind() == reflect.Float64, t.Kind() == reflect.Float32:
			return fill.Number
		case t.Kind() == reflect.String:
			return named[name]
		case len(keys) == 0:
			return fill.Text
		case t.Kind() == reflect.Map:
			t, keys = t.Elem(), keys[1:]
		case t.Kind() == reflect.Struct:
			f, ok := member(t, keys[0])
			if !ok {
				return fill.Text
			}
			t, keys = f, keys[1:]
		default:
			return fill.Text
		}
	}
}

// member returns the type of a field by its name in JSON, also of an inlined struct.
func member(t reflect.Type, name string) (reflect.Type, bool) {
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f.Type, true
		}
		if tag == "" && f.Anonymous && f.Type.Kind() == reflect.Struct {
			if inner, ok := member(f.Type, name); ok {
				return inner, true
			}
		}
	}
	return nil, false
}

// inSchema returns the type of a field in an OpenAPI or JSON schema.
func inSchema(s *yaml.Node, keys []string) fill.Type {
	for strict.Text(s, "type") == "array" {
		s = strict.Get(s, "items")
	}
	if len(keys) > 0 {
		next := strict.Get(s, "properties", keys[0])
		if next == nil {
			next = strict.Get(s, "additionalProperties")
		}
		if next == nil || len(keys) == 1 && next.Kind != yaml.MappingNode {
			return fill.Text
		}
		if t := inSchema(next, keys[1:]); t != fill.Text || len(keys) > 1 {
			return t
		}
		return named[keys[0]]
	}
	if strict.Text(s, "x-kubernetes-int-or-string") == "true" {
		return fill.Integer
	}
	return cmp.Or(types[strict.Text(s, "type")], formats[strict.Text(s, "format")])
}

// Types and formats of schemas.
var (
	types   = map[string]fill.Type{"boolean": fill.Boolean, "integer": fill.Integer, "number": fill.Number}
	formats = map[string]fill.Type{"ipv4": fill.IP, "ipv6": fill.IP, "ip": fill.IP, "cidr": fill.CIDR, "uri": fill.URL, "url": fill.URL, "duration": fill.Duration}
)

func integer(name string) fill.Type {
	switch {
	case name == "nodePort":
		return fill.NodePort
	case name == "port" || strings.HasSuffix(name, "Port"):
		return fill.Port
	}
	return fill.Integer
}

func quantity(name string) fill.Type {
	switch corev1.ResourceName(strings.TrimPrefix(strings.TrimPrefix(name, "requests."), "limits.")) {
	case corev1.ResourceCPU:
		return fill.CPU
	case corev1.ResourceMemory:
		return fill.Memory
	}
	return fill.Quantity
}

// named are the types of texts whose format the API documents only in words.
var named = map[string]fill.Type{
	"schedule": fill.Cron, "timeZone": fill.TimeZone, "url": fill.URL, "repoURL": fill.URL,
	"clusterIP": fill.IP, "clusterIPs": fill.IP, "externalIPs": fill.IP, "hostIP": fill.IP, "ip": fill.IP, "loadBalancerIP": fill.IP, "podIP": fill.IP,
	"cidr": fill.CIDR, "except": fill.CIDR, "loadBalancerSourceRanges": fill.CIDR, "podCIDR": fill.CIDR, "podCIDRs": fill.CIDR,
}

// Value returns the type of a value of the chart in a folder: of its schema, or else of its default.
func Value(fsys fs.FS, dir string, keys []string) fill.Type {
	read := func(name string) *yaml.Node {
		data, err := fs.ReadFile(fsys, path.Join(dir, name))
		if err != nil {
			return nil
		}
		n, _ := strict.ParseOne(name, data)
		return n
	}
	if s := read("values.schema.json"); s != nil {
		if t := inSchema(s, keys); t != fill.Text {
			return t
		}
	}
	n := read("values.yaml")
	for _, key := range keys {
		for n != nil && n.Kind == yaml.SequenceNode {
			n = strict.Get(n, 0)
		}
		n = strict.Get(n, key)
	}
	switch {
	case n == nil || n.Kind != yaml.ScalarNode || len(keys) == 0:
		return fill.Text
	case n.Tag == "!!int":
		return integer(keys[len(keys)-1])
	case n.Tag == "!!float":
		return fill.Number
	case n.Tag == "!!bool":
		return fill.Boolean
	}
	return fill.Text
}

// Secret returns the type of a key of a Secret of a type.
func Secret(of, key string) fill.Type {
	if of == string(corev1.SecretTypeDockerConfigJson) && key == corev1.DockerConfigJsonKey || of == string(corev1.SecretTypeDockercfg) && key == corev1.DockerConfigKey {
		return fill.Docker
	}
	return fill.Text
}
