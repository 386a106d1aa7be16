package up_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/engine"
	"homelab/lab/engine/argocd"
	"homelab/lab/engine/enginetest"
	"homelab/lab/forge"
	"homelab/lab/forge/forgetest"
	"homelab/lab/plan"
	"homelab/lab/service"
	"homelab/lab/service/servicetest"
	"homelab/lab/up"
)

// hubEngine is an engine with the inputs of its release.
type hubEngine struct {
	*enginetest.Fake
	mu     sync.Mutex
	inputs string
}

// calledClusters routes every call through the process.
type calledClusters struct {
	*clustertest.Fake
	p *process
}

func (c *calledClusters) HasNetwork(ctx context.Context) (ok bool, err error) {
	err = c.p.call("clusters.has-network", func() (err error) { ok, err = c.Fake.HasNetwork(ctx); return err })
	return ok, err
}

func (c *calledClusters) EnsureNetwork(ctx context.Context) error {
	return c.p.call("clusters.ensure-network", func() error { return c.Fake.EnsureNetwork(ctx) })
}

func (c *calledClusters) RemoveNetwork(ctx context.Context) error {
	return c.p.call("clusters.remove-network", func() error { return c.Fake.RemoveNetwork(ctx) })
}

func (c *calledClusters) RESTConfig(name string) (cfg *rest.Config, err error) {
	err = c.p.call("clusters.rest-config "+name, func() (err error) { cfg, err = c.Fake.RESTConfig(name); return err })
	return cfg, err
}

func (c *calledClusters) EnsureSubnet(ctx context.Context, subnet string) error {
	return c.p.call("clusters.ensure-subnet", func() error { return c.Fake.EnsureSubnet(ctx, subnet) })
}

func (c *calledClusters) Observe(ctx context.Context, names ...string) (list []lab.ClusterState, err error) {
	err = c.p.call(strings.Join(append([]string{"clusters.observe"}, names...), " "), func() (err error) { list, err = c.Fake.Observe(ctx, names...); return err })
	return list, err
}

func (c *calledClusters) Create(ctx context.Context, spec cluster.Spec, p lab.Progress) error {
	return c.p.call("clusters.create "+spec.Cluster.Name, func() error { return c.Fake.Create(ctx, spec, p) })
}

func (c *calledClusters) Start(ctx context.Context, name string, p lab.Progress) error {
	return c.p.call("clusters.start "+name, func() error { return c.Fake.Start(ctx, name, p) })
}

func (c *calledClusters) Load(ctx context.Context, name string, images []lab.Image, p lab.Progress) error {
	return c.p.call("clusters.load "+name, func() error { return c.Fake.Load(ctx, name, images, p) })
}

func (c *calledClusters) Mark(ctx context.Context, name, inputs string, images []string) error {
	return c.p.call("clusters.mark "+name, func() error { return c.Fake.Mark(ctx, name, inputs, images) })
}

func (c *calledClusters) EnsureNamespaces(ctx context.Context, name string, namespaces []string, p lab.Progress) (made []string, err error) {
	err = c.p.call("clusters.ensure-namespaces "+name, func() (err error) { made, err = c.Fake.EnsureNamespaces(ctx, name, namespaces, p); return err })
	return made, err
}

func (c *calledClusters) Introduce(ctx context.Context, name string, r lab.Registry, p lab.Progress) error {
	return c.p.call("clusters.introduce "+name, func() error { return c.Fake.Introduce(ctx, name, r, p) })
}

func (c *calledClusters) Knows(ctx context.Context, name string, r lab.Registry) (knows bool, err error) {
	err = c.p.call("clusters.knows "+name, func() (err error) { knows, err = c.Fake.Knows(ctx, name, r); return err })
	return knows, err
}

func (c *calledClusters) Record(ctx context.Context, name, inputs string) error {
	return c.p.call("clusters.record "+name, func() error { return c.Fake.Record(ctx, name, inputs) })
}

func (c *calledClusters) Delete(ctx context.Context, name string) error {
	return c.p.call("clusters.delete "+name, func() error { return c.Fake.Delete(ctx, name) })
}

func (c *calledClusters) Forget(ctx context.Context, name string) error {
	return c.p.call("clusters.forget "+name, func() error { return c.Fake.Forget(ctx, name) })
}

