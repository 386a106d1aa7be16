package supply

import (
	"cmp"
	"slices"
	"strings"

	"homelab/lab"
)

// engineCharts are the charts of engines. What they need is of no use to a lab with another engine.
var engineCharts = map[string]lab.EngineType{"argo-cd": lab.EngineArgoCD, "flux2": lab.EngineFlux}

// Engine is the only engine that an item is for; empty for all.
func (s *Supply) Engine(i Item) lab.EngineType {
	if i.Kind == KindChart {
		return engineCharts[i.Name]
	}
	c, ok := s.recipes.Get(i.Name)
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

// optional reports whether an item is for estates that ask for it alone.
func (s *Supply) optional(i Item) bool {
	names := []string{i.Name}
	if i.Kind == KindChart {
		names = s.recipes.ImagesOf(i.Name, i.Version)
	}
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
		c, ok := s.recipes.Get(name)
		return !ok || !c.Optional
	})
}

// needed leaves out what only another engine than the one asked for needs, and what no estate here has asked for yet.
func (s *Supply) needed(items []Item) []Item {
	return slices.DeleteFunc(items, func(i Item) bool {
		of := s.Engine(i)
		return of != "" && of != cmp.Or(s.options.Engine, lab.EngineArgoCD) || !i.AtHand && s.optional(i)
	})
}
