package up

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"homelab/lab"
	"homelab/lab/apply"
	"homelab/lab/cluster"
	"homelab/lab/plan"
)

func (r *run) doNetwork(ctx context.Context, _ lab.Step, _ lab.Progress) (apply.Outcome, error) {
	if err := r.Clusters.EnsureNetwork(ctx); err != nil {
		return apply.Outcome{}, err
	}
	return apply.Outcome{Detail: lab.NetworkName(r.Name), Changes: []string{"created"}}, nil
}

// doCluster creates a missing cluster or repairs an existing one. It deletes a cluster only on explicit request, or if lab's own record proves that an
// interrupted run left it half created. Both are checked again here, since the plan may be minutes old.
func (r *run) doCluster(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	if s.Action == lab.ActionDelete {
		if !r.options.Prune {
			return apply.Outcome{}, fmt.Errorf("cluster %s: its removal was not requested", s.Cluster)
		}
		if err := r.Clusters.Delete(ctx, s.Cluster); err != nil {
			return apply.Outcome{}, err
		}
		return apply.Outcome{Detail: "removed", Changes: []string{s.Reason}}, nil
	}
	c, _ := r.Estate.Cluster(s.Cluster)
	inputs, images := clusterInputs(c, r.ports(c)), r.imageKeys(c)
	made := true
	var err error
	switch {
	case s.Action == lab.ActionRecreate:
		err = r.recreate(ctx, c, p)
	case s.Action == lab.ActionCreate:
		err = r.create(ctx, c, p)
	default:
		made, err = r.ensureExisting(ctx, c, inputs, false, p)
	}
	for end := time.Now().Add(lateLimit); cluster.LeftOver(err) && time.Now().Before(end); {
		p("waiting for nodes that a killed run is still creating")
		if err := lab.Sleep(ctx, lateLook); err != nil {
			return apply.Outcome{}, err
		}
		made, err = r.ensureExisting(ctx, c, inputs, true, p)
	}
	if err != nil {
		return apply.Outcome{}, err
	}
	if !made { // keep the recorded images
		now, err := r.observe(ctx, c.Name)
		if err != nil {
			return apply.Outcome{}, err
		}
		images = append(images, now.Images...)
	}
	if r.Registry.Host != "" {
		if err := r.Clusters.Introduce(ctx, c.Name, r.Registry, p); err != nil {
			return apply.Outcome{}, err
		}
	}
	if err := r.Clusters.Mark(ctx, c.Name, inputs, images); err != nil {
		return apply.Outcome{}, err
	}
	if c.Role == lab.RoleHub {
		r.disconnect()
	}
	detail := r.Supply.Version(r.nodeImage(c))
	switch {
	case !made && r.seen.Clusters[c.Name].Renew != "":
		detail = "certificates renewed, contents kept"
	case !made && slices.Contains(r.seen.Unfamiliar, c.Name):
		detail = "its nodes know the registry"
	case !made:
		detail = "restarted, contents kept"
	}
	return apply.Outcome{Detail: detail, Changes: []string{s.Reason}}, nil
}

// lateLimit bounds the wait for requests of a killed run that the container engine still executes: a node may appear even after it was removed.
const (
	lateLimit = time.Minute
	lateLook  = 500 * time.Millisecond
)

// recreate deletes and creates a cluster named in Options.Recreate.
func (r *run) recreate(ctx context.Context, c lab.Cluster, p lab.Progress) error {
	if !slices.Contains(r.options.Recreate, c.Name) {
		return fmt.Errorf("cluster %s: its recreation was not requested", c.Name)
	}
	p("deleting it, as requested")
	if err := r.Clusters.Delete(ctx, c.Name); err != nil {
		return err
	}
	return r.create(ctx, c, p)
}

// ensureExisting repairs an existing cluster and reports whether it was recreated, which happens only if it is provably half created. If late is set, a
// cluster that appeared meanwhile and whose state cannot be read is a retryable error.
func (r *run) ensureExisting(ctx context.Context, c lab.Cluster, inputs string, late bool, p lab.Progress) (made bool, err error) {
	now, err := r.observe(ctx, c.Name)
	if err != nil {
		return false, err
	}
	switch {
	case !now.Exists:
		return true, r.create(ctx, c, p)
	case now.Made == lab.MadeHalf:
		p("removing the remains of an interrupted run")
		if err := r.Clusters.Delete(ctx, c.Name); err != nil {
			return false, err
		}
		return true, r.create(ctx, c, p)
	case late && now.Made == lab.MadeUnknown:
		return false, &lab.Error{
			Exit: lab.ExitFailed, Code: cluster.CodeLeftOver, Message: "cluster " + c.Name + " appeared meanwhile, and its state cannot be read",
			Cure: "run lab up again",
		}
	}
	if !now.Running || !now.Answers || !now.Ready || now.Renew != "" {
		if err := r.Clusters.Start(ctx, c.Name, p); err != nil {
			return false, err
		}
		if now, err = r.observe(ctx, c.Name); err != nil {
			return false, err
		}
		r.mu.Lock()
		r.since[c.Name] = now.Started
		r.mu.Unlock()
	}
	if err := checkReusable(c, now, inputs); err != nil {
		return false, err
	}
	list, err := r.images(ctx, c, p)
	if err != nil {
		return false, err
	}
	return false, r.Clusters.Load(ctx, c.Name, list, p)
}

// invalidate makes earlier comparisons of all clusters count for nothing: another version of the engine made them.
func (r *run) invalidate(cluster string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.clusters(r.options) {
		if cluster == "" || cluster == c.Name {
			r.since[c.Name] = now
		}
	}
}

// lastStarts returns the last start time of each cluster.
func (r *run) lastStarts() map[string]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.since)
}

// checkReusable returns an error if the cluster differs from the estate or its state is unknown. It does not change the cluster.
func checkReusable(c lab.Cluster, now lab.ClusterState, inputs string) error {
	e := &lab.Error{Exit: lab.ExitFailed, Code: "recreate", Details: []string{"it was left unchanged"}, Cure: "to recreate it and lose its contents: lab up --recreate " + lab.Quote(c.Name)}
	switch {
	case now.Gone > 0:
		e.Message = fmt.Sprintf("cluster %s lacks %d of its %d nodes, and kind cannot add one", c.Name, now.Gone, now.Gone+len(now.Nodes))
	case now.Made == lab.MadeWhole && now.Inputs != inputs && !now.Attached:
		e.Message = plan.ReasonRemake + " in " + c.Name + ", and kind cannot change an existing cluster"
	case now.Made == lab.MadeUnknown:
		e.Message = "cluster " + c.Name + " exists, but neither it nor lab's record proves that it was ever complete"
	default:
		return nil
	}
	return e
}

// observe returns the state of one cluster.
func (r *run) observe(ctx context.Context, name string) (lab.ClusterState, error) {
	states, err := r.Clusters.Observe(ctx, name)
	if err != nil {
		return lab.ClusterState{}, err
	}
	if len(states) == 0 {
		return lab.ClusterState{Name: name}, nil
	}
	return states[0], nil
}

func (r *run) create(ctx context.Context, c lab.Cluster, p lab.Progress) error {
	node, err := r.loadImage(ctx, r.nodeImage(c), p)
	if err != nil {
		return err
	}
	if err := r.waitForBuilds(ctx, p); err != nil {
		return err
	}
	return r.Clusters.Create(ctx, cluster.Spec{
		Cluster: c, NodeRef: node.Ref, Ports: r.ports(c), Registry: r.Registry,
		Images: func(ctx context.Context) ([]lab.Image, error) { return r.images(ctx, c, p) },
	}, p)
}
