package supply

import (
	"cmp"
	"slices"
	"strings"

	"homelab/lab"
)

// engineCharts are the charts of engines, which labs with another engine do not need.
var engineCharts = map[string]lab.EngineType{"argo-cd": lab.EngineArgoCD, "flux2": lab.EngineFlux}

// Engine returns the only engine that needs an item, or "".
func (s *Supply) Engine(i Item) lab.EngineType {
	if i.Kind == KindChart {
		return engineCharts[i.Name]
	}
	c, ok := s.recipes.Get(i.base())
	if !ok {
		return ""
	}
	var only lab.EngineType
	for _, chart := range c.Charts {
		name, _, _ := strings.Cut(chart, " ")
		if only = engineCharts[name]; only == "" {
			break // an addon has it, too
		}
	}
	return only
}

// optional reports whether an item is only for estates that request it, as are other versions than the default, and charts of definitions alone.
func (s *Supply) optional(i Item) bool {
	if i.variant() || i.Kind == KindChart && engineCharts[i.Name] != "" && i.Version != s.ChartVersion(i.Name) {
		return true
	}
	names := []string{i.Name}
	if i.Kind == KindChart {
		names = s.recipes.ImagesOf(i.Name, i.Version)
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		c, ok := s.recipes.Get(name)
		return !ok || !c.Optional
	})
}

// needed drops the items of other engines, and optional ones that no estate here has requested yet.
func (s *Supply) needed(items []Item) []Item {
	return slices.DeleteFunc(items, func(i Item) bool {
		of := s.Engine(i)
		return of != "" && of != cmp.Or(s.options.Engine, lab.DefaultEngine) || !i.Present && s.optional(i)
	})
}
