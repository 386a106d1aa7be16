package argocd

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab/engine"
)

// nudger asks Argo CD to look again where waiting for its own timers would cost time, each object at most once in a wait.
type nudger struct {
	engine *ArgoCD
	want   engine.Want
	asked  map[string]uint64 // what was asked -> resourceVersion that the asking made
}

func newNudger(a *ArgoCD, want engine.Want) *nudger {
	return &nudger{engine: a, want: want, asked: map[string]uint64{}}
}

// unseen says whether the view is older than something that was asked: it would show the time before the question as the answer.
func (n *nudger) unseen(v view) bool {
	for name, a := range v.apps {
		if n.asked[applications.Resource+"/"+name] > version64(a.Metadata.ResourceVersion) {
			return true
		}
	}
	for name, s := range v.sets {
		if n.asked[applicationSets.Resource+"/"+name] > version64(s.Metadata.ResourceVersion) {
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

// look asks for what is due and says whether anything was asked, so that the caller waits for the answer.
func (n *nudger) look(ctx context.Context, v view, pending []engine.Pending) (bool, error) {
	if n.unseen(v) {
		return true, nil
	}
	root, has := v.apps[n.want.RootName()]
	if !has {
		return false, nil
	}
	estate := estateSource(root)
	if n.want.Changed || lags(root, n.want, estate) != "" {
		if asked, err := n.annotate(ctx, applications, root.Metadata.Name, refreshApplication, "normal"); asked || err != nil {
			return asked, err
		}
	}
	if root.Status.Sync.Status != "Synced" || hasKey(root.Metadata.Annotations, refreshApplication) || lags(root, n.want, estate) != "" {
		return false, nil // what the root holds may be about to change
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
		asked, err := false, error(nil)
		switch {
		case lags(a, n.want, estate) != "":
			asked, err = n.annotate(ctx, applications, a.Metadata.Name, refreshApplication, "normal")
		case gaveUp(a):
			asked, err = n.sync(ctx, a)
		}
		if err != nil {
			return due, err
		}
		due = due || asked
	}
	return due, nil
}

// sets asks every ApplicationSet to generate anew, and says whether one was asked or the view does not show it yet.
func (n *nudger) sets(ctx context.Context, v view) (bool, error) {
	if n.unseen(v) {
		return true, nil
	}
	due := false
	for name := range v.sets {
		asked, err := n.annotate(ctx, applicationSets, name, refreshApplicationSet, "true")
		if err != nil {
			return due, err
		}
		due = due || asked
	}
	return due, nil
}

// gaveUp says whether Argo CD failed to sync to this commit and, by design, will not try again by itself.
func gaveUp(a application) bool {
	phase := a.Status.OperationState.Phase
	return a.automated() && a.Status.Sync.Status == "OutOfSync" && len(a.Operation) == 0 && (phase == "Failed" || phase == "Error")
}

// annotate sets an annotation that Argo CD removes once it has acted on it.
func (n *nudger) annotate(ctx context.Context, r schema.GroupVersionResource, name, key, value string) (bool, error) {
	return n.patch(ctx, r, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

// sync starts a sync as a person would with a click.
func (n *nudger) sync(ctx context.Context, a application) (bool, error) {
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

// patch changes an object, at most once in a wait, and says whether it did.
func (n *nudger) patch(ctx context.Context, r schema.GroupVersionResource, name string, patch map[string]any) (bool, error) {
	key := r.Resource + "/" + name
	if _, done := n.asked[key]; done {
		return false, nil
	}
	n.asked[key] = 0
	b, err := json.Marshal(patch)
	if err != nil {
		return false, err
	}
	o, err := n.engine.hub.dynamic.Resource(r).Namespace(Namespace).Patch(ctx, name, types.MergePatchType, b, metav1.PatchOptions{FieldManager: nudgeManager})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s %s: %w", r.Resource, name, err)
	}
	n.asked[key] = version64(o.GetResourceVersion())
	return true, nil
}

// nudgeManager is not lab's field manager: what it sets is not lab's to keep.
const nudgeManager = "lab-nudge"
