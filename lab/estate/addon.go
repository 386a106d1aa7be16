package estate

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/strict"
)

// applicationSet is one ApplicationSet document of an addon, read for what lab wants to know: nothing in it is lab's language, so nothing in it is strict.
type applicationSet struct {
	file string
	spec *yaml.Node
	base map[string]*yaml.Node            // values of the generators for every environment
	pins map[string]map[string]*yaml.Node // environment -> values of its own
}

func newApplicationSet(file string, doc *yaml.Node) applicationSet {
	a := applicationSet{file: file, spec: get(doc, "spec"), base: map[string]*yaml.Node{}, pins: map[string]map[string]*yaml.Node{}}
	a.generators(get(a.spec, "generators"))
	return a
}

// generators collects the values of the clusters generators, alone or within merge and matrix ones.
func (a applicationSet) generators(list *yaml.Node) {
	if list == nil {
		return
	}
	for _, g := range list.Content {
		for _, holder := range []string{"merge", "matrix"} {
			a.generators(get(g, holder, "generators"))
		}
		values := get(g, "clusters", "values")
		if values == nil || values.Kind != yaml.MappingNode {
			continue
		}
		into := []map[string]*yaml.Node{a.base}
		if envs := environmentsOf(get(g, "clusters", "selector")); len(envs) > 0 {
			into = nil
			for _, e := range envs {
				if a.pins[e] == nil {
					a.pins[e] = map[string]*yaml.Node{}
				}
				into = append(into, a.pins[e])
			}
		}
		for i := 0; i+1 < len(values.Content); i += 2 {
			for _, m := range into {
				m[values.Content[i].Value] = values.Content[i+1]
			}
		}
	}
}

// environmentsOf are the environments that a selector picks; none when it does not choose by environment.
func environmentsOf(selector *yaml.Node) []string {
	if e := text(selector, "matchLabels", "environment"); e != "" {
		return []string{e}
	}
	var envs []string
	if list := get(selector, "matchExpressions"); list != nil {
		for _, m := range list.Content {
			if values := get(m, "values"); text(m, "key") == "environment" && text(m, "operator") == "In" && values != nil {
				for _, v := range values.Content {
					envs = append(envs, v.Value)
				}
			}
		}
	}
	return envs
}

func (a applicationSet) sources() []*yaml.Node {
	spec := get(a.spec, "template", "spec")
	if list := get(spec, "sources"); list != nil {
		return list.Content
	}
	if one := get(spec, "source"); one != nil {
		return []*yaml.Node{one}
	}
	return nil
}

// valueRef is a reference to a generator's value, in either of the engine's template languages: {{.values.x}}, {{values.x}}.
const valueRef = `{{-?\s*\.?values\.([A-Za-z0-9_]+)\s*-?}}`

// resolve puts the base values into a template.
func (a applicationSet) resolve(s string) string {
	re := regexp.MustCompile(valueRef)
	return re.ReplaceAllStringFunc(s, func(ref string) string {
		if n := a.base[re.FindStringSubmatch(ref)[1]]; n != nil {
			return n.Value
		}
		return ref
	})
}

// describe fills in what the sources say of the addon: its chart and versions, or its folder in the estate.
func (a applicationSet) describe(addon *lab.Addon) {
	if n := get(a.spec, "template", "spec", "destination", "namespace"); n != nil && addon.Namespace == "" && !templated(a.resolve(n.Value)) {
		addon.Namespace = a.resolve(n.Value)
		addon.Positions["namespace"] = strict.Position(a.file, n)
	}
	for _, s := range a.sources() {
		if chart := get(s, "chart"); chart != nil && addon.Chart == "" {
			if addon.Chart = a.resolve(chart.Value); templated(addon.Chart) {
				addon.Chart = ""
				continue
			}
			addon.Positions["chart"] = strict.Position(a.file, chart)
			if repo := a.resolve(text(s, "repoURL")); !strings.Contains(repo, "addons_chart_repo_url") {
				addon.Repository = repo
			}
			a.versions(addon, get(s, "targetRevision"))
		}
		if p := get(s, "path"); p != nil && addon.Path == "" && a.ownRepository(s) {
			if at := a.estatePath(p.Value); !templated(at) {
				addon.Path = path.Clean(at)
				addon.Positions["path"] = strict.Position(a.file, p)
			}
		}
	}
}

