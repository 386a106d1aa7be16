package estate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/estate/judge"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
	"homelab/lab/strict"
)

// addSet records an ApplicationSet of a tree, and its addon.
func (l *loader) addSet(t tree, file string, doc *yaml.Node) {
	if l.isRootSet(file, doc) || !l.isOwn(file) && l.rejects(t, file, doc) || !l.first(file, doc) {
		return
	}
	if other := l.setNamed(strict.Text(doc, "metadata", "name")); other != nil && !l.isOwn(file) {
		l.note(finding.DuplicateName, strict.Position(file, doc), "a second ApplicationSet "+other.Name+": the name is taken by "+other.File, "the first is waited for")
		return
	}
	s, problems := appset.Parse(file, doc)
	l.problems = append(l.problems, problems...)
	addon := l.addonOf(file, doc, s)
	l.set(addon, file, doc)
	if addon.File == "" {
		addon.File = file
		addon.Positions[""] = strict.Position(file, doc)
	}
	if at := strict.Get(doc, "spec", "generators"); at != nil {
		addon.Positions["generators"] = strict.Position(file, at)
	}
	if s != nil && len(problems) == 0 {
		l.sets = append(l.sets, set{Set: s, addon: addon.Name, manual: t.manual, wave: waveOf(t, file, doc), strategy: strict.Get(doc, "spec", "strategy")})
		addon.Reads = append(addon.Reads, reads(s)...)
	}
}

// setNamed returns the ApplicationSet of a name, or nil.
func (l *loader) setNamed(name string) *set {
	if i := slices.IndexFunc(l.sets, func(s set) bool { return s.Name == name }); i >= 0 {
		return &l.sets[i]
	}
	return nil
}

// addonOf returns the addon of a set, named by the label that its selector requires, else by its folder, else by itself.
func (l *loader) addonOf(file string, doc *yaml.Node, s *appset.Set) *lab.Addon {
	name := strict.Text(doc, "metadata", "name")
	if rest, ok := strings.CutPrefix(file, lab.AddonsDir+"/"); ok && strings.Contains(rest, "/") && !l.inChart(file) {
		name, _, _ = strings.Cut(rest, "/")
	}
	if s != nil {
		// A folder named in clusters keeps its name: the set's label may be misspelt.
		if key := switchOf(s); key != "" && key != lab.AddonKey(name) && (!l.toggled(name) || l.toggled(strings.ReplaceAll(key, "_", "-"))) {
			name = strings.ReplaceAll(key, "_", "-")
		}
	}
	if i := slices.IndexFunc(l.estate.Addons, func(a lab.Addon) bool { return a.Name == name }); i >= 0 {
		return &l.estate.Addons[i]
	}
	l.estate.Addons = append(l.estate.Addons, lab.Addon{Name: name, Versions: map[string]string{}, Positions: map[string]lab.Position{}})
	return &l.estate.Addons[len(l.estate.Addons)-1]
}

// toggled reports whether a cluster enables or disables an addon.
func (l *loader) toggled(addon string) bool {
	return slices.ContainsFunc(l.estate.Clusters, func(c lab.Cluster) bool { _, ok := c.Addons[addon]; return ok })
}

// readLabels returns the labels of clusters that enable addons and that a set's selector or template reads.
func (l *loader) readLabels() map[string]bool {
	read := map[string]bool{}
	for _, c := range l.estate.Clusters {
		for addon := range c.Addons {
			label := lab.EnableLabel(addon)
			read[label] = slices.ContainsFunc(l.sets, func(s set) bool {
				return s.selectsBy(label) || slices.ContainsFunc(s.Refs(), func(r appset.Ref) bool { return slices.Equal(r.Path, []string{"metadata", "labels", label}) })
			})
		}
	}
	return read
}

// switchOf returns the addon whose enable label the first such generator requires.
func switchOf(s *appset.Set) string {
	for _, selector := range s.Selectors() {
		keys := make([]string, 0, 1)
		for key := range selector.MatchLabels {
			keys = append(keys, key)
		}
		for _, e := range selector.MatchExpressions {
			keys = append(keys, e.Key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if addon, ok := strings.CutPrefix(key, lab.EnableLabel("")); ok && (set{Set: s}).selectsBy(key) {
				return addon
			}
		}
	}
	return ""
}

// unselected reports enabled labels that no generator selects by.
func (l *loader) unselected(known map[string]bool) {
	for _, a := range l.estate.Addons {
		label := lab.EnableLabel(a.Name)
		if !known[a.Name] || slices.ContainsFunc(l.sets, func(s set) bool { return s.addon == a.Name && s.selectsBy(label) }) {
			continue
		}
		var clusters []string
		for _, c := range l.estate.Clusters {
			if c.Addons[a.Name] && !c.Selected[a.Name] {
				clusters = append(clusters, c.Name)
			}
		}
		if len(clusters) > 0 {
			l.at(finding.AddonUnselected, a.Position("generators"), fmt.Sprintf("no generator selects clusters by %s: \"true\", as set on %s", label, strings.Join(clusters, ", ")),
				"add the label to the selector of a clusters generator, or disable the addon in spec.addons of the clusters")
		}
	}
}

// selectsBy reports whether a generator's selector matches "true" for a label.
func (s set) selectsBy(label string) bool {
	return slices.ContainsFunc(s.Selectors(), func(selector metav1.LabelSelector) bool {
		if value, ok := selector.MatchLabels[label]; ok {
			return value == "true"
		}
		return slices.ContainsFunc(selector.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
			alone, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e}})
			return err == nil && e.Key == label && alone.Matches(labels.Set{label: "true"})
		})
	})
}

// selectsByEngine reports whether a selector uses a label that the engine sets later.
func (s set) selectsByEngine() bool {
	engines := func(key string) bool { return strings.HasPrefix(key, argo.Prefix) && key != argo.SecretType }
	return slices.ContainsFunc(s.Selectors(), func(selector metav1.LabelSelector) bool {
		for key := range selector.MatchLabels {
			if engines(key) {
				return true
			}
		}
		return slices.ContainsFunc(selector.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool { return engines(e.Key) })
	})
}

// waveOf returns the sync wave of an object of a tree; zero for objects of the root.
func waveOf(t tree, file string, doc *yaml.Node) judge.Wave {
	w := judge.Wave{At: strict.Position(file, doc), Tree: t.folder()}
	if t == (tree{}) {
		return w
	}
	w.Folder = t.key()
	if n := strict.Get(doc, "metadata", "annotations", argo.SyncWave); n != nil {
		w.Number, _ = strconv.Atoi(n.Value) // like Argo CD, 0 if not a number
		w.At = strict.Position(file, n)
	}
	return w
}

// order reads the start order of addons in Flux and in Argo CD, and judges them.
func (l *loader) order() {
	order, problems := fluxset.ReadOrder(l.fsys)
	sets := l.sets
	if l.isFlux() {
		l.problems = append(l.problems, problems...)
		l.add(judge.Dependencies(l.estate, order))
		if len(order) == 0 || !l.exists(lab.RootFile) {
			return
		}
		sets = l.otherEngine().sets
	}
	var waves []judge.Wave
	for _, s := range sets {
		w := s.wave
		l.estate.Waves = l.estate.Waves || w.Number != 0
		w.Addon = s.addon
		if files := l.manifests(fluxset.Dir(s.addon)); len(files) > 0 {
			w.Flux = files[0]
		}
		waves = append(waves, w)
	}
	l.add(judge.SameOrder(order, waves))
}
