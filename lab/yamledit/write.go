package yamledit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// flow formats a value on one line, with strings unquoted if possible.
func flow(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return text(v)
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(s, ".eIN") {
			s += ".0" // not an integer
		}
		return s
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, text(k)+": "+flow(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = flow(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(value)
}

// text returns s unquoted if YAML reads the same string, even in brackets, or else quoted.
func text(s string) string {
	if s == "" || strings.ContainsAny(s, "\n\r#") {
		return quoted(s)
	}
	var list []any
	if yaml.Unmarshal([]byte("["+s+"]"), &list) == nil && len(list) == 1 && list[0] == any(s) {
		return s
	}
	return quoted(s)
}

// quoted returns a JSON string, which is valid YAML.
func quoted(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil { // a string always encodes
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// normal converts integers to int64, like parsing.
func normal(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = normal(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = normal(e)
		}
		return out
	}
	if r := reflect.ValueOf(value); r.IsValid() && r.CanInt() {
		return r.Int()
	}
	return value
}
