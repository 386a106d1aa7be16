package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/engine"
	"homelab/lab/engine/argocd"
	"homelab/lab/forge"
	"homelab/lab/plan"
)

// seen is what was observed, with the parts that steps use again.
type seen struct {
	plan.Observed
	engine   engine.State
	standing argocd.Standing
	forge    forge.State
}

// observe looks at everything that up may change, side by side. It changes nothing.
func (w *world) observe(ctx context.Context, clusters []lab.Cluster) (seen, error) {
	var s seen
	s.Expected = applicationNames(w.switched(true, clusters))
	s.Supplied, s.Missing = w.supplied(clusters)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { s.Network, err = w.kind.HasNetwork(ctx); return err })
	group.Go(func() error { return w.observeForge(ctx, &s) })
	group.Go(func() error { return w.observeClusters(ctx, &s) })
	if err := group.Wait(); err != nil {
		return s, err
	}
	want := engine.Want{Revision: s.forge.Revision, Clusters: only(clusters, w.est)}
	s.Applications = slices.DeleteFunc(s.standing.Applications, func(a lab.Application) bool { return !want.WaitsFor(a.Cluster) })
	if want.Revision != "" { // somebody may have pushed a moment ago
		s.Behind = s.standing.Behind(want, s.engine.Registrations)
	}
	return s, nil
}

// only names the clusters that a run is about; nil where they are the whole estate's.
func only(clusters []lab.Cluster, est *lab.Estate) []string {
	if len(clusters) == len(est.Clusters) {
		return nil
	}
	return clusterNames(clusters)
}

// supplied counts the images and charts that are at hand, and names those that are not.
func (w *world) supplied(clusters []lab.Cluster) (int, []string) {
	have := 0
	var missing []string
	for _, n := range w.needs(clusters) {
		if w.supply.AtHand(n.image, n.chart, n.version) {
			have++
		} else {
			missing = append(missing, n.String())
		}
	}
	return have, missing
}

func (w *world) observeForge(ctx context.Context, s *seen) error {
	var err error
	if s.forge, err = w.forge.Observe(ctx); err != nil {
		return err
	}
	s.Forge = plan.Forge{Exists: s.forge.Exists, Running: s.forge.Running, Inputs: s.forge.Inputs}
	if !s.forge.Running {
		return nil
	}
	s.Estate, err = w.forge.Diff(ctx, w.tree())
	return err
}

func (w *world) observeClusters(ctx context.Context, s *seen) error {
	states, err := w.kind.Observe(ctx)
	if err != nil {
		return err
	}
	s.Clusters = map[string]lab.ClusterState{}
	for _, c := range states {
		s.Clusters[c.Name] = c
	}
	if hub := s.Clusters[w.hubName()]; !hub.Running || hub.Kubernetes == "" {
		return nil
	}
	e, err := w.engine()
	if err != nil {
		return err
	}
	if s.engine, err = e.Observe(ctx); err != nil {
		return err
	}
	s.Engine = plan.Engine{Installed: s.engine.Revision > 0, Ready: s.engine.Ready, Inputs: s.engine.Inputs, Status: s.engine.Release}
	s.Bridge = map[string][]string{}
	for _, r := range s.engine.Registrations {
		s.Registered = append(s.Registered, r.Cluster)
		if want, err := w.registration(r.Cluster); err == nil {
			s.Bridge[r.Cluster] = engine.Diff(want, r)
		}
	}
	refused, err := w.refused(ctx, e, s)
	if err != nil {
		return err
	}
	for cluster, why := range refused {
		s.Bridge[cluster] = append(s.Bridge[cluster], why)
	}
	if !s.Engine.Installed {
		return nil
	}
	s.standing, err = e.Standing(ctx)
	s.Root = s.standing.Root
	return err
}

