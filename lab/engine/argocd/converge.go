package argocd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/words"
	"homelab/lab/engine/workload"
	"homelab/lab/informer"
)

// brokenFor is how long an ApplicationSet may fail to generate before the wait fails: the cause is then in Git, and needs a commit.
const brokenFor = 20 * time.Second

// WaitConverged waits until the roots are in sync at the wanted commit and all applications below them exist, are in sync and healthy. It returns the
// applications as last seen. If ctx's deadline expires first, the error is a *lab.Error with lab.ExitTimeout and the reason for each application.
func (a *ArgoCD) WaitConverged(ctx context.Context, want engine.Want, p lab.Progress) ([]lab.Application, error) {
	start := time.Now()
	v, err := a.snapshot(ctx, want)
	if err == nil && !want.Changed && len(judge(v, want)) == 0 {
		return a.summarise(values(v.apps)), nil
	}
	// The first read may fail just after the installation; the watch retries.

	w := a.watch(ctx)
	defer w.stop()
	nudge := newNudger(a, want)

	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	reported, broken := "", map[string]time.Time{}
	var pending []engine.Pending
	var loops workload.Loops
	var moves engine.Moves
	for {
		select {
		case <-ctx.Done():
			return a.summarise(values(v.apps)), a.notConverged(ctx, v, want, judge(v, want), time.Since(start), w.failure())
		case <-w.changed:
		case <-tick.C:
		}
		if !w.synced() || !w.registered(ctx, a, want) {
			if line := w.idleReason(); line != "" && line != reported {
				reported = line
				p(line)
			}
			continue
		}
		if v, err = w.view(); err != nil {
			return nil, err
		}
		pending = judge(v, want)
		moves.Look(want, pending)
		sent, err := nudge.step(ctx, v)
		if err != nil && ctx.Err() == nil {
			return a.summarise(values(v.apps)), err
		}
		if len(pending) == 0 && !sent {
			// The two watches are not synchronized: one may show an ApplicationSet as done before the other shows its effect. A read shows both.
			if now, err := a.snapshot(ctx, want); err == nil && len(judge(now, want)) == 0 {
				return a.summarise(values(now.apps)), nil
			}
			continue
		}
		if err := nudge.unstick(ctx, v, applicationsOf(pending)); err != nil && ctx.Err() == nil {
			return a.summarise(values(v.apps)), err
		}
		if line := progressLine(v, want, pending); line != reported {
			reported = line
			p(line)
		}
		loop := loops.Look(len(pending), func() *workload.Loop { return a.loop(ctx, v, pending, &loops) })
		if loop != nil || a.broken(v, want, broken) {
			return a.summarise(values(v.apps)), a.notConverged(ctx, v, want, pending, time.Since(start), nil)
		}
	}
}

func applicationsOf(pending []engine.Pending) []string {
	names := make([]string, len(pending))
	for i, p := range pending {
		names[i] = p.Application
	}
	return names
}

// progressLine summarises the progress: "9 of 11 in sync and healthy, prod-podinfo: deployment podinfo: 0 of 2 ready".
func progressLine(v view, want engine.Want, pending []engine.Pending) string {
	total, bad := v.total(want), 0
	for _, p := range pending {
		if _, isApp := v.apps[p.Application]; (isApp || p.Sync == "") && !v.isRoot(p.Application) {
			bad++
		}
	}
	line := fmt.Sprintf("%d of %d in sync and healthy", max(total-bad, 0), total)
	if len(pending) == 0 {
		return line + ", requesting a refresh"
	}
	first := want.Doubted(pending[0])
	first.Reason = words.Clip(first.Reason, max(words.Width-len(line)-len(first.Application)-len(", : "), words.Width/3))
	return line + ", " + first.String()
}

// broken reports whether an ApplicationSet has failed to generate for brokenFor at the wanted commit.
func (a *ArgoCD) broken(v view, want engine.Want, since map[string]time.Time) bool {
	estate := v.estate()
	old := func(a application) bool {
		return a.root() && a.Status.Sync.Status != "Synced" || staleCommit(a, want, estate) != ""
	}
	if !v.hasRoot() || slices.ContainsFunc(v.leaders(want), old) {
		clear(since)
		return false
	}
	for name, s := range v.sets {
		switch first, known := since[name]; {
		case s.fault() == "":
			delete(since, name)
		case !known:
			since[name] = time.Now()
		case time.Since(first) > brokenFor:
			return true
		}
	}
	return false
}

