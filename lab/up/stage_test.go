package up_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/engine"
	"homelab/lab/engine/argocd"
	"homelab/lab/engine/enginetest"
	"homelab/lab/estate"
	"homelab/lab/forge"
	"homelab/lab/forge/forgetest"
	"homelab/lab/state"
	"homelab/lab/up"
)

// stage is a machine with one lab's things on it, in memory. Processes come and go; what they made stays.
type stage struct {
	t        *testing.T
	dir      *state.Dir
	estate   *lab.Estate
	machine  *clustertest.Engine
	clusters *clustertest.Fake
	forge    *server
	shelf    *shelf
	mu       sync.Mutex
	engines  map[string]*hubEngine // by the identity of the hub that they run in
}

// hubEngine is an engine with what the adapter knows of its release.
type hubEngine struct {
	*enginetest.Fake
	inputs string
}

var credentials = state.Credentials{ForgeUser: "lab", ForgePassword: "f", EngineUser: "admin", EnginePassword: "a", EngineHash: "h", WebhookSecret: "w"}

// newStage is a machine on which the lab was never up. Its estate is the default one with a hub, two spokes and one addon.
func newStage(t *testing.T) *stage {
	t.Helper()
	root := t.TempDir()
	s := &stage{
		t: t, dir: &state.Dir{Lab: "demo", Path: filepath.Join(root, "state")}, machine: clustertest.NewEngine(),
		forge: &server{Fake: &forgetest.Fake{Dir: filepath.Join(root, "forge.git")}}, engines: map[string]*hubEngine{},
	}
	s.clusters = clustertest.NewFake(s.machine, s.dir)
	s.shelf = newShelf(s)
	dir := filepath.Join(root, "estate")
	for _, part := range []string{"clusters", "environments", "addons/podinfo", "addons/root.yaml"} {
		copyInto(t, filepath.Join("..", "..", part), filepath.Join(dir, part))
	}
	for _, gone := range []string{"clusters/staging", "environments/staging"} {
		must(t, os.RemoveAll(filepath.Join(dir, gone)))
	}
	for _, name := range []string{"hub", "dev", "prod"} { // podinfo alone
		file := filepath.Join(dir, lab.ClusterFile(name))
		text, err := os.ReadFile(file)
		must(t, err)
		for _, addon := range []string{"metrics-server", "identity"} {
			text = []byte(strings.NewReplacer("\n    "+addon+": true", "", ", "+addon+": true", "", addon+": true, ", "", addon+": true", "").Replace(string(text)))
		}
		must(t, os.WriteFile(file, text, 0o644))
	}
	s.load()
	s.credentials()
	return s
}

func (s *stage) load() {
	s.t.Helper()
	dir := filepath.Join(filepath.Dir(s.dir.Path), "estate")
	est, err := estate.Load(os.DirFS(dir), dir, "demo")
	must(s.t, err)
	s.estate = est
}

// credentials are those of every stage: hashing one costs more than the rest of a case.
func (s *stage) credentials() {
	s.t.Helper()
	text, err := json.Marshal(credentials)
	must(s.t, err)
	must(s.t, s.dir.Create())
	must(s.t, os.WriteFile(filepath.Join(s.dir.Path, "credentials.json"), text, 0o600))
}

