package ui

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestShape checks the shape of every result as docs/json.md states it: keys in lower case with _, always present, lists that are never null, no pointers.
func TestShape(t *testing.T) {
	key := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	older := map[string]bool{"leftOut": true}
	seen := map[reflect.Type]bool{}
	var walk func(at string, of reflect.Type)
	walk = func(at string, of reflect.Type) {
		switch {
		case seen[of] || of == reflect.TypeFor[time.Time]():
			return
		case of.Kind() == reflect.Slice:
			if !strings.HasPrefix(of.Name(), "List[") {
				t.Errorf("%s: a %s is null if empty, want a List", at, of)
			}
			walk(at, of.Elem())
			return
		case of.Kind() == reflect.Pointer, of.Kind() == reflect.Map, of.Kind() == reflect.Interface:
			t.Errorf("%s: %s may be null", at, of)
			return
		case of.Kind() != reflect.Struct:
			return
		}
		seen[of] = true
		for _, field := range reflect.VisibleFields(of) {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			place := of.String() + "." + field.Name
			switch {
			case name == "-":
				continue
			case options != "":
				t.Errorf("%s: key with %s, want one that is always present", place, options)
			case !key.MatchString(name) && !older[name]:
				t.Errorf("%s: key %q", place, name)
			}
			walk(place, field.Type)
		}
	}
	for name, v := range contract() {
		walk(name, reflect.TypeOf(v))
	}
	if len(seen) < 40 {
		t.Errorf("%d types", len(seen))
	}
}
