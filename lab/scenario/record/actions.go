package record

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/fieldpath"
	"homelab/lab/promote"
	"homelab/lab/scenario"
	"homelab/lab/strict"
	"homelab/lab/yamledit"
)

// maxPaths is from how many changed paths on an edit is recorded as a whole.
const maxPaths = 12

func ref(s scenario.Subject) pairs {
	list := pairs{{"cluster", s.Cluster}}
	if s.APIVersion != "v1" {
		list = append(list, pair{"apiVersion", s.APIVersion})
	}
	list = append(list, pair{"kind", s.Kind})
	if s.Namespace != "" {
		list = append(list, pair{"namespace", s.Namespace})
	}
	return append(list, pair{"name", s.Name})
}

func deletion(s scenario.Subject, before view) *action {
	return &action{
		title: s.String() + " is deleted", verb: "delete", params: ref(s), before: before, subject: s, deleted: true,
		comments: []string{"the cluster does not record who deleted it: remove this step if it was not by hand"},
	}
}

// edited returns the action that changed an object, or nil if nothing relevant changed.
func edited(s scenario.Subject, was map[string]any, u *unstructured.Unstructured, before view) *action {
	changes := differ("", content(was), content(u.Object))
	if was == nil || len(changes) > maxPaths {
		name := strings.ToLower(s.Kind) + "-" + s.Name + "-" + s.Cluster + ".yaml"
		data, err := yaml.Marshal(bare(u).Object)
		if err != nil {
			return nil
		}
		return &action{
			title: s.String() + " is applied by hand", verb: "apply", params: pairs{{"cluster", s.Cluster}, {"file", name}}, files: map[string][]byte{name: data}, before: before, subject: s,
		}
	}
	if len(changes) == 0 {
		return nil
	}
	a := &action{title: s.String() + " is edited by hand", verb: "patch", params: ref(s), before: before, subject: s}
	var set pairs
	var unset []any
	for _, c := range changes {
		a.paths = append(a.paths, c.path)
		if c.there {
			set = append(set, pair{c.path, c.value})
		} else {
			unset = append(unset, c.path)
		}
	}
	if len(set) > 0 {
		a.params = append(a.params, pair{"set", set})
	}
	if len(unset) > 0 {
		a.params = append(a.params, pair{"unset", unset})
	}
	return a
}

// bare returns an object without the fields that a cluster adds.
func bare(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: content(u.Object)}
	out.SetAPIVersion(u.GetAPIVersion())
	out.SetKind(u.GetKind())
	out.SetName(u.GetName())
	out.SetNamespace(u.GetNamespace())
	if u.GetKind() == "Service" {
		for _, field := range []string{"clusterIP", "clusterIPs"} {
			unstructured.RemoveNestedField(out.Object, "spec", field)
		}
	}
	return out
}

// labelled returns a change of a registration, or nil.
func labelled(cluster string, was, is scenario.Marks) *action {
	a := &action{title: "what the engine knows of " + cluster + " changes", verb: "label", params: pairs{{"cluster", cluster}}, cluster: cluster}
	for _, of := range []struct {
		key     string
		was, is map[string]*string
	}{{"labels", was.Labels, is.Labels}, {"annotations", was.Annotations, is.Annotations}} {
		keys := maps.Clone(of.was)
		if keys == nil {
			keys = map[string]*string{}
		}
		maps.Copy(keys, of.is)
		var list pairs
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			before, after := of.was[key], of.is[key]
			switch {
			case after == nil && before != nil:
				list = append(list, pair{key, nil})
			case after != nil && (before == nil || *before != *after):
				list = append(list, pair{key, *after})
			}
		}
		if len(list) > 0 {
			a.params = append(a.params, pair{of.key, list})
		}
	}
	if len(a.params) == 1 {
		return nil
	}
	return a
}

