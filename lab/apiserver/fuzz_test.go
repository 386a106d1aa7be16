package apiserver

import (
	gojson "encoding/json"
	"os"
	"testing"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// FuzzObjects asks about whatever decodes as a list of objects.
func FuzzObjects(f *testing.F) {
	for _, name := range []string{"testdata/cases.yaml", "testdata/policies.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		var list []struct {
			Before, After map[string]any
			Objects, Ask  []map[string]any
		}
		if err := yaml.Unmarshal(data, &list); err != nil {
			f.Fatal(err)
		}
		for _, c := range list {
			objects := append(c.Objects, c.Ask...)
			if c.After != nil {
				objects = append(objects, c.After, c.Before)
			}
			seed, err := gojson.Marshal(objects)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(seed))
		}
	}
	definition, err := os.ReadFile("testdata/definitions.yaml")
	if err != nil {
		f.Fatal(err)
	}
	if definition, err = yaml.YAMLToJSON(definition); err != nil {
		f.Fatal(err)
	}
	f.Add("[" + string(definition) + `, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}]`)
	f.Fuzz(func(_ *testing.T, text string) {
		var objects []map[string]any
		if json.UnmarshalCaseSensitivePreserveInts([]byte(text), &objects) != nil {
			return
		}
		policies, _ := NewPolicies(objects)
		for i, o := range objects {
			_ = Create(o)
			_ = Update(objects[max(i-1, 0)], o)
			if d, err := NewDefinition(objects[0], "v1"); err == nil {
				_, _ = d.Create(o), d.Update(o, o)
				_ = d.Unknown(o)
			}
			_ = policies.Create(o)
		}
	})
}
