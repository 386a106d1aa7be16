// Package diff compares what an engine will have in two states: by cluster, application and object.
package diff

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/desired"
)

// ID identifies an object as engines do: another version of its API is a change of it.
type ID struct {
	Cluster                string // that gets it
	Group, Kind, Namespace string
	Name                   string // that to generate, with a star
}

// String returns KIND NAMESPACE/NAME.
func (id ID) String() string { return id.Kind + " " + id.name() }

func (id ID) name() string {
	if id.Namespace == "" {
		return id.Name
	}
	return id.Namespace + "/" + id.Name
}

// App is an application of one or both states.
type App struct {
	Name, Addon, Cluster string
}

// Change is a difference of an object.
type Change struct {
	App    App
	Object ID
	Kind   Kind
	From   string // application of a moved object, name of a renamed one
	Fields []Field
	Random []Path // fields that differ each time that they are rendered, and are not compared
	Bumps  []Bump // if it consists of newer versions and of nothing else: it is routine
}

// Unknown is an application that cannot be compared, as it or a part of it cannot be rendered.
type Unknown struct {
	App           App
	Part          string      // HelmRelease; empty for others
	Before, After lab.Problem // without message for the state in which it can be rendered, or does not exist
}

// Result is what two states differ in, by addon.
type Result struct {
	Changes []Group
	Unknown []Missing
	Apps    int // compared
	Differ  int // of them
}

// Compare compares two states. With clusters, applications of a cluster are compared with those of another one, the value, and texts that differ by
// the names of both are the same; others are compared with those of the same cluster and name. Only applications whose inputs differ are rendered.
func Compare(before, after []desired.App, clusters map[string]string) Result {
	c := comparison{clusters: clusters}
	for _, pair := range c.pairs(before, after) {
		c.compare(pair[0], pair[1])
	}
	c.relate()
	differ := map[App]bool{}
	for _, change := range c.changes {
		differ[change.App] = true
	}
	return Result{Changes: group(c.changes), Unknown: missing(c.unknown), Apps: c.apps, Differ: len(differ)}
}

type comparison struct {
	clusters map[string]string
	apps     int
	changes  []Change
	unknown  []Unknown

	removed, added []object // not yet known to be something else
}

// object is an object in one state.
type object struct {
	ID
	app      App
	part     string // of the application, with its number among those of a name
	manifest bool   // it is the application itself
	made     desired.Object
	value    map[string]any // nil until it is needed
}

func appOf(a *desired.App) App {
	return App{Name: a.Name, Addon: cmp.Or(a.Addon, a.Name), Cluster: a.Cluster}
}

// pairs returns the applications of both states; nil stands for one that does not exist.
func (c *comparison) pairs(before, after []desired.App) (pairs [][2]*desired.App) {
	key := func(a *desired.App, cluster string) App {
		if c.clusters == nil {
			return App{Name: a.Name, Cluster: a.Cluster}
		}
		return App{Name: named(a.Name, a.Cluster), Addon: a.Addon, Cluster: cluster}
	}
	at := map[App][]int{} // those of a name in order
	for i := range before {
		k := key(&before[i], c.clusters[before[i].Cluster])
		at[k] = append(at[k], len(pairs))
		pairs = append(pairs, [2]*desired.App{&before[i]})
	}
	for i := range after {
		k := key(&after[i], after[i].Cluster)
		if n := at[k]; len(n) > 0 {
			pairs[n[0]][1], at[k] = &after[i], n[1:]
		} else {
			pairs = append(pairs, [2]*desired.App{nil, &after[i]})
		}
	}
	return pairs
}

// compare compares two applications, one of which may be nil.
func (c *comparison) compare(a, b *desired.App) {
	var d differ
	c.apps++
	switch {
	case a == nil:
		d = differ{before: b.Cluster, after: b.Cluster}
	case b == nil:
		d = differ{before: a.Cluster, after: a.Cluster}
	default:
		d = differ{before: a.Cluster, after: b.Cluster}
	}
	settled := settledParts(a, b)
	before, lacks := objectsOf(a, settled)
	after, lack := objectsOf(b, settled)
	app := appOf(cmp.Or(b, a))
	for _, part := range slices.Compact(slices.Sorted(concat(maps.Keys(lacks), maps.Keys(lack)))) {
		f, g := lacks[part], lack[part]
		c.unknown = append(c.unknown, Unknown{App: app, Part: cmp.Or(f.Part, g.Part), Before: f.Problem, After: g.Problem})
		without := func(o object) bool { return o.part == part }
		before, after = slices.DeleteFunc(before, without), slices.DeleteFunc(after, without)
	}
	x, y := manifest(a), manifest(b)
	if !bytes.Equal(x, y) {
		before, after = withManifest(before, app, x), withManifest(after, app, y)
	}
	again := func(of *desired.App) func() map[ID]object {
		return sync.OnceValue(func() map[ID]object {
			list, _ := objectsOf(of, settled)
			return byID(list)
		})
	}
	c.objects(d, side{byID(before), again(a)}, side{byID(after), again(b)})
}

