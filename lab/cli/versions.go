package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"homelab/lab"
	"homelab/lab/supply/ends"
)

// nodes is the component of Kubernetes' nodes.
const nodes = "node"

// choose finds the versions of the engine and of Kubernetes that the estate asks for, and reports all that there are not.
func (p *parts) choose(ctx context.Context) error {
	hub := p.estate.Hub()
	var problems lab.Problems
	find := func(component, version string, at lab.Position) (lab.Release, error) {
		r, err := p.supply.Release(ctx, component, version)
		var e *lab.Error
		if errors.As(err, &e) && e.Code == "no_version" {
			problems = append(problems, lab.Problem{Position: at, Message: e.Message, Cure: e.Cure})
			err = nil
		}
		return r, err
	}
	var err error
	if p.release, err = find(engineComponent(hub.Engine.Type), hub.Engine.Version, hub.Position("spec.engine.version")); err != nil {
		return err
	}
	p.nodes = map[string]lab.Release{}
	for _, c := range p.estate.Clusters {
		if c.Provider == lab.ProviderExisting {
			continue
		}
		if p.nodes[c.Name], err = find(nodes, c.Kubernetes, c.Position("spec.kubernetes")); err != nil {
			return err
		}
	}
	if len(problems) == 0 {
		return nil
	}
	problems.Sort()
	return &lab.Error{Exit: lab.ExitInvalid, Code: "no_version", Message: "the estate asks for versions that lab does not have here, nothing was touched", Problems: problems}
}

// engineComponent returns the component whose versions are those of an engine.
func engineComponent(t lab.EngineType) string {
	if t == lab.EngineFlux {
		return "flux"
	}
	return string(t)
}

// notes says of each version that the estate asks for whether upstream still supports it, and what is uncertain about it.
func (p *parts) notes(now time.Time) ([]string, error) {
	table, err := ends.Embedded()
	if err != nil {
		return nil, err
	}
	var lines []string
	add := func(at lab.Position, name string, r lab.Release) {
		if s := ends.Find(table, name, r.Version, "", now); s.Ended {
			lines = append(lines, fmt.Sprintf("%s: %s %s is no longer supported upstream: %s", at, s.Product, r.Version, s.Until))
		}
		if r.Note != "" {
			lines = append(lines, fmt.Sprintf("%s: %s", at, r.Note))
		}
	}
	hub := p.estate.Hub()
	if hub.Engine.Version != "" {
		name := engineComponent(hub.Engine.Type)
		if hub.Engine.Type == lab.EngineFlux {
			name = "github.com/fluxcd/flux2/v2"
		}
		add(hub.Position("spec.engine.version"), name, p.release)
	}
	for _, c := range p.estate.Clusters {
		if c.Kubernetes != "" {
			add(c.Position("spec.kubernetes"), "kubernetes", p.nodes[c.Name])
		}
	}
	return lines, nil
}

// builds reports whether this machine compiles what the lab needs.
func (p parts) builds() bool {
	chosen := slices.Collect(maps.Values(p.release.Images))
	for _, of := range p.nodes {
		chosen = slices.AppendSeq(chosen, maps.Values(of.Images))
	}
	return p.supply.Builds(chosen...)
}
