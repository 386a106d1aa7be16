package draft

import (
	"path"
	"slices"
	"strings"

	"homelab/lab/estate/mount"
)

// guesses makes addresses lost that have a repository only because any would do: all that is read there is one folder, which further keys name, and another address has
// the same folder with more reason.
func (d *drafting) guesses(best candidate, list []reader, lost map[string]bool) {
	type claim struct {
		folder string
		reason int
	}
	claims := map[string]claim{}
	at := func(key string) (own []reader) {
		for _, r := range list {
			if reference(key).MatchString(r.address) {
				own = append(own, r)
			}
		}
		return own
	}
	for _, key := range d.answer.keys {
		if !d.answer.addresses[key] || lost[key] {
			continue
		}
		var c claim
		for _, r := range at(key) {
			fits, _ := d.finding(r, best)
			switch dir, free := r.folder(best.values); {
			case fits == 0:
			case !free:
				c.reason += 2
			case r.must:
				c.folder = best.values[key] + " " + dir
				if strings.Contains(dir, stemOf(key)) {
					c.reason++
				}
			}
		}
		claims[key] = c
	}
	for i, key := range d.answer.keys {
		own, known := claims[key]
		if !known || own.folder == "" || own.reason > 1 || slices.Contains(d.terraform[key], best.values[key]) {
			continue
		}
		for j, other := range d.answer.keys {
			o, known := claims[other]
			if !known || i == j || o.folder != own.folder || o.reason < own.reason || o.reason == own.reason && i < j {
				continue
			}
			lost[key] = true
			best.forget(key, list)
		}
	}
}

// foreign makes addresses lost that are those of another repository in Terraform, if the folders there are others than what is read.
func (d *drafting) foreign(best candidate, list []reader, lost map[string]bool) {
	for _, key := range d.answer.keys {
		url := d.onlyTerraform(key)
		if _, mounted := d.inputs().Mounted(url); !d.answer.addresses[key] || lost[key] || mounted || !mount.IsAddress(url) {
			continue
		}
		if slices.ContainsFunc(list, func(r reader) bool {
			return reference(key).MatchString(r.address) && slices.ContainsFunc(r.segs, func(s segment) bool {
				value, known := best.values[s.key]
				return known && len(d.terraform[s.key]) > 0 && !slices.Contains(d.terraform[s.key], value)
			})
		}) {
			lost[key] = true
			best.forget(key, list)
		}
	}
}

// onlyTerraform returns the only text that Terraform gives to a key, or "".
func (d *drafting) onlyTerraform(key string) string {
	if texts := slices.Compact(slices.Sorted(slices.Values(d.terraform[key]))); len(texts) == 1 {
		return texts[0]
	}
	return ""
}

// forget removes the values of keys that are read only at the address in a key.
func (a candidate) forget(key string, list []reader) {
	for _, r := range list {
		for _, s := range r.segs {
			if reference(key).MatchString(r.address) && !slices.ContainsFunc(list, func(o reader) bool {
				return !reference(key).MatchString(o.address) && slices.ContainsFunc(o.segs, func(of segment) bool { return of.key == s.key })
			}) {
				delete(a.values, s.key)
			}
		}
	}
}

// folder returns the folder that is read, and whether nothing but keys name it.
func (r reader) folder(values map[string]string) (dir string, free bool) {
	var text strings.Builder
	for _, s := range r.segs {
		if s.key == "" {
			return "", false
		}
		text.WriteString(values[s.key])
	}
	return path.Clean(text.String()), len(r.segs) > 0 && !r.part
}
