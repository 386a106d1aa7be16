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
	// setAnswers is how often an ApplicationSet has to be asked, one answer after the other. Its controller reads the object a second time while it
	// generates, and takes away the annotation that it finds then (updateResourcesStatus in argo-cd 3.2): the first answer may come from a round that had
	// begun, with the spec of before, when it was asked. A round that answers the second time began after the first answer.
	setAnswers = 2
	// askAgain is how long an application may lag behind after it has answered: its answer may come from a look at Git that had begun before it was asked.
	askAgain = 3 * time.Second
	// unmoved is how long an application that is waited for may show the same before lab doubts what Argo CD knows of its cluster.
	unmoved = 20 * time.Second
)

// nudger asks Argo CD to look again where waiting for its own timers would cost time.
type nudger struct {
	engine *ArgoCD
	want   engine.Want
	asked  map[string]question // by resource and name
	synced map[string]bool     // applications that a sync was started for
	still  map[string]stillness
	reread map[string]time.Time // cluster -> when Argo CD was asked to read it again
}

// stillness is since when an application has been as it is.
type stillness struct {
	version string // resourceVersion
	since   time.Time
}

// question is what was asked of one object.
type question struct {
	times   int
	last    time.Time
	version uint64 // resourceVersion that the asking made
}

func newNudger(a *ArgoCD, want engine.Want) *nudger {
	return &nudger{engine: a, want: want, asked: map[string]question{}, synced: map[string]bool{}, still: map[string]stillness{}, reread: map[string]time.Time{}}
}

func (n *nudger) question(r schema.GroupVersionResource, name string) question {
	return n.asked[r.Resource+"/"+name]
}

// unseen reports whether the view is older than something that was asked: it would show the time before the question as the answer.
func (n *nudger) unseen(v view) bool {
	for name, a := range v.apps {
		if n.question(applications, name).version > version64(a.Metadata.ResourceVersion) {
			return true
		}
	}
	for name, s := range v.sets {
		if n.question(applicationSets, name).version > version64(s.Metadata.ResourceVersion) {
			return true
		}
	}
	return false
}

