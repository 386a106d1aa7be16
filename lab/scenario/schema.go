package scenario

import (
	"reflect"

	"homelab/lab/strict"
)

// Schema returns the JSON Schema of scenario files, derived from the Go types.
func Schema(verbs []Verb) map[string]any {
	s := strict.Schema(reflect.TypeFor[document]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "a scenario of lab"
	s["$defs"] = map[string]any{"step": stepSchema(verbs)}
	return s
}

// JSONSchema refers to the definition shared by all steps.
func (s *rawStep) JSONSchema() map[string]any { return map[string]any{"$ref": "#/$defs/step"} }

func stepSchema(verbs []Verb) map[string]any {
	s := strict.Schema(reflect.TypeFor[header]())
	properties, _ := s["properties"].(map[string]any)
	var one []any
	for _, v := range verbs {
		action := strict.Schema(reflect.TypeOf(v.New()).Elem())
		action["description"] = v.Doc
		properties[v.Name] = action
		one = append(one, map[string]any{"required": []string{v.Name}})
	}
	s["oneOf"] = one
	return s
}