// server is the forge of a stage. It serializes calls.
type server struct {
	*forgetest.Fake
	mu     sync.Mutex
	estate string // digest of the working tree
}

// diffs caches Diff by the digests of both trees.
var diffs sync.Map

func (s *server) locked(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return do()
}

func (s *server) Stop() { _ = s.locked(func() error { s.Fake.Stop(); return nil }) }

func (s *server) Observe(ctx context.Context) (st forge.State, err error) {
	err = s.locked(func() (err error) { st, err = s.Fake.Observe(ctx); return err })
	return st, err
}

func (s *server) Diff(ctx context.Context, tree forge.Tree) (list []string, err error) {
	err = s.locked(func() (err error) {
		key := s.Tree() + " " + s.estate
		if known, ok := diffs.Load(key); ok && key[0] != ' ' {
			_, err = s.Fake.HasWebhook(ctx, "", "") // fails unless the forge answers
			list = slices.Clone(known.([]string))
			return err
		}
		if list, err = s.Fake.Diff(ctx, tree); err == nil {
			diffs.Store(key, slices.Clone(list))
		}
		return err
	})
	return list, err
}

func (s *server) Ahead(ctx context.Context, tree forge.Tree) (list []forge.Commit, err error) {
	err = s.locked(func() (err error) { list, err = s.Fake.Ahead(ctx, tree); return err })
	return list, err
}

func (s *server) MissingCharts(ctx context.Context, charts []lab.Chart) (list []string, err error) {
	err = s.locked(func() (err error) { list, err = s.Fake.MissingCharts(ctx, charts); return err })
	return list, err
}

func (s *server) HasWebhook(ctx context.Context, url, secret string, also ...string) (has bool, err error) {
	err = s.locked(func() (err error) { has, err = s.Fake.HasWebhook(ctx, url, secret, also...); return err })
	return has, err
}

func (s *server) Mirrored(ctx context.Context, m forge.Mirror, url, secret string, also ...string) (seen forge.Mirrored, err error) {
	err = s.locked(func() (err error) { seen, err = s.Fake.Mirrored(ctx, m, url, secret, also...); return err })
	return seen, err
}

// calledForge routes every call through the process.
type calledForge struct {
	*server
	p *process
}

func (f *calledForge) Observe(ctx context.Context) (s forge.State, err error) {
	err = f.p.call("forge.observe", func() (err error) { s, err = f.server.Observe(ctx); return err })
	return s, err
}

func (f *calledForge) Foreign(ctx context.Context, tree forge.Tree, mirrors []forge.Mirror) (found forge.Foreign, err error) {
	err = f.p.call("forge.foreign", func() error {
		return f.locked(func() (err error) { found, err = f.Fake.Foreign(ctx, tree, mirrors); return err })
	})
	return found, err
}

func (f *calledForge) Wake(ctx context.Context) (woken bool, err error) {
	err = f.p.call("forge.wake", func() error {
		return f.locked(func() (err error) { woken, err = f.Fake.Wake(ctx); return err })
	})
	return woken, err
}

func (f *calledForge) Diff(ctx context.Context, tree forge.Tree) (list []string, err error) {
	err = f.p.call("forge.diff", func() (err error) { list, err = f.server.Diff(ctx, tree); return err })
	return list, err
}

func (f *calledForge) Ahead(ctx context.Context, tree forge.Tree) (list []forge.Commit, err error) {
	err = f.p.call("forge.ahead", func() (err error) { list, err = f.server.Ahead(ctx, tree); return err })
	return list, err
}

func (f *calledForge) MissingCharts(ctx context.Context, charts []lab.Chart) (list []string, err error) {
	err = f.p.call("forge.missing-charts", func() (err error) { list, err = f.server.MissingCharts(ctx, charts); return err })
	return list, err
}

func (f *calledForge) HasWebhook(ctx context.Context, url, secret string, also ...string) (has bool, err error) {
	err = f.p.call("forge.has-webhook", func() (err error) { has, err = f.server.HasWebhook(ctx, url, secret, also...); return err })
	return has, err
}

func (f *calledForge) Mirrored(ctx context.Context, m forge.Mirror, url, secret string, also ...string) (seen forge.Mirrored, err error) {
	err = f.p.call("forge.mirrored", func() (err error) { seen, err = f.server.Mirrored(ctx, m, url, secret, also...); return err })
	return seen, err
}

