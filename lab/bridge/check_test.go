package bridge_test

import (
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/bridge"
)

func at(file string, line int, keys ...string) map[string]lab.Position {
	positions := map[string]lab.Position{}
	for _, k := range keys {
		positions[k] = lab.Position{File: file, Line: line, Column: 1}
	}
	return positions
}

// Invalid keys and values are reported at their position in any layer.
func TestCheckPositions(t *testing.T) {
	const bad, ours = "-bad", "argocd.argoproj.io/secret-type"
	labels, metadata := map[string]string{bad: "x", ours: "y", "tier": "a b"}, map[string]string{bad: "x"}
	keys := []string{"spec.labels." + bad, "spec.labels." + ours, "spec.labels.tier", "spec.metadata." + bad}
	for file, build := range map[string]func() (env, def lab.Environment, c lab.Cluster){
		"default": func() (env, def lab.Environment, c lab.Cluster) {
			def = lab.Environment{Name: "default", Labels: labels, Metadata: metadata, Positions: at("default", 7, keys...)}
			return lab.Environment{Name: "dev"}, def, lab.Cluster{Name: "dev"}
		},
		"environment": func() (env, def lab.Environment, c lab.Cluster) {
			env = lab.Environment{Name: "dev", Labels: labels, Metadata: metadata, Positions: at("environment", 7, keys...)}
			return env, lab.Environment{}, lab.Cluster{Name: "dev"}
		},
		"cluster": func() (env, def lab.Environment, c lab.Cluster) {
			c = lab.Cluster{Name: "dev", Labels: labels, Metadata: metadata, Positions: at("cluster", 7, keys...)}
			return lab.Environment{Name: "dev"}, lab.Environment{}, c
		},
	} {
		env, def, c := build()
		var got []string
		for _, p := range bridge.Check("lab", env, def, c, bridge.Inputs{}) {
			got = append(got, p.Position.String()+" "+p.Message)
			if p.Cure == "" {
				t.Errorf("%s: %s has no cure", file, p.Message)
			}
		}
		all := strings.Join(got, "\n")
		for _, want := range []string{
			`"-bad" is not the key of a label`, `"-bad" is not the key of an annotation`, `label tier: "a b" is not a label's value`, "label " + ours + " cannot be set here",
		} {
			if !strings.Contains(all, file+":7:1 "+want) {
				t.Errorf("%s: no %q at %s:7 in\n%s", file, want, file, all)
			}
		}
	}
}

// A region is checked with the provider, unless it is written as a label.
func TestCheckRegionLabel(t *testing.T) {
	c := lab.Cluster{Name: "dev", Labels: map[string]string{"region": "über all"}, Positions: at("cluster", 7, "spec.labels.region")}
	if ps := bridge.Check("lab", lab.Environment{}, lab.Environment{}, c, bridge.Inputs{}); len(ps) != 1 || !strings.HasPrefix(ps[0].Message, "label region: ") {
		t.Errorf("%+v", ps)
	}
	c = lab.Cluster{Name: "dev", Cloud: lab.Cloud{Provider: "aws", Region: "über all"}, Positions: at("cluster", 7, "spec.cloud.region", "spec.cloud.provider")}
	ps := bridge.Check("lab", lab.Environment{}, lab.Environment{}, c, bridge.Inputs{})
	if len(ps) != 1 || strings.HasPrefix(ps[0].Message, "label ") || ps[0].Line != 7 {
		t.Errorf("%+v", ps)
	}
}

// Each kind of missing key has its cure; an environment is not set as a label.
func TestCheckMissingCures(t *testing.T) {
	c := lab.Cluster{Name: "dev", Addons: map[string]bool{"shop": true}}
	in := bridge.Inputs{Addons: []lab.Addon{{Name: "shop", Reads: []lab.Read{{Key: "environment", Label: true}, {Key: "tier", Label: true}, {Key: "cost"}}}}}
	cures := map[string]string{}
	for _, p := range bridge.Check("lab", lab.Environment{}, lab.Environment{}, c, in) {
		cures[p.Message] = p.Cure
	}
	for what, cure := range map[string]string{"label environment": "set the cluster's environment", "label tier": "spec.labels", "annotation cost": "spec.metadata"} {
		if got := cures["cluster dev has no "+what+", which is read here"]; !strings.Contains(got, cure) {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// A label that is read creates no annotation, even with an identity's suffix.
func TestReadLabelAddsNoIdentity(t *testing.T) {
	c := lab.Cluster{Name: "dev", Cloud: lab.Cloud{Provider: "aws"}, Addons: map[string]bool{"shop": true}}
	in := bridge.Inputs{Addons: []lab.Addon{{Name: "shop", Reads: []lab.Read{{Key: "till_iam_role_arn", Label: true}, {Key: "_iam_role_arn"}}}}}
	reg := bridge.Build("lab", lab.Environment{}, lab.Environment{}, c, in)
	for _, key := range []string{"till_iam_role_arn", "_iam_role_arn"} {
		if v, ok := reg.Annotations[key]; ok {
			t.Errorf("annotation %s: %s", key, v.Value)
		}
	}
}

// The last layer wins: default, environment, cluster.
func TestLayers(t *testing.T) {
	layer := func(name string) map[string]string { return map[string]string{"tier": name, name: name} }
	def := lab.Environment{Name: "default", Labels: layer("default"), Metadata: layer("default")}
	env := lab.Environment{Name: "dev", Labels: layer("environment"), Metadata: layer("environment")}
	c := lab.Cluster{Name: "dev", Labels: layer("cluster"), Metadata: layer("cluster")}
	for want, reg := range map[string]lab.Registration{
		"default":     bridge.Build("lab", lab.Environment{Name: "dev"}, def, lab.Cluster{Name: "dev"}, bridge.Inputs{}),
		"environment": bridge.Build("lab", env, def, lab.Cluster{Name: "dev"}, bridge.Inputs{}),
		"cluster":     bridge.Build("lab", env, def, c, bridge.Inputs{}),
	} {
		if l, a := reg.Labels["tier"].Value, reg.Annotations["tier"].Value; l != want || a != want {
			t.Errorf("label %s, annotation %s, want %s", l, a, want)
		}
		if reg.Labels["default"].Value != "default" || reg.Annotations["default"].Value != "default" {
			t.Errorf("%s: value of the default layer is missing", want)
		}
	}
}
