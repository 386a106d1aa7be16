package up

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/forge"
)

// Status is how a lab stands.
type Status struct {
	Engine       lab.EngineType // empty where none is installed, or the hub cannot be asked
	Revision     string         // commit that the engine has compared with
	Clusters     []lab.ClusterState
	Forge        forge.State
	Applications []lab.Application
	Off          []string // what does not run or answer: "cluster dev is stopped"
}

// Status looks at clusters, forge and applications. What cannot be asked is unknown, not an error.
func (l *Lab) Status(ctx context.Context) (Status, error) {
	states, err := l.Clusters.Observe(ctx)
	if err != nil {
		return Status{}, err
	}
	byName := map[string]lab.ClusterState{}
	for _, s := range states {
		byName[s.Name] = s
	}
	st := Status{Clusters: l.states(byName)}
	if st.Forge, err = l.Forge.Observe(ctx); err != nil {
		return st, err
	}
	st.Off = off(st)
	if name := l.Dir.Restoring(); name != "" {
		st.Off = append(st.Off, "the restore of snapshot "+name+" has not ended")
	}
	if !byName[l.hubName()].Answers {
		return st, nil
	}
	e, err := l.Engine()
	if err != nil {
		return st, err
	}
	seen, err := e.Observe(ctx)
	if err != nil || !seen.Installed() {
		return st, err
	}
	if !seen.Ready {
		st.Off = append(st.Off, "the engine is not ready: "+seen.Waiting)
	}
	standing, err := e.Standing(ctx)
	if err != nil {
		return st, err
	}
	asked := l.generated(engine.Known(l.Estate, seen.Registrations))
	st.Engine, st.Revision = l.Definition.Type, standing.Revision
	st.Applications = without(withMissing(doubted(standing.Applications, st.Clusters), asked), l.leftOut())
	return st, nil
}

// off names what exists and does not run or answer.
func off(s Status) []string {
	var list []string
	for _, c := range s.Clusters {
		if c.Unclear() {
			list = append(list, "cluster "+c.Name+" is "+c.Standing())
		}
	}
	switch {
	case !s.Forge.Exists:
	case !s.Forge.Running:
		list = append(list, "the forge is stopped")
	case !s.Forge.Answers:
		list = append(list, "the forge is unreachable")
	}
	return list
}

// states are the estate's clusters with what was seen of each.
func (l *Lab) states(seen map[string]lab.ClusterState) []lab.ClusterState {
	var list []lab.ClusterState
	for _, c := range l.Estate.Clusters {
		st := seen[c.Name]
		st.Name, st.Role, st.Env = c.Name, c.Role, c.Environment
		list = append(list, st)
	}
	return list
}

// doubted marks applications whose cluster does not answer as unknown: the engine goes on showing what it saw last.
func doubted(applications []lab.Application, clusters []lab.ClusterState) []lab.Application {
	for i := range applications {
		a := &applications[i]
		if slices.ContainsFunc(clusters, func(c lab.ClusterState) bool { return c.Name == a.Cluster && !c.Answers }) {
			a.Message = fmt.Sprintf("cluster %s does not answer; last seen %s, %s", a.Cluster, a.Sync, a.Health)
			a.Sync, a.Health = "Unknown", "Unknown"
		}
	}
	return applications
}

// withMissing adds the applications that are asked for and not there: nothing else would show them.
func withMissing(have, asked []lab.Application) []lab.Application {
	for _, a := range asked {
		if !slices.ContainsFunc(have, func(h lab.Application) bool { return h.Name == a.Name }) {
			a.Sync, a.Health, a.Message = "Unknown", "Missing", "the estate asks for it, and it is not there"
			have = append(have, a)
		}
	}
	slices.SortFunc(have, func(a, b lab.Application) int { return cmp.Compare(a.Name, b.Name) })
	return have
}

// without says of applications that are not in order why nobody waits for them.
func without(have []lab.Application, leftOut map[string]string) []lab.Application {
	for i := range have {
		if a := &have[i]; !a.Converged() {
			a.LeftOut = leftOut[a.Name]
		}
	}
	return have
}

// Well reports whether everything is ready, in sync and healthy.
func (s Status) Well() bool {
	for _, c := range s.Clusters {
		if !c.Ready {
			return false
		}
	}
	for _, a := range s.Applications {
		if !a.Converged() && a.LeftOut == "" {
			return false
		}
	}
	return len(s.Clusters) > 0 && s.Engine != "" && len(s.Off) == 0
}
