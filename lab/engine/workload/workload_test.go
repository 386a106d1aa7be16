package workload

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func deployment(name string, want int32, status appsv1.DeploymentStatus) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "argocd", Generation: 2},
		Spec:       appsv1.DeploymentSpec{Replicas: &want}, Status: status,
	}
}

func TestOfDeployment(t *testing.T) {
	for name, tc := range map[string]struct {
		want   int32
		status appsv1.DeploymentStatus
		ready  int32
		done   bool
	}{
		"fresh":             {1, appsv1.DeploymentStatus{}, 0, false},
		"outdated status":   {1, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}, 0, false},
		"rolling, old runs": {1, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}, 0, false},
		"rolled, old ends":  {1, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1, ReadyReplicas: 2, AvailableReplicas: 2}, 1, false},
		"half":              {2, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 1, AvailableReplicas: 1}, 1, false},
		"done":              {2, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}, 2, true},
		"scaled to nothing": {0, appsv1.DeploymentStatus{ObservedGeneration: 2}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := OfDeployment(deployment("d", tc.want, tc.status))
			if s.Ready != tc.ready || s.Done != tc.done || s.Want != tc.want || !s.Seen {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestOfStatefulSet(t *testing.T) {
	one := int32(1)
	for name, tc := range map[string]struct {
		status appsv1.StatefulSetStatus
		done   bool
	}{
		"fresh":         {appsv1.StatefulSetStatus{}, false},
		"status of old": {appsv1.StatefulSetStatus{ObservedGeneration: 1, ReadyReplicas: 1, UpdatedReplicas: 1}, false},
		"old pod ready": {appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 1, CurrentRevision: "a", UpdateRevision: "b"}, false},
		"new pod ready": {appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 1, UpdatedReplicas: 1, CurrentRevision: "a", UpdateRevision: "b"}, true},
		"done":          {appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 1, CurrentRevision: "b", UpdateRevision: "b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := OfStatefulSet(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s", Generation: 2}, Spec: appsv1.StatefulSetSpec{Replicas: &one}, Status: tc.status})
			if s.Done != tc.done {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestTrouble(t *testing.T) {
	waiting := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}}
	}
	crash := waiting("CrashLoopBackOff", "back-off 5m0s")
	crash.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Message: "no\nconfig"}
	failedInit := corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
		Name: "i", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}},
	}}}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"serves":       {corev1.PodStatus{Phase: corev1.PodRunning}, ""},
		"starting":     {waiting("ContainerCreating", ""), ""},
		"initialising": {waiting("PodInitializing", ""), ""},
		"not found":    {waiting("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: rpc error: code = NotFound: ghcr.io/x:9: not found`), "pod p: ImagePullBackOff, img:9 not found"},
		"no network":   {waiting("ErrImagePull", `dial tcp: lookup ghcr.io: no such host`), "pod p: ErrImagePull, img:9: its registry is unreachable"},
		"refused":      {waiting("ErrImagePull", `unauthorized`), "pod p: ErrImagePull, img:9"},
		"config":       {waiting("CreateContainerConfigError", `secret "a" not found`), `pod p: CreateContainerConfigError, secret "a" not found`},
		"crash":        {crash, "pod p: CrashLoopBackOff, container c ended with 2, no config"},
		"init failed":  {failedInit, "pod p: container i ended with 1, Error"},
		"unschedulable": {corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: 1 Insufficient memory.",
		}}}, "pod p: Unschedulable, 0/1 nodes are available: 1 Insufficient memory."},
		"evicted":  {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on disk"}, "pod p: Evicted, low on disk"},
		"finished": {corev1.PodStatus{Phase: corev1.PodSucceeded}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img:9"}}}, Status: tc.status}
			if got := Trouble(pod); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			now := metav1.Now()
			pod.DeletionTimestamp = &now
			if got := Trouble(pod); got != "" {
				t.Errorf("terminating pod: %q", got)
			}
		})
	}
}
