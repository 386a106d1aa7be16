package draft

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/argo"
)

// selection is a label that a generator selects clusters by.
type selection struct {
	key, value string // empty for any value
	at         lab.Position
	selector   int      // those of one selector are selected together
	others     []string // values that would do as well
}

// selectors returns the labels in the ApplicationSets' selectors, in the order of the files.
func (d *drafting) selectors() []selection {
	var list []selection
	selector, w := 0, d.world()
	for _, doc := range d.docs {
		for _, s := range d.expand(doc, w).selectors {
			selector++
			for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
				list = append(list, selection{key: key, value: s.MatchLabels[key], at: doc.at, selector: selector})
			}
			for _, e := range s.MatchExpressions {
				switch {
				case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) > 0:
					for _, v := range e.Values {
						list = append(list, selection{key: e.Key, value: v, at: doc.at, selector: selector, others: e.Values})
					}
				case e.Operator == metav1.LabelSelectorOpExists:
					list = append(list, selection{key: e.Key, at: doc.at, selector: selector})
				}
			}
		}
	}
	return list
}

// concrete reports whether a label's value is known.
func (s selection) concrete() bool { return s.value != "" && !strings.Contains(s.value, "{{") }

// stageValue matches usual values of labels that are environments.
var stageValue = regexp.MustCompile(`(?i)^(dev|development|sandbox|test|testing|qa|stag|staging|stg|uat|pre-?prod|prod|production|prd)$`)

// namesEnvironment reports whether a label's key is one for environments.
func namesEnvironment(key string) bool {
	base := path.Base(key)
	return base == "environment" || base == "env"
}

// environmentKeys returns the keys of labels that are environments, by their names, or else by their values.
func environmentKeys(list []selection) map[string]bool {
	keys, others := map[string]bool{}, map[string]bool{}
	for _, s := range list {
		if namesEnvironment(s.key) {
			keys[s.key] = true
		}
	}
	if len(keys) > 0 {
		return keys
	}
	for _, s := range list {
		if s.concrete() {
			keys[s.key] = keys[s.key] || stageValue.MatchString(s.value)
			others[s.key] = others[s.key] || !stageValue.MatchString(s.value) && !control.MatchString(s.value)
		}
	}
	maps.DeleteFunc(keys, func(key string, stages bool) bool { return !stages || others[key] })
	return keys
}

// environmentName returns the name of an environment that a label's value means.
func environmentName(value string) string {
	return strings.ReplaceAll(strings.ToLower(value), "_", "-")
}

// environmentNames returns the environments that generators select; one that means the hub becomes its label.
func (d *drafting) environmentNames() []string {
	hub := &d.estate.Clusters[0]
	var names, values []string
	var first selection
	list := d.selectors()
	keys := environmentKeys(list)
	for _, s := range list {
		switch {
		case !keys[s.key] || !s.concrete() || slices.Contains(names, s.value):
			continue
		case control.MatchString(s.value):
			hub.Labels[s.key] = s.value
		case len(validation.IsDNS1123Label(environmentName(s.value))) > 0 || environmentName(s.value) == lab.DefaultEnvironment:
			continue
		case !slices.Contains(names, environmentName(s.value)):
			names, values = append(names, environmentName(s.value)), append(values, s.value)
		}
		if first.key == "" {
			first = s
		}
	}
	for _, s := range d.excluded() {
		if hub.Labels[s.key] = cmp.Or(hub.Labels[s.key], s.value); first.key == "" {
			first = s
		}
	}
	if first.key != "" {
		if on := hub.Labels[first.key]; on != "" {
			values = append(values, on+" (hub)")
		}
		d.note(Key{Name: first.key, Label: true, Value: strings.Join(values, ", "), How: Found, At: first.at})
	}
	return names
}

// excluded returns the environment of the hub that generators exclude, as the gitops-bridge's do with "control-plane", if there are other clusters.
func (d *drafting) excluded() []selection {
	var list []selection
	for _, doc := range d.docs {
		for _, s := range d.expand(doc, d.world()).selectors {
			for _, e := range s.MatchExpressions {
				if e.Operator == metav1.LabelSelectorOpNotIn && namesEnvironment(e.Key) && len(e.Values) == 1 && control.MatchString(e.Values[0]) && !d.alone {
					list = append(list, selection{key: e.Key, value: e.Values[0], at: doc.at})
				}
			}
		}
	}
	return list
}

