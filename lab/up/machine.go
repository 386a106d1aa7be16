package up

import (
	"context"
	"fmt"
	"slices"

	"homelab/lab"
	"homelab/lab/state"
)

// machine returns the container engine that the docker command reaches. It refuses one without any container of a lab that was created on another engine,
// as the whole lab would look absent there. An engine that has the lab's containers is accepted even if its id changed.
func (l *Lab) machine(ctx context.Context) (state.Docker, error) {
	id, err := l.Containers.ID(ctx)
	if err != nil || id == "" {
		return state.Docker{}, err
	}
	record, err := l.Dir.Load()
	if err != nil || record.Docker.ID == id {
		return record.Docker, err
	}
	now := state.Docker{ID: id}
	if now.Address, err = l.Containers.Endpoint(ctx); err != nil || record.Docker.ID == "" {
		return now, err
	}
	names, err := l.Dir.Contained()
	if err != nil || len(names) == 0 {
		return now, err
	}
	states, err := l.Clusters.Observe(ctx)
	if err != nil || slices.ContainsFunc(states, func(c lab.ClusterState) bool { return !c.Attached }) {
		return now, err
	}
	if f, err := l.Forge.Observe(ctx); err != nil || f.Exists || f.Volume {
		return now, err
	}
	return now, &lab.Error{
		Exit: lab.ExitFailed, Code: "other_docker", Message: "lab " + l.Name + " is on another docker engine, nothing was touched",
		Details: []string{
			fmt.Sprintf("its clusters are on  %s (%s)", record.Docker.Address, lab.Abbreviate(record.Docker.ID)),
			fmt.Sprintf("docker speaks to     %s (%s)", now.Address, lab.Abbreviate(now.ID)),
		},
		Cure: "point docker at its engine: docker context use, or DOCKER_HOST; where that is gone for good: rm -r " + lab.Quote(l.Dir.Path) + ", and lab up recreates the lab",
	}
}

// recordMachine records the container engine of a lab that was brought up.
func (l *Lab) recordMachine(now state.Docker) error {
	if now.ID == "" || !l.Dir.Exists() {
		return nil
	}
	r, err := l.Dir.Load()
	if err != nil || r.Docker == now {
		return err
	}
	r.Docker = now
	return l.Dir.Save(r)
}
