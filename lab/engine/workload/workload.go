// Package workload describes the progress of Deployments, StatefulSets and their pods, and waits for them.
package workload

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Status is the progress of a Deployment or StatefulSet.
type Status struct {
	Kind  string // Deployment or StatefulSet
	Name  string
	Ready int32 // ready replicas of the newest revision
	Want  int32
	Seen  bool // false if the object does not exist
	Done  bool // the newest revision is rolled out and every replica is ready
}

func (s Status) String() string {
	if !s.Seen {
		return s.Name + " is missing"
	}
	return fmt.Sprintf("%s %d of %d ready", s.Name, s.Ready, s.Want)
}

// OfDeployment reads the status of a Deployment.
func OfDeployment(d *appsv1.Deployment) Status {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	current := d.Status.ObservedGeneration >= d.Generation
	s := Status{Kind: "Deployment", Name: d.Name, Want: want, Seen: true}
	if current {
		// ReadyReplicas includes old pods: all of them may be among the ready ones.
		s.Ready = max(0, d.Status.ReadyReplicas-(d.Status.Replicas-d.Status.UpdatedReplicas))
	}
	s.Done = current && d.Status.UpdatedReplicas >= want && d.Status.AvailableReplicas >= want && d.Status.Replicas <= d.Status.UpdatedReplicas
	return s
}

// OfStatefulSet reads the status of a StatefulSet.
func OfStatefulSet(d *appsv1.StatefulSet) Status {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	current := d.Status.ObservedGeneration >= d.Generation
	rolled := d.Status.UpdateRevision == d.Status.CurrentRevision || d.Status.UpdatedReplicas >= want
	s := Status{Kind: "StatefulSet", Name: d.Name, Want: want, Seen: true}
	if current && rolled {
		s.Ready = d.Status.ReadyReplicas
	}
	s.Done = current && rolled && d.Status.ReadyReplicas >= want
	return s
}

// Trouble describes a pod's problem: "pod podinfo-6c9f-x2x: ImagePullBackOff, ghcr.io/stefanprodan/podinfo:9.9.9"; empty for a pod that is ready, has finished, or is
// starting.
func Trouble(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded {
		return ""
	}
	if reason := containerTrouble(pod); reason != "" {
		return "pod " + pod.Name + ": " + reason
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s: %s, %s", pod.Name, orElse(c.Reason, "not scheduled"), oneLine(c.Message))
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return fmt.Sprintf("pod %s: %s, %s", pod.Name, orElse(pod.Status.Reason, "Failed"), oneLine(pod.Status.Message))
	}
	return ""
}

func containerTrouble(pod *corev1.Pod) string {
	images := map[string]string{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		images[c.Name] = c.Image
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch w, t := s.State.Waiting, s.State.Terminated; {
		case w != nil && strings.Contains(w.Reason, "Image"):
			return w.Reason + ", " + images[s.Name] + notFound(w.Message)
		case w != nil && w.Reason == "CrashLoopBackOff" && s.LastTerminationState.Terminated != nil:
			last := s.LastTerminationState.Terminated
			return fmt.Sprintf("%s, container %s ended with %d%s", w.Reason, s.Name, last.ExitCode, prefixed(", ", oneLine(last.Message)))
		case w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing":
			return w.Reason + prefixed(", ", oneLine(w.Message))
		case t != nil && t.ExitCode != 0:
			return fmt.Sprintf("container %s ended with %d%s", s.Name, t.ExitCode, prefixed(", ", orElse(oneLine(t.Message), t.Reason)))
		}
	}
	return ""
}

// notFound reduces a container runtime's message to the essential fact.
func notFound(message string) string {
	switch m := strings.ToLower(message); {
	case strings.Contains(m, "not found"), strings.Contains(m, "manifest unknown"):
		return " not found"
	case strings.Contains(m, "no such host"), strings.Contains(m, "dial tcp"), strings.Contains(m, "i/o timeout"):
		return ": its registry is unreachable"
	}
	return ""
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