// selected sets the labels that generators select by, and reports those that no cluster has.
func (d *drafting) selected() {
	own, list := d.registered(d.estate.Clusters[0]), d.selectors()
	environments, done := environmentKeys(list), map[string]bool{}
	for _, s := range list {
		_, byLab := own.Labels[s.key]
		switch {
		case done[s.key]:
			continue
		case environments[s.key] && (s.key != "environment" || environmentName(s.value) != s.value):
			for i := range d.estate.Clusters {
				if c := &d.estate.Clusters[i]; c.Environment == environmentName(s.value) {
					c.Labels[s.key] = cmp.Or(d.likewise(c.Name, s.key), s.value)
					d.note(Key{Name: s.key, Label: true, Value: c.Labels[s.key], How: Found, At: s.at})
				} else if _, has := c.Labels[s.key]; c.Environment != "" && !has && s.key != "environment" {
					c.Labels[s.key] = cmp.Or(d.likewise(c.Name, s.key), c.Environment)
				}
			}
			continue
		case byLab && s.key != "cloud" && s.key != "region", strings.HasPrefix(s.key, enable), s.key == "environment", strings.HasPrefix(s.key, argo.Prefix):
			continue
		case s.value != "" && !s.concrete(), len(validation.IsQualifiedName(s.key)) > 0:
			continue
		}
		done[s.key] = true
		d.spread(s, list, environments)
	}
	d.labelHub(list)
}

// labelHub sets the labels of the hub that a generator selects by together with one that means the hub.
func (d *drafting) labelHub(list []selection) {
	hub := &d.estate.Clusters[0]
	for _, s := range list {
		if !control.MatchString(s.value) || hub.Labels[s.key] != s.value {
			continue
		}
		for _, o := range list {
			_, has := hub.Labels[o.key]
			if o.selector == s.selector && o.concrete() && !has && !strings.HasPrefix(o.key, enable) && o.key != "environment" && len(validation.IsQualifiedName(o.key)) == 0 {
				hub.Labels[o.key] = o.value
			}
		}
	}
}

// spread sets a label to the values that generators select, each on the clusters that it suits best.
func (d *drafting) spread(first selection, list []selection, environments map[string]bool) {
	var values []string
	for _, s := range list {
		if s.key == first.key && s.concrete() && !slices.Contains(values, s.value) {
			values = append(values, s.value)
		}
	}
	if len(values) == 0 {
		values = []string{"true"}
	}
	used := map[string]bool{}
	for i := range d.estate.Clusters {
		c := &d.estate.Clusters[i]
		if value, has := c.Labels[first.key]; has {
			used[value] = true
			continue
		}
		fit := slices.DeleteFunc(slices.Clone(values), func(value string) bool {
			return len(d.estate.Clusters) > 1 && (control.MatchString(value) || control.MatchString(path.Base(first.key))) != (c.Role == lab.RoleHub)
		})
		score := func(value string) int { return suits(c, first.key, value, list, environments, used) }
		if fit = highest(fit, score); len(fit) > 0 && (score(fit[0]) >= 0 || len(values) == 1) {
			best := d.choose(Choice{About: labelOf(first.key, c.Name), Of: fit, At: first.at})
			c.Labels[first.key], used[best] = best, true
		}
	}
	d.note(Key{Name: first.key, Label: true, Value: strings.Join(slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !used[v] }), ", "), How: Found, At: first.at})
	reported := map[string]bool{}
	for _, s := range list {
		if s.key != first.key || !s.concrete() || used[s.value] || slices.ContainsFunc(s.others, func(v string) bool { return used[v] }) {
			continue
		}
		any := cmp.Or(strings.Join(s.others, " or "), s.value)
		if !reported[any] {
			d.Without = append(d.Without, Left{At: s.at, Why: "no cluster has the label " + s.key + ": " + any})
		}
		reported[any] = true
	}
}

func labelOf(key, cluster string) string { return "label " + key + " of cluster " + cluster }

// highest returns the values with the highest score, in their order.
func highest(values []string, score func(string) int) []string {
	var best []string
	most := 0
	for _, v := range values {
		switch n := score(v); {
		case len(best) == 0 || n > most:
			best, most = []string{v}, n
		case n == most:
			best = append(best, v)
		}
	}
	return best
}

// suits returns how well a label's value suits a cluster: by its name, by what is selected together with it, and for not being used.
func suits(c *lab.Cluster, key, value string, list []selection, environments map[string]bool, used map[string]bool) int {
	score := 0
	if hasWords(c.Name, value) {
		score += 20
	}
	if !used[value] {
		score++
	}
	together := 0 // best of the selectors
	for i, s := range list {
		if s.key != key || s.value != value {
			continue
		}
		fits := 0
		for _, o := range list {
			have := c.Labels[o.key]
			if environments[o.key] {
				have = c.Environment
			}
			if o.selector != s.selector || o.key == key || !o.concrete() || have == "" {
				continue
			}
			if o.value == have || slices.Contains(o.others, have) {
				fits = max(fits, 0) + 4
			} else if fits <= 0 {
				fits = -4
			}
		}
		if i == 0 || together == 0 || fits > together {
			together = fits
		}
	}
	return score + together
}

// environment returns the environment in the target's labels or name, or "".
func (t target) environment(known []string) string {
	if t.stage != "" {
		return t.stage
	}
	for _, key := range slices.SortedFunc(maps.Keys(t.labels), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }) {
		if env := t.labels[key]; namesEnvironment(key) && env != lab.DefaultEnvironment && len(validation.IsDNS1123Label(env)) == 0 {
			return env
		}
	}
	for _, env := range known {
		if hasWords(t.name, env) {
			return env
		}
	}
	return stageOf(t.name)
}
