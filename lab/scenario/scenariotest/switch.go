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
	for e.On() != to || e.renewing() {
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

// renewed implements World.Renew: the hub's engine and all that it keeps there are made again. Other clusters have nothing that another could tell from before.
func (l *Lab) renewed(ctx context.Context, cluster string) (scenario.World, error) {
	if cluster == l.Engine.hub {
		l.Engine.mu.Lock()
		l.Engine.remade = true
		l.Engine.mu.Unlock()
	}
	return l.switched(ctx, l.Engine.On())
}

// On returns the running engine.
func (e *Engine) On() lab.EngineType {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.on
}

func (e *Engine) renewing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.remade
}

// become replaces the engine by the requested one: its objects on the hub are removed, applied objects stay.
func (e *Engine) become(ctx context.Context) error {
	e.mu.Lock()
	to, apps, remade := e.asked, maps.Clone(e.apps), e.remade
	e.mu.Unlock()
	if to == "" || to == e.on && !remade {
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
	e.on, e.read, e.apps, e.taken, e.passes, e.remade = to, nil, map[string]*app{}, nil, 0, false
	e.mu.Unlock()
	e.Restart()
	return nil
}
