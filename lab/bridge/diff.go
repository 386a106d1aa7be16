package bridge

import (
	"maps"
	"slices"
	"strings"

	"homelab/lab"
)

// Diff returns the changes from a cluster Secret's labels and annotations to want, one line for each key, labels first,
// sorted: "annotation aws_region: eu-west-1 -> eu-central-1". A missing key is "(none)".
//
// Keys with a prefix (lab.homelab/..., the engine's) are ignored unless want has them.
func Diff(labels, annotations map[string]string, want lab.Registration) []string {
	return append(diff("label", labels, want.Labels), diff("annotation", annotations, want.Annotations)...)
}

func diff(what string, have map[string]string, want map[string]lab.Value) []string {
	keys := map[string]bool{}
	for k := range want {
		keys[k] = true
	}
	for k := range have {
		// Argo CD's command line marks its Secrets with an annotation without a prefix.
		if !strings.Contains(k, "/") && k != "managed-by" {
			keys[k] = true
		}
	}
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		was, had := have[k]
		now, wanted := want[k]
		if had == wanted && was == now.Value {
			continue
		}
		lines = append(lines, what+" "+k+": "+shown(was, had)+" -> "+shown(now.Value, wanted))
	}
	return lines
}

func shown(v string, is bool) string {
	switch {
	case !is:
		return "(none)"
	case v == "":
		return `""`
	}
	return v
}
