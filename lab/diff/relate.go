package diff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

// relate tells objects that moved or were renamed from those that were added and removed.
func (c *comparison) relate() {
	owned := map[ID]bool{} // objects of applications, which may be applications themselves
	for _, list := range [][]object{c.removed, c.added} {
		for _, o := range list {
			if !o.manifest {
				owned[ID{"", o.Group, o.Kind, o.Namespace, o.Name}] = true
			}
		}
	}
	for _, change := range c.changes {
		if change.Object.Cluster != "" {
			id := change.Object
			id.Cluster = ""
			owned[id] = true
		}
	}
	c.changes = slices.DeleteFunc(c.changes, func(change Change) bool { return change.Object.Cluster == "" && owned[change.Object] })
	twice := func(o object) bool { return o.manifest && owned[o.ID] }
	c.removed, c.added = slices.DeleteFunc(c.removed, twice), slices.DeleteFunc(c.added, twice)
	if c.clusters == nil {
		c.match(Moved, func(o *object) string {
			return fmt.Sprintf("%q", []string{o.Cluster, o.Group, o.Kind, o.Namespace, o.ID.Name})
		})
	}
	c.match(Renamed, c.contentOf)
	c.match(Renamed, c.generated)
	for _, o := range c.removed {
		c.changes = append(c.changes, Change{App: o.app, Object: o.ID, Kind: Removed})
	}
	for _, o := range c.added {
		c.changes = append(c.changes, Change{App: o.app, Object: o.ID, Kind: Added})
	}
}

// match pairs what was removed with what was added if they have a key in common that no others have.
func (c *comparison) match(kind Kind, key func(*object) string) {
	index := func(list []object) map[string][]int {
		at := map[string][]int{}
		for i := range list {
			if k := key(&list[i]); k != "" {
				at[k] = append(at[k], i)
			}
		}
		return at
	}
	added := index(c.added)
	gone, come := map[int]bool{}, map[int]bool{}
	for k, i := range index(c.removed) {
		j := added[k]
		if len(i) != 1 || len(j) != 1 {
			continue
		}
		a, b := c.removed[i[0]], c.added[j[0]]
		change := Change{App: b.app, Object: b.ID, Kind: kind, From: a.name()}
		if kind == Moved {
			change.From = a.app.Name
		}
		x, err := a.decode()
		y, other := b.decode()
		if err = cmp.Or(err, other); err != nil {
			continue
		}
		d := differ{before: a.app.Cluster, after: b.app.Cluster}
		if kind == Moved {
			d = differ{}
		}
		for _, f := range d.value(nil, x, y, schemaOf(x)) {
			if at := f.Path.String(); kind == Moved || at != "metadata.name" && at != "metadata.namespace" && (f.Before != any(a.Name) || f.After != any(b.Name)) {
				change.Fields = append(change.Fields, f)
			}
		}
		change.Fields = masked(b.ID, change.Fields)
		c.changes = append(c.changes, change)
		gone[i[0]], come[j[0]] = true, true
	}
	rest := func(list []object, without map[int]bool) (kept []object) {
		for i, o := range list {
			if !without[i] {
				kept = append(kept, o)
			}
		}
		return kept
	}
	c.removed, c.added = rest(c.removed, gone), rest(c.added, come)
}

// owner returns what objects of a part of an application have in common in both states.
func (c *comparison) owner(o *object) []string {
	return []string{c.named(o, o.app.Name), c.named(o, o.app.Cluster), c.named(o, o.Cluster), c.named(o, o.part)}
}

func (c *comparison) named(o *object, text string) string {
	if c.clusters == nil {
		return text
	}
	return named(text, o.app.Cluster)
}

// contentOf returns a key that objects of an application and a kind have in common if they are equal but for their name and namespace. A value that is the name as a
// whole, such as that of a label, counts as the name.
func (c *comparison) contentOf(o *object) string {
	v, err := o.decode()
	if err != nil {
		return ""
	}
	var replaced func(v any) any
	replaced = func(v any) any {
		switch v := v.(type) {
		case string:
			switch v {
			case o.Name:
				return "\x00name"
			case o.Namespace:
				return "\x00namespace"
			}
		case map[string]any:
			of := map[string]any{}
			for key, w := range v {
				of[key] = replaced(w)
			}
			return of
		case []any:
			of := make([]any, len(v))
			for i, w := range v {
				of[i] = replaced(w)
			}
			return of
		}
		return v
	}
	content, _ := replaced(v).(map[string]any)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		delete(metadata, "namespace") // which may be none
	}
	text, err := json.Marshal([]any{c.owner(o), content})
	if err != nil {
		return ""
	}
	return string(text)
}

// suffix is what kustomize adds to the names of generated ConfigMaps and Secrets: the hash of their content in letters that cannot form words.
var suffix = regexp.MustCompile(`-[2456789bcdfghkmt]{10}$`)

// generated returns a key that versions of a generated ConfigMap or Secret have in common.
func (c *comparison) generated(o *object) string {
	if base := suffix.ReplaceAllString(o.Name, ""); base != o.Name && o.Group == "" && (o.Kind == "ConfigMap" || o.Kind == "Secret") {
		return fmt.Sprintf("%q", append(c.owner(o), o.Kind, c.named(o, o.Namespace), c.named(o, base)))
	}
	return ""
}
