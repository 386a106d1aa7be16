package scenariotest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/bridge"
	"homelab/lab/fluxset"
	"homelab/lab/scenario"
)

// Intervals, shorter than a real engine's.
const (
	compareTakes = 200 * time.Millisecond
	rolloutTakes = 300 * time.Millisecond
	pollEvery    = 5 * time.Second        // polling in addition to the watches
	settleEvery  = 100 * time.Millisecond // polling of Converged
)

// Engine reconciles the default estate's addons. Like Argo CD, it follows pins, values and labels, as far as stories need it; or, like Flux, pins, values and
// folders.
//
// While its gate is shut, calls block and watches are silent until they time out.
type Engine struct {
	Gate

	lab, hub string
	on       lab.EngineType
	asked    lab.EngineType // requested, from the next reconciliation on
	remade   bool           // the hub is to be recreated
	forge    *Forge
	others   *Repositories
	clusters *Clusters
	charts   map[string][]string // chart -> versions in the forge

	mu            sync.Mutex
	registrations map[string]scenario.Marks
	apps          map[string]*app
	watchers      map[int]func(scenario.Application)
	next          int
	wake          chan struct{}
	passes        int           // reconciliations so far
	settled       string        // last reconciled commit
	tree          scenario.Tree // last tree
	read          *reading      // of tree
	taken         map[string]taken
	faults        map[string]error  // of ApplicationSets in this reconciliation
	published     map[string]object // GitRepositories beside the estate's
	estate        *Estate
	missed        bool
	lag           time.Duration // delay from a commit until applications follow it
	notified      []notice      // latest last
	restarts      chan struct{} // closed when all watches end
}

// reading is the parsed content of a tree.
type reading struct {
	est    *lab.Estate
	addons []lab.Addon
	sets   []*appset.Set
	waves  []int // of sets

	mu        sync.Mutex
	values    map[string]map[string]any      // by addon, environment and cluster
	generates map[string]*appset.Application // by set, cluster and its marks
	expands   map[string]fluxset.Expansion   // by the marks of all clusters
}

type app struct {
	scenario.Application
	set      string // Argo CD's ApplicationSet
	place    string // the cluster that Argo CD syncs it to; Cluster is its name there
	byName   bool   // its destination is the name
	deployed string // digest of the last sync
	synced   string // commit of the last sync
	objects  []object
	looks    bool      // Flux compares once per interval
	looked   time.Time // last comparison
	orphan   bool      // Flux orphans its objects
	plain    bool      // Flux applies manifests instead of a release
	manual   bool      // Argo CD syncs it on request only
	failed   string    // why the last sync that failed did
	unset    string    // why it is not built
}

// NewEngine returns an engine whose clusters are registered by the bridge.
func NewEngine(est *lab.Estate, files *Estate, forge *Forge, clusters *Clusters) *Engine {
	e := &Engine{
		estate: files,
		lab:    est.Name, hub: est.Hub().Name, forge: forge, clusters: clusters, charts: map[string][]string{"podinfo": {"6.7.0", "6.9.2"}, "metrics-server": {"3.13.1"}},
		registrations: map[string]scenario.Marks{}, apps: map[string]*app{}, watchers: map[int]func(scenario.Application){}, wake: make(chan struct{}, 1),
		restarts: make(chan struct{}),
	}
	def, _ := est.Environment(lab.DefaultEnvironment)
	for _, c := range est.Clusters {
		env, _ := est.Environment(c.Environment)
		reg := bridge.Build(est.Name, env, def, c, bridge.InputsOf(est))
		m := scenario.Marks{Labels: map[string]*string{}, Annotations: map[string]*string{}}
		for k, v := range reg.Labels {
			m.Labels[k] = &v.Value
		}
		for k, v := range reg.Annotations {
			m.Annotations[k] = &v.Value
		}
		e.registrations[c.Name] = m
	}
	forge.pushed, clusters.changed = e.poke, e.poke
	e.others = &Repositories{made: map[string]scenario.Repository{}, pushed: e.poke}
	return e
}

func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run reconciles until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := e.reconcile(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-e.wake:
		}
	}
}

// watchTimeout is how long a watch takes to notice silence.
const watchTimeout = 10 * time.Second

// Watch reports applications until the engine restarts or stops answering.
func (e *Engine) Watch(ctx context.Context, seen func(scenario.Application), ready func()) error {
	if err := e.through(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(e.apps)) {
		seen(e.apps[name].Application)
	}
	id, restarts := e.next, e.restarts
	e.next++
	e.watchers[id] = func(a scenario.Application) {
		if !e.isShut() {
			seen(a)
		}
	}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.watchers, id)
	}()
	ready()
	select {
	case <-ctx.Done():
		return nil
	case <-restarts:
		return errors.New("the engine restarts")
	case <-e.shutting():
	}
	if err := e.pass(ctx, watchTimeout); err != nil {
		return nil
	}
	return errors.New("the hub does not answer")
}

