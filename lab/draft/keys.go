package draft

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/draft/field"
	"homelab/lab/fill"
)

func (d *drafting) inputs() bridge.Inputs { return bridge.InputsOf(d.estate) }

// annotations returns the keys of the annotations that templates read.
func (d *drafting) annotations() []string {
	var keys []string
	for _, u := range d.uses() {
		if !u.label {
			keys = append(keys, u.key)
		}
	}
	return keys
}

// uses returns the references of all documents.
func (d *drafting) uses() []use {
	var list []use
	for _, doc := range d.docs {
		list = append(list, doc.uses...)
	}
	return list
}

// read sets the annotations and labels that templates read and lab does not provide.
func (d *drafting) read() {
	all := d.uses()
	for _, u := range all {
		if u.label {
			d.label(u)
		}
	}
	d.solve()
	for _, u := range all {
		switch {
		case u.label || d.answer.at[u.key].doc != nil:
		case u.field == "targetRevision" || u.field == "revision":
			if r := d.repositoryBeside(u); r != nil {
				d.give(u, r.Branch)
				continue
			}
			fallthrough
		case !u.guarded && !d.provided(u):
			d.open(u)
		}
	}
}

// given reports whether all clusters have a key, with all addons enabled: keys of addons belong to the bridge.
func (d *drafting) given(key string, label bool) bool {
	in := d.inputs()
	in.Addons = d.everyAddon()
	for _, c := range d.estate.Clusters {
		if !d.hosts(&c) || d.bare(c) {
			continue
		}
		c.Addons = map[string]bool{}
		for _, a := range in.Addons {
			c.Addons[a.Name] = true
		}
		reg := bridge.Registered(d.estate, c, in)
		has := reg.Annotations
		if label {
			has = reg.Labels
		}
		if _, ok := has[key]; !ok {
			return false
		}
	}
	return true
}

// everyAddon returns the addons that generators select, with the annotations that they read.
func (d *drafting) everyAddon() []lab.Addon {
	var list []lab.Addon
	for _, doc := range d.docs {
		for _, label := range doc.switches() {
			name, _ := addonOf(label)
			i := slices.IndexFunc(list, func(a lab.Addon) bool { return a.Name == name })
			if i < 0 {
				list, i = append(list, lab.Addon{Name: name}), len(list)
			}
			for _, u := range doc.uses {
				list[i].Reads = append(list[i].Reads, lab.Read{Key: u.key, Label: u.label, At: u.at})
			}
		}
	}
	return list
}

// provided reports whether the bridge has a key, under its own name or another spelling, which it then gets in the clusters' metadata.
func (d *drafting) provided(u use) bool {
	if d.given(u.key, false) {
		return true
	}
	for _, name := range names(u.key) {
		if name == u.key || !d.given(name, false) {
			continue
		}
		for i := range d.estate.Clusters {
			if c := &d.estate.Clusters[i]; d.hosts(c) {
				c.Metadata[u.key] = d.registered(*c).Annotations[name].Value
			}
		}
		d.note(Key{Name: u.key, Value: name, How: Found, At: u.at})
		return true
	}
	return false
}

// ofAll returns the labels or annotations of all clusters.
func (d *drafting) ofAll(label bool) map[string]string {
	def := d.environment(lab.DefaultEnvironment)
	if label {
		return def.Labels
	}
	return def.Metadata
}

// give sets an annotation for all clusters, overriding lab's.
func (d *drafting) give(u use, value string) {
	if _, has := d.ofAll(false)[u.key]; has {
		return
	}
	d.ofAll(false)[u.key] = value
	d.note(Key{Name: u.key, Value: value, How: Found, At: u.at})
}

// open sets an annotation or label that nothing defines to a placeholder, of the type of the first field that is not any text.
func (d *drafting) open(u use) {
	k := Key{Name: u.key, Label: u.label, How: Open, Type: d.typeOf(u), At: u.at}
	if before, has := d.keys[k.id()]; has && before.Type != fill.Text || has && k.Type == fill.Text {
		return
	}
	k.Value = k.Type.Placeholder(k.Name)
	d.ofAll(u.label)[u.key] = k.Value
	d.keys[k.id()] = &k
}

