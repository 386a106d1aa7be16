package lint

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/desired"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// shared finds objects that two applications write.
func (l *linter) shared() {
	type key struct{ cluster, group, id string }
	type writer struct {
		name          string
		at            lab.Position
		mounted, bare bool
	}
	first := map[key]writer{}
	for _, a := range l.apps {
		if a.LeftOut != "" {
			continue
		}
		for _, o := range a.objects {
			k := key{o.Cluster, kindOf(o).Group, o.ID()}
			at, _ := l.place(a, o, nil, "")
			own := writer{a.Name, lab.Position{File: o.File, Line: o.Line}, l.mounted(o.File), bare(o.Node)}
			other, taken := first[k]
			switch {
			case o.Hook != "" || !needs.Applied(o.Document) || yields(o.Node):
			case !taken:
				first[k] = own
			case own.mounted != other.mounted && (own.mounted || own.bare) && (other.mounted || other.bare): // the estate provides what a mounted repository lacked
			case other.name != a.Name:
				l.add(finding.Finding{
					Rule: finding.SharedObject, Position: at, Subject: finding.Subject{Cluster: o.Cluster, Application: a.Name, Object: o.ID()},
					Message: fmt.Sprintf("%s is also written by %s: %s", o.ID(), other.name, other.at),
				})
			}
		}
	}
}

// overlaps finds pairs of Git generators that match the same files, and make Applications of one source that write the same objects of one.
func (l *linter) overlaps() {
	type use struct {
		by application
		of appset.Match
	}
	matched := map[lab.Position][]string{} // files, by generator
	uses := map[string][]use{}             // by source, destination and file
	for _, a := range l.apps {
		m := a.manifest()
		var sources []string
		for _, s := range m.Spec.Sources {
			sources = append(sources, fmt.Sprint(s.RepoURL, " ", s.Path, " ", s.Chart, " ", s.TargetRevision))
		}
		for _, of := range a.Matches {
			matched[of.Position] = append(matched[of.Position], of.File)
			if a.LeftOut == "" && a.complete {
				key := fmt.Sprint(sources, m.Spec.Destination, of.File)
				uses[key] = append(uses[key], use{a, of})
			}
		}
	}
	say := map[[2]lab.Position]bool{}
	for _, key := range slices.Sorted(maps.Keys(uses)) {
		for i, second := range uses[key] {
			for _, first := range uses[key][:i] {
				pair := [2]lab.Position{first.of.Position, second.of.Position}
				object := common(first.by, second.by)
				if pair[0] == pair[1] || say[pair] || object == "" {
					continue
				}
				say[pair] = true
				l.add(finding.Finding{
					Rule: finding.GeneratorOverlap, Position: second.of.Position, Subject: finding.Subject{Cluster: second.by.Cluster, Application: second.by.Name, Object: object},
					Message: fmt.Sprintf("%s and %s are both made of %s, and write %s: this generator matches %s; that at %s matches %s", first.by.Name, second.by.Name, second.of.File, object,
						some(matched[pair[1]]), pair[0], some(matched[pair[0]])),
				})
			}
		}
	}
}

// common returns an object that two applications write, or "".
func common(a, b application) string {
	for _, o := range a.objects {
		if o.Hook == "" && slices.ContainsFunc(b.objects, func(other desired.Object) bool { return other.ID() == o.ID() && kindOf(other).Group == kindOf(o).Group }) {
			return o.ID()
		}
	}
	return ""
}

// bare reports whether an object is a namespace with nothing but its name.
func bare(n *yaml.Node) bool {
	metadata := strict.Get(n, "metadata")
	return strict.Text(n, "kind") == "Namespace" && strict.Get(metadata, "labels") == nil && strict.Get(metadata, "annotations") == nil
}

// yields reports whether Flux leaves an object to whoever else writes it.
func yields(n *yaml.Node) bool {
	return slices.Contains([]string{"IfNotPresent", "Merge", "Ignore"}, strict.Text(n, "metadata", "annotations", flux.Apply))
}

// manifest is what the rules read of an Application.
type manifest struct {
	Metadata struct{ Name string }
	Spec     struct {
		Source      *source
		Sources     []source
		Destination struct{ Name, Namespace, Server string }
		SyncPolicy  struct{ SyncOptions []string }

		IgnoreDifferences []difference
	}
}

type source struct {
	RepoURL, Path, TargetRevision, Chart, Ref string

	Helm struct{ ValueFiles []string }
}

