package flux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

const (
	lookEvery  = 500 * time.Millisecond
	againAfter = 10 * time.Second // before what failed is asked for again
)

// judge returns what is not as wanted, by application. With a token, what has not handled that request counts for nothing.
func (v view) judge(want engine.Want, token string, registrations []engine.Registered) []engine.Pending {
	var pending []engine.Pending
	add := func(p engine.Pending) { pending = append(pending, p) }
	if len(v.roots) == 0 {
		return []engine.Pending{{Application: rootName, Reason: "does not exist yet"}}
	}
	for _, r := range v.roots {
		switch has := commit(r.Status.LastAppliedRevision); {
		case want.Revision != "" && has != want.Revision:
			add(engine.Pending{Application: r.Name, Sync: outOfSync, Health: healthy, Reason: behind(has, want.Revision, r)})
		case token != "" && r.Status.GetLastHandledReconcileRequest() != token:
			add(engine.Pending{Application: r.Name, Sync: outOfSync, Health: healthy, Reason: "has not looked again"})
		case !ready(r):
			add(engine.Pending{Application: r.Name, Sync: synced, Health: degraded, Reason: message(r)})
		}
	}
	for name, k := range v.apps {
		cluster, _ := clusterOf(k.Namespace)
		switch {
		case slices.Contains(want.LeftOut, name), !want.WaitsFor(cluster):
			continue
		case slices.Contains(want.Gone, name):
			add(engine.Pending{Application: name, Sync: outOfSync, Health: progressing, Reason: "is being removed"})
			continue
		}
		a := v.application(name, k)
		p := engine.Pending{Application: name, Sync: a.Sync, Health: a.Health, Reason: a.Message}
		switch since := sinceOf(registrations, want, cluster); {
		case want.Revision != "" && a.Revision != want.Revision:
			p.Sync, p.Reason = outOfSync, cmp.Or(p.Reason, behind(a.Revision, want.Revision, k))
			add(p)
		case token != "" && k.Status.GetLastHandledReconcileRequest() != token:
			p.Sync, p.Reason = outOfSync, cmp.Or(p.Reason, "has not looked again")
			add(p)
		case reconciledAt(k).Before(since):
			p.Sync, p.Reason = outOfSync, cmp.Or(p.Reason, "was last compared before its cluster was as it is")
			add(p)
		case !a.Converged():
			add(p)
		}
	}
	for _, name := range want.Expected {
		if _, there := v.apps[name]; !there {
			add(engine.Pending{Application: name, Reason: "does not exist yet"})
		}
	}
	slices.SortFunc(pending, func(x, y engine.Pending) int { return cmp.Compare(x.Application, y.Application) })
	return pending
}

func behind(has, want string, k kustomizev1.Kustomization) string {
	if text := message(k); text != "" && !ready(k) {
		return text
	}
	if has == "" {
		return "no commit was applied yet"
	}
	return fmt.Sprintf("is at commit %.7s, not %.7s", has, want)
}

func ready(k kustomizev1.Kustomization) bool {
	return apimeta.IsStatusConditionTrue(k.Status.Conditions, meta.ReadyCondition) && k.Status.ObservedGeneration == k.Generation
}

func message(k kustomizev1.Kustomization) string {
	if c := apimeta.FindStatusCondition(k.Status.Conditions, meta.ReadyCondition); c != nil {
		return c.Message
	}
	return ""
}

// reconciledAt is when Flux last compared; zero if it does not say.
func reconciledAt(k kustomizev1.Kustomization) time.Time {
	if latest := k.Status.History.Latest(); latest != nil {
		return latest.LastReconciled.Time
	}
	return time.Time{}
}

// sinceOf is since when a cluster is as it is: its credentials, or its last start. Times ahead of now are not believed.
func sinceOf(registrations []engine.Registered, want engine.Want, cluster string) time.Time {
	since, now := time.Time{}, time.Now()
	times := []time.Time{want.Since[cluster]}
	for _, r := range registrations {
		if r.Cluster == cluster {
			times = append(times, r.Since)
		}
	}
	for _, at := range times {
		if at.After(since) && !at.After(now) {
			since = at
		}
	}
	return since
}

// WaitConverged waits until the roots are at the wanted commit and every application is as wanted. It returns the applications as last seen. When ctx's deadline
// passes first, the error is a *lab.Error with lab.ExitTimeout and the reason for each application.
func (f *Flux) WaitConverged(ctx context.Context, want engine.Want, p lab.Progress) ([]lab.Application, error) {
	start := time.Now()
	registrations, err := f.registrations(ctx)
	var v view
	if err == nil {
		v, err = f.look(ctx)
	}
	if err == nil && !want.Changed && len(v.judge(want, "", registrations)) == 0 {
		return v.applications(), nil
	}
	ask := newAsker(f, want)
	told := ""
	for {
		if v, err = f.look(ctx); err == nil {
			pending := v.judge(want, ask.token, registrations)
			if len(pending) == 0 {
				return v.applications(), nil
			}
			if err = ask.look(ctx, v); err == nil {
				if line := progressLine(v, want, pending); line != told {
					told = line
					p(line)
				}
			}
		}
		if err != nil && ctx.Err() == nil && !transient(err) {
			return v.applications(), err
		}
		if lab.Sleep(ctx, lookEvery) != nil {
			return v.applications(), f.notConverged(ctx, v, want, v.judge(want, ask.token, registrations), time.Since(start), err)
		}
	}
}

