package scenario

import (
	"reflect"

	"homelab/lab/strict"
)

// Schema is the JSON Schema of a scenario's file, for editors. It is made from the types that read the file.
func Schema(verbs []Verb) map[string]any {
	s := strict.Schema(reflect.TypeFor[document]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "a scenario of lab"
	s["$defs"] = map[string]any{"step": stepSchema(verbs)}
	return s
}

// JSONSchema refers to what is the same for every step.
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
