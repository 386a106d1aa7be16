package up

import (
	"cmp"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/state"
)

// Engines maps each engine to a function that returns its definition for a namespace.
type Engines map[state.Former]func(namespace string) engine.Definition

// Of returns the engine of a lab, and the others. The estate may be nil.
func (e Engines) Of(r state.Record, est *lab.Estate) (own engine.Definition, others []engine.Definition) {
	is := state.Former{Engine: EngineOf(r, est), Shape: ShapeOf(r, est)}
	for of, definition := range e {
		if of == is {
			own = definition(EngineNamespace(r, est))
		} else {
			others = append(others, definition(r.NamespaceOf(of.Engine)))
		}
	}
	return own, others
}

// EngineNamespace returns the namespace of a lab's engine, from the estate if there is one, else from the record; empty means the default.
func EngineNamespace(r state.Record, est *lab.Estate) string {
	if est != nil {
		return est.Hub().Engine.Namespace
	}
	return r.Namespace
}

// EngineOf returns a lab's engine, from the estate if there is one, else from the record.
func EngineOf(r state.Record, est *lab.Estate) lab.EngineType {
	if est != nil {
		return est.Hub().Engine.Type
	}
	if r.Engine == "" && r.Shape != "" { // recorded before the engine is installed; only Flux has shapes
		return lab.EngineFlux
	}
	return cmp.Or(r.Engine, lab.DefaultEngine)
}

// ShapeOf returns the shape of a lab's engine, from the estate if there is one, else from the record. It is empty for an engine on the hub alone.
func ShapeOf(r state.Record, est *lab.Estate) lab.Shape {
	switch {
	case est == nil:
		return r.Shape
	case est.Hub().Engine.Everywhere():
		return est.Hub().Engine.Shape
	}
	return ""
}
