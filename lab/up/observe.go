package up

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/engine"
	"homelab/lab/forge"
	"homelab/lab/plan"
	"homelab/lab/state"
)

// Seen is what was observed, with the parts that steps use again.
type Seen struct {
	plan.Observed
	Lost []state.ForgeCommit // commits that only the forge held, whose volume is gone

	engine   engine.State
	standing engine.Standing
	forge    forge.State
	only     []forge.Commit // commits of others that the working tree lacks
	asked    bool           // whether only is known

	heads map[string]string // mirror -> commit of its branch
}

// Observe looks at everything that a run may change, side by side. It changes nothing.
func (l *Lab) Observe(ctx context.Context, o Options) (*Seen, error) {
	clusters := l.clusters(o)
	s := &Seen{heads: map[string]string{}}
	s.Expected = applicationNames(l.asked(clusters))
	s.Supplied, s.Missing = l.supplied(clusters)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { s.Network, err = l.Clusters.HasNetwork(ctx); return err })
	group.Go(func() error { return l.observeForge(ctx, s) })
	group.Go(func() error { return l.observeClusters(ctx, s) })
	if err := group.Wait(); err != nil {
		return s, err
	}
	out := l.leftOut()
	want := engine.Want{Revision: s.forge.Revision, Heads: l.heads(s.forge.Revision, s.heads), Clusters: l.waitedFor(o, s), Since: starts(s.Clusters), LeftOut: slices.Collect(maps.Keys(out))}
	s.Applications = slices.DeleteFunc(s.standing.Applications, func(a lab.Application) bool {
		return !want.WaitsFor(a.Cluster) || out[a.Name] != "" && !a.Converged()
	})
	if s.Hub && want.Revision != "" { // somebody may have pushed a moment ago
		s.Behind = s.standing.Behind(want, s.engine.Registrations)
	}
	return s, nil
}

// starts is when each cluster was started last, as far as that is known.
func starts(clusters map[string]lab.ClusterState) map[string]time.Time {
	since := map[string]time.Time{}
	for name, c := range clusters {
		since[name] = c.Started
	}
	return since
}

// waitedFor names the clusters whose applications a run is about; nil where they are all that the hub knows.
func (l *Lab) waitedFor(o Options, s *Seen) []string {
	clusters := l.clusters(o)
	if !o.Others && !slices.ContainsFunc(s.Registered, func(name string) bool { _, ok := l.Estate.Cluster(name); return !ok }) {
		return nil
	}
	var names []string
	for _, c := range clusters {
		names = append(names, c.Name)
	}
	return names
}

// supplied counts the images and charts that are at hand, and names those that are not.
func (l *Lab) supplied(clusters []lab.Cluster) (int, []string) {
	have := 0
	var missing []string
	for _, n := range l.needs(clusters) {
		if l.Supply.AtHand(n.image, n.chart, n.version) {
			have++
		} else {
			missing = append(missing, n.String())
		}
	}
	return have, missing
}

func (l *Lab) observeForge(ctx context.Context, s *Seen) error {
	var err error
	if s.forge, err = l.Forge.Observe(ctx); err != nil {
		return err
	}
	f := s.forge
	s.Forge = plan.Forge{Exists: f.Exists, Running: f.Running, Answers: f.Answers, Prepared: f.Prepared, Inputs: f.Inputs}
	if record, made := l.Dir.Forge(); made && !f.Volume {
		s.Forge.Lost, s.Lost = true, record.Commits
	}
	if !f.Answers || !f.Prepared {
		return nil
	}
	var mu sync.Mutex
	differs := func(what ...string) {
		mu.Lock()
		defer mu.Unlock()
		s.Estate = append(s.Estate, what...)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		paths, err := l.Forge.Diff(ctx, l.Tree())
		differs(paths...)
		return err
	})
	group.Go(func() error {
		has, err := l.Forge.HasWebhook(ctx, l.webhookOf(bridge.Estate), l.Creds.WebhookSecret)
		if err == nil && !has {
			differs("the webhook to the engine is gone")
		}
		return err
	})
	for _, m := range l.mirrors() {
		group.Go(func() error {
			seen, err := l.Forge.Mirrored(ctx, m, l.webhookOf(m.Name), l.Creds.WebhookSecret)
			differs(seen.Differs...)
			mu.Lock()
			defer mu.Unlock()
			s.heads[m.Name] = seen.Commit
			return err
		})
	}
	group.Go(func() error {
		charts, err := l.chartsAtHand(ctx)
		if err != nil {
			return err
		}
		missing, err := l.Forge.MissingCharts(ctx, charts)
		for _, m := range missing {
			differs("chart " + m + " is not in the forge")
		}
		return err
	})
	group.Go(func() error {
		if record, _ := l.Dir.Forge(); record.Head == f.Revision {
			return nil // nobody has committed in between
		}
		s.only, err = l.Forge.Ahead(ctx, l.Tree())
		s.asked = err == nil
		return err
	})
	err = group.Wait()
	slices.Sort(s.Estate)
	return err
}

