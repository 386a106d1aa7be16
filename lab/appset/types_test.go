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

	"homelab/lab/argo"
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

// releases are Argo CD's whose CRDs are compared, by minor.
var releases = map[argo.Minor]string{2: "3.2.11", 3: "3.3.19", 4: "3.4.13", 5: "3.5.7", 6: "3.6.1"}

// TestTypesMatchCRD compares the types with the CRD of each minor: a missing field would be missing in the result.
func TestTypesMatchCRD(t *testing.T) {
	for _, m := range argo.Minors() {
		t.Run(m.String(), func(t *testing.T) {
			dir := upstream.Dir(t, "github.com/argoproj/argo-cd/v3@v"+releases[m])
			compare(t, m, "spec", specOf(t, dir, "application"), reflect.TypeFor[Spec]())
			set := specOf(t, dir, "applicationset").Properties["generators"].Items
			if _, ok := set.Properties["oci"]; ok != m.Has(6) {
				t.Errorf("generator oci: %t", ok)
			}
			github := set.Properties["scmProvider"].Properties["github"]
			if _, ok := github.Properties["excludeArchivedRepos"]; ok != m.Has(5) {
				t.Errorf("scmProvider.github.excludeArchivedRepos: %t", ok)
			}
			project := specOf(t, dir, "appproject")
			if _, ok := project.Properties["clusterResourceWhitelist"].Items.Properties["name"]; ok != m.Has(3) {
				t.Errorf("clusterResourceWhitelist[].name: %t", ok)
			}
			if _, ok := project.Properties["sourceIntegrity"]; ok != m.Has(5) {
				t.Errorf("sourceIntegrity: %t", ok)
			}
			if _, ok := project.Properties["syncWindows"].Items.Properties["syncOverrun"]; ok != m.Has(5) {
				t.Errorf("syncWindows[].syncOverrun: %t", ok)
			}
		})
	}
}

func specOf(t *testing.T, dir, kind string) schema {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "manifests", "crds", kind+"-crd.yaml"))
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
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

func compare(t *testing.T, m argo.Minor, path string, s schema, typ reflect.Type) {
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
		compare(t, m, path+"[]", *s.Items, typ.Elem())
	case s.AdditionalProperties != nil:
		compare(t, m, path+"{}", *s.AdditionalProperties, typ.Elem())
	case s.Type == "object":
		fields := map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(typ) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && m.Has(sinceOf(f)) {
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
			compare(t, m, path+"."+name, property, field)
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
