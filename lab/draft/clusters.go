package draft

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/estate"
	"homelab/lab/fill"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// control matches usual names of the engine's cluster.
var control = regexp.MustCompile(`^(hub|control-?plane|management|mgmt|in-cluster|` + argo.Namespace + `)([-_].*)?$`)

// environments adds the hub, and a spoke for every selected environment, at least one. A lone hub is in the first environment.
func (d *drafting) environments() {
	hub := d.hub("hub")
	hub.Engine.Namespace = d.Namespace
	var own []string // names in registrations of the engine's cluster
	for _, t := range d.secrets {
		if inCluster(t.server) && !slices.Contains(own, t.name) {
			own = append(own, t.name)
		}
	}
	if len(own) == 1 && own[0] != "" {
		hub.Name = own[0]
	}
	for _, name := range hubNames {
		is := func(to appset.Destination) bool { return to.Name == name }
		if hub.Name == "hub" && (slices.Contains(d.clusterFolders(), name) || slices.ContainsFunc(d.permitted, is) || slices.ContainsFunc(d.docs, func(doc *document) bool {
			return slices.ContainsFunc(d.destinations(doc), is)
		})) {
			hub.Name = name
		}
	}
	if like := d.wishes.like; like != nil {
		hub.Name, hub.Environment = like.estate.Clusters[0].Name, like.estate.Clusters[0].Environment
	}
	selected, targets := d.environmentNames(), d.targets()
	for _, c := range d.wishes.Clusters {
		if !slices.ContainsFunc(targets, func(t target) bool { return t.name == c.Name }) && c.Name != hub.Name {
			targets = append(targets, target{name: c.Name, stage: c.Environment})
		}
	}
	names := slices.Clone(selected)
	if hub.Environment != "" && !slices.Contains(names, hub.Environment) {
		names = append(names, hub.Environment)
	}
	for _, t := range targets {
		if env := t.environment(names); env != "" && !slices.Contains(names, env) {
			names = append(names, env)
		}
	}
	if len(names) == 0 && !d.alone {
		if len(targets) == 0 && d.onHubAlone() {
			return
		}
		names, d.invented = []string{d.onlyStage()}, len(targets) == 0
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	names = slices.Compact(names)
	for i, name := range names {
		d.environment(name).Order = i + 1
		switch {
		case d.alone && i == 0 && d.wishes.like == nil:
			hub.Environment = name
		case d.alone || slices.ContainsFunc(targets, func(t target) bool { return t.environment(names) == name }):
		case len(targets) == 0 || len(d.secrets) == 0 && slices.Contains(selected, name):
			d.spoke(target{name: name}, name)
		}
	}
	if d.alone {
		return
	}
	for _, t := range targets {
		d.spoke(t, cmp.Or(t.environment(names), names[0]))
	}
}

// hub adds the default environment, and a hub with the repositories.
func (d *drafting) hub(name string) *lab.Cluster {
	d.environment(lab.DefaultEnvironment)
	hub := newCluster(name, lab.RoleHub)
	for _, r := range d.estate.Repositories {
		hub.Mounts[r.URL] = r.Dir
	}
	d.estate.Clusters = append(d.estate.Clusters, hub)
	return &d.estate.Clusters[0]
}

func newCluster(name string, role lab.Role) lab.Cluster {
	return lab.Cluster{
		Name: name, Role: role, Provider: lab.ProviderKind, ControlPlanes: 1,
		Addons: map[string]bool{}, Labels: map[string]string{}, Metadata: map[string]string{}, Mounts: map[string]string{},
	}
}

// perCluster reports whether a set of Applications of others generates the same names for every cluster: the repositories
// are for one Argo CD per cluster.
func (d *drafting) perCluster() bool {
	if len(d.secrets) > 0 || len(d.estate.Clusters) == 1 {
		return false
	}
	hub := d.world()
	hub.Clusters = slices.DeleteFunc(slices.Clone(hub.Clusters), func(c appset.Cluster) bool { return c.Name != d.estate.Clusters[0].Name })
	for _, doc := range d.docs {
		if !slices.ContainsFunc(d.expand(doc, d.world()).Invalid, func(i appset.Invalid) bool { return i.Twice }) {
			continue
		}
		one, err := doc.set.Expand(hub)
		if err == nil && len(one.Invalid) == 0 && slices.ContainsFunc(one.Applications, func(a appset.Application) bool { return d.leadsOn(&a.Template) }) {
			return true
		}
	}
	return false
}

// idle reports whether the invented spoke gets nothing, even with all addons enabled.
func (d *drafting) idle() bool {
	if !d.invented {
		return false
	}
	clusters, addons := slices.Clone(d.estate.Clusters), map[string]bool{}
	for _, s := range d.selectors() {
		if key, ok := strings.CutPrefix(s.key, enable); ok {
			addons[key] = true
		}
	}
	for i := range clusters {
		clusters[i].Addons = addons
	}
	w, goes := estate.World(d.estate, clusters), false
	for _, doc := range d.docs {
		if doc.set == nil {
			continue
		}
		x, err := doc.set.Expand(w)
		if err != nil {
			return false
		}
		for _, a := range x.Applications {
			if goes = true; a.Cluster != clusters[0].Name {
				return false
			}
		}
		if len(x.Invalid) > 0 {
			return false
		}
	}
	return goes
}

// hosts reports whether a cluster gets addons: a spoke, or a lone hub.
func (d *drafting) hosts(c *lab.Cluster) bool {
	return c.Role == lab.RoleSpoke || len(d.estate.Clusters) == 1
}

// onHubAlone reports whether everything is deployed to the engine's cluster, or to one that lab cannot have.
func (d *drafting) onHubAlone() bool {
	return !slices.ContainsFunc(d.docs, func(doc *document) bool {
		return slices.ContainsFunc(d.destinations(doc), func(to appset.Destination) bool {
			unknown := to.Server != "" && !isURL(to.Server) || to.Server == "" && len(validation.IsDNS1123Label(to.Name)) > 0
			return !target{name: to.Name, server: to.Server}.hub() && (!unknown || strings.Contains(to.Name+to.Server, "{{"))
		})
	})
}

// stages are words in names of environments, in the order of promotion.
var stages = [][]string{
	{"dev", "development", "sandbox", "lab"},
	{"test", "testing", "qa", "int", "integration"},
	{"staging", "stage", "stag", "stg", "uat", "pre", "preprod"},
	{"prod", "production", "prd", "live"},
}

// words returns the words of a name, without the numbers at their ends.
func words(name string) []string {
	list := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i := range list {
		list[i] = strings.TrimRight(list[i], "0123456789")
	}
	return list
}

// hasWords reports whether the words of one name are in another, side by side.
func hasWords(name, other string) bool {
	all, some := words(name), words(other)
	for i := range all {
		if len(some) > 0 && i+len(some) <= len(all) && slices.Equal(all[i:i+len(some)], some) {
			return true
		}
	}
	return false
}

// stageOf returns the usual name of the stage that a name has as a word, or "".
func stageOf(name string) string {
	for _, word := range words(name) {
		for _, stage := range stages {
			if slices.Contains(stage, word) {
				return stage[0]
			}
		}
	}
	return ""
}

// onlyStage returns the only stage of values that generators select, or that of development.
func (d *drafting) onlyStage() string {
	var found []string
	for _, s := range d.selectors() {
		if stage := stageOf(s.value); stage != "" && !slices.Contains(found, stage) {
			found = append(found, stage)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return stages[0][0]
}

// rank returns the order of promotion of usual environment names.
func rank(name string) int {
	i := slices.IndexFunc(stages, func(stage []string) bool { return stage[0] == stageOf(name) })
	if i < 0 {
		return 1
	}
	return i
}

// addonOf returns the addon that a label enables.
func addonOf(label string) (addon string, enables bool) {
	key, enables := strings.CutPrefix(label, enable)
	return strings.ReplaceAll(key, "_", "-"), enables
}

// switches enables the addons that the repositories contain.
func (d *drafting) switches() {
	for _, s := range d.selectors() {
		name, ok := addonOf(s.key)
		if ok && (s.value == "true" || s.value == "") && !slices.ContainsFunc(d.Addons, func(a Switch) bool { return a.Addon == name }) {
			d.Addons = append(d.Addons, Switch{Addon: name, On: true, At: s.at})
		}
	}
	d.flip()
	for i := range d.Addons {
		if elsewhere := d.elsewhere(lab.EnableLabel(d.Addons[i].Addon)); elsewhere != "" {
			d.Addons[i].On, d.Addons[i].Why = false, "it comes from "+elsewhere
		}
	}
	d.flip()
	off := func(label string) bool {
		return slices.ContainsFunc(d.Addons, func(a Switch) bool { return !a.On && lab.EnableLabel(a.Addon) == label })
	}
	for i := range d.Addons {
		needs := ""
		works := slices.ContainsFunc(d.docs, func(doc *document) bool {
			if doc.set == nil || !slices.Contains(doc.switches(), lab.EnableLabel(d.Addons[i].Addon)) {
				return false
			}
			for _, label := range doc.switches() {
				if off(label) {
					needs = label
				}
			}
			return len(d.applications(doc)) > 0
		})
		if d.Addons[i].On && !works && needs != "" {
			d.Addons[i].On, d.Addons[i].Why = false, "its set needs "+needs+", too, which is off"
		}
	}
	d.flip()
	d.ofAddonsOff(off)
}

// flip sets the switches on the clusters.
func (d *drafting) flip() {
	for i := range d.estate.Clusters {
		c := &d.estate.Clusters[i]
		for _, a := range d.Addons {
			if d.hosts(c) {
				c.Addons[a.Addon] = a.On && d.wants(c.Name, lab.EnableLabel(a.Addon))
			}
		}
	}
}

// ofAddonsOff drops the open values that only sets of addons that are off read: what the bridge makes of an addon that is on counts then.
// Addresses and folders stay: the bridge has those of the estate.
func (d *drafting) ofAddonsOff(off func(label string) bool) {
	for id, k := range d.keys {
		if k.How != Open || k.In != "" || d.answer.at[k.Name].doc != nil || slices.ContainsFunc(d.docs, func(doc *document) bool {
			reads := slices.ContainsFunc(doc.uses, func(u use) bool { return u.key == k.Name && u.label == k.Label })
			return reads && !slices.ContainsFunc(doc.switches(), off)
		}) {
			continue
		}
		delete(d.keys, id)
		delete(d.ofAll(k.Label), k.Name)
	}
}

// elsewhere returns an unmounted repository that an addon's sets need, or "".
func (d *drafting) elsewhere(label string) string {
	for _, doc := range d.docs {
		if doc.set == nil || !slices.ContainsFunc(doc.set.Selectors(), func(s metav1.LabelSelector) bool {
			_, matches := s.MatchLabels[label]
			return matches || slices.ContainsFunc(s.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool { return e.Key == label })
		}) {
			continue
		}
		x := d.expand(doc, d.world())
		if x.err != nil {
			return "an unknown source: " + x.err.Error()
		}
		for _, app := range x.applications {
			for _, source := range app.Spec.All() {
				r, ours := d.inputs().Mounted(source.RepoURL)
				if i := slices.IndexFunc(d.answer.keys, func(key string) bool { return d.answer.lost[key] && fill.URL.Placeholder(key) == source.RepoURL }); i >= 0 {
					return "the address in " + d.answer.keys[i] + ", which is open"
				}
				if !ours && source.RepoURL != d.inputs().ChartRepoURL {
					return source.RepoURL
				}
				if !ours || source.Chart != "" || source.Path == "" {
					continue
				}
				at, err := r.Of(source.TargetRevision)
				if err != nil {
					return err.Error()
				}
				if urls := render.Fetches(render.Source{FS: at.FS, Source: source}); len(urls) > 0 {
					return urls[0]
				}
			}
		}
	}
	return ""
}

// engineNamespace returns the namespace of most documents, or "" for the engine's default.
func engineNamespace(docs []*document) string {
	count := map[string]int{}
	for _, doc := range docs {
		if ns := strict.Text(doc.node, "metadata", "namespace"); len(validation.IsDNS1123Label(ns)) == 0 {
			count[ns]++
		}
	}
	if ns := most(count, argo.Namespace); ns != argo.Namespace {
		return ns
	}
	return ""
}