// refused are the clusters that run and do not let the engine in, with the reason.
func (w *world) refused(ctx context.Context, e *argocd.ArgoCD, s *seen) (map[string]string, error) {
	var mu sync.Mutex
	why := map[string]string{}
	group, ctx := errgroup.WithContext(ctx)
	for cluster := range s.Bridge {
		spoke, err := w.spoke(cluster)
		if err != nil || spoke == nil || !s.Clusters[cluster].Ready {
			continue // the hub itself, or one that another step is about
		}
		group.Go(func() error {
			reason, err := e.Admits(ctx, cluster, spoke)
			if reason != "" {
				mu.Lock()
				defer mu.Unlock()
				why[cluster] = reason
			}
			return err
		})
	}
	return why, group.Wait()
}

// desired is what the estate asks for, as digests of inputs that are known before anything is built.
func (w *world) desired(ctx context.Context, clusters []lab.Cluster, o plan.Observed, prune bool, preflight string) plan.Desired {
	d := plan.Desired{Forge: w.forgeInputs(ctx, o.Forge.Inputs), Engine: w.engineInputs(ctx, o.Engine.Inputs), Prune: prune, Preflight: preflight}
	for _, c := range clusters {
		d.Clusters = append(d.Clusters, plan.Cluster{Name: c.Name, Role: c.Role, Inputs: clusterInputs(c, w.ports(c)), Images: w.imageKeys(c)})
	}
	return d
}

// clusterInputs leaves the node image out: a newer lab, or images from elsewhere, must not make anyone's clusters anew.
func clusterInputs(c lab.Cluster, ports []cluster.Port) string {
	return cluster.Inputs(cluster.Spec{Cluster: c, Ports: ports})
}

// imageKeys stand for the images that a cluster should hold, by what they are made from.
func (w *world) imageKeys(c lab.Cluster) []string {
	names := w.imagesOf(c)
	keys := make([]string, 0, len(names))
	for _, name := range names {
		sum := sha256.Sum256([]byte(w.supply.Ref(name) + " " + w.supply.Key(name)))
		keys = append(keys, name+"-"+hex.EncodeToString(sum[:6]))
	}
	return keys
}

// forgeInputs is what the forge should be made from. While the image is not at hand nothing is known against the one that runs.
func (w *world) forgeInputs(ctx context.Context, observed string) string {
	if !w.supply.AtHand(imageGitea, "", "") {
		return observed
	}
	img, err := w.supply.Image(ctx, imageGitea, func(string) {})
	if err != nil {
		return observed
	}
	return w.forge.Inputs(img)
}

// engineInputs is what the engine should be made from; as for the forge, what is not at hand is held against nothing.
func (w *world) engineInputs(ctx context.Context, observed string) string {
	version := w.supply.ChartVersion(chartArgoCD)
	if !w.supply.AtHand("", chartArgoCD, version) {
		return observed
	}
	chart, err := w.supply.Chart(ctx, chartArgoCD, version, func(string) {})
	if err != nil {
		return observed
	}
	inputs, err := argocd.Inputs(chart, w.values())
	if err != nil {
		return observed
	}
	return inputs
}

// values are Argo CD's, with the hub's own on top.
func (w *world) values() map[string]any {
	return argocd.Values(argocd.Settings{
		Lab:   w.name,
		Image: lab.Image{Ref: w.supply.Ref(imageArgoCD)}, Redis: lab.Image{Ref: w.supply.Ref(imageRedis)},
		PasswordHash: w.creds.ArgoCDHash, WebhookSecret: w.creds.WebhookSecret, URL: w.argocdURL(),
	}, w.est.Hub().Engine.Values)
}

// ports are those of a cluster that listen on this machine.
func (w *world) ports(c lab.Cluster) []cluster.Port {
	if c.Role != lab.RoleHub {
		return nil
	}
	return []cluster.Port{{Host: w.record.Ports.ArgoCD, Node: argocd.DefaultNodePort}}
}

// tree is the estate's working tree, as the forge should hold it.
func (w *world) tree() forge.Tree { return forge.Tree{FS: w.est.FS, Dir: w.est.Dir} }
