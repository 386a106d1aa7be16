package record

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"homelab/lab/scenario"
)

// pairs is a mapping in the order of writing.
type pairs []pair

type pair struct {
	key   string
	value any
}

// raw is a text with a variable.
type raw string

func isEmpty(v any) bool { return v == nil || reflect.ValueOf(v).Len() == 0 }

// Actions returns how many actions the scenario has.
func (r *Recording) Actions() int { return len(r.finish()) }

// Files returns the files of the scenario's folder.
func (r *Recording) Files(name string) (map[string][]byte, error) {
	out := map[string][]byte{}
	var steps []any
	clusters, addons := map[string]bool{}, map[string]map[string]bool{}
	waited := time.Duration(0)
	for i, a := range r.finish() {
		id := fmt.Sprintf("action-%d", i+1)
		e := a.effects()
		step := commented{value: pairs{{"id", id}, {"title", a.title}, {a.verb, a.stepParams(out, i+1)}}, comments: a.comments}
		if len(e.checks) == 0 {
			step.comments = append(step.comments, "nothing was seen to follow: decide what is to be expected")
		}
		steps = append(steps, step)
		r.needs(a, e, clusters, addons)
		if len(e.checks) == 0 {
			continue
		}
		patience := patience(e.last.Sub(a.at))
		waited += patience
		steps = append(steps, follow(id, e, patience))
	}
	requires := pairs{{"engine", []any{string(r.world.Engines)}}, {"clusters", words(clusters)}}
	if len(addons) > 0 {
		var list pairs
		for _, addon := range slices.Sorted(maps.Keys(addons)) {
			list = append(list, pair{addon, words(addons[addon])})
		}
		requires = append(requires, pair{"addons", list})
	}
	spec := pairs{
		{"title", "what was recorded on lab " + r.world.Lab},
		{"teaches", "Say what it shows."},
		{"requires", requires},
	}
	if waited > 8*time.Minute {
		spec = append(spec, pair{"timeout", scenario.Span(min(time.Hour, 2*waited).Round(time.Minute))})
	}
	if len(steps) == 0 {
		return nil, nil
	}
	n, err := node(pairs{{"apiVersion", "lab/v1alpha1"}, {"kind", "Scenario"}, {"metadata", pairs{{"name", name}}}, {"spec", append(spec, pair{"steps", steps})}})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# yaml-language-server: $schema=../schema.json\n# Recorded on %s. It replays on a lab that is as this one was then; read it, and delete what does not belong to the story.\n", r.began.UTC().Format(time.DateOnly))
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return nil, err
	}
	out["scenario.yaml"] = b.Bytes()
	return out, nil
}

// stepParams returns the parameters of an action's step, with its files in a folder of their own.
func (a *action) stepParams(out map[string][]byte, number int) pairs {
	dir := fmt.Sprintf("action-%d/", number)
	for file, data := range a.files {
		out[dir+file] = data
	}
	params := slices.Clone(a.params)
	for i, p := range params {
		switch v := p.value.(type) {
		case string:
			if p.key == "file" {
				params[i].value = dir + v
			}
		case pairs:
			if p.key == "files" {
				moved := slices.Clone(v)
				for j := range moved {
					moved[j].value = dir + moved[j].value.(string)
				}
				params[i].value = moved
			}
		}
	}
	return params
}

// patience is twice the time that it took, in halves of a minute.
func patience(took time.Duration) time.Duration {
	const least = 30 * time.Second
	return min(10*time.Minute, max(least, (2*took+least-1).Truncate(least)))
}

func follow(id string, e effect, patience time.Duration) pairs {
	var expect pairs
	if len(e.checks) == 1 {
		expect = slices.Clone(e.checks[0])
	} else {
		list := make([]any, len(e.checks))
		for i, c := range e.checks {
			list[i] = c
		}
		expect = pairs{{"that", list}}
	}
	expect = append(expect, pair{"since", id})
	if patience > 30*time.Second {
		expect = append(expect, pair{"patience", scenario.Span(patience)})
	}
	return pairs{{"title", "what follows: " + e.about}, {"expect", expect}}
}

// needs collects what a lab must have to replay an action.
func (r *Recording) needs(a *action, e effect, clusters map[string]bool, addons map[string]map[string]bool) {
	need := func(cluster, addon string) {
		if c, ok := r.world.Estate.Cluster(cluster); ok {
			clusters[cluster] = true
			if c.Addons[addon] {
				if addons[addon] == nil {
					addons[addon] = map[string]bool{}
				}
				addons[addon][cluster] = true
			}
		}
	}
	need(a.subject.Cluster, "")
	need(a.cluster, "")
	for _, check := range e.checks {
		of, _ := check[0].value.(pairs)
		cluster, addon := "", ""
		for _, p := range of {
			if text, ok := p.value.(string); ok && p.key == "cluster" {
				cluster = text
			} else if ok && p.key == "addon" {
				addon = text
			}
		}
		need(cluster, addon)
	}
}

func words(set map[string]bool) []any {
	var list []any
	for _, word := range slices.Sorted(maps.Keys(set)) {
		list = append(list, word)
	}
	return list
}

// commented is a value with comments above it.
type commented struct {
	value    any
	comments []string
}

// node returns a value as YAML. Texts with ${ are not variables.
func node(v any) (*yaml.Node, error) {
	n := &yaml.Node{}
	switch v := v.(type) {
	case commented:
		n, err := node(v.value)
		if err == nil && len(v.comments) > 0 {
			n.HeadComment = "# " + strings.Join(v.comments, "\n# ")
		}
		return n, err
	case pairs:
		n.Kind = yaml.MappingNode
		for _, p := range v {
			key, err := node(p.key)
			if err != nil {
				return nil, err
			}
			value, err := node(p.value)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, key, value)
		}
		if small(v) {
			n.Style = yaml.FlowStyle
		}
		return n, nil
	case []any:
		n.Kind = yaml.SequenceNode
		scalars := true
		for _, e := range v {
			item, err := node(e)
			if err != nil {
				return nil, err
			}
			scalars = scalars && item.Kind == yaml.ScalarNode
			n.Content = append(n.Content, item)
		}
		if scalars && len(v) <= 6 {
			n.Style = yaml.FlowStyle
		}
		return n, nil
	case map[string]any:
		var list pairs
		for _, key := range slices.Sorted(maps.Keys(v)) {
			list = append(list, pair{key, v[key]})
		}
		return node(list)
	case raw:
		return n, n.Encode(string(v))
	case string:
		return n, n.Encode(strings.ReplaceAll(v, "${", "$${"))
	}
	return n, n.Encode(v)
}

// small reports whether a mapping reads well on one line.
func small(list pairs) bool {
	total := 0
	for _, p := range list {
		switch v := p.value.(type) {
		case string:
			if strings.Contains(v, "\n") {
				return false
			}
			total += len(v)
		case pairs, []any, map[string]any, commented:
			return false
		}
		total += len(p.key) + 4
	}
	return total <= 130
}
