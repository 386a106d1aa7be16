package up

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/forge"
	"homelab/lab/service"
)

// Status is the state of a lab.
type Status struct {
	Engine       lab.EngineType // empty if not installed, or the hub is unreachable
	Revision     string         // commit that the engine last compared with
	Clusters     []lab.ClusterState
	Forge        forge.State
	Parts        []PartStatus
	Applications []lab.Application
	Off          []string // components that are stopped or do not answer: "cluster dev is stopped"
	Losing       Losing   // what only the forge has
}

// Status returns the state of clusters, forge and applications. Unreachable ones are reported as unknown, not as an error.
func (l *Lab) Status(ctx context.Context) (Status, error) {
	if _, err := l.machine(ctx); err != nil {
		return Status{}, err
	}
	states, err := l.Clusters.Observe(ctx)
	if err != nil {
		return Status{}, err
	}
	byName := byName(states)
	st := Status{Clusters: l.states(byName)}
	if st.Forge, err = l.Forge.Observe(ctx); err != nil {
		return st, err
	}
	if st.Losing, err = l.losing(ctx, st.Forge, false); err != nil {
		return st, err
	}
	if st.Parts, err = l.partsStatus(ctx); err != nil {
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
	st.Off = append(st.Off, l.waiting(ctx, byName)...)
	standing, err := e.Snapshot(ctx)
	if err != nil {
		return st, err
	}
	asked := l.generated(engine.Known(l.Estate, seen.Registrations))
	st.Engine, st.Revision = l.Definition.Type, standing.Revision
	st.Applications = withLeftOut(l.doubted(withMissing(markUnreachable(l.withoutLeftOut(standing.Applications), st.Clusters), asked, standing.Silent...)), l.leftOut())
	return st, nil
}

// off returns the components that are stopped or do not answer, and the forge if absent while there are clusters.
func off(s Status) []string {
	var list []string
	for _, c := range s.Clusters {
		if c.Unclear() {
			list = append(list, "cluster "+c.Name+" is "+c.Phase())
		}
	}
	switch {
	case !s.Forge.Exists && !slices.ContainsFunc(s.Clusters, func(c lab.ClusterState) bool { return c.Exists }): // there is no lab
	case !s.Forge.Exists:
		list = append(list, "the forge is absent")
	case !s.Forge.Running:
		list = append(list, "the forge is stopped")
	case !s.Forge.Answers:
		list = append(list, "the forge is unreachable")
	}
	for _, part := range s.Parts {
		if standing := part.State.Phase(); standing != service.Ready && (s.Forge.Exists || part.State.Exists) {
			list = append(list, strings.TrimSuffix("the "+part.Name+" is "+standing+": "+part.State.Fault, ": "))
		}
	}
	return list
}

func byName(states []lab.ClusterState) map[string]lab.ClusterState {
	m := map[string]lab.ClusterState{}
	for _, s := range states {
		m[s.Name] = s
	}
	return m
}

// states returns the estate's clusters with the observed state of each.
func (l *Lab) states(seen map[string]lab.ClusterState) []lab.ClusterState {
	var list []lab.ClusterState
	for _, c := range l.Estate.Clusters {
		st := seen[c.Name]
		st.Name, st.Role, st.Env = c.Name, c.Role, c.Environment
		list = append(list, st)
	}
	return list
}

// markUnreachable marks the applications of unreachable clusters as unknown, since the engine keeps reporting their last status.
func markUnreachable(applications []lab.Application, clusters []lab.ClusterState) []lab.Application {
	for i := range applications {
		a := &applications[i]
		if slices.ContainsFunc(clusters, func(c lab.ClusterState) bool { return c.Name == a.Cluster && !c.Answers }) {
			a.Message = fmt.Sprintf("cluster %s does not answer; last seen %s, %s", a.Cluster, a.Sync, a.Health)
			a.Sync, a.Health = "Unknown", "Unknown"
		}
	}
	return applications
}

// withMissing adds applications that the estate defines and the engine lacks; those of clusters whose own engine does not answer are unknown.
func withMissing(have, asked []lab.Application, silent ...string) []lab.Application {
	for _, a := range asked {
		if !slices.ContainsFunc(have, func(h lab.Application) bool { return h.Name == a.Name }) {
			a.Sync, a.Health, a.Message = "Unknown", "Missing", "missing, though the estate defines it"
			if slices.Contains(silent, a.Cluster) {
				a.Health, a.Message = "Unknown", "cluster "+a.Cluster+" does not answer"
			}
			have = append(have, a)
		}
	}
	slices.SortFunc(have, func(a, b lab.Application) int { return cmp.Compare(a.Name, b.Name) })
	return have
}

// withLeftOut sets the reason for being left out on applications that have not converged.
func withLeftOut(have []lab.Application, leftOut map[string]string) []lab.Application {
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
