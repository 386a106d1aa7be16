package estate

import (
	"strconv"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/estate/judge"
	"homelab/lab/fluxset"
	"homelab/lab/strict"
)

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
		l.problems = append(l.problems, judge.Dependencies(l.estate, order)...)
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
