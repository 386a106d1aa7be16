package scenariotest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/scenario"
)

// How long the engine takes for what a real one takes longer for.
const (
	compareTakes = 200 * time.Millisecond
	rolloutTakes = 300 * time.Millisecond
	patrolEvery  = 100 * time.Millisecond // stands for its watches
)

// Engine reconciles the default estate's addons: it follows pins, values and labels as Argo CD does, in as much as the stories can tell.
type Engine struct {
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
	passes        int // how often everything was looked at
	read          *reading
	missed        bool
}

// reading is what the engine read from a commit.
type reading struct {
	commit string
	tree   scenario.Tree
	addons []lab.Addon
	sets   []applicationSet
}

// app is one application.
type app struct {
	scenario.Application
	deployed string // digest of what was synced last
	synced   string // commit of the last sync
	objects  []object
}

// NewEngine knows the estate's clusters by their bridge.
func NewEngine(est *lab.Estate, forge *Forge, clusters *Clusters) *Engine {
	e := &Engine{
		lab: est.Name, hub: est.Hub().Name, forge: forge, clusters: clusters, charts: map[string][]string{"podinfo": {"6.7.0", "6.9.2"}, "metrics-server": {"3.13.1"}},
		registrations: map[string]scenario.Marks{}, apps: map[string]*app{}, watchers: map[int]func(scenario.Application){}, wake: make(chan struct{}, 1),
	}
	def, _ := est.Environment(lab.DefaultEnvironment)
	for _, c := range est.Clusters {
		env, _ := est.Environment(c.Environment)
		reg := bridge.Build(est.Name, env, def, c, bridge.DefaultInputs(est.Name, est.Addons))
		m := scenario.Marks{Labels: map[string]*string{}, Annotations: map[string]*string{}}
		for k, v := range reg.Labels {
			m.Labels[k] = &v.Value
		}
		for k, v := range reg.Annotations {
			m.Annotations[k] = &v.Value
		}
		e.registrations[c.Name] = m
	}
	forge.pushed = e.poke
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

// Watch tells of applications.
func (e *Engine) Watch(ctx context.Context, seen func(scenario.Application), ready func()) error {
	e.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(e.apps)) {
		seen(e.apps[name].Application)
	}
	id := e.next
	e.next++
	e.watchers[id] = seen
	e.mu.Unlock()
	ready()
	<-ctx.Done()
	e.mu.Lock()
	delete(e.watchers, id)
	e.mu.Unlock()
	return nil
}

// Registration is what is known of a cluster.
func (e *Engine) Registration(_ context.Context, cluster string) (scenario.Marks, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, ok := e.registrations[cluster]
	if !ok {
		return scenario.Marks{}, fmt.Errorf("cluster %s is not registered", cluster)
	}
	return scenario.Marks{Labels: maps.Clone(m.Labels), Annotations: maps.Clone(m.Annotations)}, nil
}

// Mark changes it.
func (e *Engine) Mark(_ context.Context, cluster string, change scenario.Marks) error {
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

// Refresh looks at Git.
func (e *Engine) Refresh(context.Context) error {
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
		if err := e.pass(ctx, patrolEvery); err != nil {
			return err
		}
	}
	return errNotYet
}