// version64 reads a resourceVersion, which Kubernetes promises to be a growing number since 1.35; 0 when it is none.
func version64(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// look asks for what is due and reports whether anything was asked, so that the caller waits for the answer.
func (n *nudger) look(ctx context.Context, v view) (bool, error) {
	if n.unseen(v) {
		return true, nil
	}
	if !v.rooted() {
		return false, nil
	}
	estate := v.estate()
	if asked, settled, err := n.lead(ctx, v, estate); asked || !settled || err != nil {
		return asked, err
	}
	if n.want.Changed {
		if asked, err := n.sets(ctx, v); asked || err != nil {
			return asked, err
		}
	}
	due := false
	for _, a := range v.relevant(n.want) {
		if a.terminating() {
			continue
		}
		asked, err := n.refresh(ctx, a, false, v.old(a, n.want, estate))
		if err == nil && !asked && retriesOld(a, n.want, estate) {
			asked, err = n.end(ctx, a)
		}
		if err == nil && !asked && gaveUp(a) {
			asked, err = n.sync(ctx, a)
		}
		if err != nil {
			return due, err
		}
		due = due || asked
	}
	return due, nil
}

// lead sees to the roots and to the applications that hold nothing but others, and reports whether anything was asked of them, and whether what they hold is what Git says.
func (n *nudger) lead(ctx context.Context, v view, estate source) (asked, settled bool, err error) {
	settled = true
	for _, a := range v.leaders(n.want) {
		if a.terminating() && !a.root() {
			continue
		}
		one, err := n.refresh(ctx, a, n.want.Changed && a.root(), v.old(a, n.want, estate))
		if err == nil && !one && retriesOld(a, n.want, estate) {
			one, err = n.end(ctx, a)
		}
		if err != nil {
			return asked, false, err
		}
		asked = asked || one
		if a.root() && a.Status.Sync.Status != "Synced" || hasKey(a.Metadata.Annotations, refreshApplication) || lags(a, n.want, estate) != "" {
			settled = false
		}
	}
	return asked, settled, nil
}

// refresh asks for a look at Git and the cluster where what an application shows is old, and again as long as it answers with that; once in any case when
// always is set.
func (n *nudger) refresh(ctx context.Context, a application, always, old bool) (bool, error) {
	q := n.question(applications, a.Metadata.Name)
	first := q.times == 0
	due := first || !hasKey(a.Metadata.Annotations, refreshApplication) && time.Since(q.last) >= askAgain
	if !(always && first) && !(due && old) {
		return false, nil
	}
	return n.annotate(ctx, applications, a.Metadata.Name, refreshApplication, "normal")
}

// sets asks every ApplicationSet to generate again, and reports whether an answer is still awaited.
func (n *nudger) sets(ctx context.Context, v view) (bool, error) {
	if n.unseen(v) {
		return true, nil
	}
	due := false
	for name, s := range v.sets {
		switch {
		case n.question(applicationSets, name).times == setAnswers:
			continue
		case hasKey(s.Metadata.Annotations, refreshApplicationSet):
			due = true
			continue
		}
		asked, err := n.annotate(ctx, applicationSets, name, refreshApplicationSet, "true")
		if err != nil {
			return due, err
		}
		due = due || asked
	}
	return due, nil
}

// unstick sees to applications that have shown the same for long. It asks Argo CD to read their cluster again, once in a wait, as the button "Invalidate cache" of
// its web page does, and then to look at them again. Argo CD's picture of a cluster may hold what is long gone: when it drops the picture while it is still
// drawing it, two of gitops-engine's processEvents live on and share the events that follow, and what the one has removed the other puts back. An
// application is then being removed for as long as it takes until the next full look at the cluster, by default ten minutes.
func (n *nudger) unstick(ctx context.Context, v view, names []string) error {
	if n.unseen(v) {
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
			s = stillness{version: a.Metadata.ResourceVersion, since: time.Now()}
			n.still[name] = s
		}
		var err error
		switch asked, known := n.reread[cluster]; {
		case !known && time.Since(s.since) >= unmoved:
			n.reread[cluster] = time.Now()
			_, err = n.annotate(ctx, secrets, secretPrefix+cluster, refreshCluster, time.Now().UTC().Format(time.RFC3339))
		case known && s.since.Before(asked) && time.Since(asked) >= askAgain,
			known && hasKey(a.Metadata.Annotations, refreshApplication) && time.Since(s.since) >= unmoved:
			_, err = n.annotate(ctx, applications, name, refreshApplication, otherwise(a))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// otherwise is how to ask for a refresh so that the object changes. Argo CD 3.2 was seen to lose a question under load, and then leaves the annotation where it
// is until the application's next look in its own time: to ask the same again is no change, and no event.
func otherwise(a application) string {
	if a.Metadata.Annotations[refreshApplication] == "normal" {
		return "hard"
	}
	return "normal"
}

// gaveUp reports whether Argo CD failed to sync to this commit and, by design, will not try again by itself.
func gaveUp(a application) bool {
	phase := a.Status.OperationState.Phase
	return a.automated() && a.Status.Sync.Status == "OutOfSync" && len(a.Operation) == 0 && (phase == "Failed" || phase == "Error")
}

// annotate sets an annotation that Argo CD removes once it has acted on it, and reports whether the object exists.
func (n *nudger) annotate(ctx context.Context, r schema.GroupVersionResource, name, key, value string) (bool, error) {
	return n.patch(ctx, r, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

// sync starts a sync as a user would with a click, at most once in a wait.
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

// end ends the sync that an application retries, as `argocd app terminate-op` does: until then Argo CD does not start one to a newer commit, and with its
// growing pauses that takes minutes.
func (n *nudger) end(ctx context.Context, a application) (bool, error) {
	return n.patch(ctx, applications, a.Metadata.Name, map[string]any{
		"metadata": map[string]any{"resourceVersion": a.Metadata.ResourceVersion}, // it may have ended meanwhile
		"status":   map[string]any{"operationState": map[string]any{"phase": "Terminating"}},
	})
}

// patch changes an object, and reports whether it was there, in the version that the patch names if it names one.
func (n *nudger) patch(ctx context.Context, r schema.GroupVersionResource, name string, patch map[string]any) (bool, error) {
	b, err := json.Marshal(patch)
	if err != nil {
		return false, err
	}
	o, err := n.engine.hub.dynamic.Resource(r).Namespace(n.engine.namespace).Patch(ctx, name, types.MergePatchType, b, metav1.PatchOptions{FieldManager: nudgeManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s %s: %w", r.Resource, name, err)
	}
	q := n.question(r, name)
	n.asked[r.Resource+"/"+name] = question{times: q.times + 1, last: time.Now(), version: version64(o.GetResourceVersion())}
	return true, nil
}

// nudgeManager is not lab's field manager: what it sets is not lab's to keep.
const nudgeManager = "lab-nudge"