func (f *calledForge) Mirror(ctx context.Context, m forge.Mirror, url, secret string, also ...string) (res forge.PushResult, err error) {
	err = f.p.call("forge.mirror", func() error {
		return f.locked(func() (err error) { res, err = f.Fake.Mirror(ctx, m, url, secret, also...); return err })
	})
	return res, err
}

func (f *calledForge) Start(ctx context.Context, spec forge.Spec, port int, p lab.Progress) error {
	return f.p.call("forge.start", func() error { return f.locked(func() error { return f.Fake.Start(ctx, spec, port, p) }) })
}

func (f *calledForge) Remove(ctx context.Context) error {
	return f.p.call("forge.remove", func() error { return f.locked(func() error { return f.Fake.Remove(ctx) }) })
}

func (f *calledForge) Push(ctx context.Context, tree forge.Tree, message string) (r forge.PushResult, err error) {
	err = f.p.call("forge.push", func() error {
		return f.locked(func() (err error) { r, err = f.Fake.Push(ctx, tree, message); return err })
	})
	return r, err
}

func (f *calledForge) PublishCharts(ctx context.Context, charts []lab.Chart) (list []string, err error) {
	err = f.p.call("forge.publish", func() error {
		return f.locked(func() (err error) { list, err = f.Fake.PublishCharts(ctx, charts); return err })
	})
	return list, err
}

func (f *calledForge) EnsureWebhook(ctx context.Context, url, secret string, also ...string) (changed bool, err error) {
	err = f.p.call("forge.webhook", func() error {
		return f.locked(func() (err error) { changed, err = f.Fake.EnsureWebhook(ctx, url, secret, also...); return err })
	})
	return changed, err
}

// parts returns the parts of a lab: one that the clusters need, and one that needs them.
func (p *process) parts() []up.Part {
	var list []up.Part
	for i, f := range p.stage.parts {
		part := up.Part{Part: plan.Part{Name: f.Name, Wanted: p.wanted, First: i == 0}, Images: []string{f.Name}, Service: &calledPart{f, p}}
		if f.Keeps {
			part.Keeps = "what was pushed to it"
		} else {
			part.Needs, part.Charts, part.Passing = []string{"cluster/hub"}, true, true
		}
		list = append(list, part)
	}
	return list
}

// calledPart routes every call through the process.
type calledPart struct {
	*servicetest.Fake
	p *process
}

func (c *calledPart) Observe(ctx context.Context) (s service.State, err error) {
	err = c.p.call(c.Name+".observe", func() (err error) { s, err = c.Fake.Observe(ctx); return err })
	return s, err
}

func (c *calledPart) Start(ctx context.Context, p lab.Progress, images ...lab.Image) error {
	return c.p.call(c.Name+".start", func() error { return c.Fake.Start(ctx, p, images...) })
}

func (c *calledPart) Remove(ctx context.Context) error {
	return c.p.call(c.Name+".remove", func() error { return c.Fake.Remove(ctx) })
}

// calledEngine routes every call through the process. It answers while its hub does, and follows the forge.
type calledEngine struct {
	*hubEngine
	p    *process
	hub  string
	name string // "engine" or "former"
}

func (e *calledEngine) call(name string, do func() error) error {
	return e.p.call(e.name+"."+name, func() error {
		states, err := e.p.clusters.Observe(context.Background(), "hub")
		if err != nil || len(states) == 0 || !states[0].Answers || e.p.clusters.Identity("hub") != e.hub {
			return errors.New("the hub does not answer")
		}
		if s, err := e.p.forge.Observe(context.Background()); err == nil && s.Answers {
			e.Commit(s.Revision)
		}
		return do()
	})
}

func (e *calledEngine) Observe(ctx context.Context) (s engine.State, err error) {
	err = e.call("observe", func() (err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		s, err = e.Fake.Observe(ctx)
		s.Inputs = e.inputs
		return err
	})
	return s, err
}

func (e *calledEngine) Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (changed bool, err error) {
	err = e.call("install", func() (err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if changed, err = e.Fake.Install(ctx, chart, values, p); err == nil {
			e.inputs, err = argocd.Inputs(chart, values)
		}
		return err
	})
	return changed, err
}

