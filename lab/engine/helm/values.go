package helm

import (
	"maps"
	"strings"
)

// SplitRef splits repository:tag; a colon before the last slash is a registry's port.
func SplitRef(ref string) (repository, tag string) {
	i := strings.LastIndex(ref, ":")
	if i < 0 || strings.Contains(ref[i:], "/") {
		return ref, ""
	}
	return ref[:i], ref[i+1:]
}

// Merge returns under with over merged on top: maps by key, other values replaced; a null removes the key. The arguments are not modified.
func Merge(under, over map[string]any) map[string]any {
	out := make(map[string]any, len(under))
	maps.Copy(out, under)
	for k, v := range over {
		if v == nil {
			delete(out, k)
			continue
		}
		above, isMap := v.(map[string]any)
		below, wasMap := out[k].(map[string]any)
		if isMap && wasMap {
			out[k] = Merge(below, above)
			continue
		}
		if isMap {
			out[k] = Merge(nil, above) // drops nulls
			continue
		}
		out[k] = v
	}
	return out
}
