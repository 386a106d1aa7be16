package draft

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/estate/mount"
)

// answer is a value for each of some keys: the address of a repository, or a folder in one.
type answer struct {
	values    map[string]string
	keys      []string // in the order of their first use
	at        map[string]use
	addresses map[string]bool
	lost      map[string]bool // addresses of which nothing is found
}

// candidate are values that may be the answer.
type candidate struct {
	values map[string]string
	fits   int // readers that find what they read
	weight int // of what they find
}

// widest is how many candidates are kept while one reader after another is considered.
const widest = 64

// search finds the addresses and folders of repositories that annotations have, so that as many as possible of the paths in which they are exist.
func (d *drafting) search() {
	d.trees = map[string]*tree{} // of the documents so far
	of := answer{at: map[string]use{}, addresses: map[string]bool{}, lost: map[string]bool{}}
	var list []reader
	for _, u := range d.uses() {
		if u.label || !slices.Contains([]string{"repoURL", "path", "valueFiles"}, u.field) {
			continue
		}
		if _, known := of.at[u.key]; !known {
			of.at[u.key], of.keys = u, append(of.keys, u.key)
		}
		of.addresses[u.key] = of.addresses[u.key] || u.field == "repoURL"
	}
	for _, doc := range d.docs {
		if doc.set != nil {
			list = append(list, doc.readers()...)
		}
	}
	d.answer = of
	list = distinct(list, of.keys)
	best := d.best(list)
	for i := range d.Choices {
		if key, is := strings.CutPrefix(d.Choices[i].About, "annotation "); is && d.Choices[i].At.File == "" {
			d.Choices[i].At = of.at[key].at
		}
	}
	lost := map[string]bool{}
	for key := range of.addresses {
		lost[key] = of.addresses[key] && !d.finds(key, best, list)
	}
	d.guesses(best, list, lost)
	d.foreign(best, list, lost)
	d.Choices = slices.DeleteFunc(d.Choices, func(c Choice) bool {
		key, is := strings.CutPrefix(c.About, "annotation ")
		_, known := best.values[key]
		return is && !known
	})
	d.answer.values, d.answer.lost = best.values, lost
	if like := d.wishes.like; like != nil {
		for _, key := range like.answer.keys {
			value, known := like.answer.values[key]
			if d.answer.lost[key] = like.answer.lost[key]; known {
				d.answer.values[key] = value
			} else {
				delete(d.answer.values, key)
			}
		}
	}
}

// distinct returns each text at each address once, split at the references to keys.
func distinct(list []reader, keys []string) []reader {
	var all []reader
	at := map[[2]string]int{}
	for _, r := range list {
		id := [2]string{r.address, r.text}
		i, known := at[id]
		if !known {
			i, at[id] = len(all), len(all)
			r.segs, r.part = segments(r.text, keys)
			all = append(all, r)
		}
		all[i].n, all[i].must, all[i].chart = all[i].n+1, all[i].must || r.must, all[i].chart || r.chart
	}
	return all
}

// solve sets the annotations with addresses and folders. What is not found is open.
func (d *drafting) solve() {
	for _, key := range d.answer.keys {
		value, found := d.answer.values[key]
		switch u := d.answer.at[key]; {
		case d.answer.lost[key]:
			why := "reads a repository that was not given, add --from: " + key
			if url := d.onlyTerraform(key); mount.IsAddress(url) {
				why += ", which is " + url + " in Terraform"
			}
			d.Without = append(d.Without, Left{At: u.at, Why: why})
			d.open(u)
		case found:
			d.give(u, value)
		default:
			d.open(u)
		}
	}
}

// best returns the candidate with which most readers find what they read, of those the one that finds most.
func (d *drafting) best(list []reader) candidate {
	beam := []candidate{{values: map[string]string{}}}
	for _, key := range d.answer.keys {
		if !d.answer.addresses[key] {
			continue
		}
		var more []candidate
		for _, a := range beam {
			for i := range d.estate.Repositories {
				more = append(more, candidate{values: joined(a.values, map[string]string{key: d.estate.Repositories[i].URL})})
			}
		}
		beam = more[:min(len(more), widest)]
	}
	slices.SortStableFunc(list, func(a, b reader) int { return cmp.Compare(a.unknowns(), b.unknowns()) })
	for i, r := range list {
		more := slices.Clone(beam)
		for _, a := range beam {
			more = append(more, d.extended(a, r)...)
		}
		for j := range more {
			read := list[i : i+1]
			if j >= len(beam) { // with further values
				more[j].fits, more[j].weight, read = 0, 0, list[:i+1]
			}
			for _, r := range read {
				fits, weight := d.finding(r, more[j])
				more[j].fits, more[j].weight = more[j].fits+fits, more[j].weight+weight
			}
		}
		seen := map[string]bool{}
		more = slices.DeleteFunc(more, func(a candidate) bool {
			id := strings.Join(sortedPairs(a.values), "\n")
			twice := seen[id]
			seen[id] = true
			return twice
		})
		slices.SortStableFunc(more, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(b.fits, a.fits), cmp.Compare(d.defaulted(b), d.defaulted(a)), cmp.Compare(b.weight, a.weight), cmp.Compare(d.namesake(b.values), d.namesake(a.values)),
				slices.Compare(sortedPairs(a.values), sortedPairs(b.values)))
		})
		beam = more[:min(len(more), widest)]
	}
	return d.chosen(beam)
}

