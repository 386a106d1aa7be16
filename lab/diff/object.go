package diff

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"homelab/lab/desired"
	"homelab/lab/strict"
)

// manifest returns the Application or Kustomization itself as JSON, or nil if there is none.
func manifest(a *desired.App) []byte {
	if a == nil || a.Manifest == nil {
		return nil
	}
	text, _ := json.Marshal(a.Manifest) // it came from JSON
	return text
}

func withManifest(list []object, app App, text []byte) []object {
	if value, err := decoded(text, nil); err == nil {
		return append(list, object{ID: idOf("", value), app: app, manifest: true, value: value})
	}
	return list
}

// objectsOf returns the objects of an application's parts, and the parts that cannot be rendered.
func objectsOf(a *desired.App, settled map[string]bool) ([]object, map[string]desired.Failed) {
	if a == nil {
		return nil, nil
	}
	var list []object
	app, rest := appOf(a), *a
	rest.Parts = nil
	var parts []string
	for i, name := range names(a) {
		if !settled[name] {
			rest.Parts, parts = append(rest.Parts, a.Parts[i]), append(parts, name)
		}
	}
	made, failed := rest.Rendered()
	lacks := map[string]desired.Failed{}
	for _, f := range failed {
		lacks[parts[f.Source]] = f
	}
	for _, m := range made {
		value := map[string]any{}
		for _, field := range []string{"apiVersion", "kind"} {
			value[field] = strict.Text(m.Node, field)
		}
		value["metadata"] = map[string]any{
			"name": strict.Text(m.Node, "metadata", "name"), "generateName": strict.Text(m.Node, "metadata", "generateName"), "namespace": strict.Text(m.Node, "metadata", "namespace"),
		}
		list = append(list, object{ID: idOf(m.Cluster, value), app: app, part: parts[m.Source], made: m})
	}
	return list, lacks
}

func idOf(cluster string, v map[string]any) ID {
	text := func(v any, key string) string {
		m, _ := v.(map[string]any)
		s, _ := m[key].(string)
		return s
	}
	group, _, grouped := strings.Cut(text(v, "apiVersion"), "/")
	if !grouped {
		group = ""
	}
	id := ID{Cluster: cluster, Group: group, Kind: text(v, "kind"), Namespace: text(v["metadata"], "namespace"), Name: text(v["metadata"], "name")}
	if id.Name == "" {
		id.Name = text(v["metadata"], "generateName") + "*"
	}
	return id
}

// byID returns objects by their identity. Later ones of the same identity have a number.
func byID(list []object) map[ID]object {
	of := make(map[ID]object, len(list))
	for _, o := range list {
		id := o.ID
		for n := 2; ; n++ {
			if _, twice := of[id]; !twice {
				break
			}
			id.Name = o.Name + "#" + strconv.Itoa(n)
		}
		of[id] = o
	}
	return of
}

func decoded(text []byte, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	var v map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return v, dec.Decode(&v)
}

// decode returns the object as JSON has it.
func (o *object) decode() (map[string]any, error) {
	if o.value != nil {
		return o.value, nil
	}
	text, err := o.made.JSON()
	o.value, err = decoded(text, err)
	return o.value, err
}
