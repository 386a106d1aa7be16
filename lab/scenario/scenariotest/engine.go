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
	"homelab/lab/scenario"
)

// How long the engine takes for what a real one takes longer for.
const (
	compareTakes = 200 * time.Millisecond
	rolloutTakes = 300 * time.Millisecond
	patrolEvery  = 5 * time.Second        // beside its watches
	restEvery    = 100 * time.Millisecond // how often Converged looks
)

// Engine reconciles the default estate's addons: it follows pins, values and labels as Argo CD does, in as much as the stories can tell.
//
// While its gate is shut, nothing is heard of it: calls wait, and a watch says nothing until it finds that out.
type Engine struct {
	Gate

	lab, hub string
	forge    *Forge
	clusters *Clusters
	charts   map[string][]string // chart -> versions that the forge has

	mu            sync.Mutex
	registrations map[string]scenario.Marks
	apps          map[string]*app
	watchers      map[int]func(scenario.Application)
	next          int
	wake          chan struct{}
	passes        int           // how often everything was looked at
	settled       string        // commit that everything was last compared with
	tree          scenario.Tree // that was looked at last
	read          *reading      // of it
	estate        *Estate
	missed        bool
	lag           time.Duration // what a commit says is taken over so long after its name is
	heard         []heard       // the latest last
	restarts      chan struct{} // closed when all watches end
}

// reading is what the engine read from a tree.
type reading struct {
	est    *lab.Estate
	addons []lab.Addon
	sets   []*appset.Set

	mu        sync.Mutex
	values    map[string]map[string]any      // by addon, environment and cluster
	generates map[string]*appset.Application // by set, cluster and its marks
}

// app is one application.
type app struct {
	scenario.Application
	deployed string // digest of what was synced last
	synced   string // commit of the last sync
	objects  []object
}

// NewEngine knows the estate's clusters by their bridge.
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
	tick := time.NewTicker(patrolEvery)
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

// noticedAfter is when a watch finds out that nothing comes any more.
const noticedAfter = 10 * time.Second

// Watch tells of applications, until the engine restarts or does not answer any more.
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
	if err := e.pass(ctx, noticedAfter); err != nil {
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

// registration is what the engine itself knows of a cluster.
func (e *Engine) registration(cluster string) (scenario.Marks, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, ok := e.registrations[cluster]
	if !ok {
		return scenario.Marks{}, fmt.Errorf("cluster %s is not registered", cluster)
	}
	return scenario.Marks{Labels: maps.Clone(m.Labels), Annotations: maps.Clone(m.Annotations)}, nil
}

// Registration is what is known of a cluster.
func (e *Engine) Registration(ctx context.Context, cluster string) (scenario.Marks, error) {
	if err := e.through(ctx); err != nil {
		return scenario.Marks{}, err
	}
	return e.registration(cluster)
}

// Mark changes it.
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

// Settled is the commit that all was compared with.
func (e *Engine) Settled(ctx context.Context) (string, error) {
	if err := e.through(ctx); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settled, nil
}

// Follow waits until all was compared with a commit, and asks for it.
func (e *Engine) Follow(ctx context.Context, commit string, but []string) error {
	if err := e.Refresh(ctx); err != nil {
		return err
	}
	for {
		e.mu.Lock()
		rest := e.settled == commit
		for name, a := range e.apps {
			rest = rest && (a.Converged() || slices.Contains(but, name))
		}
		e.mu.Unlock()
		if rest {
			return nil
		}
		if err := e.pass(ctx, restEvery); err != nil {
			return context.Cause(ctx)
		}
	}
}

// Refresh looks at Git.
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

// Miss makes the engine miss every commit until it is asked to look, as Argo CD does when it is told of one while it looks at the one before.
func (e *Engine) Miss() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.missed = true
}

// Lag makes applications name a commit at once and heed what it says later, as Argo CD's do: they are told of every commit, and what they are made of comes from the
// ApplicationSets that the root has still to sync.
func (e *Engine) Lag(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lag = d
}

// heard is a commit that applications were told of.
type heard struct {
	tree scenario.Tree
	due  time.Time
}

// heeds returns the tree that is due of those that were heard of.
func (e *Engine) heeds(tree scenario.Tree) scenario.Tree {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.heard); n == 0 || e.heard[n-1].tree.Commit != tree.Commit {
		due := time.Now()
		if n > 0 {
			due = due.Add(e.lag)
		}
		e.heard = append(e.heard, heard{tree: tree, due: due})
	}
	at := len(e.heard) - 1
	for at > 0 && time.Now().Before(e.heard[at].due) {
		at--
	}
	if e.heard = e.heard[at:]; len(e.heard) > 1 {
		time.AfterFunc(time.Until(e.heard[1].due), e.poke)
	}
	return e.heard[0].tree
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

// tell passes an application on when it changed.
func (e *Engine) tell(a *app, change func()) {
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

// Converged waits until every application is in sync and healthy.
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
		if err := e.pass(ctx, restEvery); err != nil {
			return err
		}
	}
	return errNotYet
}
