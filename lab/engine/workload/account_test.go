package workload

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

func account(name string, at time.Time) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "argocd", CreationTimestamp: metav1.NewTime(at)}}
}

func podOf(name, account string, at time.Time) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "argocd", UID: types.UID(name), CreationTimestamp: metav1.NewTime(at)},
		Spec:       corev1.PodSpec{ServiceAccountName: account},
	}
}

func TestEstranged(t *testing.T) {
	now := time.Now()
	before, ended, leaving := now.Add(-time.Hour), podOf("argocd-server-ended", "server", now.Add(-time.Hour)), podOf("argocd-server-leaving", "server", now.Add(-time.Hour))
	ended.Status.Phase, leaving.DeletionTimestamp = corev1.PodFailed, &metav1.Time{Time: now}
	client := fake.NewClientset(
		account("server", now.Add(-time.Minute)), account("same", before), account("ahead", now.Add(time.Hour)),
		podOf("argocd-server-old", "server", before), podOf("argocd-server-new", "server", now), podOf("argocd-server-same", "same", before),
		podOf("argocd-server-ahead", "ahead", before), podOf("argocd-server-none", "none", before), podOf("hers-old", "server", before), ended, leaving,
	)
	pods, err := podsWithStaleToken(t.Context(), client, "argocd", names)
	if err != nil || len(pods) != 1 || pods[0].Name != "argocd-server-old" {
		t.Errorf("%v, %v", pods, err)
	}
	if got, err := Waiting(t.Context(), client, "argocd", names); err != nil || got != "argocd-server-old has the token of a deleted ServiceAccount" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Waiting(t.Context(), fake.NewClientset(deployment("argocd-server", 1, serving), statefulSet()), "argocd", names); err != nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
}

// A pod of a recreated account is restarted first, and counts until it is gone.
func TestAwaitEngineRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(deployment("argocd-server", 1, serving), statefulSet(), account("server", time.Now().Add(-time.Minute)),
			podOf("argocd-server-old", "server", time.Now().Add(-time.Hour)), podOf("argocd-server-other", "server", time.Now()))
		gone := time.Time{}
		client.PrependReactor("delete", "pods", func(a kubetesting.Action) (bool, runtime.Object, error) {
			if of := a.(kubetesting.DeleteAction); of.GetName() != "argocd-server-old" || *of.GetDeleteOptions().Preconditions.UID != "argocd-server-old" {
				t.Errorf("deleted %s", of.GetName())
			}
			go func() {
				time.Sleep(5 * time.Second)
				gone = time.Now()
				_ = client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "argocd", "argocd-server-old")
			}()
			return true, nil, nil
		})
		var progress []string
		err := AwaitEngine(t.Context(), client, Engine{Name: "argo cd", Namespace: "argocd", Workloads: names, Affix: "argocd-", Within: time.Minute}, func(s string) { progress = append(progress, s) })
		if err != nil || gone.IsZero() {
			t.Errorf("%v, removed at %v", err, gone)
		}
		if want := []string{"argo cd: restarting argocd-server-old, whose ServiceAccount was recreated"}; !slices.Equal(progress, want) {
			t.Errorf("progress %q", progress)
		}
	})
}
