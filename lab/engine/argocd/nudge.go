package argocd

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab/engine"
)

const (
	// setAnswers is the number of consecutive refreshes of an ApplicationSet. Its controller rereads the object while generating, and removes the annotation
	// found then (updateResourcesStatus in argo-cd 3.2): the first answer may come from a round that began before the request, with the previous spec. A round
	// that answers the second request began after the first answer.
	setAnswers = 2
	// askAgain is how long an Application may stay outdated after a refresh, whose Git fetch may have begun before the request.
	askAgain = 3 * time.Second
	// unmoved is how long a pending Application may stay unchanged before lab suspects Argo CD's cache of its cluster.
	unmoved = 20 * time.Second
)

// nudger requests refreshes and syncs instead of waiting for Argo CD's timers.
type nudger struct {
	engine *ArgoCD
	want   engine.Want
	sent   map[string]request // by resource and name
	synced map[string]bool    // Applications already synced
	still  map[string]unchangedSince
	reread map[string]time.Time // cluster -> last cache invalidation
}

// unchangedSince is the time since which an Application has been unchanged.
type unchangedSince struct {
	version string // resourceVersion
	since   time.Time
}

// request records the requests sent for one object.
type request struct {
	times   int
	last    time.Time
	version uint64 // resourceVersion of the request
}

func newNudger(a *ArgoCD, want engine.Want) *nudger {
	return &nudger{
		engine: a, want: want, sent: map[string]request{}, synced: map[string]bool{}, still: map[string]unchangedSince{}, reread: map[string]time.Time{},
	}
}

func (n *nudger) request(r schema.GroupVersionResource, name string) request {
	return n.sent[r.Resource+"/"+name]
}

// predatesRequest reports whether the view predates a request, so that it would show the state before as the answer.
func (n *nudger) predatesRequest(v view) bool {
	for name, a := range v.apps {
		if n.request(applications, name).version > version64(a.Metadata.ResourceVersion) {
			return true
		}
	}
	for name, s := range v.sets {
		if n.request(applicationSets, name).version > version64(s.Metadata.ResourceVersion) {
			return true
		}
	}
	return false
}