// chartsAtHand are the addons' charts that the forge can be asked for without fetching any.
func (l *Lab) chartsAtHand(ctx context.Context) ([]lab.Chart, error) {
	var charts []lab.Chart
	for _, n := range l.addonCharts() {
		if !l.Supply.AtHand("", n.chart, n.version) {
			continue
		}
		chart, err := l.Supply.Chart(ctx, n.chart, n.version, silent)
		if err != nil {
			return nil, err
		}
		charts = append(charts, chart)
	}
	return charts, nil
}

func (l *Lab) observeClusters(ctx context.Context, s *Seen) error {
	states, err := l.Clusters.Observe(ctx)
	if err != nil {
		return err
	}
	s.Clusters = map[string]lab.ClusterState{}
	for _, c := range states {
		s.Clusters[c.Name] = c
	}
	if hub := s.Clusters[l.hubName()]; !hub.Answers {
		return nil
	}
	if err := l.observeHub(ctx, s); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// It answered a moment ago and does not now: what it holds is unknown, not absent.
		s.Hub, s.Engine, s.Bridge, s.Registered, s.Root, s.Strayed = false, plan.Engine{}, nil, nil, false, nil
		s.engine, s.standing = engine.State{}, engine.Standing{}
	}
	return nil
}

// observeHub asks the engine.
func (l *Lab) observeHub(ctx context.Context, s *Seen) error {
	e, err := l.Engine()
	if err != nil {
		return err
	}
	if s.engine, err = e.Observe(ctx); err != nil {
		return err
	}
	s.Engine = plan.Engine{Installed: s.engine.Revision > 0, Ready: s.engine.Ready, Waiting: s.engine.Waiting, Inputs: s.engine.Inputs, Status: s.engine.Release}
	s.Bridge = map[string][]string{}
	for _, r := range s.engine.Registrations {
		s.Registered = append(s.Registered, r.Cluster)
		if want, err := l.registration(r.Cluster); err == nil {
			s.Bridge[r.Cluster] = engine.Diff(want, r)
		}
	}
	refused, err := l.refused(ctx, e, s)
	if err != nil {
		return err
	}
	for cluster, why := range refused {
		s.Bridge[cluster] = append(s.Bridge[cluster], why)
	}
	s.standing = engine.Standing{Behind: func(engine.Want, []engine.Registered) []string { return nil }}
	if s.Engine.Installed {
		if s.standing, err = e.Standing(ctx); err != nil {
			return err
		}
	}
	if s.standing.Root {
		root, err := l.root()
		if err != nil {
			return err
		}
		if s.Strayed, err = e.Strayed(ctx, root, l.repositories()); err != nil {
			return err
		}
	}
	s.Root, s.Hub = s.standing.Root, true
	return nil
}

// refused are the clusters that run and do not let the engine in, with the reason. One that cannot be asked is not among them.
func (l *Lab) refused(ctx context.Context, e Engine, s *Seen) (map[string]string, error) {
	var mu sync.Mutex
	why := map[string]string{}
	group, ctx := errgroup.WithContext(ctx)
	for name := range s.Bridge {
		if name == l.hubName() || !s.Clusters[name].Ready {
			continue // the hub itself, or one that another step is about
		}
		spoke, err := l.Clusters.RESTConfig(name)
		if err != nil {
			continue
		}
		group.Go(func() error {
			reason, err := e.Admits(ctx, name, spoke)
			if reason != "" {
				mu.Lock()
				defer mu.Unlock()
				why[name] = reason
			}
			return err
		})
	}
	return why, group.Wait()
}