// Restart ends all watches.
func (e *Engine) Restart() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.restarts)
	e.restarts = make(chan struct{})
}

// registration returns the marks of a cluster.
func (e *Engine) registration(cluster string) (scenario.Marks, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, ok := e.registrations[cluster]
	if !ok {
		return scenario.Marks{}, fmt.Errorf("cluster %s is not registered", cluster)
	}
	return scenario.Marks{Labels: maps.Clone(m.Labels), Annotations: maps.Clone(m.Annotations)}, nil
}

// Registration returns the marks of a cluster.
func (e *Engine) Registration(ctx context.Context, cluster string) (scenario.Marks, error) {
	if err := e.through(ctx); err != nil {
		return scenario.Marks{}, err
	}
	return e.registration(cluster)
}

// Mark changes the marks of a cluster.
func (e *Engine) Mark(ctx context.Context, cluster string, change scenario.Marks) error {
	if err := e.through(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	m, ok := e.registrations[cluster]
	if ok {
		lay(m.Labels, change.Labels)
		lay(m.Annotations, change.Annotations)
	}
	e.mu.Unlock()
	if !ok {
		return fmt.Errorf("cluster %s is not registered", cluster)
	}
	e.poke()
	return nil
}

// Settled returns the last reconciled commit.
func (e *Engine) Settled(ctx context.Context) (string, error) {
	if err := e.through(ctx); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settled, nil
}

// Follow requests a reconciliation of commit and waits for it.
func (e *Engine) Follow(ctx context.Context, commit string, but []string, moved func()) error {
	if err := e.Refresh(ctx); err != nil {
		return err
	}
	seen := map[scenario.Application]bool{}
	for {
		e.mu.Lock()
		rest := e.settled == commit
		for name, a := range e.apps {
			rest = rest && (a.Converged() || slices.Contains(but, name))
			if !seen[a.Application] {
				seen[a.Application] = true
				moved()
			}
		}
		e.mu.Unlock()
		if rest {
			return nil
		}
		if err := e.pass(ctx, settleEvery); err != nil {
			return context.Cause(ctx)
		}
	}
}

// Refresh polls Git.
func (e *Engine) Refresh(ctx context.Context) error {
	if err := e.through(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	e.missed = false
	e.mu.Unlock()
	e.poke()
	return nil
}

// Miss makes the engine miss commits until Refresh, as Argo CD does when it is notified of one while it processes the
// previous one.
func (e *Engine) Miss() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.missed = true
}

// Lag makes applications report a commit immediately but follow it after d. So do Argo CD's: each is notified of a commit,
// but generated by ApplicationSets that the root has yet to sync.
func (e *Engine) Lag(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lag = d
}

// notice is a commit that applications were notified of.
type notice struct {
	tree scenario.Tree
	due  time.Time
}

// followed returns the tree that applications follow now.
func (e *Engine) followed(tree scenario.Tree) scenario.Tree {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.notified); n == 0 || e.notified[n-1].tree.Commit != tree.Commit {
		due := time.Now()
		if n > 0 {
			due = due.Add(e.lag)
		}
		e.notified = append(e.notified, notice{tree: tree, due: due})
	}
	at := len(e.notified) - 1
	for at > 0 && time.Now().Before(e.notified[at].due) {
		at--
	}
	if e.notified = e.notified[at:]; len(e.notified) > 1 {
		time.AfterFunc(time.Until(e.notified[1].due), e.poke)
	}
	return e.notified[0].tree
}

func lay(under, over map[string]*string) {
	for k, v := range over {
		if v == nil {
			delete(under, k)
		} else {
			under[k] = v
		}
	}
}

// update changes an application and notifies watches if it differs.
func (e *Engine) update(a *app, change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := a.Application
	change()
	if before == a.Application {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(e.watchers)) {
		e.watchers[id](a.Application)
	}
}

func (e *Engine) pass(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Converged waits until all applications are synced and healthy.
func (e *Engine) Converged(ctx context.Context) error {
	for range 1000 {
		e.mu.Lock()
		ok := e.passes > 0
		for _, a := range e.apps {
			ok = ok && a.Converged()
		}
		e.mu.Unlock()
		if ok {
			return nil
		}
		if err := e.pass(ctx, settleEvery); err != nil {
			return err
		}
	}
	return errNotYet
}
