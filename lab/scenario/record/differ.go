package record

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"homelab/lab/argo"
	"homelab/lab/fieldpath"
)

// change is a value at a path that differs.
type change struct {
	path  string
	value any
	there bool // otherwise it is gone
}

// differ returns where two values differ, as deep as paths lead, sorted by path.
func differ(path string, was, is any) []change {
	if reflect.DeepEqual(was, is) {
		return nil
	}
	a, okA := was.(map[string]any)
	b, okB := is.(map[string]any)
	if okA && okB {
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		var list []change
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			at := join(path, key)
			if value, there := b[key]; there {
				list = append(list, differ(at, a[key], value)...)
			} else {
				list = append(list, change{path: at})
			}
		}
		return list
	}
	x, okA := was.([]any)
	y, okB := is.([]any)
	if okA && okB && len(x) == len(y) && len(x) > 0 {
		if steps := elements(x, y); steps != nil {
			var list []change
			for i := range x {
				list = append(list, differ(path+steps[i], x[i], y[i])...)
			}
			return list
		}
	}
	if okB = is != nil; okB && was == nil {
		if m, ok := is.(map[string]any); ok && len(m) > 0 { // new: leaf by leaf
			return differ(path, map[string]any{}, m)
		}
	}
	return []change{{path, is, true}}
}

// elements returns how the mappings of two lists are selected, by name if they have the same, or nil if they are not mappings.
func elements(x, y []any) []string {
	steps := make([]string, len(x))
	named := true
	for i := range x {
		a, okA := x[i].(map[string]any)
		b, okB := y[i].(map[string]any)
		if !okA || !okB {
			return nil
		}
		name, ok := a["name"].(string)
		named = named && ok && name != "" && b["name"] == name && !strings.ContainsAny(name, "]=") && !slices.Contains(steps[:i], "[name="+name+"]")
		steps[i] = "[name=" + name + "]"
	}
	if !named {
		for i := range steps {
			steps[i] = fmt.Sprintf("[%d]", i)
		}
	}
	return steps
}

func join(path, key string) string {
	word := fieldpath.Of(key).String()
	if path == "" || strings.HasPrefix(word, "[") {
		return path + word
	}
	return path + "." + word
}

// content returns the fields of an object that people change.
func content(o map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range o {
		if key != "status" && key != "metadata" && key != "apiVersion" && key != "kind" {
			out[key] = value
		}
	}
	meta, _ := o["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, key := range []string{"labels", "annotations", "finalizers"} {
		value, ok := meta[key]
		if m, isMap := value.(map[string]any); isMap {
			m = maps.Clone(m)
			maps.DeleteFunc(m, func(name string, _ any) bool { return bookkeeping(name) })
			value, ok = m, len(m) > 0
		}
		if ok {
			kept[key] = value
		}
	}
	if len(kept) > 0 {
		out["metadata"] = kept
	}
	return out
}

// bookkeeping reports whether an annotation is a tool's own.
func bookkeeping(name string) bool {
	return slices.Contains([]string{"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision", "control-plane.alpha.kubernetes.io/leader"}, name) ||
		strings.HasPrefix(name, "reconcile.fluxcd.io/") || name == argo.Prefix+"refresh"
}
