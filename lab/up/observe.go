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

// Seen is the observed state, including details reused by steps.
type Seen struct {
	plan.Observed
	Lost []state.ForgeCommit // commits lost with the forge's volume

	former     engine.Definition // of the engine to replace; zero for none
	recorded   bool              // an engine is in the lab's record
	engine     engine.State
	standing   engine.Snapshot
	forge      forge.State
	ahead      []forge.Commit // commits missing from the working tree
	aheadKnown bool           // ahead is valid

	heads     map[string]string   // mirror -> commit of its branch
	contested map[string][]string // attached cluster -> applications of its owner's engine that would prune the lab's objects

	contestsUnknown map[string]error // attached cluster -> why these are unknown
	docker          state.Docker     // that was observed
}

// Observe reads, in parallel, the state of everything that a run may change. It has no side effects.
func (l *Lab) Observe(ctx context.Context, o Options) (*Seen, error) {
	clusters := l.clusters(o)
	s := &Seen{heads: map[string]string{}}
	s.Expected = applicationNames(l.expected(clusters))
	s.Supplied, s.Missing = l.supplied(clusters)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { s.docker, err = l.machine(ctx); return err })
	group.Go(func() (err error) { s.Network, err = l.Clusters.HasNetwork(ctx); return err })
	group.Go(func() error { return l.observeForge(ctx, s) })
	group.Go(func() error { return l.observeParts(ctx, s) })
	group.Go(func() error { return l.observeClusters(ctx, s) })
	group.Go(func() error { s.contested, s.contestsUnknown = l.contested(ctx, clusters); return ctx.Err() })
	if err := group.Wait(); err != nil {
		return s, err
	}
	out := l.leftOut()
	want := engine.Want{Revision: s.forge.Revision, Heads: l.heads(s.forge.Revision, s.heads), Clusters: l.waitedFor(o, s), Since: startTimes(s.Clusters), LeftOut: slices.Collect(maps.Keys(out))}
	s.Applications = slices.DeleteFunc(l.withoutLeftOut(s.standing.Applications), func(a lab.Application) bool {
		return !want.WaitsFor(a.Cluster) || out[a.Name] != "" && !a.Converged()
	})
	if s.Hub && want.Revision != "" { // catches a push made since
		s.Behind = s.standing.Behind(want, s.engine.Registrations)
	}
	return s, nil
}

// startTimes returns the last start time of each cluster, where known.
func startTimes(clusters map[string]lab.ClusterState) map[string]time.Time {
	since := map[string]time.Time{}
	for name, c := range clusters {
		since[name] = c.Started
	}
	return since
}

// waitedFor returns the clusters whose applications the run waits for, or nil for all known to the hub.
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

// supplied returns the number of images and charts available locally, and the names of the missing ones.
func (l *Lab) supplied(clusters []lab.Cluster) (int, []string) {
	have := 0
	var missing []string
	for _, n := range l.needs(clusters) {
		if l.Supply.Present(n.image, n.chart, n.version) {
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
	s.Forge = plan.Forge{Exists: f.Exists, Running: f.Running, Answers: f.Answers, Prepared: f.Prepared, Guarded: f.Guarded, Inputs: f.Inputs}
	if record, made := l.Dir.Forge(); made && (!f.Volume || f.Empty && record.Head != "") {
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
		url, also := l.webhookOf(bridge.Estate)
		has, err := l.Forge.HasWebhook(ctx, url, l.Creds.WebhookSecret, also...)
		if err == nil && !has {
			differs("the webhook to the engine is gone")
		}
		return err
	})
	for _, m := range l.mirrors() {
		group.Go(func() error {
			url, also := l.webhookOf(m.Name)
			seen, err := l.Forge.Mirrored(ctx, m, url, l.Creds.WebhookSecret, also...)
			differs(seen.Differs...)
			mu.Lock()
			defer mu.Unlock()
			s.heads[m.Name] = seen.Commit
			return err
		})
	}
	group.Go(func() error {
		charts, err := l.ChartsAtHand(ctx)
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
			return nil // no commits since
		}
		s.ahead, err = l.Forge.Ahead(ctx, l.Tree())
		s.aheadKnown = err == nil
		return err
	})
	err = group.Wait()
	slices.Sort(s.Estate)
	return err
}

