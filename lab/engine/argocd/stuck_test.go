package argocd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
)

// Argo CD does not retry a failed sync to the same commit; lab up must, as the cause may be repaired.
func TestWaitConvergedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := object("prod-podinfo", newCommit, "OutOfSync", "Missing", "  operationState: {phase: Failed, message: no such kind}\n")
		a, hub, _ := newFake(t, object("addons", newCommit, "Synced", "Healthy", "")+"---"+failed)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := a.WaitConverged(ctx, engine.Want{Revision: newCommit}, func(string) {})
		var e *lab.Error
		if !errors.As(err, &e) || !strings.Contains(strings.Join(e.Details, "\n"), "no such kind") {
			t.Errorf("%v", err)
		}
		if w := hub.Writes(); !slices.Equal(w, []string{"patch applications prod-podinfo"}) {
			t.Errorf("requests %v, want one sync", w)
		}
		got := toYAML(t, hub.Get(t, applications, Namespace, "prod-podinfo").Object["operation"])
		want := "initiatedBy:\n  username: lab\nsync:\n  prune: true\n  syncOptions:\n  - CreateNamespace=true"
		if got != want {
			t.Errorf("operation\n%s", got)
		}
	})
}

// A failed sync is retried with exponential backoff at its original commit, which would delay the sync of a fix.
func TestWaitConvergedTerminateRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrying := func(commit string) string {
			return "  operationState: {phase: Running, finishedAt: '2026-01-01T00:00:00Z', message: is invalid. Retrying attempt, syncResult: {revision: " + commit + "}}\n"
		}
		a, hub, _ := newFake(t, object("addons", newCommit, "Synced", "Healthy", "")+
			"---"+object("dev-podinfo", newCommit, "OutOfSync", "Healthy", retrying(newCommit))+"---"+object("dev-identity", newCommit, "OutOfSync", "Healthy", retrying("''"))+"---"+object("prod-podinfo", newCommit, "OutOfSync", "Healthy", retrying(oldCommit)))
		wait := func(detail string, want ...string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := a.WaitConverged(ctx, engine.Want{Revision: newCommit}, func(string) {})
			var e *lab.Error
			if !errors.As(err, &e) || !strings.Contains(strings.Join(e.Details, "\n"), detail) {
				t.Errorf("%v: %q", err, e.Details)
			}
			if w := hub.Writes(); !slices.Equal(w, want) {
				t.Errorf("requests %v, want one terminated sync", w)
			}
		}
		wait("is invalid", "patch applications prod-podinfo") // dev is at the wanted commit, or has none yet
		if got := toYAML(t, hub.Get(t, applications, Namespace, "prod-podinfo").Object["status"].(map[string]any)["operationState"]); !strings.Contains(got, "phase: Terminating") {
			t.Errorf("operation\n%s", got)
		}

		a, hub, _ = newFake(t, object("addons", newCommit, "OutOfSync", "Healthy", retrying(oldCommit))+"---"+object("prod-podinfo", newCommit, "Synced", "Healthy", ""))
		wait("differs from Git", "patch applications addons")
	})
}

// The next attempt of a sync hides why the last one failed.
func TestWaitConvergedFailedAttempt(t *testing.T) {
	for _, tc := range []struct {
		name  string
		count any
		want  string
	}{
		{"next attempt", int64(2), "is invalid"},
		{"another sync", nil, "syncing: under way"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed := "  operationState: {phase: Running, finishedAt: '2026-01-01T00:00:00Z', retryCount: 2, message: is invalid, syncResult: {revision: " + newCommit + "}}\n"
				a, hub, _ := newFake(t, object("addons", newCommit, "Synced", "Healthy", "")+"---"+object("prod-podinfo", newCommit, "OutOfSync", "Healthy", failed))
				operation := map[string]any{"finishedAt": nil, "syncResult": nil, "retryCount": tc.count, "message": "under way"}
				time.AfterFunc(10*time.Second, func() {
					hub.patch(t, applications, "prod-podinfo", map[string]any{"status": map[string]any{"operationState": operation}})
				})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				_, err := a.WaitConverged(ctx, engine.Want{Revision: newCommit}, func(string) {})
				var e *lab.Error
				if !errors.As(err, &e) || !strings.Contains(strings.Join(e.Details, "\n"), tc.want) {
					t.Errorf("%v: %q, want %q", err, e.Details, tc.want)
				}
			})
		})
	}
}

func TestWaitConvergedBrokenSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := set(`status: {conditions: [{type: ErrorOccurred, status: "True", message: 'map has no entry for key "aws_vpc"'}]}`)
		a, _, _ := newFake(t, object("addons", newCommit, "Synced", "Degraded", "")+"---\n"+broken)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		start := time.Now()
		_, err := a.WaitConverged(ctx, engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}}, func(string) {})
		var e *lab.Error
		if !errors.As(err, &e) || e.Exit != lab.ExitTimeout || !strings.Contains(strings.Join(e.Details, " "), "aws_vpc") {
			t.Fatalf("%v", err)
		}
		if waited := time.Since(start); waited < brokenFor || waited > 2*brokenFor {
			t.Errorf("ended after %s", waited)
		}
	})
}
