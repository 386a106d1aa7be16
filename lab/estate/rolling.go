package estate

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"homelab/lab/strict"
)

// notRolled returns why a set with progressive syncs, which lab enables with sync waves only, does not sync an Application with these labels, or "".
func notRolled(strategy *yaml.Node, labels map[string]string) string {
	steps := strict.Get(strategy, "rollingSync", "steps")
	if strict.Text(strategy, "type") != "RollingSync" || steps == nil {
		return ""
	}
	held := false
	for _, step := range steps.Content {
		update := strict.Text(step, "maxUpdate")
		held = held || update == "0" || update == "0%"
		if inStep(step, labels) {
			if held {
				return "its ApplicationSet syncs it, or a step before, on request only: maxUpdate: 0"
			}
			return ""
		}
	}
	return "no step of its ApplicationSet syncs it: spec.strategy"
}

// inStep reports whether a step selects labels. Its operators are In and NotIn.
func inStep(step *yaml.Node, labels map[string]string) bool {
	all := strict.Get(step, "matchExpressions")
	if all == nil {
		return false
	}
	for _, e := range all.Content {
		values := strict.Get(e, "values")
		in := values != nil && slices.ContainsFunc(values.Content, func(n *yaml.Node) bool { return n.Value == labels[strict.Text(e, "key")] })
		if in != (strict.Text(e, "operator") == "In") {
			return false
		}
	}
	return true
}