// manifest returns that of an Application, and an empty one for others.
func (a application) manifest() manifest {
	var m manifest
	if text, err := json.Marshal(a.Manifest); err == nil {
		_ = json.Unmarshal(text, &m) // of Flux, nothing that the rules read
	}
	if m.Spec.Source != nil {
		m.Spec.Sources = append(m.Spec.Sources, *m.Spec.Source)
	}
	return m
}

// application applies the rules about the manifest of a single Application.
func (l *linter) application(a application) {
	sayAt := func(at lab.Position, rule, message string) {
		l.add(finding.Finding{Rule: rule, Position: at, Subject: finding.Subject{Cluster: a.Cluster, Application: a.Name}, Message: message})
	}
	say := func(rule, message string) { sayAt(a.At, rule, message) }
	m := a.manifest()
	fields := []string{m.Metadata.Name, m.Spec.Destination.Name, m.Spec.Destination.Namespace, m.Spec.Destination.Server}
	paths := map[string]string{} // of sources with a ref
	for _, s := range m.Spec.Sources {
		fields = append(fields, s.RepoURL, s.Path, s.TargetRevision, s.Chart)
		fields = append(fields, s.Helm.ValueFiles...)
		if s.Ref != "" && s.Path != "" && s.Chart == "" {
			paths[s.Ref] = s.Path
		}
	}
	for _, text := range fields {
		if strings.Contains(text, "{{") || strings.Contains(text, "<no value>") {
			say(finding.LeftoverTemplate, fmt.Sprintf("Application %s has %q", a.Name, text))
		}
	}
	for _, s := range m.Spec.Sources {
		for _, file := range s.Helm.ValueFiles {
			ref, name, _ := strings.Cut(strings.TrimPrefix(file, "$"), "/")
			of := paths[ref]
			for _, p := range a.parts {
				if files := p.trees[ref]; of != "" && files != nil && !isFile(files, name) && isFile(files, path.Join(of, name)) {
					sayAt(a.named(func(layer desired.Layer) bool { return layer.Entry == file }), finding.RefPathIgnored, fmt.Sprintf("%s does not exist, but %s does: write $%s/%s", file, path.Join(of, name), ref, path.Join(of, name)))
				}
			}
		}
	}
}

// named returns the position of the first of an application's value files that is one, or that of the application.
func (a application) named(is func(desired.Layer) bool) lab.Position {
	if a.Layers != nil {
		for _, layer := range a.Layers() {
			if is(layer) {
				return layer.At
			}
		}
	}
	return a.At
}

func isFile(files fs.FS, name string) bool {
	info, err := fs.Stat(files, path.Clean(name))
	return err == nil && info.Mode().IsRegular()
}

// ignoredDifferences finds entries that match no object of any Application of their set, although there is one of the kind.
func (l *linter) ignoredDifferences() {
	type entry struct {
		at   lab.Position
		text string
	}
	matched, near, by := map[entry]bool{}, map[entry]string{}, map[entry]application{}
	var order []entry
	for _, a := range l.apps {
		for _, d := range a.manifest().Spec.IgnoreDifferences {
			e := entry{a.At, fmt.Sprintf("%s %s/%s of %q", d.Kind, d.Namespace, d.Name, d.Group)}
			if _, seen := by[e]; !seen {
				order = append(order, e)
			}
			by[e] = a
			matched[e] = matched[e] || !a.complete
			for _, o := range a.objects {
				gvk := kindOf(o)
				matched[e] = matched[e] || render.Globs(d.Group, gvk.Group) && render.Globs(d.Kind, gvk.Kind) && fits(d.Name, o.Node, "name") && fits(d.Namespace, o.Node, "namespace")
				if near[e] == "" && strings.EqualFold(d.Kind, gvk.Kind) {
					near[e] = fmt.Sprintf("%s of %q", o.ID(), gvk.Group)
				}
			}
		}
	}
	for _, e := range order {
		if !matched[e] && near[e] != "" { // a template for any application may list what only some have
			a := by[e]
			l.add(finding.Finding{
				Rule: finding.IgnoreUnmatched, Position: e.at, Subject: finding.Subject{Cluster: a.Cluster, Application: a.Name},
				Message: fmt.Sprintf("ignoreDifferences of %s matches no object, such as %s", e.text, near[e]),
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
			if c.Name == "" || exact.MatchString(c.Version) { // of an artifact with its own revision
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
