//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// pauseImage is in every node.
const pauseImage = "registry.k8s.io/pause:3.10"

// canary creates, if missing, objects that a cluster must not lose: a ConfigMap, and a pod with a file in a volume.
func (l *testLab) canary(cluster string) {
	l.t.Helper()
	ctx, c := l.t.Context(), l.kube(cluster)
	ignore := func(err error) {
		l.t.Helper()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			l.t.Fatal(err)
		}
	}
	_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "canary"}, Data: map[string]string{"sings": "yes"}}, metav1.CreateOptions{})
	ignore(err)
	_, err = c.CoreV1().PersistentVolumeClaims("default").Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "canary"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}, metav1.CreateOptions{})
	ignore(err)
	_, err = c.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "canary"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "canary", Image: pauseImage, ImagePullPolicy: corev1.PullNever,
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "canary"}}}},
		},
	}, metav1.CreateOptions{})
	ignore(err)
	eventually(l.t, 2*time.Minute, func() error {
		pod, err := c.CoreV1().Pods("default").Get(ctx, "canary", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("the canary's pod in %s is %s: %+v", cluster, pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return err
	})
	l.inNode(cluster, "echo yes >"+l.volume(c)+"/sings")
}

// volume returns the canary's folder in the node.
func (l *testLab) volume(c kubernetes.Interface) string {
	l.t.Helper()
	claim, err := c.CoreV1().PersistentVolumeClaims("default").Get(l.t.Context(), "canary", metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	v, err := c.CoreV1().PersistentVolumes().Get(l.t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	switch {
	case v.Spec.HostPath != nil:
		return v.Spec.HostPath.Path
	case v.Spec.Local != nil:
		return v.Spec.Local.Path
	}
	l.t.Fatalf("volume %s not found: %+v", v.Name, v.Spec)
	return ""
}

func (l *testLab) node(cluster string) string { return l.name + "-" + cluster + "-control-plane" }

// inNode runs a shell command in a cluster's node.
func (l *testLab) inNode(cluster, command string) string {
	l.t.Helper()
	return docker(l.t, "exec", l.node(cluster), "sh", "-c", command)
}

// canaryIdentities returns the identities and contents of the canaries, which a recreated cluster cannot have.
func (l *testLab) canaryIdentities(clusters ...string) map[string]string {
	l.t.Helper()
	canaries := map[string]string{}
	for _, cluster := range clusters {
		ctx, c := l.t.Context(), l.kube(cluster)
		for what, get := range map[string]func() (metav1.Object, error){
			"namespace": func() (metav1.Object, error) { return c.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}) },
			"configmap": func() (metav1.Object, error) {
				return c.CoreV1().ConfigMaps("default").Get(ctx, "canary", metav1.GetOptions{})
			},
			"claim": func() (metav1.Object, error) {
				return c.CoreV1().PersistentVolumeClaims("default").Get(ctx, "canary", metav1.GetOptions{})
			},
			"pod": func() (metav1.Object, error) {
				return c.CoreV1().Pods("default").Get(ctx, "canary", metav1.GetOptions{})
			},
			"deployment": func() (metav1.Object, error) {
				return c.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
			},
		} {
			o, err := get()
			if err != nil {
				l.t.Errorf("the %s of %s: %v", what, cluster, err)
				continue
			}
			canaries[cluster+" "+what] = string(o.GetUID()) + " of " + o.GetCreationTimestamp().UTC().Format(time.RFC3339)
		}
		canaries[cluster+" file"] = l.inNode(cluster, "cat "+l.volume(c)+"/sings")
	}
	return canaries
}

// checkCanaries fails the test if a canary was lost or replaced.
func (l *testLab) checkCanaries(want map[string]string, clusters ...string) {
	l.t.Helper()
	got := l.canaryIdentities(clusters...)
	for _, what := range slices.Sorted(maps.Keys(want)) {
		if cluster, _, _ := strings.Cut(what, " "); slices.Contains(clusters, cluster) && got[what] != want[what] {
			l.t.Errorf("%s was %q, is %q", what, want[what], got[what])
		}
	}
}

// keptByParts returns what the optional parts must not lose: the contents of the registry, and the authority of the door.
func (l *testLab) keptByParts() map[string]string {
	l.t.Helper()
	return map[string]string{"registry contents": strings.Join(l.contents(), ", "), "door authority": l.must("ca").stdout}
}

// eventually retries do until it succeeds.
func eventually(t *testing.T, limit time.Duration, do func() error) {
	t.Helper()
	polled(t, 500*time.Millisecond, limit, do)
}

// polled is like eventually with an interval.
func polled(t *testing.T, every, limit time.Duration, do func() error) {
	t.Helper()
	end := time.Now().Add(limit)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %s: %v", limit, err)
		}
		<-tick.C
	}
}

// running is a lab command in the background.
type running struct {
	*exec.Cmd
	t              *testing.T
	args           []string
	began          time.Time
	mu             sync.Mutex
	stdout, stderr bytes.Buffer
}

// Write records standard error.
func (r *running) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stderr.Write(b)
}

func (r *running) printed(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(r.stderr.String(), text)
}

// background starts a lab command and returns once it has printed text.
func (l *testLab) background(text string, args ...string) *running {
	l.t.Helper()
	r := &running{Cmd: l.command(l.t.Context(), args...), t: l.t, args: args, began: time.Now()}
	r.Stdout, r.Stderr = &r.stdout, r
	if err := r.Start(); err != nil {
		l.t.Fatal(err)
	}
	eventually(l.t, time.Minute, func() error {
		if !r.printed(text) {
			return fmt.Errorf("lab %s has not printed %q", strings.Join(args, " "), text)
		}
		return nil
	})
	return r
}

// end waits for the command.
func (r *running) end() output {
	r.t.Helper()
	_ = r.Wait()
	out := output{code: r.ProcessState.ExitCode(), stdout: r.stdout.String(), stderr: r.stderr.String(), took: time.Since(r.began)}
	r.t.Logf("lab %s: exit %d in %.1fs", strings.Join(r.args, " "), out.code, out.took.Seconds())
	return out
}
