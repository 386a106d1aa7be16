package up

import (
	"testing"

	"homelab/lab"
	"homelab/lab/engine"
)

// refs is a Supply with references only.
type refs struct{ Supply }

func (refs) Ref(component string) string { return component }

// The engine waits between sync waves if the estate has any; the hub's values take precedence.
func TestValuesSyncWaves(t *testing.T) {
	for _, waves := range []bool{false, true} {
		l := &Lab{
			Estate: &lab.Estate{Waves: waves, Clusters: []lab.Cluster{{Role: lab.RoleHub, Engine: lab.EngineSpec{Values: map[string]any{"own": true}}}}}, Supply: refs{},
			Definition: engine.Definition{Values: func(s engine.Settings, over map[string]any) map[string]any {
				return map[string]any{"waves": s.Waves, "over": over["own"]}
			}},
		}
		if got := l.values(lab.Cluster{}); got["waves"] != waves || got["over"] != true {
			t.Errorf("%v", got)
		}
	}
}
