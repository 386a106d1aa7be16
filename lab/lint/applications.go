package lint

import (
	"encoding/json"
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// shared finds objects that two applications write.
func (l *linter) shared() {
	type key struct{ cluster, group, id string }
	type writer struct {
		name string
		at   lab.Position
	}
	first := map[key]writer{}
	for _, a := range l.apps {
		if a.LeftOut != "" {
			continue
		}
		for _, o := range a.objects {
			k := key{o.Cluster, kindOf(o).Group, o.ID()}
			at, _ := l.place(a, o, nil, "")
			other, taken := first[k]
			switch {
			case o.Hook != "" || !needs.Applied(o.Document):
			case !taken:
				first[k] = writer{a.Name, at}
			case other.name != a.Name:
				l.add(finding.Finding{
					Rule: finding.SharedObject, Position: at, Subject: finding.Subject{Cluster: o.Cluster, Application: a.Name, Object: o.ID()},
					Message: fmt.Sprintf("%s is also written by %s: %s", o.ID(), other.name, other.at),
				})
			}
		}
	}
}

// manifest is what the rules read of an Application.
type manifest struct {
	Spec struct {
		IgnoreDifferences []struct{ Group, Kind, Name, Namespace string }
	}
}

// ignoredDifferences finds entries that match no object of any Application of their set.
func (l *linter) ignoredDifferences() {
	type entry struct {
		at   lab.Position
		text string
	}
	matched, by := map[entry]bool{}, map[entry]application{}
	var order []entry
	for _, a := range l.apps {
		var m manifest
		if text, err := json.Marshal(a.Manifest); err != nil || json.Unmarshal(text, &m) != nil {
			continue
		}
		for _, d := range m.Spec.IgnoreDifferences {
			e := entry{a.At, fmt.Sprintf("%s %s/%s of %q", d.Kind, d.Namespace, d.Name, d.Group)}
			if _, seen := by[e]; !seen {
				order = append(order, e)
			}
			by[e] = a
			matched[e] = matched[e] || !a.complete
			for _, o := range a.objects {
				gvk := kindOf(o)
				matched[e] = matched[e] || render.Globs(d.Group, gvk.Group) && render.Globs(d.Kind, gvk.Kind) && fits(d.Name, o.Node, "name") && fits(d.Namespace, o.Node, "namespace")
			}
		}
	}
	for _, e := range order {
		if !matched[e] {
			a := by[e]
			l.add(finding.Finding{
				Rule: finding.IgnoreUnmatched, Position: e.at, Subject: finding.Subject{Cluster: a.Cluster, Application: a.Name},
				Message: "ignoreDifferences of " + e.text + " matches no object",
			})
		}
	}
}

// fits reports whether an entry has the name or namespace of an object, or none.
func fits(wanted string, n *yaml.Node, field string) bool {
	return wanted == "" || wanted == strict.Text(n, "metadata", field)
}

// exact matches a version of a chart that no other can replace.
var exact = regexp.MustCompile(`^v?\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`)

// charts finds versions of charts that are ranges.
func (l *linter) charts() {
	for _, a := range l.Estate.Applications {
		for _, c := range a.Charts {
			if c.Version != "" && exact.MatchString(c.Version) {
				continue
			}
			version := c.Version
			if version == "" {
				version = "none"
			}
			l.add(finding.Finding{
				Rule: finding.FloatingChart, Position: c.At, Subject: finding.Subject{Cluster: a.Cluster, Application: a.Name},
				Message: fmt.Sprintf("the version of chart %s is %s, not an exact one", c.Name, version),
			})
		}
	}
}
