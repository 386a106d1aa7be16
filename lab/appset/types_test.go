package appset

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"homelab/lab/upstream"
)

// schema is the part of a CRD's schema that lists fields.
type schema struct {
	Type                 string
	Properties           map[string]schema
	Items                *schema
	AdditionalProperties *schema
	Preserve             bool `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrString          bool `json:"x-kubernetes-int-or-string"`
}

// TestTypesMatchCRD compares the types with the CRD of the Argo CD that lab installs: a missing field would be missing
// in the result.
func TestTypesMatchCRD(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(upstream.Dir(t, "github.com/argoproj/argo-cd/v3@v3.2.11"), "manifests", "crds", "application-crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema schema }
			}
		}
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	compare(t, "spec", crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], reflect.TypeFor[Spec]())
}

func compare(t *testing.T, path string, s schema, typ reflect.Type) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case s.IntOrString:
		if typ != reflect.TypeFor[intstr.IntOrString]() {
			t.Errorf("%s is a %s", path, typ)
		}
	case s.Preserve:
		if typ != reflect.TypeFor[runtime.RawExtension]() {
			t.Errorf("%s is a %s", path, typ)
		}
	case s.Type == "array":
		compare(t, path+"[]", *s.Items, typ.Elem())
	case s.AdditionalProperties != nil:
		compare(t, path+"{}", *s.AdditionalProperties, typ.Elem())
	case s.Type == "object":
		fields := map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(typ) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				fields[name] = f.Type
			}
		}
		for name, property := range s.Properties {
			field, ok := fields[name]
			if !ok {
				t.Errorf("%s.%s is missing", path, name)
				continue
			}
			delete(fields, name)
			compare(t, path+"."+name, property, field)
		}
		for name := range fields {
			t.Errorf("%s.%s is not in the CRD", path, name)
		}
	default:
		kinds := map[string][]reflect.Kind{"string": {reflect.String}, "boolean": {reflect.Bool}, "integer": {reflect.Int64}}[s.Type]
		if !slices.Contains(kinds, typ.Kind()) {
			t.Errorf("%s is a %s, and a %s in the CRD", path, typ, s.Type)
		}
	}
}
