// Package record watches a lab while a person works, and writes a scenario that repeats the actions and expects the effects that followed.
package record

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/scenario"
)

// lookEvery is how often the forge and the registrations are read. Applications and objects are watched.
const lookEvery = time.Second

// Recording is what was seen of a lab.
type Recording struct {
	world scenario.World
	say   func(string)
	began time.Time

	mu      sync.Mutex
	apps    map[scenario.Subject]seen
	objects map[scenario.Subject]seen
	look    view // as of the last look at the forge
	looked  time.Time
	tree    scenario.Tree
	marks   map[string]scenario.Marks
	actions []*action
	end     view
}

// seen is the last state of an application or object.
type seen struct {
	at     time.Time
	app    scenario.Application
	object map[string]any
}

// view is the state of a lab at one time.
type view struct{ apps, objects map[scenario.Subject]seen }

// action is what a person did.
type action struct {
	at       time.Time
	title    string
	verb     string
	params   pairs
	comments []string
	files    map[string][]byte
	before   view
	after    view
	commit   string           // its hash
	addon    string           // that is promoted
	subject  scenario.Subject // an object
	paths    []string         // of the object
	cluster  string           // whose registration changed
	deleted  bool
}

// Watch watches until ctx ends, and reports each action when it is seen.
func Watch(ctx context.Context, w scenario.World, say func(string)) (*Recording, error) {
	r := &Recording{
		world: w, say: say, began: time.Now(), apps: map[scenario.Subject]seen{}, objects: map[scenario.Subject]seen{}, marks: map[string]scenario.Marks{},
	}
	var err error
	if r.tree, err = w.Forge.Tree(ctx, scenario.Branch); err != nil {
		return nil, err
	}
	for _, c := range w.Estate.Clusters {
		if r.marks[c.Name], err = w.Engine.Registration(ctx, c.Name); err != nil {
			return nil, fmt.Errorf("registration of %s: %w", c.Name, err)
		}
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	first := make(chan error, 1)
	watching.Go(func() { r.applications(ctx, first) })
	late := time.NewTimer(listWithin)
	defer late.Stop()
	select {
	case err := <-first:
		if err != nil {
			return nil, err
		}
	case <-late.C:
		return nil, unlisted("the engine", "applications")
	}
	stopObjects, err := r.watchObjects(ctx)
	if err != nil {
		return nil, err
	}
	defer stopObjects()
	r.mu.Lock()
	r.look, r.looked = r.viewLocked(), time.Now()
	r.mu.Unlock()
	say("recording; work on the lab, and end it with ctrl-c")
	for lab.Sleep(ctx, lookEvery) == nil {
		r.poll(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = r.viewLocked()
	return r, nil
}

// applications watches the engine. first gets the error of the first watch, or nil when all applications are known.
func (r *Recording) applications(ctx context.Context, first chan error) {
	for once := true; ctx.Err() == nil; once = false {
		ready := false
		err := r.world.Engine.Watch(ctx, r.application, func() {
			if ready = true; once {
				first <- nil
			}
		})
		if once && !ready {
			if err == nil {
				err = context.Cause(ctx)
			}
			first <- err
			return
		}
		_ = lab.Sleep(ctx, lookEvery) // the loop sees ctx end
	}
}

func (r *Recording) application(a scenario.Application) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Gone {
		delete(r.apps, a.Subject())
		return
	}
	r.apps[a.Subject()] = seen{at: time.Now(), app: a}
}

func (r *Recording) viewLocked() view { return view{maps.Clone(r.apps), maps.Clone(r.objects)} }

// did adds an action.
func (r *Recording) did(a *action) {
	a.at = time.Now()
	r.actions = append(r.actions, a)
	if a.deleted {
		r.say(a.title + ", by hand or by the engine")
	} else {
		r.say(a.title)
	}
}

// poll reads the forge and the registrations. What does not answer is read again.
func (r *Recording) poll(ctx context.Context) {
	if tree, err := r.world.Forge.Tree(ctx, scenario.Branch); err == nil && tree.Commit != r.tree.Commit {
		a, err := r.committed(r.tree, tree)
		if err != nil {
			r.say("a commit is left out: " + err.Error())
		}
		r.tree = tree
		r.add(a)
	}
	for _, c := range r.world.Estate.Clusters {
		now, err := r.world.Engine.Registration(ctx, c.Name)
		if err != nil {
			continue
		}
		a := labelled(c.Name, r.marks[c.Name], now)
		r.marks[c.Name] = now
		r.add(a)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look, r.looked = r.viewLocked(), time.Now()
}

// add adds an action that was found at a look. Deletions since the look before may be its effects, and come after it.
func (r *Recording) add(a *action) {
	if a == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.actions)
	for i > 0 && r.actions[i-1].deleted && !r.actions[i-1].at.Before(r.looked) {
		i--
	}
	a.at, a.before = time.Now(), r.look
	if i > 0 && !r.actions[i-1].at.Before(r.looked) {
		a.before = r.viewLocked() // there was another action since
	}
	r.actions = slices.Insert(r.actions, i, a)
	r.say(a.title)
	r.look, r.looked = r.viewLocked(), time.Now()
}
