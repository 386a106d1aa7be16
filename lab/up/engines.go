package up

import (
	"cmp"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/state"
)

// Engines maps each engine, without a namespace, to a function that returns its definition for one.
type Engines map[state.Engine]func(namespace string) engine.Definition

// Of returns the engine of a lab, and the others. The estate may be nil.
func (e Engines) Of(r state.Record, est *lab.Estate) (own engine.Definition, others []engine.Definition) {
	is := EngineOf(r, est)
	for of, definition := range e {
		if of.Type == is.Type && of.Shape == is.Shape {
			own = definition(is.Namespace)
		} else {
			others = append(others, definition(r.NamespaceOf(of.Type)))
		}
	}
	return own, others
}

// EngineOf returns a lab's engine, from the estate if there is one, else from the record.
func EngineOf(r state.Record, est *lab.Estate) state.Engine {
	if est != nil {
		spec := est.Hub().Engine
		e := state.Engine{Type: spec.Type, Namespace: spec.Namespace}
		if spec.Everywhere() {
			e.Shape = spec.Shape
		}
		return e
	}
	e := r.Engine
	if e.Type == "" && e.Shape != "" { // recorded before the engine is installed; only Flux has shapes
		e.Type = lab.EngineFlux
	}
	e.Type = cmp.Or(e.Type, lab.DefaultEngine)
	return e
}

// recorded returns the engine of a definition, as a lab that has it records it.
func recorded(d engine.Definition) state.Engine {
	e := state.Engine{Type: d.Type}
	if d.Everywhere() {
		e.Shape = lab.ShapeStandalone
	}
	return e
}
