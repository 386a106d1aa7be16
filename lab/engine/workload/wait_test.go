package workload

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

var (
	names   = []string{"Deployment/argocd-server", "StatefulSet/argocd-application-controller"}
	serving = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
)

func statefulSet() *appsv1.StatefulSet {
	one := int32(1)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "argocd-application-controller", Namespace: "argocd", Generation: 1},
		Spec:       appsv1.StatefulSetSpec{Replicas: &one},
		Status:     appsv1.StatefulSetStatus{ObservedGeneration: 1, ReadyReplicas: 1},
	}
}

func TestWaitReady(t *testing.T) {
	client := fake.NewClientset(deployment("argocd-server", 1, serving), statefulSet())
	if err := Wait(t.Context(), client, "argocd", names, func(s string) { t.Errorf("progress %q", s) }); err != nil {
		t.Fatal(err)
	}
	for _, a := range client.Actions() {
		if a.GetVerb() != "list" {
			t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

func TestWaitRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(deployment("argocd-server", 1, appsv1.DeploymentStatus{}))
		var progress []string
		done := make(chan error, 1)
		go func() {
			done <- Wait(t.Context(), client, "argocd", names, func(s string) { progress = append(progress, s) })
		}()
		time.Sleep(3 * time.Second)
		if _, err := client.AppsV1().StatefulSets("argocd").Create(t.Context(), statefulSet(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if _, err := client.AppsV1().Deployments("argocd").Update(t.Context(), deployment("argocd-server", 1, serving), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want := []string{"argocd-server 0 of 1 ready, and 1 more", "argocd-server 0 of 1 ready"}
		if !slices.Equal(progress, want) {
			t.Errorf("progress %q, want %q", progress, want)
		}
	})
}

func TestWaitTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "argocd-server-6c9f-x2x", Namespace: "argocd"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Image: "quay.io/argoproj/argocd:v9"}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "server", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}},
			}}},
		}
		bystander := pod.DeepCopy()
		bystander.Name = "other-1"
		client := fake.NewClientset(deployment("argocd-server", 1, appsv1.DeploymentStatus{}), statefulSet(), pod, bystander)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		err := Wait(ctx, client, "argocd", names, func(string) {})
		var late *NotReady
		if !errors.As(err, &late) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v", err)
		}
		if late.Waited != 5*time.Minute || err.Error() != "argocd-server 0 of 1 ready after 5m0s" {
			t.Errorf("%v", err)
		}
		if want := []string{"pod argocd-server-6c9f-x2x: ImagePullBackOff, quay.io/argoproj/argocd:v9 not found"}; !slices.Equal(late.Pods, want) {
			t.Errorf("pods %q", late.Pods)
		}
	})
}