// versions reads the pinned versions: the source's targetRevision itself, or the values that it refers to.
func (a applicationSet) versions(addon *lab.Addon, revision *yaml.Node) {
	if revision == nil {
		return
	}
	m := regexp.MustCompile(`^` + valueRef + `$`).FindStringSubmatch(revision.Value)
	if m == nil {
		if !templated(revision.Value) {
			addon.Versions[""] = revision.Value
			addon.Positions["version"] = strict.Position(a.file, revision)
		}
		return
	}
	if n := a.base[m[1]]; n != nil {
		addon.Versions[""] = n.Value
		addon.Positions["version"] = strict.Position(a.file, n)
	}
	for env, values := range a.pins {
		if n := values[m[1]]; n != nil {
			addon.Versions[env] = n.Value
			addon.Positions["version."+env] = strict.Position(a.file, n)
		}
	}
}

// ownRepository reports whether a source is the estate itself.
func (a applicationSet) ownRepository(source *yaml.Node) bool {
	return strings.Contains(a.resolve(text(source, "repoURL")), "addons_repo_url")
}

// estatePath is a path of a source with the annotations that name the estate's own folders put in.
func (a applicationSet) estatePath(p string) string {
	for key, value := range map[string]string{"addons_repo_basepath": "", "addons_repo_path": lab.AddonsDir} {
		p = regexp.MustCompile(`{{-?\s*\.?metadata\.annotations\.`+key+`\s*-?}}`).ReplaceAllString(p, value)
	}
	return a.resolve(p)
}

func templated(s string) bool { return strings.Contains(s, "{{") }

// reads finds the labels and annotations that the template cannot do without: plain references, not those behind index, default or a condition.
func (a applicationSet) reads() []lab.Read {
	action := regexp.MustCompile(`{{-?\s*(.*?)\s*-?}}`)
	plain := regexp.MustCompile(`(?:^|[\s(])\.?metadata\.(labels|annotations)\.([A-Za-z0-9_]+)`)
	guard := regexp.MustCompile(`\b(if|with|range|else|or|and|hasKey|dig|get)\b`)
	var reads []lab.Read
	scalars(get(a.spec, "template"), func(n *yaml.Node) {
		if guard.MatchString(strings.Join(action.FindAllString(n.Value, -1), " ")) {
			return
		}
		for _, m := range action.FindAllStringSubmatch(n.Value, -1) {
			for _, ref := range plain.FindAllStringSubmatch(m[1], -1) {
				r := lab.Read{Key: ref[2], Label: ref[1] == "labels", At: strict.Position(a.file, n)}
				if !slices.ContainsFunc(reads, func(x lab.Read) bool { return x.Key == r.Key && x.Label == r.Label }) {
					reads = append(reads, r)
				}
			}
		}
	})
	return reads
}

func scalars(n *yaml.Node, visit func(*yaml.Node)) {
	if n == nil {
		return
	}
	if n.Kind == yaml.ScalarNode {
		visit(n)
	}
	for _, c := range n.Content {
		scalars(c, visit)
	}
}

func inRepository(p string) bool {
	p = path.Clean(p)
	return p != ".." && !strings.HasPrefix(p, "../")
}

// escapes finds the paths of an Application or ApplicationSet that leave the repository.
func escapes(file string, doc *yaml.Node) lab.Problems {
	var ps lab.Problems
	check := func(n *yaml.Node, from string) {
		p := regexp.MustCompile(`{{.*?}}`).ReplaceAllString(n.Value, "x")
		if strings.Contains(p, "://") {
			return
		}
		if strings.HasPrefix(p, "$") { // $values/...: the root of the repository that carries that ref
			_, p, _ = strings.Cut(p, "/")
			from = ""
		}
		if from = regexp.MustCompile(`{{.*?}}`).ReplaceAllString(from, "x"); !inRepository(from) {
			return // said of the path already
		}
		if p = path.Join(from, strings.TrimPrefix(p, "/")); !inRepository(p) {
			ps = append(ps, lab.Problem{
				Position: strict.Position(file, n), Message: fmt.Sprintf("path %s leaves the repository", n.Value),
				Cure: "a path starts at the root of the repository",
			})
		}
	}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if n.Kind == yaml.MappingNode && get(n, "repoURL") != nil {
			from := text(n, "path")
			if p := get(n, "path"); p != nil {
				check(p, "")
			}
			if files := get(n, "helm", "valueFiles"); files != nil {
				for _, f := range files.Content {
					check(f, from)
				}
			}
		}
		for _, c := range n.Content {
			walk(c)
		}
	}
	walk(doc)
	return ps
}
