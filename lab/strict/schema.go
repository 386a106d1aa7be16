package strict

import (
	"reflect"
)

// Describer is a type with its own schema.
type Describer interface {
	JSONSchema() map[string]any
}

// Schema returns the JSON Schema (draft 2020-12) of a type decoded by a Reader.
func Schema(t reflect.Type) map[string]any { return schema(t, field{}) }

func schema(t reflect.Type, f field) map[string]any {
	out := shape(t, f)
	if f.doc != "" {
		out["description"] = f.doc
	}
	return out
}

func shape(t reflect.Type, f field) map[string]any {
	if d, ok := reflect.New(t).Interface().(Describer); ok {
		return d.JSONSchema()
	}
	switch {
	case t == spanType:
		return map[string]any{"type": "string", "pattern": `^(([0-9]+(\.[0-9]+)?(ms|s|m|h))+|\$\{[a-z][a-zA-Z0-9_]*\})$`}
	case t.Kind() == reflect.Pointer:
		return shape(t.Elem(), f)
	case t.Kind() == reflect.Struct:
		return object(t)
	case t.Kind() == reflect.Map && words(t.Key()) != nil:
		properties := map[string]any{}
		for _, key := range words(t.Key()) {
			properties[key] = shape(t.Elem(), f)
		}
		return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": shape(t.Elem(), f)}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": shape(t.Elem(), f)}
	case t.Kind() == reflect.String:
		if len(f.enum) > 0 {
			return map[string]any{"enum": f.enum}
		}
		return map[string]any{"type": "string"}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Int:
		return map[string]any{"type": "integer"}
	}
	return map[string]any{} // anything
}

func object(t reflect.Type) map[string]any {
	properties := map[string]any{}
	var required []string
	collect(reflect.New(t).Elem(), func(f field, v reflect.Value) {
		properties[f.key] = schema(v.Type(), f)
		if f.need {
			required = append(required, f.key)
		}
	})
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}