// transient reports whether an error of the hub may pass.
func transient(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

func progressLine(v view, want engine.Want, pending []engine.Pending) string {
	total, bad := len(want.Expected), 0
	for name, k := range v.apps {
		if cluster, _ := clusterOf(k.Namespace); want.WaitsFor(cluster) && !slices.Contains(want.Expected, name) && !slices.Contains(want.LeftOut, name) {
			total++
		}
	}
	for _, p := range pending {
		if _, isApp := v.apps[p.Application]; isApp || slices.Contains(want.Expected, p.Application) {
			bad++
		}
	}
	return fmt.Sprintf("%d of %d in sync and healthy, %s", max(total-bad, 0), total, pending[0])
}

// asker has Flux look again, in the order in which things follow from one another: the source, the roots, the applications.
type asker struct {
	f      *Flux
	want   engine.Want
	token  string
	failed map[types.NamespacedName]time.Time // HelmReleases -> when they were asked for again
}

func newAsker(f *Flux, want engine.Want) *asker {
	return &asker{f: f, want: want, token: time.Now().UTC().Format(time.RFC3339Nano), failed: map[types.NamespacedName]time.Time{}}
}

func (a *asker) look(ctx context.Context, v view) error {
	for _, s := range v.sources {
		if err := a.request(ctx, gitRepositories, &s.ObjectMeta, a.token); err != nil {
			return err
		}
		if s.Status.GetLastHandledReconcileRequest() != a.token && s.Namespace == a.f.namespace {
			return nil
		}
	}
	for _, r := range v.roots {
		if err := a.request(ctx, kustomizations, &r.ObjectMeta, a.token); err != nil {
			return err
		}
		if r.Status.GetLastHandledReconcileRequest() != a.token {
			return nil
		}
	}
	for _, k := range v.apps {
		if cluster, _ := clusterOf(k.Namespace); !a.want.WaitsFor(cluster) || k.DeletionTimestamp != nil {
			continue
		}
		if err := a.request(ctx, kustomizations, &k.ObjectMeta, a.token); err != nil {
			return err
		}
	}
	for at, r := range v.releases {
		failed := apimeta.IsStatusConditionFalse(r.Status.Conditions, meta.ReadyCondition)
		if !failed || time.Since(a.failed[at]) < againAfter {
			continue
		}
		a.failed[at] = time.Now()
		if err := a.request(ctx, helmReleases, &r.ObjectMeta, a.failed[at].UTC().Format(time.RFC3339Nano)); err != nil {
			return err
		}
	}
	return nil
}

// request annotates an object, as `flux reconcile` does; what is gone is no error.
func (a *asker) request(ctx context.Context, r schema.GroupVersionResource, o *metav1.ObjectMeta, token string) error {
	if o.Annotations[meta.ReconcileRequestAnnotation] == token {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, meta.ReconcileRequestAnnotation, token)
	_, err := a.f.hub.Dynamic.Resource(r).Namespace(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kube.FieldManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return kube.Wrap(r.Resource+" "+o.Name, err)
}

// Refresh asks Flux to look at Git.
func (f *Flux) Refresh(ctx context.Context) error {
	v, err := f.look(ctx)
	if err != nil {
		return err
	}
	a := newAsker(f, engine.Want{})
	for _, s := range v.sources {
		if err := a.request(ctx, gitRepositories, &s.ObjectMeta, a.token); err != nil {
			return err
		}
	}
	return nil
}

// notConverged returns the error of a wait whose time ran out.
func (f *Flux) notConverged(ctx context.Context, v view, want engine.Want, pending []engine.Pending, waited time.Duration, seen error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	total := len(v.apps)
	for _, name := range want.Expected {
		if _, there := v.apps[name]; !there {
			total++
		}
	}
	e := &lab.Error{
		Exit: lab.ExitTimeout, Code: "not_converged", Err: seen,
		Message: fmt.Sprintf("%d of %d applications is not healthy after %s", len(pending), total, lab.WholeSeconds(waited)),
		Cure:    "what is up stays up. once mended, run lab up again; lab diagnose writes everything worth reading to a file",
	}
	for _, p := range pending {
		e.Details = append(e.Details, fmt.Sprintf("%s   %s   %s", p.Application, p.State(), p.Reason))
	}
	return e
}
