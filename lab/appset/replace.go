package appset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// fieldError is an error in a field of a template, with its path.
type fieldError struct {
	path []string // outermost last
	err  error
}

func (e *fieldError) Error() string { return e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// within adds a step to an error's path.
func within(step string, err error) error {
	var field *fieldError
	if errors.As(err, &field) {
		if step != "" {
			field.path = append(field.path, step)
		}
		return field
	}
	if step == "" {
		return &fieldError{err: err}
	}
	return &fieldError{path: []string{step}, err: err}
}

// renderGenerator is renderAll for a generator, with the parameters of the first of a matrix. Since 3.4, values that refer to parameters of the generator itself
// stay as written until these are known.
func renderGenerator(t *templates, from Generator, params map[string]any) (Generator, error) {
	t.generator = t.minor.Has(4)
	defer func() { t.generator = false }()
	return renderAll(t, from, params)
}

// withValues are the types of generators whose values renderGenerator treats in its own way.
var withValues = []reflect.Type{reflect.TypeFor[Clusters](), reflect.TypeFor[Git]()}

// isAbsent reports whether a text cannot be rendered as a parameter is missing. Like upstream, it goes by the message.
func isAbsent(err error) bool {
	return strings.Contains(err.Error(), "map has no entry for key") || strings.Contains(err.Error(), "can't evaluate field")
}

// early renders a generator's values as far as the first of a matrix has their parameters.
func (t *templates) early(values map[string]string, params map[string]any) (map[string]string, error) {
	if values == nil {
		return nil, nil
	}
	out := make(map[string]string, len(values))
	for key, value := range values {
		text, err := t.strict.replace(value, params)
		if err != nil && !isAbsent(err) {
			return nil, within(key, err)
		}
		if err != nil {
			text = value
		}
		out[key] = text
	}
	return out, nil
}

// renderAll renders all strings in a value, map keys included.
func renderAll[T any](t *templates, from T, params map[string]any) (T, error) {
	var to T
	err := t.copyValue(reflect.ValueOf(&to).Elem(), reflect.ValueOf(&from).Elem(), params)
	return to, err
}

var (
	rawExtension = reflect.TypeFor[runtime.RawExtension]()
	rawJSON      = reflect.TypeFor[JSON]()
)

func (t *templates) copyValue(to, from reflect.Value, params map[string]any) error {
	switch from.Kind() {
	case reflect.Pointer:
		if from.IsNil() {
			return nil
		}
		to.Set(reflect.New(from.Type().Elem()))
		return t.copyValue(to.Elem(), from.Elem(), params)
	case reflect.Interface:
		if from.IsNil() {
			return nil
		}
		value := reflect.New(from.Elem().Type()).Elem()
		if err := t.copyValue(value, from.Elem(), params); err != nil {
			return err
		}
		to.Set(value)
	case reflect.Struct:
		return t.copyStruct(to, from, params)
	case reflect.Slice:
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			if err := t.copyValue(to.Index(i), from.Index(i), params); err != nil {
				return within(fmt.Sprint(i), err)
			}
		}
	case reflect.Map:
		return t.copyMap(to, from, params)
	case reflect.String:
		text, err := t.replace(from.String(), params)
		if err != nil {
			return within("", err)
		}
		to.SetString(text)
	default:
		to.Set(from)
	}
	return nil
}

func (t *templates) copyStruct(to, from reflect.Value, params map[string]any) error {
	switch from.Type() {
	case rawExtension:
		raw, err := t.renderJSON(from.Interface().(runtime.RawExtension).Raw, params)
		to.Set(reflect.ValueOf(runtime.RawExtension{Raw: raw}))
		return err
	case rawJSON:
		raw, err := t.renderJSON(from.Interface().(JSON).Raw, params)
		to.Set(reflect.ValueOf(JSON{Raw: raw}))
		return err
	}
	for i := range from.NumField() {
		field := from.Type().Field(i)
		if t.generator && field.Name == "Values" && slices.Contains(withValues, from.Type()) {
			values, err := t.early(from.Field(i).Interface().(map[string]string), params)
			if err != nil {
				return within("values", err)
			}
			to.Field(i).Set(reflect.ValueOf(values))
			continue
		}
		if err := t.copyValue(to.Field(i), from.Field(i), params); err != nil {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			return within(name, err)
		}
	}
	return nil
}

func (t *templates) copyMap(to, from reflect.Value, params map[string]any) error {
	to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
	for it := from.MapRange(); it.Next(); {
		from := it.Value()
		if k := from.Kind(); (k == reflect.Interface || k == reflect.Map || k == reflect.Pointer || k == reflect.Slice) && from.IsNil() {
			continue // nulls in valuesObject are lost
		}
		key := it.Key().String()
		value := reflect.New(from.Type()).Elem()
		if err := t.copyValue(value, from, params); err != nil {
			return within(key, err)
		}
		name, err := t.replace(key, params)
		if err != nil {
			return within(key, err)
		}
		to.SetMapIndex(reflect.ValueOf(name), value)
	}
	return nil
}

func (t *templates) renderJSON(raw []byte, params map[string]any) ([]byte, error) {
	from, ok := t.decoded[string(raw)]
	if !ok {
		data, err := toJSON(raw)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &from); err != nil {
			return nil, err
		}
		t.decoded[string(raw)] = from
	}
	to, err := renderAll(t, from, params)
	if err != nil {
		return nil, err
	}
	return json.Marshal(to)
}

// toJSON converts YAML; text that begins with a brace is taken as JSON.
func toJSON(text []byte) ([]byte, error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return text, nil
	}
	return yaml.YAMLToJSON(text)
}