// committed returns the action of a push, or nil for an empty commit.
func (r *Recording) committed(was, is scenario.Tree) (*action, error) {
	before, err := files(was.FS)
	if err != nil {
		return nil, err
	}
	after, err := files(is.FS)
	if err != nil {
		return nil, err
	}
	message, _, _ := strings.Cut(is.Message, "\n")
	message = cmp.Or(strings.TrimSpace(message), "a change")
	a := &action{title: message, commit: is.Commit}
	if p, ok := r.promotion(was, before, after, message); ok {
		a.verb, a.addon = "promote", p.Addon
		a.title = fmt.Sprintf("%s is promoted from %s to %s", p.Addon, p.From, p.To)
		a.params = pairs{{"addon", p.Addon}, {"from", p.From}, {"to", p.To}}
		return a, nil
	}
	a.verb, a.files = "commit", map[string][]byte{}
	a.params = pairs{{"message", message}}
	if is.Author != "" {
		a.params = append(a.params, pair{"author", is.Author})
	}
	var set, whole pairs
	var remove []any
	for _, name := range changed(before, after) {
		data, there := after[name]
		if !there {
			remove = append(remove, name)
			continue
		}
		if old, known := before[name]; known {
			if values := settings(name, old, data); values != nil {
				set = append(set, pair{name, values})
				continue
			}
		}
		a.files["files/"+name] = data
		whole = append(whole, pair{name, "files/" + name})
		if strings.HasPrefix(name, lab.ClustersDir+"/") && path.Base(name) == "flux.yaml" {
			a.comments = append(a.comments, name+" is what lab generate writes: generate: true can take its place")
		}
	}
	for _, p := range []pair{{"files", whole}, {"set", set}, {"remove", remove}} {
		if !isEmpty(p.value) {
			a.params = append(a.params, p)
		}
	}
	if len(a.params) < 2 || isEmpty(whole) && isEmpty(set) && len(remove) == 0 {
		return nil, nil // an empty commit
	}
	return a, nil
}

// changed returns the names of files that differ.
func changed(before, after map[string][]byte) []string {
	names := map[string]bool{}
	for name, data := range after {
		if old, known := before[name]; !known || !bytes.Equal(old, data) {
			names[name] = true
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func files(fsys fs.FS) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		out[name], err = fs.ReadFile(fsys, name)
		return err
	})
	return out, err
}

// settings returns the values whose setting turns one YAML file into another, byte by byte, or nil.
func settings(name string, was, is []byte) pairs {
	if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" {
		return nil
	}
	a, b := plain(name, was), plain(name, is)
	if a == nil || b == nil {
		return nil
	}
	changes := differ("", a, b)
	var list pairs
	data := was
	for _, c := range changes {
		at, err := fieldpath.Parse(c.path)
		if err != nil || !c.there || len(changes) > maxPaths {
			return nil
		}
		if data, err = yamledit.Set(data, at, c.value); err != nil {
			return nil
		}
		list = append(list, pair{c.path, c.value})
	}
	if !bytes.Equal(data, is) {
		return nil
	}
	return list
}

func plain(name string, data []byte) any {
	n, problems := strict.ParseOne(name, data)
	if len(problems) > 0 {
		return nil
	}
	v, ok := strict.NewReader(name).Plain(n, "")
	if m, isMap := v.(map[string]any); ok && isMap {
		return m
	}
	return nil
}

// promotion returns the promotion that changes exactly what a commit did.
func (r *Recording) promotion(was scenario.Tree, before, after map[string][]byte, message string) (promote.Promotion, bool) {
	names := changed(before, after)
	w := r.world
	est, err := estate.Load(was.FS, "", w.Estate.Name, estate.WithRepositories(w.Estate.Repositories), estate.WithEngine(w.Engines), estate.EveryEngine())
	if err != nil {
		return promote.Promotion{}, false
	}
	var best promote.Promotion
	found := false
	for _, addon := range est.Addons {
		for i, from := range est.Environments {
			for j, to := range est.Environments {
				if i == j {
					continue
				}
				p, err := promote.Plan(est, addon.Name, from.Name, to.Name)
				if err != nil || !does(p.Changed(), names, after) {
					continue
				}
				if !found || p.Message() == message || best.Message() != message && j-i < 2 {
					best, found = p, true
				}
			}
		}
	}
	return best, found
}

func does(changes map[string][]byte, names []string, after map[string][]byte) bool {
	if len(changes) == 0 || len(changes) != len(names) {
		return false
	}
	for name, data := range changes {
		if !slices.Contains(names, name) || !bytes.Equal(data, after[name]) {
			return false
		}
	}
	return true
}