// version64 parses a resourceVersion, which Kubernetes guarantees to be an increasing number since 1.35; 0 if it is none.
func version64(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// step sends due requests and reports whether it sent any, so that the caller waits for the answers.
func (n *nudger) step(ctx context.Context, v view) (bool, error) {
	if n.predatesRequest(v) {
		return true, nil
	}
	if !v.hasRoot() {
		return false, nil
	}
	estate := v.estate()
	if sent, settled, err := n.refreshLeaders(ctx, v, estate); sent || !settled || err != nil {
		return sent, err
	}
	if n.want.Changed {
		if sent, err := n.refreshSets(ctx, v); sent || err != nil {
			return sent, err
		}
	}
	due := false
	for _, a := range v.relevant(n.want) {
		if a.terminating() {
			continue
		}
		sent, err := n.refresh(ctx, a, false, v.stale(a, n.want, estate))
		if err == nil && !sent && retriesOld(a, n.want, estate) {
			sent, err = n.terminate(ctx, a)
		}
		if err == nil && !sent && syncAbandoned(a) {
			sent, err = n.sync(ctx, a)
		}
		if err != nil {
			return due, err
		}
		due = due || sent
	}
	return due, nil
}

// refreshLeaders handles the roots and the Applications that only contain others. It reports whether it sent requests, and whether their contents match Git.
func (n *nudger) refreshLeaders(ctx context.Context, v view, estate source) (sent, settled bool, err error) {
	settled = true
	for _, a := range v.leaders(n.want) {
		if a.terminating() && !a.root() {
			continue
		}
		one, err := n.refresh(ctx, a, n.want.Changed && a.root(), v.stale(a, n.want, estate) || a.waitsForOthers())
		if err == nil && !one && retriesOld(a, n.want, estate) {
			one, err = n.terminate(ctx, a)
		}
		if err != nil {
			return sent, false, err
		}
		sent = sent || one
		if a.root() && a.Status.Sync.Status != "Synced" && !a.waitsForOthers() || hasKey(a.Metadata.Annotations, refreshApplication) || staleCommit(a, n.want, estate) != "" {
			settled = false
		}
	}
	return sent, settled, nil
}

// refresh requests a refresh of an outdated Application, repeatedly until it is current; with always set at least once in any case.
func (n *nudger) refresh(ctx context.Context, a application, always, old bool) (bool, error) {
	q := n.request(applications, a.Metadata.Name)
	first := q.times == 0
	due := first || !hasKey(a.Metadata.Annotations, refreshApplication) && time.Since(q.last) >= askAgain
	if !(always && first) && !(due && old) {
		return false, nil
	}
	return n.annotate(ctx, applications, a.Metadata.Name, refreshApplication, "normal")
}

// refreshSets refreshes every ApplicationSet, and reports whether an answer is pending.
func (n *nudger) refreshSets(ctx context.Context, v view) (bool, error) {
	if n.predatesRequest(v) {
		return true, nil
	}
	due := false
	for name, s := range v.sets {
		switch {
		case n.request(applicationSets, name).times == setAnswers, leavesOutSet(n.want, name): // one with errors keeps the request
			continue
		case hasKey(s.Metadata.Annotations, refreshApplicationSet):
			due = true
			continue
		}
		sent, err := n.annotate(ctx, applicationSets, name, refreshApplicationSet, "true")
		if err != nil {
			return due, err
		}
		due = due || sent
	}
	return due, nil
}

// unstick handles Applications that have not changed for unmoved. Once per wait it has Argo CD reread their cluster, like the button "Invalidate cache" of its
// web UI, and then refreshes them. Argo CD's cache of a cluster may contain deleted objects: if the cache is dropped while it is being filled, two of
// gitops-engine's processEvents keep running and share subsequent events, so that one restores what the other removed. An Application's deletion then takes
// until the next full resync of the cluster, by default ten minutes.
func (n *nudger) unstick(ctx context.Context, v view, names []string) error {
	if n.predatesRequest(v) {
		return nil
	}
	for _, name := range names {
		a, has := v.apps[name]
		cluster := v.names.cluster(a)
		if _, registered := v.since[cluster]; !has || !registered {
			continue
		}
		s := n.still[name]
		if s.version != a.Metadata.ResourceVersion {
			s = unchangedSince{version: a.Metadata.ResourceVersion, since: time.Now()}
			n.still[name] = s
		}
		var err error
		switch sent, known := n.reread[cluster]; {
		case !known && time.Since(s.since) >= unmoved:
			n.reread[cluster] = time.Now()
			_, err = n.annotate(ctx, secrets, secretPrefix+cluster, refreshCluster, time.Now().UTC().Format(time.RFC3339))
		case known && s.since.Before(sent) && time.Since(sent) >= askAgain,
			known && hasKey(a.Metadata.Annotations, refreshApplication) && time.Since(s.since) >= unmoved:
			_, err = n.annotate(ctx, applications, name, refreshApplication, refreshValue(a))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refreshValue returns a refresh value different from the present one. Argo CD 3.2 was seen to lose a request under load and keep the annotation until the next
// periodic refresh: setting the same value again is not a change, and sends no event.
func refreshValue(a application) string {
	if a.Metadata.Annotations[refreshApplication] == "normal" {
		return "hard"
	}
	return "normal"
}

// syncAbandoned reports whether Argo CD failed to sync to this commit and, by design, will not retry.
func syncAbandoned(a application) bool {
	phase := a.Status.OperationState.Phase
	return a.automated() && a.Status.Sync.Status == "OutOfSync" && len(a.Operation) == 0 && (phase == "Failed" || phase == "Error")
}

// annotate sets an annotation that Argo CD removes after acting on it, and reports whether the object exists.
func (n *nudger) annotate(ctx context.Context, r schema.GroupVersionResource, name, key, value string) (bool, error) {
	return n.patch(ctx, r, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

// sync starts a sync as a user would, at most once per wait.
func (n *nudger) sync(ctx context.Context, a application) (bool, error) {
	if n.synced[a.Metadata.Name] {
		return false, nil
	}
	n.synced[a.Metadata.Name] = true
	sync := map[string]any{"prune": a.Spec.SyncPolicy.Automated.Prune}
	if len(a.Spec.SyncPolicy.SyncOptions) > 0 {
		sync["syncOptions"] = a.Spec.SyncPolicy.SyncOptions
	}
	op := map[string]any{"initiatedBy": map[string]any{"username": "lab"}, "sync": sync}
	if len(a.Spec.SyncPolicy.Retry) > 0 {
		op["retry"] = a.Spec.SyncPolicy.Retry
	}
	return n.patch(ctx, applications, a.Metadata.Name, map[string]any{"operation": op})
}

// terminate ends a sync that is being retried, like `argocd app terminate-op`: until then Argo CD does not sync to a newer commit, which takes minutes with its
// exponential backoff.
func (n *nudger) terminate(ctx context.Context, a application) (bool, error) {
	return n.patch(ctx, applications, a.Metadata.Name, map[string]any{
		"metadata": map[string]any{"resourceVersion": a.Metadata.ResourceVersion}, // it may have ended meanwhile
		"status":   map[string]any{"operationState": map[string]any{"phase": "Terminating"}},
	})
}

// patch patches an object and reports whether it existed, at the resourceVersion in the patch, if any.
func (n *nudger) patch(ctx context.Context, r schema.GroupVersionResource, name string, patch map[string]any) (bool, error) {
	b, err := json.Marshal(patch)
	if err != nil {
		return false, err
	}
	o, err := n.engine.hub.Dynamic.Resource(r).Namespace(n.engine.namespace).Patch(ctx, name, types.MergePatchType, b, metav1.PatchOptions{FieldManager: nudgeManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s %s: %w", r.Resource, name, err)
	}
	q := n.request(r, name)
	n.sent[r.Resource+"/"+name] = request{times: q.times + 1, last: time.Now(), version: version64(o.GetResourceVersion())}
	return true, nil
}

// nudgeManager is a field manager apart from lab's own, so that lab does not own the fields it sets.
const nudgeManager = "lab-nudge"