func (e *calledEngine) Retire(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) error {
	return e.call("retire "+strings.Join(slices.Sorted(maps.Keys(spokes)), " "), func() error { return e.Fake.Retire(ctx, spokes, p) })
}

func (e *calledEngine) Register(ctx context.Context, reg lab.Registration, spoke *rest.Config) (list []string, err error) {
	err = e.call("register "+reg.Cluster, func() (err error) { list, err = e.Fake.Register(ctx, reg, spoke); return err })
	return list, err
}

func (e *calledEngine) CheckCredentials(ctx context.Context, name string, spoke *rest.Config) (why string, err error) {
	err = e.call("check-credentials "+name, func() (err error) { why, err = e.Fake.CheckCredentials(ctx, name, spoke); return err })
	return why, err
}

func (e *calledEngine) Unregister(ctx context.Context, d engine.Departure, p lab.Progress) (list []string, err error) {
	err = e.call("unregister "+d.Cluster, func() (err error) { list, err = e.Fake.Unregister(ctx, d, p); return err })
	return list, err
}

func (e *calledEngine) Withdraw(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) (list []string, err error) {
	err = e.call("withdraw", func() (err error) { list, err = e.Fake.Withdraw(ctx, spokes, p); return err })
	return list, err
}

func (e *calledEngine) ApplyRepositories(ctx context.Context, repos []engine.Repository) (list []string, err error) {
	err = e.call("repositories", func() (err error) { list, err = e.Fake.ApplyRepositories(ctx, repos); return err })
	return list, err
}

func (e *calledEngine) ApplyRoot(ctx context.Context, root engine.Root) (changed bool, err error) {
	err = e.call("root", func() (err error) { changed, err = e.Fake.ApplyRoot(ctx, root); return err })
	return changed, err
}

func (e *calledEngine) Drift(ctx context.Context, root engine.Root, repos []engine.Repository) (list []string, err error) {
	err = e.call("drift", func() (err error) { list, err = e.Fake.Drift(ctx, root, repos); return err })
	return list, err
}

func (e *calledEngine) Snapshot(ctx context.Context) (s engine.Snapshot, err error) {
	err = e.call("snapshot", func() (err error) { s, err = e.Fake.Snapshot(ctx); return err })
	return s, err
}

func (e *calledEngine) WaitConverged(ctx context.Context, want engine.Want, p lab.Progress) (apps []lab.Application, err error) {
	err = e.call("wait", func() (err error) { apps, err = e.Fake.WaitConverged(ctx, want, p); return err })
	return apps, err
}

// calledSupply routes every call through the process. Once requested, an image or chart is available locally.
type calledSupply struct {
	supply
	p *process
}

func (s *calledSupply) Image(ctx context.Context, name string, p lab.Progress) (img lab.Image, err error) {
	err = s.p.call("supply.image "+name, func() (err error) { img, err = s.supply.Image(ctx, name, p); return err })
	if err == nil {
		s.p.atHand.Store(name, true)
	}
	return img, err
}

func (s *calledSupply) Chart(ctx context.Context, name, version string, p lab.Progress) (c lab.Chart, err error) {
	err = s.p.call("supply.chart "+name+" "+version, func() (err error) { c, err = s.supply.Chart(ctx, name, version, p); return err })
	if err == nil {
		s.p.atHand.Store(name+" "+version, true)
	}
	return c, err
}

func (s *calledSupply) Expect(names ...string) error {
	return s.p.call("supply.expect", func() error { return s.supply.Expect(names...) })
}

func (s *calledSupply) Present(image, chart, version string) bool {
	if image == "" {
		image = chart + " " + version
	}
	_, has := s.p.atHand.Load(image)
	return has || !s.p.fetches
}

// calledContainers routes every call through the process and records loaded images.
type calledContainers struct {
	containers
	p *process
}

func (c *calledContainers) ID(context.Context) (string, error) { return c.p.docker, nil }

func (c *calledContainers) Endpoint(context.Context) (string, error) {
	return "unix:///" + c.p.docker, nil
}

func (c *calledContainers) LoadImage(_ context.Context, img lab.Image, _ lab.Progress) error {
	return c.p.call("containers.load "+img.Name, func() error { c.p.loaded.Store(img.Name, true); return nil })
}
