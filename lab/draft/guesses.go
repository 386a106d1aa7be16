package draft

import (
	"path"
	"slices"
	"strings"
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
			for _, r := range at(key) {
				for _, s := range r.segs {
					if !slices.ContainsFunc(list, func(r reader) bool {
						return !reference(key).MatchString(r.address) && slices.ContainsFunc(r.segs, func(o segment) bool { return o.key == s.key })
					}) {
						delete(best.values, s.key)
					}
				}
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
