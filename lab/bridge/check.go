package bridge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/cloud"
	"homelab/lab/finding"
)

// Check reports problems of cluster c's settings: invalid clouds, labels and annotations, reserved keys, and values that
// an addon reads but nothing provides.
func Check(labName string, env, def lab.Environment, c lab.Cluster, in Inputs) lab.Problems {
	var ps lab.Problems
	given := Resolve(env, def, c)
	for _, f := range cloud.Check(given.Cloud) {
		at := given.Origins[f.Field].At
		if at.File == "" {
			at = c.Position("spec.cloud")
		}
		ps = append(ps, lab.Problem{Code: finding.InvalidCloud, Position: at, Message: f.Message, Cure: f.Cure})
	}
	reg := Build(labName, env, def, c, in)
	for _, k := range slices.Sorted(maps.Keys(reg.Labels)) {
		v := reg.Labels[k]
		ps = append(ps, key("a label", k, v.At)...)
		if (k == "cloud" || k == "region") && !written(k, def, env, c) {
			continue // checked with the cloud
		}
		if msgs := validation.IsValidLabelValue(v.Value); len(msgs) > 0 && v.At.File != "" {
			ps = append(ps, lab.Problem{
				Code: finding.InvalidBridgeKey, Position: v.At, Message: fmt.Sprintf("label %s: %q is not a label's value", k, v.Value),
				Cure: "at most 63 letters, digits or -_. and a letter or digit at both ends",
			})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(reg.Annotations)) {
		ps = append(ps, key("an annotation", k, reg.Annotations[k].At)...)
	}
	for _, layer := range []struct {
		labels map[string]string
		at     func(string) lab.Position
	}{{def.Labels, def.Position}, {env.Labels, env.Position}, {c.Labels, c.Position}} {
		ps = append(ps, reserved(layer.labels, layer.at)...)
	}
	return append(ps, missing(reg, c, in.Addons)...)
}

// written reports whether a user sets a label.
func written(label string, def, env lab.Environment, c lab.Cluster) bool {
	for _, labels := range []map[string]string{def.Labels, env.Labels, c.Labels} {
		if _, ok := labels[label]; ok {
			return true
		}
	}
	return false
}

// key checks a user's key. The lab's own have no position, or are derived from checked names.
func key(what, k string, at lab.Position) lab.Problems {
	if at.File == "" || len(validation.IsQualifiedName(k)) == 0 {
		return nil
	}
	return lab.Problems{{Code: finding.InvalidBridgeKey, Position: at, Message: fmt.Sprintf("%q is not the key of %s", k, what), Cure: "at most 63 letters, digits or -_. after an optional prefix/"}}
}

// reserved reports labels that users cannot set.
func reserved(labels map[string]string, at func(string) lab.Position) lab.Problems {
	var ps lab.Problems
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if strings.HasPrefix(k, argo.Prefix) || strings.HasPrefix(k, "lab.homelab/") {
			ps = append(ps, lab.Problem{Code: finding.InvalidBridgeKey, Position: at("spec.labels." + k), Message: "label " + k + " cannot be set here", Cure: "leave it out: the engine sets such labels"})
		}
	}
	return ps
}

// missing reports keys that an addon's ApplicationSet reads but the cluster lacks: with missingkey=error the whole set
// fails.
func missing(reg lab.Registration, c lab.Cluster, addons []lab.Addon) lab.Problems {
	var ps lab.Problems
	for _, a := range addons {
		if !c.Has(a.Name) {
			continue
		}
		for _, r := range a.Reads {
			what, has, cure := "annotation", reg.Annotations, "set it in spec.metadata of the cluster or its environment"
			if r.Label {
				what, has, cure = "label", reg.Labels, "set it in spec.labels of the cluster or its environment"
			}
			if r.Label && r.Key == "environment" {
				cure = "set the cluster's environment, or read it by index with a default"
			}
			if _, ok := has[r.Key]; !ok {
				ps = append(ps, lab.Problem{Code: finding.BridgeKeyMissing, Position: r.At, Message: fmt.Sprintf("cluster %s has no %s %s, which is read here", c.Name, what, r.Key), Cure: cure})
			}
		}
	}
	return ps
}
