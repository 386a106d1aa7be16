package workload

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"homelab/lab"
)

// failing returns a pod of argocd-server with an init container that ended so often, last with an exit code.
func failing(restarts, exit int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "argocd-server-5c-x", Namespace: "argocd", UID: "x"},
		Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
			Name: "copyutil", RestartCount: restarts,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit}},
		}}},
	}
}

// play waits for argocd-server, whose container ends every ten seconds with these exit codes, and returns how long that took.
func play(t *testing.T, codes ...int32) (took time.Duration, err error) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(deployment("argocd-server", 1, appsv1.DeploymentStatus{}), failing(6, 1))
		done := make(chan error, 1)
		began := time.Now()
		go func() {
			done <- AwaitEngine(t.Context(), client, Engine{Name: "argo cd 3.6.1", Namespace: "argocd", Workloads: names[:1], Affix: "argocd-", Within: 5 * time.Minute}, func(string) {})
			took = time.Since(began)
		}()
		for i, code := range codes {
			time.Sleep(10 * time.Second)
			if _, err := client.CoreV1().Pods("argocd").UpdateStatus(t.Context(), failing(int32(7+i), code), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		err = <-done
	})
	return took, err
}

func TestLoopEndsWait(t *testing.T) {
	took, err := play(t, 1, 1, 1, 1)
	var failed *lab.Error
	if !errors.As(err, &failed) || took > time.Minute || failed.Exit != lab.ExitFailed || failed.Message != "argo cd 3.6.1: container copyutil failed 4 times with exit code 1" {
		t.Fatalf("after %s: %v", took, err)
	}
	if !slices.Contains(failed.Details, "copyutil: fake logs") {
		t.Errorf("no log lines: %q", failed.Details)
	}
}

// A container that fails in changing ways, or seldom, may wait for another one.
func TestNoLoop(t *testing.T) {
	for _, codes := range [][]int32{{1, 1}, {1, 2, 1, 2, 1, 2}} {
		took, err := play(t, codes...)
		var failed *lab.Error
		if !errors.As(err, &failed) || failed.Exit != lab.ExitTimeout || took < 5*time.Minute || !strings.Contains(failed.Message, "not ready after") {
			t.Errorf("%v, after %s: %v", codes, took, err)
		}
	}
}

// While applications get ready, failures do not add up.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(deployment("argocd-server", 1, appsv1.DeploymentStatus{}), failing(0, 0))
		look := func(l *Loops, left int, restarts int32) *Loop {
			if _, err := client.CoreV1().Pods("argocd").UpdateStatus(t.Context(), failing(restarts, 1), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(loopLook)
			return l.Look(left, func() *Loop {
				return l.Find(context.Background(), client, map[string][]string{"argocd": names[:1]})
			})
		}
		var changing, still Loops
		for n := range int32(10) {
			if loop := look(&changing, int(n), n); loop != nil {
				t.Errorf("%d left: %v", n, loop)
			}
		}
		for n := range int32(loopAfter) {
			if loop := look(&still, 3, n); (loop != nil) != (n == loopAfter-1) {
				t.Errorf("failure %d: %v", n, loop)
			}
		}
	})
}