// typeOf returns the type of the field that an annotation or label is for.
func (d *drafting) typeOf(u use) fill.Type {
	switch {
	case u.label || !referenceOf("annotations", u.key).MatchString(u.text) || referenceOf("annotations", u.key).FindString(u.text) != u.text:
		return fill.Text
	case u.field == "repoURL":
		return fill.URL
	}
	if r := d.repositoryAt(u.address); r != nil && len(u.value) > 0 {
		return field.Value(r.FS, u.dir, u.value)
	}
	return fill.Text
}

// alike sets a label of clusters as in the state to imitate, and reports whether one has it there.
func (d *drafting) alike(u use) (has bool) {
	for i := range d.estate.Clusters {
		c := &d.estate.Clusters[i]
		if value := d.likewise(c.Name, u.key); value != "" && c.Labels[u.key] == "" {
			c.Labels[u.key], has = value, true
			d.note(Key{Name: u.key, Label: true, Value: value, How: Found, At: u.at})
		}
	}
	return has
}

// likewise returns a cluster's label in the state to imitate, or "".
func (d *drafting) likewise(cluster, key string) string {
	if d.wishes.like == nil {
		return ""
	}
	c, _ := d.wishes.like.estate.Cluster(cluster)
	return c.Labels[key]
}

func (d *drafting) label(u use) {
	switch {
	case u.guarded || strings.HasPrefix(u.key, enable):
	case d.given(u.key, true):
		d.labelSelected(u)
	case !d.alike(u) && !d.fill(u):
		d.open(u)
	}
}

// labelSelected sets a label of selected clusters that host nothing, such as the hub.
func (d *drafting) labelSelected(u use) {
	selected, err := u.doc.set.Selects(d.world())
	if err != nil {
		return // reported when the estate is loaded
	}
	for i := range d.estate.Clusters {
		c := &d.estate.Clusters[i]
		if _, has := d.registered(*c).Labels[u.key]; selected[c.Name] && !has {
			k := Key{Name: u.key, Label: true, Value: fill.Text.Placeholder(u.key), How: Open, At: u.at}
			values := d.ofTerraform(u.key)
			if c.Role != lab.RoleHub || len(values) != 1 {
				values = d.fit(u)
			}
			if value := d.likewise(c.Name, u.key); value != "" {
				k.Value = value
			} else if len(values) > 0 {
				k.Value, k.How = d.choose(Choice{About: labelOf(u.key, c.Name), Of: values, At: u.at}), Found
			}
			c.Labels[u.key] = k.Value
			if other, known := d.keys[k.id()]; known && other.Value != k.Value {
				k.In = labelsOf(c.Name)
			}
			d.note(k)
		}
	}
}

// labelsOf is Key.In of a label that a cluster has of another origin than others.
func labelsOf(cluster string) string { return "label of cluster " + cluster }

// ofTerraform returns the values that Terraform gives a label of the hub: of environments, those that mean the hub, if there are any.
func (d *drafting) ofTerraform(key string) []string {
	values := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(d.terraform[key]))), func(v string) bool { return v == "" || len(validation.IsValidLabelValue(v)) > 0 })
	if other := func(v string) bool { return !control.MatchString(v) }; namesEnvironment(key) && slices.ContainsFunc(values, control.MatchString) {
		values = slices.DeleteFunc(values, other)
	}
	return values
}

// repositoryBeside returns the repository whose revision an annotation is: that of the same source, or of the annotation X_repo_url for X_repo_revision. It may be nil.
func (d *drafting) repositoryBeside(u use) *lab.Repository {
	for key, lost := range d.answer.lost {
		if lost && reference(key).MatchString(u.address) {
			return nil
		}
	}
	r := d.repositoryAt(u.address)
	if stem, is := strings.CutSuffix(u.key, "revision"); r == nil && is && !d.answer.lost[stem+"url"] {
		r, _ = d.inputs().Mounted(d.answer.values[stem+"url"])
	}
	return r
}

// reference matches a reference to an annotation, in Go and plain templates.
func reference(key string) *regexp.Regexp { return referenceOf("annotations", key) }

// referenceOf is reference for labels or annotations.
func referenceOf(field, key string) *regexp.Regexp {
	name := regexp.QuoteMeta(key)
	return regexp.MustCompile(`\{\{[^{}]*\bmetadata\.` + field + `(\.` + name + `\b|\s+"` + name + `")[^{}]*\}\}`)
}
