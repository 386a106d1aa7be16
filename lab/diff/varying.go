package diff

import (
	"slices"
	"strings"
)

// side are the objects of an application in one state. again renders them once more, which shows what is random.
type side struct {
	of    map[ID]object
	again func() map[ID]object
}

// steady replaces names that differ at each rendering, by what stays of them and a star.
func (s side) steady() {
	again := s.again()
	others := map[ID][]ID{} // that only the second rendering has, by all but the name
	for _, id := range sortedIDs(again) {
		if _, same := s.of[id]; !same {
			of := id
			of.Name = ""
			others[of] = append(others[of], id)
		}
	}
	for _, id := range sortedIDs(s.of) {
		o := s.of[id]
		if _, same := again[id]; same || o.manifest {
			continue
		}
		var best ID
		longest := 0
		of := id
		of.Name = ""
		for _, other := range others[of] {
			if _, free := again[other]; !free {
				continue
			}
			if n := common(id.Name, other.Name); n > longest {
				best, longest = other, n
			}
		}
		if longest == 0 {
			continue
		}
		twin := again[best]
		delete(s.of, id)
		delete(again, best)
		stays := id.Name[:longest] // what is random may have begun alike
		if i := strings.LastIndexAny(stays, "-."); i >= 0 {
			stays = stays[:i+1]
		}
		id.Name = stays + "*"
		o.ID = id
		s.of[id], again[id] = o, twin
	}
}

// common returns the length of the prefix that texts have in common.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// lasting returns the fields that do not differ at each rendering, and the paths of the others.
func lasting(fields, random []Field) (rest []Field, varies []Path) {
	for _, f := range fields {
		if slices.ContainsFunc(random, func(r Field) bool {
			n := min(len(r.Path), len(f.Path))
			return slices.Equal(r.Path[:n], f.Path[:n])
		}) {
			varies = append(varies, f.Path)
		} else {
			rest = append(rest, f)
		}
	}
	return rest, varies
}
