package reconciliation

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

const (
	fetchAgain = 2 * time.Second  // before an outdated source is requested again: a fetch may have begun before the push
	againAfter = 15 * time.Second // before a failed object is requested again
)

// Asker requests reconciliations in order of dependency: sources, layers, applications, their releases. A request sets the same annotation as `flux reconcile`; it
// is answered once the status has its value.
//
// An answer may come from a reconciliation that began before the request, so a busy object is requested twice.
type Asker struct {
	Client dynamic.Interface // may change between looks

	want  engine.Want
	asked map[types.UID]request

	indices bool // chart indices were requested
}

type request struct {
	token string
	at    time.Time
	busy  bool
}

// NewAsker returns an asker for a want, which has requested nothing.
func NewAsker(client dynamic.Interface, want engine.Want) *Asker {
	return &Asker{Client: client, want: want, asked: map[types.UID]request{}}
}

// LookWithCharts is Look that also requests the chart indices, once.
func (a *Asker) LookWithCharts(ctx context.Context, v View) error {
	if !a.indices {
		if err := refreshCharts(ctx, a.Client); err != nil {
			return err
		}
		a.indices = true
	}
	return a.Look(ctx, v)
}

// answered reports whether an object has handled its request. It is true for a nil asker.
func (a *Asker) answered(o metav1.Object, handled string) bool {
	if a == nil {
		return true
	}
	r, asked := a.asked[o.GetUID()]
	if !asked || r.busy {
		return false
	}
	return handled == r.token || handled != "" && handled == o.GetAnnotations()[meta.ReconcileRequestAnnotation] // a later request of another client
}

// Look sends all due requests.
func (a *Asker) Look(ctx context.Context, v View) error {
	for _, key := range slices.SortedFunc(maps.Keys(v.sources), compareKeys) {
		s := v.sources[key]
		current := has(s) == v.wanted(s, a.want) && has(s) != ""
		again := againAfter
		if current {
			again = 0
		} else if failure(s.Status.Conditions) == "" {
			again = fetchAgain
		}
		if err := a.ask(ctx, GitRepositories, &s, s.Status.GetLastHandledReconcileRequest(), again); err != nil {
			return err
		}
	}
	if err := a.askGenerators(ctx, v); err != nil {
		return err
	}
	for _, k := range v.Layers {
		if err := a.askKustomization(ctx, v, k); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Apps)) {
		k := v.Apps[name]
		if !a.want.WaitsFor(v.ClusterOf(k)) {
			continue
		}
		if err := a.askKustomization(ctx, v, k); err != nil {
			return err
		}
		current := a.answered(&k, k.Status.GetLastHandledReconcileRequest())
		for _, r := range v.ReleasesOf(k) {
			if err := a.askRelease(ctx, v, r, current); err != nil {
				return err
			}
		}
	}
	return nil
}

func compareKeys(x, y types.NamespacedName) int {
	return slices.Compare([]string{x.Namespace, x.Name}, []string{y.Namespace, y.Name})
}

// askKustomization requests a Kustomization whose source and layer are ready.
func (a *Asker) askKustomization(ctx context.Context, v View, k kustomizev1.Kustomization) error {
	if k.DeletionTimestamp != nil || k.Spec.Suspend {
		return nil
	}
	if s, ok := v.sourceOf(k); ok && (has(s) != v.wanted(s, a.want) || !a.answered(&s, s.Status.GetLastHandledReconcileRequest())) {
		return nil
	}
	if k.Spec.SourceRef.Kind == sourcev1.ExternalArtifactKind && v.unmade(k, a.want) != "" {
		return nil
	}
	if p, ok := v.parent(&k); ok && v.judgeLayer(p, a.want, a).Application != "" {
		return nil
	}
	again := time.Duration(0)
	switch {
	case v.lost(k):
		again = fetchAgain
	case failure(k.Status.Conditions) != "":
		again = againAfter
	}
	return a.ask(ctx, Kustomizations, &k, k.Status.GetLastHandledReconcileRequest(), again)
}

// askRelease requests a release of an answered application, unless it is busy: a request would restart it. A failed one is also reset, as its retries are limited.
func (a *Asker) askRelease(ctx context.Context, v View, r helmv2.HelmRelease, current bool) error {
	health, _ := releaseHealth(r)
	failed := health == Degraded
	current = current && r.Status.ObservedGeneration == r.Generation
	if r.DeletionTimestamp != nil || r.Spec.Suspend || Busy(r.Status.Conditions) || v.chartLags(r, a.want) || !failed && !current {
		return nil
	}
	again := time.Duration(0)
	if failed {
		again = againAfter
	}
	return a.ask(ctx, HelmReleases, &r, r.Status.GetLastHandledReconcileRequest(), again)
}

// Busy reports whether a controller is reconciling an object rather than waiting for a retry.
func Busy(conditions []metav1.Condition) bool {
	c := apimeta.FindStatusCondition(conditions, meta.ReconcilingCondition)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason != meta.ProgressingWithRetryReason
}

// ask requests an object that was not requested yet, that was busy then and has answered, or whose last request is older than again, unless again is 0.
func (a *Asker) ask(ctx context.Context, r schema.GroupVersionResource, o metav1.Object, handled string, again time.Duration) error {
	last, asked := a.asked[o.GetUID()]
	settled := handled == last.token || handled == o.GetAnnotations()[meta.ReconcileRequestAnnotation]
	if asked && !(last.busy && settled) && (again == 0 || time.Since(last.at) < again) {
		return nil
	}
	now := time.Now()
	next := request{token: now.UTC().Format(time.RFC3339Nano), at: now}
	annotations := map[string]any{meta.ReconcileRequestAnnotation: next.token}
	if r == HelmReleases {
		annotations[helmv2.ResetRequestAnnotation] = next.token
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.GetUID(), "annotations": annotations}})
	if err != nil {
		return err
	}
	after, err := a.Client.Resource(r).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kube.FieldManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone or was replaced
		return nil
	}
	if err != nil {
		return kube.Wrap(r.Resource+" "+o.GetName(), err)
	}
	next.busy = (!asked || !last.busy) && Busy(conditionsOf(after))
	a.asked[o.GetUID()] = next
	return nil
}

func conditionsOf(u *unstructured.Unstructured) []metav1.Condition {
	o, err := parse[struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}](u)
	if err != nil {
		return nil
	}
	return o.Status.Conditions
}

// Refresh makes Flux poll Git and the indices of the lab's chart repositories.
func Refresh(ctx context.Context, client dynamic.Interface, v View) error {
	a := NewAsker(client, engine.Want{})
	for _, key := range slices.SortedFunc(maps.Keys(v.sources), compareKeys) {
		s := v.sources[key]
		if err := a.ask(ctx, GitRepositories, &s, "", 0); err != nil {
			return err
		}
	}
	return refreshCharts(ctx, client)
}

// refreshCharts makes Flux poll the indices of the lab's chart repositories.
func refreshCharts(ctx context.Context, client dynamic.Interface) error {
	var err error
	list := listInto(ctx, client, HelmRepositories, func(o metav1.PartialObjectMetadata) {
		if err == nil {
			err = NewAsker(client, engine.Want{}).ask(ctx, HelmRepositories, &o, "", 0)
		}
	})
	if list != nil {
		return list
	}
	return err
}