// ChartsAtHand returns the addons' charts of lab's own that are on this machine.
func (l *Lab) ChartsAtHand(ctx context.Context) ([]lab.Chart, error) {
	var charts []lab.Chart
	for _, n := range l.addonCharts() {
		if !l.Supply.Present("", n.chart, n.version) {
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
	s.Clusters = byName(states)
	if err := l.recordedFormer(s); err != nil {
		return err
	}
	s.Engines = l.engines(ctx, s.Clusters)
	if err := l.observeNodes(ctx, s); err != nil {
		return err
	}
	if hub := s.Clusters[l.hubName()]; !hub.Answers {
		return nil
	}
	if err := l.observeHub(ctx, s); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// The hub stopped answering during the observation: its contents are unknown, not absent.
		s.Hub, s.Engine, s.Bridge, s.Registered, s.Root, s.Drift = false, plan.Engine{}, nil, nil, false, nil
		s.engine, s.standing = engine.State{}, engine.Snapshot{}
	}
	return nil
}

// observeNodes finds the running clusters with nodes that are not configured for the registry. One that does not answer is repaired by its step, which
// configures it, too.
func (l *Lab) observeNodes(ctx context.Context, s *Seen) error {
	if l.Registry.Host == "" {
		return nil
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for name, c := range s.Clusters {
		if !c.Answers || c.Made == lab.MadeHalf {
			continue
		}
		group.Go(func() error {
			if knows, err := l.Clusters.Knows(ctx, name, l.Registry); err != nil || !knows { // its step fails if a node does not answer
				mu.Lock()
				defer mu.Unlock()
				s.Unfamiliar = append(s.Unfamiliar, name)
			}
			return ctx.Err()
		})
	}
	err := group.Wait()
	slices.Sort(s.Unfamiliar)
	return err
}

// observeHub reads the state of the engine.
func (l *Lab) observeHub(ctx context.Context, s *Seen) error {
	e, err := l.Engine()
	if err != nil {
		return err
	}
	if s.engine, err = e.Observe(ctx); err != nil {
		return err
	}
	s.Engine = engineState(s.engine)
	s.Bridge = map[string][]string{}
	for _, r := range s.engine.Registrations {
		s.Registered = append(s.Registered, r.Cluster)
		if want, err := l.registration(r.Cluster); err == nil {
			s.Bridge[r.Cluster] = engine.Diff(want, r)
		}
	}
	refused, err := l.rejections(ctx, e, s)
	if err != nil {
		return err
	}
	for cluster, why := range refused {
		s.Bridge[cluster] = append(s.Bridge[cluster], why)
	}
	for cluster := range s.Bridge {
		s.Bridge[cluster] = append(s.Bridge[cluster], l.missingNamespaces(s.Clusters[cluster])...)
	}
	s.standing = engine.Snapshot{Behind: func(engine.Want, []engine.Registered) []string { return nil }}
	if s.Engine.Installed {
		if s.standing, err = e.Snapshot(ctx); err != nil {
			return err
		}
	}
	if s.standing.Root {
		root, err := l.root()
		if err != nil {
			return err
		}
		repositories, err := l.repositories()
		if err != nil {
			return err
		}
		if s.Drift, err = e.Drift(ctx, root, repositories); err != nil {
			return err
		}
	}
	s.Root, s.Hub = s.standing.Root, true
	return l.installedFormer(ctx, s)
}

// missingNamespaces describes the namespaces that a cluster lacks, if it answers.
func (l *Lab) missingNamespaces(s lab.ClusterState) []string {
	c, _ := l.Estate.Cluster(s.Name)
	var list []string
	for _, ns := range c.Namespaces {
		if s.Answers && !slices.Contains(s.Namespaces, ns) {
			list = append(list, "namespace "+ns+" is missing")
		}
	}
	return list
}

// rejections returns, by name, why running clusters reject the engine's credentials. Unreachable clusters are omitted.
func (l *Lab) rejections(ctx context.Context, e Engine, s *Seen) (map[string]string, error) {
	var mu sync.Mutex
	why := map[string]string{}
	group, ctx := errgroup.WithContext(ctx)
	for name := range s.Bridge {
		if name == l.hubName() || !s.Clusters[name].Ready {
			continue // the hub itself, or a cluster repaired by another step
		}
		spoke, err := l.Clusters.RESTConfig(name)
		if err != nil {
			continue
		}
		group.Go(func() error {
			reason, err := e.CheckCredentials(ctx, name, spoke)
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
