package bridge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/cloud"
)

// Check says what is wrong with what a user wrote for cluster c: clouds that cannot be, labels and annotations that the API server would refuse, keys that are
// the lab's own, and annotations that an addon of the cluster reads and nothing provides.
func Check(labName string, env, def lab.Environment, c lab.Cluster, in Inputs) lab.Problems {
	var ps lab.Problems
	given := Resolve(env, def, c)
	for _, f := range cloud.Check(given.Cloud) {
		at := given.Origins[f.Field].At
		if at.File == "" {
			at = c.Position("spec.cloud")
		}
		ps = append(ps, lab.Problem{Position: at, Message: f.Message, Cure: f.Cure})
	}
	reg := Build(labName, env, def, c, in)
	for _, k := range slices.Sorted(maps.Keys(reg.Labels)) {
		v := reg.Labels[k]
		ps = append(ps, key("a label", k, v.At)...)
		if k == "cloud" || k == "region" {
			continue // checked above, against the provider's own
		}
		if msgs := validation.IsValidLabelValue(v.Value); len(msgs) > 0 && v.At.File != "" {
			ps = append(ps, lab.Problem{
				Position: v.At, Message: fmt.Sprintf("label %s: %q is not a label's value", k, v.Value),
				Cure: "at most 63 letters, digits or -_. and a letter or digit at both ends",
			})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(reg.Annotations)) {
		ps = append(ps, key("an annotation", k, reg.Annotations[k].At)...)
	}
	for _, layer := range []struct {
		labels, metadata map[string]string
		at               func(string) lab.Position
	}{{def.Labels, def.Metadata, def.Position}, {env.Labels, env.Metadata, env.Position}, {c.Labels, c.Metadata, c.Position}} {
		ps = append(ps, reserved(layer.labels, layer.metadata, layer.at)...)
	}
	return append(ps, missing(reg, c, in.Addons)...)
}

// key checks a key that a user wrote; the lab's own have no place in a file or are made from names that were checked.
func key(what, k string, at lab.Position) lab.Problems {
	if at.File == "" || len(validation.IsQualifiedName(k)) == 0 {
		return nil
	}
	return lab.Problems{{Position: at, Message: fmt.Sprintf("%q is not the key of %s", k, what), Cure: "at most 63 letters, digits or -_. after an optional prefix/"}}
}

// reserved finds keys that say what another field says already: two sources for one truth.
func reserved(labels, metadata map[string]string, at func(string) lab.Position) lab.Problems {
	var ps lab.Problems
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		cure := ""
		switch {
		case k == "environment" || k == "cluster_name":
			cure = "it comes from the cluster itself"
		case k == "cloud" || k == "region":
			cure = "write it under spec.cloud"
		case strings.HasPrefix(k, "enable_"):
			cure = "write it under spec.addons"
		case strings.HasPrefix(k, "argocd.argoproj.io/") || strings.HasPrefix(k, "lab.homelab/"):
			cure = "the engine and lab keep their records there"
		}
		if cure != "" {
			ps = append(ps, lab.Problem{Position: at("spec.labels." + k), Message: "label " + k + " cannot be set here", Cure: cure})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		if k == "environment" || k == "cluster_name" {
			ps = append(ps, lab.Problem{Position: at("spec.metadata." + k), Message: k + " cannot be set here", Cure: "it comes from the cluster itself"})
		}
	}
	return ps
}

// missing finds what an addon's ApplicationSet reads and the cluster does not carry: with missingkey=error the engine would make nothing of it at all.
func missing(reg lab.Registration, c lab.Cluster, addons []lab.Addon) lab.Problems {
	var ps lab.Problems
	for _, a := range addons {
		if !c.Has(a.Name) {
			continue
		}
		for _, r := range a.Reads {
			what, has, cure := "annotation", reg.Annotations, "give it under spec.metadata of the cluster or its environment"
			if r.Label {
				what, has, cure = "label", reg.Labels, "give it under spec.labels of the cluster or its environment"
			}
			if r.Label && r.Key == "environment" {
				cure = "give the cluster an environment, or read it by index with a default"
			}
			if _, ok := has[r.Key]; !ok {
				ps = append(ps, lab.Problem{Position: r.At, Message: fmt.Sprintf("cluster %s has no %s %s, which this reads", c.Name, what, r.Key), Cure: cure})
			}
		}
	}
	return ps
}
