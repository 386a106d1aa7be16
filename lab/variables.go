package lab

import (
	"maps"
	"slices"
	"strings"
)

// VariableName is a key of the bridge in the spelling that Flux's substitution allows: what is no letter, digit or underscore becomes one, and so begins what would
// begin with a digit.
func VariableName(key string) string {
	if key != "" && key[0] >= '0' && key[0] <= '9' {
		key = "_" + key
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, key)
}

// Variables are the labels and annotations of a registration for Flux's substitution. Annotations win.
func (r Registration) Variables() map[string]string {
	vars := map[string]string{}
	for _, m := range []map[string]Value{r.Labels, r.Annotations} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			vars[VariableName(k)] = m[k].Value
		}
	}
	return vars
}