// chosen returns the first candidate, or one that is as good but for another folder.
func (d *drafting) chosen(beam []candidate) candidate {
	best := beam[0]
	for _, key := range d.answer.keys {
		c := Choice{About: "annotation " + key, Of: []string{best.values[key]}}
		for _, a := range beam[1:] {
			other := joined(best.values, map[string]string{key: a.values[key]})
			if !d.answer.addresses[key] && a.fits == best.fits && a.weight == best.weight && d.defaulted(a) == d.defaulted(best) && maps.Equal(other, a.values) && a.values[key] != best.values[key] {
				c.Of = append(c.Of, a.values[key])
			}
		}
		if _, known := best.values[key]; known && len(c.Of) > 1 {
			took := d.choose(c)
			if i := slices.IndexFunc(beam, func(a candidate) bool { return maps.Equal(a.values, joined(best.values, map[string]string{key: took})) }); i >= 0 {
				best = beam[i]
			}
		}
	}
	return best
}

func sortedPairs(m map[string]string) []string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+"="+m[k])
	}
	return list
}

func joined(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// unknowns orders readers: first those that say most, with the fewest keys and with something after the last.
func (r reader) unknowns() int {
	n := 0
	for _, s := range r.segs {
		if s.key != "" {
			n += 4
		}
	}
	if len(r.segs) == 0 || r.segs[len(r.segs)-1].key != "" {
		n += 2
	}
	if r.part {
		n++
	}
	return n
}

// repositoryAt returns the repository of an address in a template, which an annotation may contain. An unknown address is that of the only repository, if there is one.
func (d *drafting) repositoryAt(address string) *lab.Repository {
	return d.repositoryOf(address, d.answer.values)
}

// repositoryOf is repositoryAt with values of annotations.
func (d *drafting) repositoryOf(address string, values map[string]string) *lab.Repository {
	for _, key := range d.answer.keys {
		if value, known := values[key]; known && !d.answer.lost[key] && strings.Contains(address, key) {
			address = reference(key).ReplaceAllLiteralString(address, value)
		}
	}
	if r, ok := d.inputs().Mounted(address); ok {
		return r
	}
	if strings.Contains(address, "{{") && len(d.estate.Repositories) == 1 {
		return &d.estate.Repositories[0]
	}
	return nil
}

// extended returns candidates with values for the further keys of a reader.
func (d *drafting) extended(a candidate, r reader) []candidate {
	repo, segs, part := d.repositoryOf(r.address, a.values), r.segs, r.part
	last := len(segs) - 1
	unknown := 0
	for _, s := range segs {
		if _, known := a.values[s.key]; s.key != "" && !known {
			unknown++
		}
	}
	const most = 3 // keys, between which a path is split in any way
	if repo == nil || unknown == 0 || unknown > most {
		return nil
	}
	var list []candidate
	t, folder := d.tree(repo), segs[last].key != ""
	for _, name := range t.names {
		if folder && !t.holds[name] && !part || part && !t.folders[name] {
			continue
		}
		spelled := name
		if part && !folder {
			spelled += "/"
		}
		if name == "." {
			spelled = ""
		}
		matches(spelled, segs, a.values, func(values map[string]string) {
			list = append(list, candidate{values: values})
		})
	}
	return list
}

// finding returns how well a reader finds what it reads, and the weight of that: the deepest folder with the most documents.
func (d *drafting) finding(r reader, a candidate) (fits, weight int) {
	repo, segs := d.repositoryOf(r.address, a.values), r.segs
	var text strings.Builder
	for _, s := range segs {
		value, known := a.values[s.key]
		if s.key != "" && !known {
			return 0, 0
		}
		text.WriteString(s.text + value)
	}
	name := path.Clean(text.String())
	if repo == nil || text.String() == "" || len(segs) == 0 {
		return 0, 0
	}
	t := d.tree(repo)
	if _, exists := t.folders[name]; !exists {
		return 0, 0
	}
	if r.chart && !r.part && !isChart(repo, name) {
		return 0, 0
	}
	fits = 1
	if r.must {
		fits = 2
	}
	if segs[len(segs)-1].key != "" && !r.part {
		weight = d.holding(repo, name, r.doc)
		if weight == 0 && !t.holds[name] {
			return 0, 0
		}
		const deepest = 1000
		weight = weight*deepest + strings.Count(name, "/")
	}
	return fits * r.n, weight
}

// finds reports whether the repository of an annotation has any of what is read there. Without a reader that says, it is the only one, or the one that it is named after.
func (d *drafting) finds(key string, a candidate, list []reader) bool {
	says := false
	for _, r := range list {
		if !reference(key).MatchString(r.address) || len(r.segs) == 0 || !r.must {
			continue
		}
		says = true
		if fits, _ := d.finding(r, a); fits > 0 {
			return true
		}
	}
	return !says && (len(d.estate.Repositories) == 1 || d.namesake(map[string]string{key: a.values[key]}) > 0)
}

// firstWord matches the first word of a key such as addons_repo_url, addons-repo-url and addonsRepoURL.
var firstWord = regexp.MustCompile(`^[A-Z]?[a-z0-9]*`)

func stemOf(key string) string {
	return strings.TrimSuffix(strings.ToLower(firstWord.FindString(path.Base(key))), "s")
}

// namesake counts the keys that are named like the repository that they have, "addons_repo_url".
func (d *drafting) namesake(values map[string]string) int {
	n := 0
	for key, value := range values {
		stem := stemOf(key)
		if r, mounted := d.inputs().Mounted(value); mounted && stem != "" && strings.Contains(r.Name, stem) {
			n++
		}
	}
	return n
}

// defaulted counts the keys with the value that Terraform gives them in the repositories.
func (d *drafting) defaulted(a candidate) int {
	n := 0
	for key, value := range a.values {
		if slices.Contains(d.terraform[key], value) {
			n++
		}
	}
	return n
}