// snapshot reads a view with the registration times.
func (a *ArgoCD) snapshot(ctx context.Context, want engine.Want) (view, error) {
	v, err := a.readView(ctx)
	if err != nil {
		return view{}, err
	}
	list, err := a.registrations(ctx)
	v.since = validSince(list, want)
	return v, err
}

// readView reads a view of Applications and ApplicationSets.
func (a *ArgoCD) readView(ctx context.Context) (view, error) {
	v, err := a.list(ctx)
	if err != nil {
		return view{}, err
	}
	sets, err := a.hub.Dynamic.Resource(applicationSets).Namespace(a.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return view{}, fmt.Errorf("applicationsets: %w", err)
	}
	of, err := newView(a.names, nil, pointers(sets.Items))
	v.sets = of.sets
	return v, err
}

func newView(names aliases, apps, sets []*unstructured.Unstructured) (view, error) {
	v := view{names: names, apps: map[string]application{}, sets: map[string]applicationSet{}}
	for _, o := range apps {
		a, err := parseApplication(o)
		if err != nil {
			return view{}, err
		}
		v.apps[o.GetName()] = a
	}
	for _, o := range sets {
		s, err := parseApplicationSet(o)
		if err != nil {
			return view{}, err
		}
		v.sets[o.GetName()] = s
	}
	return v, nil
}

// watcher maintains a view.
type watcher struct {
	names      aliases
	since      map[string]time.Time // as in view
	changed    chan struct{}
	failures   chan error
	last       error
	failed     map[string]string // failure of the previous attempt by Application
	apps, sets cache.SharedIndexInformer
	stop       func()
}

func (a *ArgoCD) watch(ctx context.Context) *watcher {
	w := &watcher{names: a.names, changed: make(chan struct{}, 1), failures: make(chan error, 1), failed: map[string]string{}, apps: a.informer(applications), sets: a.informer(applicationSets)}
	for _, i := range []cache.SharedIndexInformer{w.apps, w.sets} {
		_ = informer.Follow(i, w.changed, w.failures) // does not fail before Run
	}
	w.stop = informer.Run(ctx, w.apps, w.sets)
	return w
}

func (a *ArgoCD) informer(of schema.GroupVersionResource) cache.SharedIndexInformer {
	return informer.New(a.hub.Dynamic, a.hub.Dynamic.Resource(of).Namespace(a.namespace), &unstructured.Unstructured{})
}

func (w *watcher) synced() bool { return w.apps.HasSynced() && w.sets.HasSynced() }

// registered reads the times of registrations once, as none changes during a wait.
func (w *watcher) registered(ctx context.Context, a *ArgoCD, want engine.Want) bool {
	if w.since != nil {
		return true
	}
	list, err := a.registrations(ctx)
	if err != nil {
		w.last = err
		return false
	}
	w.since = validSince(list, want)
	return true
}

func (w *watcher) failure() error {
	select {
	case w.last = <-w.failures:
	default:
	}
	if errors.Is(w.last, context.Canceled) || errors.Is(w.last, context.DeadlineExceeded) {
		return nil
	}
	return w.last
}

// idleReason describes why nothing has been seen yet, or returns "" if it is only a matter of time.
func (w *watcher) idleReason() string {
	switch err := w.failure(); {
	case err == nil:
		return ""
	case apierrors.IsNotFound(err):
		return "argo cd is not installed yet"
	default:
		for errors.Unwrap(err) != nil {
			err = errors.Unwrap(err) // drop addresses and resources, which mean little to a user
		}
		return words.Clip("the hub does not answer: "+err.Error(), words.Width)
	}
}

func (w *watcher) view() (view, error) {
	v, err := newView(w.names, informer.Stored[*unstructured.Unstructured](w.apps), informer.Stored[*unstructured.Unstructured](w.sets))
	v.since = w.since
	for name, a := range v.apps {
		switch failure := a.failure(); {
		case failure != "":
			w.failed[name] = failure
		case a.Status.OperationState.Phase == "Running" && a.Status.OperationState.RetryCount > 0:
			a.Failed = w.failed[name]
			v.apps[name] = a
		default:
			delete(w.failed, name)
		}
	}
	return v, err
}

func pointers(items []unstructured.Unstructured) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

func values(m map[string]application) []application {
	out := make([]application, 0, len(m))
	for _, name := range sortedKeys(m) {
		out = append(out, m[name])
	}
	return out
}
