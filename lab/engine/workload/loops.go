package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	loopAfter = 4               // failures of a container with the same exit code
	loopLook  = 5 * time.Second // between two looks at the pods of applications
	logLines  = 3
	logBytes  = 2 << 10
	logWithin = 5 * time.Second
)

// Loops finds containers that keep failing the same way during a wait. A container may fail while it waits for another one, but not for long.
type Loops struct {
	seen map[loopKey]streak
	left int       // of Look
	next time.Time // when Look looks again
}

type loopKey struct {
	pod       types.UID
	container string
}

// streak is a row of failures with one exit code.
type streak struct {
	restarts int32 // when last seen
	exit     int32
	failures int32
}

// Loop is a container that keeps failing.
type Loop struct {
	Pod, Container string
	Exit, Failures int32
}

func (l Loop) String() string {
	return fmt.Sprintf("container %s failed %d times with exit code %d", l.Container, l.Failures, l.Exit)
}

// Note returns a container of the pod that has failed loopAfter times since its first Note, or nil.
func (l *Loops) Note(pod *corev1.Pod) *Loop {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	if l.seen == nil {
		l.seen = map[loopKey]streak{}
	}
	var worst *Loop
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		key := loopKey{pod.UID, c.Name}
		was, known := l.seen[key]
		ended := c.State.Terminated
		if ended == nil {
			ended = c.LastTerminationState.Terminated
		}
		switch {
		case ended == nil || ended.ExitCode == 0 || c.Ready:
			l.seen[key] = streak{restarts: c.RestartCount}
			continue
		case !known: // earlier failures may have had other causes
			was = streak{restarts: c.RestartCount, exit: ended.ExitCode, failures: 1}
		case c.RestartCount > was.restarts && was.failures > 0 && ended.ExitCode == was.exit:
			was.failures, was.restarts = was.failures+c.RestartCount-was.restarts, c.RestartCount
		case c.RestartCount > was.restarts || was.failures == 0:
			was = streak{restarts: c.RestartCount, exit: ended.ExitCode, failures: 1}
		}
		l.seen[key] = was
		if was.failures >= loopAfter && worst == nil {
			worst = &Loop{Pod: pod.Name, Container: c.Name, Exit: was.exit, Failures: was.failures}
		}
	}
	return worst
}

// Look calls find at times, and returns its result. left is the number of applications to wait for: as long as it changes, a container may still get what it waits for.
func (l *Loops) Look(left int, find func() *Loop) *Loop {
	if left != l.left {
		l.seen, l.left = nil, left
	}
	now := time.Now()
	if now.Before(l.next) {
		return nil
	}
	l.next = now.Add(loopLook)
	return find()
}

// Find returns a container of the workloads ("Deployment/server", by namespace) that are not ready that has failed loopAfter times, or nil. Read errors are ignored.
func (l *Loops) Find(ctx context.Context, client kubernetes.Interface, names map[string][]string) *Loop {
	for _, n := range slices.Sorted(maps.Keys(names)) {
		all, err := Observe(ctx, client, n, names[n])
		if err != nil || len(Pending(all)) == 0 {
			continue
		}
		pods, err := client.CoreV1().Pods(n).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range pods.Items {
			if !slices.ContainsFunc(Pending(all), func(s Status) bool { return Owns(s, &pods.Items[i]) }) {
				continue
			}
			if loop := l.Note(&pods.Items[i]); loop != nil {
				return loop
			}
		}
	}
	return nil
}

// explain describes a pod's problem as Trouble does, with the last log lines of a container that failed.
func explain(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) []string {
	trouble := Trouble(pod)
	if trouble == "" {
		return nil
	}
	return append([]string{trouble}, lastLog(ctx, client, pod)...)
}

// lastLog returns the last log lines of the first failed container of a pod, or nil.
func lastLog(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) []string {
	ctx, cancel := context.WithTimeout(ctx, logWithin)
	defer cancel()
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		now, before := c.State.Terminated, c.LastTerminationState.Terminated
		previous := now == nil && before != nil && !c.Ready
		if !previous && (now == nil || now.ExitCode == 0) {
			continue
		}
		lines, bytes := int64(logLines), int64(logBytes)
		out, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			Container: c.Name, Previous: previous, TailLines: &lines, LimitBytes: &bytes,
		}).DoRaw(ctx)
		if err != nil {
			return nil
		}
		var list []string
		for line := range strings.Lines(string(out)) {
			if line = oneLine(line); line != "" {
				list = append(list, c.Name+": "+line)
			}
		}
		return list
	}
	return nil
}