func concat(seqs ...iter.Seq[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, seq := range seqs {
			for v := range seq {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// names returns a name for each part of an application that corresponds in both states.
func names(a *desired.App) (list []string) {
	count := map[string]int{}
	for _, p := range a.Parts {
		list = append(list, p.Name+"#"+strconv.Itoa(count[p.Name]))
		count[p.Name]++
	}
	return list
}

// settledParts returns the parts that have the same objects in both states, by their inputs.
func settledParts(a, b *desired.App) map[string]bool {
	settled := map[string]bool{}
	if a == nil || b == nil {
		return settled
	}
	of := map[string]desired.Part{}
	for i, name := range names(a) {
		of[name] = a.Parts[i]
	}
	for i, name := range names(b) {
		p, q := of[name], b.Parts[i]
		if p.Inputs == nil || q.Inputs == nil || p.Cluster != q.Cluster || p.Namespace != q.Namespace {
			continue
		}
		if in := p.Inputs(); in != "" && in == q.Inputs() {
			settled[name] = true
		}
	}
	if (a.Last || b.Last) && (len(settled) < len(a.Parts) || len(settled) < len(b.Parts)) { // a part may have objects of another one
		return nil
	}
	return settled
}

// objects compares the objects of two applications.
func (c *comparison) objects(d differ, before, after side) {
	for _, id := range sortedIDs(before.of) {
		if o, ok := after.of[id]; ok {
			c.pair(d, id, before.of[id], o, after.again)
			delete(before.of, id)
			delete(after.of, id)
		}
	}
	if len(before.of) > 0 && len(after.of) > 0 {
		before.steady()
		after.steady()
	}
	alike := map[ID]ID{} // by what does not depend on the cluster
	for _, id := range sortedIDs(after.of) {
		alike[d.named(id, d.after)] = id
	}
	for _, id := range sortedIDs(before.of) {
		o, key := before.of[id], d.named(id, d.before)
		if of, ok := alike[key]; ok {
			c.pair(d, of, o, after.of[of], after.again)
			delete(after.of, of)
			delete(alike, key)
		} else {
			c.removed = append(c.removed, o)
		}
	}
	for _, id := range sortedIDs(after.of) {
		c.added = append(c.added, after.of[id])
	}
}

func sortedIDs(of map[ID]object) []ID { return slices.SortedFunc(maps.Keys(of), compareIDs) }

func compareIDs(a, b ID) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Group, b.Group))
}

// named returns the identity with the name of a cluster replaced, if that of another one is compared.
func (d differ) named(id ID, cluster string) ID {
	if d.before == d.after {
		return id
	}
	if id.Cluster == cluster {
		id.Cluster = Cluster
	}
	id.Namespace, id.Name = named(id.Namespace, cluster), named(id.Name, cluster)
	return id
}

// pair compares an object in both states.
func (c *comparison) pair(d differ, id ID, a, b object, again func() map[ID]object) {
	if d.before == d.after && a.made.Node != nil && b.made.Node != nil && equalNodes(a.made.Node, b.made.Node) {
		return
	}
	x, err := a.decode()
	y, other := b.decode()
	if err = cmp.Or(err, other); err != nil {
		c.undecodable(b, err)
		return
	}
	fields := d.value(nil, x, y, schemaOf(x))
	if len(fields) == 0 {
		return
	}
	change := Change{App: b.app, Object: b.ID, Kind: Changed}
	if twice, ok := again()[id]; ok && !b.manifest {
		if z, err := twice.decode(); err == nil {
			fields, change.Random = lasting(fields, Fields(y, z))
		}
	}
	if len(fields) == 0 {
		return
	}
	change.Bumps = bumps(x, fields)
	change.Fields = masked(b.ID, fields)
	c.changes = append(c.changes, change)
}

func (c *comparison) undecodable(o object, err error) {
	problem := lab.Problem{Position: lab.Position{File: o.made.File, Line: max(1, o.made.Line)}, Message: o.String() + ": " + err.Error()}
	c.unknown = append(c.unknown, Unknown{App: o.app, Part: o.made.Part, Before: problem, After: problem})
}

// equalNodes reports whether nodes are the same but for their places. Others may be equal, too: quotes decide what a text is in YAML 1.1.
func equalNodes(a, b *yaml.Node) bool {
	return a == b || a.Style == b.Style && a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && a.Kind != yaml.AliasNode && slices.EqualFunc(a.Content, b.Content, equalNodes)
}
