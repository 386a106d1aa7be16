package up

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/plan"
)

// engineWithin bounds the observation of a spoke's own engine.
const engineWithin = 10 * time.Second

// ownEngine reports whether a spoke runs its own engine.
func (l *Lab) ownEngine(c lab.Cluster) bool {
	return l.Definition.Everywhere() && c.Role == lab.RoleSpoke
}

// engineOf connects to a spoke's own engine.
func (l *Lab) engineOf(cluster string) (engine.Installer, error) {
	cfg, err := l.Clusters.RESTConfig(cluster)
	if err != nil {
		return nil, err
	}
	return l.Definition.On(engine.Hub{Lab: l.Name, Cluster: cluster, Config: cfg, Reach: l.Clusters.RESTConfig, Attached: l.attached})
}

// engines returns the state of spokes' own engines. Those that do not answer are omitted.
func (l *Lab) engines(ctx context.Context, states map[string]lab.ClusterState) map[string]plan.Engine {
	var mu sync.Mutex
	var looks sync.WaitGroup
	seen := map[string]plan.Engine{}
	for _, c := range l.Estate.Clusters {
		if !l.ownEngine(c) || !states[c.Name].Answers {
			continue
		}
		looks.Go(func() {
			e, err := l.engineOf(c.Name)
			if err != nil {
				return // unknown, as for any unreachable cluster
			}
			within, cancel := context.WithTimeout(ctx, engineWithin)
			defer cancel()
			if s, err := e.Observe(within); err == nil {
				mu.Lock()
				defer mu.Unlock()
				seen[c.Name] = engineState(s)
			}
		})
	}
	looks.Wait()
	return seen
}

func engineState(s engine.State) plan.Engine {
	return plan.Engine{Installed: s.Revision > 0, Ready: s.Ready, Waiting: s.Waiting, Inputs: s.Inputs, Version: s.Version, Status: s.Release}
}

// ownRoots returns the root objects of the clusters that run their own engine; nil if the hub's engine manages them.
func (l *Lab) ownRoots() (map[string][]byte, error) {
	if !l.Definition.Everywhere() {
		return nil, nil
	}
	roots := map[string][]byte{}
	for _, c := range l.Estate.Clusters {
		text, err := fs.ReadFile(l.Estate.FS, l.Estate.RootFileOf(c.Name))
		if err != nil {
			return nil, fmt.Errorf("root of cluster %s: %w", c.Name, err)
		}
		roots[c.Name] = text
	}
	return roots, nil
}

// waiting describes the spokes whose own engine is not ready.
func (l *Lab) waiting(ctx context.Context, states map[string]lab.ClusterState) []string {
	var list []string
	seen := l.engines(ctx, states)
	for _, c := range l.Estate.Clusters {
		switch e, known := seen[c.Name]; {
		case !known || e.Installed && e.Ready:
		case !e.Installed:
			list = append(list, "the engine of "+c.Name+" is absent")
		default:
			list = append(list, "the engine of "+c.Name+" is not ready: "+e.Waiting)
		}
	}
	slices.Sort(list)
	return list
}
