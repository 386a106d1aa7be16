package reconciliation

import (
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab/engine"
)

// The later of the last request and the last comparison or deployment counts.
func TestComparedAt(t *testing.T) {
	early := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	late := early.Add(time.Hour)
	token := func(at time.Time) meta.ReconcileRequestStatus {
		if at.IsZero() {
			return meta.ReconcileRequestStatus{LastHandledReconcileAt: "by hand"}
		}
		return meta.ReconcileRequestStatus{LastHandledReconcileAt: at.Format(time.RFC3339Nano)}
	}
	for name, tc := range map[string]struct{ request, began, want time.Time }{
		"neither":          {},
		"request":          {late, time.Time{}, late},
		"comparison":       {time.Time{}, late, late},
		"later request":    {late, early, late},
		"later comparison": {early, late, late},
	} {
		var k kustomizev1.Kustomization
		var r helmv2.HelmRelease
		k.Status.ReconcileRequestStatus, r.Status.ReconcileRequestStatus = token(tc.request), token(tc.request)
		if !tc.began.IsZero() {
			k.Status.History = meta.History{{LastReconciled: metav1.NewTime(tc.began.Add(time.Minute)), LastReconciledDuration: metav1.Duration{Duration: time.Minute}}}
			r.Status.History = helmv2.Snapshots{{LastDeployed: metav1.NewTime(tc.began)}}
		}
		if got := comparedAt(k); !got.Equal(tc.want) {
			t.Errorf("%s: compared at %s", name, got)
		}
		if got := releasedAt(r); !got.Equal(tc.want) {
			t.Errorf("%s: released at %s", name, got)
		}
	}
}

func TestSinceOf(t *testing.T) {
	now := time.Now()
	early, late, future := now.Add(-2*time.Hour), now.Add(-time.Hour), now.Add(time.Hour)
	for name, tc := range map[string]struct{ registered, started, want time.Time }{
		"neither":       {},
		"registration":  {late, time.Time{}, late},
		"start":         {time.Time{}, late, late},
		"later start":   {early, late, late},
		"earlier start": {late, early, late},
		"future start":  {early, future, early},
		"future only":   {future, future, time.Time{}},
	} {
		list := []engine.Registered{{Cluster: "other", Since: now.Add(-time.Minute)}, {Cluster: "prod", Since: tc.registered}}
		if got := (engine.Want{Since: map[string]time.Time{"prod": tc.started, "other": late}}).ValidSince("prod", list); !got.Equal(tc.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
