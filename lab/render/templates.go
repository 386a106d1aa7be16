package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/template"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"homelab/lab/argo"
	"homelab/lab/sandbox"
)

// maxTemplates limits the bytes of the templates that are kept.
const maxTemplates = 16 << 20

// Templates keeps the parsed templates of charts from one rendering to the next: a chart is rendered for each cluster. The zero value is ready to use, and nil keeps nothing.
type Templates struct {
	mutex sync.Mutex
	idle  map[[sha256.Size]byte]*engine
	size  int
}

// render executes all templates of a chart and its subcharts. The result is in the order of their names.
func (t *Templates) render(b *Budget, m argo.Minor, c *chart.Chart, top chartutil.Values) ([]output, error) {
	sources := map[string]source{}
	collect(c, sources, top)
	// The last definition of a name wins: a chart overrides its subcharts.
	names := slices.SortedFunc(maps.Keys(sources), func(a, b string) int {
		return cmp.Or(strings.Count(b, "/")-strings.Count(a, "/"), strings.Compare(b, a))
	})
	key := digestOf(m, names, sources)
	e := t.take(key)
	if e == nil {
		e = &engine{minor: m}
		if err := e.parse(names, sources); err != nil {
			return nil, err
		}
	}
	e.Budget = b
	list, err := e.render(names, sources, top)
	if err == nil { // after an error, its counters may be wrong
		e.Budget = nil
		t.keep(key, e)
	}
	return list, err
}

// take returns an engine that is not used, or nil.
func (t *Templates) take(key [sha256.Size]byte) *engine {
	if t == nil {
		return nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	e := t.idle[key]
	if e != nil {
		delete(t.idle, key)
		t.size -= e.size
	}
	return e
}

func (t *Templates) keep(key [sha256.Size]byte, e *engine) {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.idle == nil {
		t.idle = map[[sha256.Size]byte]*engine{}
	}
	if t.idle[key] != nil || t.size+e.size > maxTemplates {
		return
	}
	t.idle[key] = e
	t.size += e.size
}

func digestOf(m argo.Minor, names []string, sources map[string]source) (key [sha256.Size]byte) {
	h := sha256.New()
	add := func(text string) {
		h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	add(m.String())
	for _, name := range names {
		add(name)
		add(sources[name].text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// parse parses templates, and makes them spend the budget.
func (e *engine) parse(names []string, sources map[string]source) error {
	e.box = sandbox.New(func(n int) error { return e.step(n) })
	e.set = template.New(tplName).Option("missingkey=zero")
	e.set.Funcs(e.functions(e.set))
	for _, name := range names {
		text := sources[name].text
		e.size += len(text)
		if err := sandbox.Nesting(text); err != nil {
			return placed(name, err)
		}
		if _, err := e.set.New(name).Parse(text); err != nil {
			return placed(name, err)
		}
	}
	for _, name := range names {
		if t := e.set.Lookup(name); t.Tree != nil && t.Tree.Root != nil {
			mark(t.Tree.Root, sources[name].text)
		}
	}
	sandbox.Guard(e.set)
	return nil
}
