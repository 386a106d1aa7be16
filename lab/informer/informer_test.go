package informer_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"homelab/lab/informer"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: name}}
}

// await waits for a signal.
func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("no signal after 10 s")
		panic("unreachable")
	}
}

func TestFollow(t *testing.T) {
	client := fake.NewClientset(pod("b"), pod("a"))
	pods := informer.New(client, client.CoreV1().Pods("here"), &corev1.Pod{})
	changed := make(chan struct{}, 1)
	if err := informer.Follow(pods, changed, nil); err != nil {
		t.Fatal(err)
	}
	stop := informer.Run(t.Context(), pods)
	holds := func(want ...string) {
		t.Helper()
		for {
			await(t, changed)
			var names []string
			for _, p := range informer.Stored[*corev1.Pod](pods) {
				names = append(names, p.Name)
			}
			if slices.Equal(names, want) {
				return
			}
		}
	}
	holds("a", "b")
	if _, err := client.CoreV1().Pods("here").Create(t.Context(), pod("c"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("a", "b", "c")
	if err := client.CoreV1().Pods("here").Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("a", "c")

	stop()
	if !pods.IsStopped() {
		t.Error("stop returned before the informer's end")
	}
}

func TestFollowReportsBrokenWatches(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{widgets: "WidgetList"})
	gone := errors.New("no such resource")
	client.PrependReactor("list", "*", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, gone })
	i := informer.New(client, client.Resource(widgets), &unstructured.Unstructured{})
	failures := make(chan error, 1)
	if err := informer.Follow(i, make(chan struct{}, 1), failures); err != nil {
		t.Fatal(err)
	}
	defer informer.Run(t.Context(), i)()
	if err := await(t, failures); !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
	await(t, failures) // repeated
}
