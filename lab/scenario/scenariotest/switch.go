package scenariotest

import (
	"context"
	"maps"
	"slices"

	"homelab/lab"
	"homelab/lab/scenario"
)

// switched implements World.Switch.
func (l *Lab) switched(ctx context.Context, to lab.EngineType) (scenario.World, error) {
	e := l.Engine
	if err := e.through(ctx); err != nil {
		return scenario.World{}, err
	}
	e.mu.Lock()
	e.asked = to
	e.mu.Unlock()
	e.poke()
	for e.On() != to {
		if err := e.pass(ctx, settleEvery); err != nil {
			return scenario.World{}, err
		}
	}
	if err := e.Converged(ctx); err != nil {
		return scenario.World{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	w := l.World
	w.Engines, w.Estate = to, e.read.est
	return w, nil
}

// On returns the running engine.
func (e *Engine) On() lab.EngineType {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.on
}

// become replaces the engine by the requested one: its objects on the hub are removed, applied objects stay.
func (e *Engine) become(ctx context.Context) error {
	e.mu.Lock()
	to, apps := e.asked, maps.Clone(e.apps)
	e.mu.Unlock()
	if to == "" || to == e.on {
		return nil
	}
	var gone []object
	for _, name := range slices.Sorted(maps.Keys(apps)) {
		if a := apps[name]; e.on == lab.EngineFlux {
			gone = append(gone, e.onHub(a, "", "", true)...)
		} else {
			gone = append(gone, e.manifest(a, nil))
		}
	}
	if e.on == lab.EngineArgoCD {
		gone = append(gone, e.settings()...)
	}
	if err := e.prune(ctx, e.hub, gone); err != nil {
		return err
	}
	if to == lab.EngineArgoCD {
		if err := e.apply(ctx, e.hub, e.settings()); err != nil {
			return err
		}
	}
	e.mu.Lock()
	e.on, e.read, e.apps, e.taken, e.passes = to, nil, map[string]*app{}, nil, 0
	e.mu.Unlock()
	e.Restart()
	return nil
}