func copyInto(t *testing.T, from, to string) {
	t.Helper()
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		must(t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	text, err := os.ReadFile(from)
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	must(t, os.WriteFile(to, text, 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// process is one run of the program on a stage. Its calls to the adapters pass through hit.
type process struct {
	*stage
	mu    sync.Mutex
	calls []string
	dead  bool
	hit   func(n int, call string) effect // may be nil
}

// call passes one call of an adapter.
func (p *process) call(name string, do func() error) error {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return clustertest.ErrKilled
	}
	n := len(p.calls)
	p.calls = append(p.calls, name)
	p.mu.Unlock()
	if p.hit == nil {
		return do()
	}
	e := p.hit(n, name)
	if e.before != nil {
		return e.before
	}
	err := do()
	if e.after != nil {
		return e.after()
	}
	return err
}

// effect is what a fault does to one call.
type effect struct {
	before error        // ends the call before it has an effect
	after  func() error // ends it afterwards
	loses  []string     // clusters that the fault itself takes
}

// kill ends the process: none of its calls has an effect any more.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

// lab is the core as this process has it.
func (p *process) lab() *up.Lab {
	clusters := clustertest.NewFake(p.machine, p.dir)
	clusters.Fail = func(call, _ string) error {
		if strings.Contains(call, "/") { // within a call
			return p.call("clusters."+call, func() error { return nil })
		}
		return nil
	}
	l := &up.Lab{
		Name: "demo", Estate: p.estate, Dir: p.dir, Ports: state.Ports{Engine: 8080, Forge: 3000}, Creds: credentials,
		Clusters: &calledClusters{clusters, p}, Forge: &calledForge{p.forge, p}, Supply: supply{}, Containers: containers{},
		Snapshots: &calledSnapshots{p.shelf, p}, Definition: argocd.Definition(),
	}
	l.Connect = func() (up.Engine, error) {
		id := clusters.Identity("hub")
		if id == "" {
			return nil, errors.New("the hub does not exist")
		}
		p.stage.mu.Lock()
		defer p.stage.mu.Unlock()
		e := p.engines[id]
		if e == nil {
			e = &hubEngine{Fake: enginetest.NewFake()}
			p.engines[id] = e
		}
		return &calledEngine{e, p, id}, nil
	}
	return l
}

// up is what the command does.
func (p *process) up(ctx context.Context, o up.Options) (changed []string, err error) {
	l := p.lab()
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	seen, err := l.Observe(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := l.Remember(ctx, seen); err != nil {
		return nil, err
	}
	steps := l.Plan(ctx, o, seen)
	if err := up.Allowed(o, steps); err != nil {
		return nil, err
	}
	result, err := l.Apply(ctx, o, seen, steps, nil)
	return result.Changes, err
}

// supply has everything at hand.
type supply struct{}

func (supply) Image(_ context.Context, name string, _ lab.Progress) (lab.Image, error) {
	return lab.Image{Name: name, Ref: "example.org/" + name + ":1", Digest: "sha256:" + name}, nil
}

func (supply) Chart(_ context.Context, name, version string, _ lab.Progress) (lab.Chart, error) {
	return lab.Chart{Name: name, Version: version, Digest: "sha256:" + name + version}, nil
}
func (supply) Expect(...string) error            { return nil }
func (supply) Left() time.Duration               { return 0 }
func (supply) AtHand(_, _, _ string) bool        { return true }
func (supply) Ref(image string) string           { return "example.org/" + image + ":1" }
func (supply) Key(image string) string           { return image }
func (supply) Version(string) string             { return "v1.36.3" }
func (supply) ChartVersion(string) string        { return "3.2.11" }
func (supply) HasChart(_, _ string) bool         { return true }
func (supply) ImagesOf(chart, _ string) []string { return []string{chart} }

type containers struct{}

func (containers) LoadImage(context.Context, lab.Image, lab.Progress) error { return nil }

func (containers) Published(context.Context, string) (map[string]map[string]string, error) {
	return nil, nil
}

// calledClusters passes every call on through the process.
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

func (c *calledClusters) EnsureSubnet(ctx context.Context, subnet string) error {
	return c.p.call("clusters.ensure-subnet", func() error { return c.Fake.EnsureSubnet(ctx, subnet) })
}

func (c *calledClusters) Observe(ctx context.Context, names ...string) (list []lab.ClusterState, err error) {
	err = c.p.call("clusters.observe", func() (err error) { list, err = c.Fake.Observe(ctx, names...); return err })
	return list, err
}

func (c *calledClusters) Create(ctx context.Context, spec cluster.Spec, p lab.Progress) error {
	return c.p.call("clusters.create", func() error { return c.Fake.Create(ctx, spec, p) })
}

func (c *calledClusters) Start(ctx context.Context, name string, p lab.Progress) error {
	return c.p.call("clusters.start", func() error { return c.Fake.Start(ctx, name, p) })
}

func (c *calledClusters) Load(ctx context.Context, name string, images []lab.Image, p lab.Progress) error {
	return c.p.call("clusters.load", func() error { return c.Fake.Load(ctx, name, images, p) })
}

func (c *calledClusters) Mark(ctx context.Context, name, inputs string, images []string) error {
	return c.p.call("clusters.mark", func() error { return c.Fake.Mark(ctx, name, inputs, images) })
}

func (c *calledClusters) Record(ctx context.Context, name, inputs string) error {
	return c.p.call("clusters.record", func() error { return c.Fake.Record(ctx, name, inputs) })
}

func (c *calledClusters) Delete(ctx context.Context, name string) error {
	return c.p.call("clusters.delete", func() error { return c.Fake.Delete(ctx, name) })
}

// server is the forge of a stage, which answers one call at a time.
type server struct {
	*forgetest.Fake
	mu sync.Mutex
}

func (s *server) one(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return do()
}

func (s *server) Stop() { _ = s.one(func() error { s.Fake.Stop(); return nil }) }

func (s *server) Observe(ctx context.Context) (st forge.State, err error) {
	err = s.one(func() (err error) { st, err = s.Fake.Observe(ctx); return err })
	return st, err
}

func (s *server) Diff(ctx context.Context, tree forge.Tree) (list []string, err error) {
	err = s.one(func() (err error) { list, err = s.Fake.Diff(ctx, tree); return err })
	return list, err
}

func (s *server) Ahead(ctx context.Context, tree forge.Tree) (list []forge.Commit, err error) {
	err = s.one(func() (err error) { list, err = s.Fake.Ahead(ctx, tree); return err })
	return list, err
}

func (s *server) MissingCharts(ctx context.Context, charts []lab.Chart) (list []string, err error) {
	err = s.one(func() (err error) { list, err = s.Fake.MissingCharts(ctx, charts); return err })
	return list, err
}

func (s *server) HasWebhook(ctx context.Context, url, secret string) (has bool, err error) {
	err = s.one(func() (err error) { has, err = s.Fake.HasWebhook(ctx, url, secret); return err })
	return has, err
}

func (s *server) Mirrored(ctx context.Context, m forge.Mirror, url, secret string) (seen forge.Mirrored, err error) {
	err = s.one(func() (err error) { seen, err = s.Fake.Mirrored(ctx, m, url, secret); return err })
	return seen, err
}

// calledForge does the same for the forge.
type calledForge struct {
	*server
	p *process
}

func (f *calledForge) Observe(ctx context.Context) (s forge.State, err error) {
	err = f.p.call("forge.observe", func() (err error) { s, err = f.server.Observe(ctx); return err })
	return s, err
}

func (f *calledForge) Mirror(ctx context.Context, m forge.Mirror, url, secret string) (res forge.PushResult, err error) {
	err = f.p.call("forge.mirror", func() error {
		return f.one(func() (err error) { res, err = f.Fake.Mirror(ctx, m, url, secret); return err })
	})
	return res, err
}

func (f *calledForge) Start(ctx context.Context, image lab.Image, port int, p lab.Progress) error {
	return f.p.call("forge.start", func() error { return f.one(func() error { return f.Fake.Start(ctx, image, port, p) }) })
}

func (f *calledForge) Remove(ctx context.Context) error {
	return f.p.call("forge.remove", func() error { return f.one(func() error { return f.Fake.Remove(ctx) }) })
}

func (f *calledForge) Push(ctx context.Context, tree forge.Tree, message string) (r forge.PushResult, err error) {
	err = f.p.call("forge.push", func() error {
		return f.one(func() (err error) { r, err = f.Fake.Push(ctx, tree, message); return err })
	})
	return r, err
}

func (f *calledForge) PublishCharts(ctx context.Context, charts []lab.Chart) (list []string, err error) {
	err = f.p.call("forge.publish", func() error {
		return f.one(func() (err error) { list, err = f.Fake.PublishCharts(ctx, charts); return err })
	})
	return list, err
}

func (f *calledForge) EnsureWebhook(ctx context.Context, url, secret string) (changed bool, err error) {
	err = f.p.call("forge.webhook", func() error {
		return f.one(func() (err error) { changed, err = f.Fake.EnsureWebhook(ctx, url, secret); return err })
	})
	return changed, err
}

// calledEngine does the same for an engine, which answers while its hub does, and follows the forge by itself.
type calledEngine struct {
	*hubEngine
	p   *process
	hub string
}

func (e *calledEngine) call(name string, do func() error) error {
	return e.p.call("engine."+name, func() error {
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
	err = e.call("observe", func() (err error) { s, err = e.Fake.Observe(ctx); s.Inputs = e.inputs; return err })
	return s, err
}

func (e *calledEngine) Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (changed bool, err error) {
	err = e.call("install", func() (err error) {
		if changed, err = e.Fake.Install(ctx, chart, values, p); err == nil {
			e.inputs, err = argocd.Inputs(chart, values)
		}
		return err
	})
	return changed, err
}

func (e *calledEngine) Register(ctx context.Context, reg lab.Registration, spoke *rest.Config) (list []string, err error) {
	err = e.call("register", func() (err error) { list, err = e.Fake.Register(ctx, reg, spoke); return err })
	return list, err
}

func (e *calledEngine) Unregister(ctx context.Context, name string, reachable bool, p lab.Progress) (list []string, err error) {
	err = e.call("unregister", func() (err error) { list, err = e.Fake.Unregister(ctx, name, reachable, p); return err })
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

func (e *calledEngine) Strayed(ctx context.Context, root engine.Root, repos []engine.Repository) (list []string, err error) {
	err = e.call("strayed", func() (err error) { list, err = e.Fake.Strayed(ctx, root, repos); return err })
	return list, err
}

func (e *calledEngine) Standing(ctx context.Context) (s engine.Standing, err error) {
	err = e.call("standing", func() (err error) { s, err = e.Fake.Standing(ctx); return err })
	return s, err
}

func (e *calledEngine) WaitConverged(ctx context.Context, want engine.Want, p lab.Progress) (apps []lab.Application, err error) {
	err = e.call("wait", func() (err error) { apps, err = e.Fake.WaitConverged(ctx, want, p); return err })
	return apps, err
}
