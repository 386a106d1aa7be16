//go:build e2e

package cluster_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/docker"
	"homelab/lab/state"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// nodeRef returns the node image to test with: LAB_E2E_NODE, or the one in the engine.
func nodeRef(t *testing.T, d *docker.Docker) string {
	t.Helper()
	if ref := os.Getenv("LAB_E2E_NODE"); ref != "" {
		return ref
	}
	out, err := d.Output(t.Context(), nil, "image", "ls", "--filter", "reference=lab/node", "--filter", "reference=kindest/node", "--format", "{{.Repository}}:{{.Tag}}")
	if err != nil {
		t.Fatal(err)
	}
	ref, _, _ := strings.Cut(string(out), "\n")
	if ref == "" {
		t.Fatal("no node image in the engine: run lab bundle build")
	}
	return ref
}

func host(t *testing.T, d *docker.Docker) cluster.Host {
	t.Helper()
	info, err := d.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Harmless if not needed: pods then keep the OOM scores that they inherit.
	return cluster.Host{CgroupV1: info.CgroupVersion == "1", NoOOMAdjust: true}
}

// archive builds a tiny image, saves it, and returns it as the supply would.
func archive(t *testing.T, d *docker.Docker, ref string) lab.Image {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "empty", Mode: 0o644}), w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Output(t.Context(), &layer, "import", "-", ref); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = d.Output(context.Background(), nil, "image", "rm", ref) })
	id, _, err := d.ImageID(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/image.tar"
	if _, err := d.Output(t.Context(), nil, "save", "--output", file, ref); err != nil {
		t.Fatal(err)
	}
	return lab.Image{Name: "empty", Ref: ref, Digest: id, Archive: file}
}

func logProgress(t *testing.T) lab.Progress {
	began := time.Now()
	return func(s string) { t.Logf("%5.1f s  %s", time.Since(began).Seconds(), s) }
}

func TestKind(t *testing.T) {
	d := docker.New()
	dir := &state.Dir{Lab: "e2e-k", Path: t.TempDir()}
	k := cluster.NewKind(dir, d, host(t, d))
	docker := func(t *testing.T, args ...string) {
		t.Helper()
		if _, err := d.Output(context.WithoutCancel(t.Context()), nil, args...); err != nil {
			t.Fatal(err)
		}
	}
	image := archive(t, d, "docker.io/lab/e2e-empty:1")
	forgetSeeds(t, d)
	t.Cleanup(func() {
		for _, name := range []string{"dev", "half"} {
			if err := k.Delete(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
	})
	clustertest.Contract(t, clustertest.Subject{
		Clusters: k, Other: cluster.NewKind(&state.Dir{Lab: "e2e-other", Path: t.TempDir()}, d, host(t, d)), State: dir, NodeRef: nodeRef(t, d), Image: image, Limit: 5 * time.Minute,
		Holds: func(t *testing.T, name string) bool {
			out, err := d.Exec(t.Context(), lab.KindName("e2e-k", name)+"-control-plane", nil, "crictl", "images", "-o", "json")
			if err != nil {
				t.Fatal(err)
			}
			return json.Valid(out) && strings.Contains(string(out), image.Digest)
		},
		Stop:  func(t *testing.T, node string) { docker(t, "stop", node) },
		Pause: func(t *testing.T, node string) { docker(t, "pause", node) },
		Silence: func(t *testing.T, node string) func() {
			docker(t, "exec", node, "pkill", "-STOP", "kube-apiserver")
			return func() { docker(t, "exec", node, "pkill", "-CONT", "kube-apiserver") }
		},
		Unmark: func(t *testing.T, node string) {
			docker(t, "exec", node, "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "--namespace=kube-system", "delete", "configmap", "lab")
			docker(t, "exec", node, "rm", "/kind/lab.json")
		},
		Expire: func(t *testing.T, node string) {
			docker(t, "exec", node, "sh", "-euc", expire)
			docker(t, "stop", node)
			eventually(t, func() error {
				text, err := d.File(t.Context(), node, "/run.ended")
				if err == nil && time.Now().Unix() < must(strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)) {
					err = errors.New("the certificates have not ended")
				}
				return err
			})
		},
		Identity: func(t *testing.T, name string) string {
			cfg, err := k.RESTConfig(name)
			if err != nil {
				t.Fatal(err)
			}
			space, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return string(space.UID)
		},
	})
	if left, err := d.Containers(t.Context(), "name=e2e-k-"); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// expire gives a node certificates that last 15 s, as those of a lab that is over a year old: kubeadm's, and the kubelet's, which renews its own while it runs.
const expire = `
sed -e '/^certificateValidityPeriod:/d' -e 's/^kind: ClusterConfiguration$/&\ncertificateValidityPeriod: 15s/' /kind/kubeadm.conf >/run/short.conf
kubeadm certs renew all --config /run/short.conf
kubeadm kubeconfig user --config /run/short.conf --client-name "system:node:$(hostname)" --org system:nodes --validity-period 15s >/run/kubelet.conf
cat /run/kubelet.conf >/etc/kubernetes/kubelet.conf
rm -f /var/lib/kubelet/pki/kubelet-client-*.pem
echo $(($(date +%s) + 16)) >/run.ended
`

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestStuck deletes a node with a frozen process, as left by runc if a node is killed while creating a pod. With cgroup v1 such a node does not exit; with v2
// it does, so that the test only covers Delete.
func TestStuck(t *testing.T) {
	d := docker.New()
	k := cluster.NewKind(&state.Dir{Lab: "e2e-s", Path: t.TempDir()}, d, host(t, d))
	const node = "e2e-s-dev-control-plane"
	t.Cleanup(func() {
		if err := errors.Join(k.Delete(context.Background(), "dev"), k.RemoveNetwork(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if err := k.EnsureNetwork(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Output(t.Context(), nil, "run", "--detach", "--privileged", "--name", node, "--network", lab.NetworkName("e2e-s"),
		"--label", "io.x-k8s.kind.cluster=e2e-s-dev", "--label", "io.x-k8s.kind.role=control-plane", "--entrypoint", "sleep", nodeRef(t, d), "600"); err != nil {
		t.Fatal(err)
	}
	const freeze = `below=$(sed -n 's/.*:freezer://p; s/^0:://p' /proc/1/cgroup) && cd /sys/fs/cgroup && if [ -d freezer ]; then cd freezer; fi &&
		if [ -d ".$below" ]; then cd ".$below"; fi && mkdir frozen && cd frozen && { sleep 600 & } && echo $! >cgroup.procs &&
		if [ -e freezer.state ]; then echo FROZEN >freezer.state; else echo 1 >cgroup.freeze; fi`
	if _, err := d.Exec(t.Context(), node, nil, "sh", "-c", freeze); err != nil {
		t.Fatal(err)
	}
	if err := k.Delete(t.Context(), "dev"); err != nil {
		t.Fatal(err)
	}
	if left, err := d.Containers(t.Context(), "name=e2e-s-"); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// TestTimes creates a cluster with the images in LAB_E2E_IMAGES (REF=ARCHIVE ...) and logs the timing.
func TestTimes(t *testing.T) {
	d := docker.New()
	k := cluster.NewKind(&state.Dir{Lab: "e2e-t", Path: t.TempDir()}, d, host(t, d))
	spec := cluster.Spec{Cluster: lab.Cluster{Name: "dev", Kind: []byte(os.Getenv("LAB_E2E_KIND"))}, NodeRef: nodeRef(t, d), Images: func(context.Context) ([]lab.Image, error) {
		var images []lab.Image
		for _, pair := range strings.Fields(os.Getenv("LAB_E2E_IMAGES")) {
			ref, file, _ := strings.Cut(pair, "=")
			images = append(images, lab.Image{Ref: ref, Digest: "sha256:0", Archive: file})
		}
		return images, nil
	}}
	if os.Getenv("LAB_E2E_KEEP") == "" {
		t.Cleanup(func() {
			if err := errors.Join(k.Delete(context.Background(), "dev"), k.RemoveNetwork(context.Background())); err != nil {
				t.Error(err)
			}
		})
	}
	began := time.Now()
	if err := k.Create(t.Context(), spec, logProgress(t)); err != nil {
		var e *lab.Error
		if errors.As(err, &e) {
			t.Log(strings.Join(e.Details, "\n"))
		}
		t.Fatal(err)
	}
	t.Logf("created in %s, %s of processor time", time.Since(began), processorTime(t, d, "e2e-t-dev-control-plane"))
	began = time.Now()
	states, err := k.Observe(t.Context())
	t.Logf("observed in %s: %+v, %v", time.Since(began), states, err)
}

// TestPodsOnTwoNodes checks that pods on two nodes reach each other, also after the nodes' addresses have changed.
func TestPodsOnTwoNodes(t *testing.T) {
	const labName, name = "e2e-m", "two"
	ctx := t.Context()
	d := docker.New()
	k := cluster.NewKind(&state.Dir{Lab: labName, Path: t.TempDir()}, d, host(t, d))
	image := lab.Image{Ref: os.Getenv("LAB_E2E_POD_REF"), Digest: "sha256:0", Archive: os.Getenv("LAB_E2E_POD_ARCHIVE")}
	if image.Ref == "" {
		t.Skip("LAB_E2E_POD_REF and LAB_E2E_POD_ARCHIVE name no image that serves HTTP on 9898 (podinfo)")
	}
	t.Cleanup(func() {
		if err := errors.Join(k.Delete(context.Background(), name), k.RemoveNetwork(context.Background())); err != nil {
			t.Error(err)
		}
	})
	// The image arrives last, which must be reported.
	var once sync.Once
	waits := make(chan struct{})
	spec := cluster.Spec{
		Cluster: lab.Cluster{Name: name, Kind: []byte("nodes: [{role: control-plane}, {role: worker}]")}, NodeRef: nodeRef(t, d),
		Images: func(ctx context.Context) ([]lab.Image, error) {
			ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
			defer cancel()
			select {
			case <-waits:
				return []lab.Image{image}, nil
			case <-ctx.Done():
				return nil, errors.New("progress does not report the wait for images")
			}
		},
	}
	progress := logProgress(t)
	if err := k.Create(ctx, spec, func(line string) {
		progress(line)
		if strings.Contains(line, "waiting for its images") {
			once.Do(func() { close(waits) })
		}
	}); err != nil {
		t.Fatal(err)
	}
	cfg, err := k.RESTConfig(name)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []string{lab.KindName(labName, name) + "-control-plane", lab.KindName(labName, name) + "-worker"}
	for i, node := range nodes {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod%d", i), Namespace: "default"},
			Spec: corev1.PodSpec{
				NodeName: node, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{{Name: "web", Image: image.Ref, ImagePullPolicy: corev1.PullNever}},
			},
		}
		if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	reach := func() {
		t.Helper()
		for i, node := range nodes {
			ip := podIP(t, client, fmt.Sprintf("pod%d", i))
			other := nodes[1-i]
			eventually(t, func() error { // from the other node, over its route
				_, err := d.Exec(ctx, other, nil, "bash", "-c", "exec 3<>/dev/tcp/"+ip+"/9898")
				return err
			})
			eventually(t, func() error { // from the pod there
				_, err := d.Exec(ctx, other, nil, "bash", "-c",
					`exec nsenter -t "$(crictl inspect -o go-template --template '{{.info.pid}}' "$(crictl ps -q --name web)")" -n bash -c 'exec 3<>/dev/tcp/`+ip+`/9898'`)
				return err
			})
			t.Logf("pod on %s at %s reached from %s", node, ip, other)
		}
	}
	reach()
	for _, node := range nodes {
		if _, err := d.Output(ctx, nil, "stop", node); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Output(ctx, nil, "start", nodes[1]); err != nil { // the worker first, so that it gets the former address of the control plane
		t.Fatal(err)
	}
	if err := k.Start(ctx, name, logProgress(t)); err != nil {
		t.Fatal(err)
	}
	reach()
}

// podIP waits until a pod is ready and returns its address.
func podIP(t *testing.T, client kubernetes.Interface, name string) string {
	t.Helper()
	var ip string
	eventually(t, func() error {
		pod, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				ip = pod.Status.PodIP
				return nil
			}
		}
		return fmt.Errorf("pod %s is %s", name, pod.Status.Phase)
	})
	return ip
}

func eventually(t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-again.C:
		}
	}
}

// processorTime returns the processor time used by a container, on a machine with cgroup v1 and a local engine; else 0.
func processorTime(t *testing.T, d *docker.Docker, name string) time.Duration {
	t.Helper()
	out, err := d.Exec(t.Context(), name, nil, "cat", "/sys/fs/cgroup/cpuacct/cpuacct.usage")
	if err != nil {
		return 0
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ns)
}

// TestSeed creates a cluster with a new seed, and one of two nodes after a killed run left the seed incomplete: neither imports an image.
func TestSeed(t *testing.T) {
	d := docker.New()
	k := cluster.NewKind(&state.Dir{Lab: "e2e-seed", Path: t.TempDir()}, d, host(t, d))
	node, image := nodeRef(t, d), archive(t, d, "docker.io/lab/e2e-seed:1")
	spec := cluster.Spec{Cluster: lab.Cluster{Name: "dev"}, NodeRef: node, Images: func(context.Context) ([]lab.Image, error) { return []lab.Image{image}, nil }}
	before := seeds(t, d)
	forgetSeeds(t, d)
	t.Cleanup(func() {
		if err := errors.Join(k.Delete(context.Background(), "dev"), k.RemoveNetwork(context.Background())); err != nil {
			t.Error(err)
		}
	})
	for round, last := range []string{"control-plane", "worker"} {
		var progress []string
		var mu sync.Mutex
		p := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			progress = append(progress, s)
		}
		if round == 1 {
			spec.Cluster.Kind = []byte("nodes: [{role: control-plane}, {role: worker}]")
		}
		if err := k.Create(t.Context(), spec, p); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(progress, "\n"); strings.Contains(text, "loading image") || strings.Contains(text, "one by one") {
			t.Errorf("round %d:\n%s", round, text)
		}
		out, err := d.Exec(t.Context(), "e2e-seed-dev-"+last, nil, "sh", "-c", "crictl images -o json; ls /var")
		if err != nil || !strings.Contains(string(out), image.Digest) || strings.Contains(string(out), "seed\n") {
			t.Errorf("round %d: %v\n%s", round, err, out)
		}
		if err := k.Delete(t.Context(), "dev"); err != nil {
			t.Fatal(err)
		}
		for _, name := range seeds(t, d) {
			if round == 0 && !slices.Contains(before, name) {
				if _, err := d.OnVolumes(t.Context(), docker.Helper{Image: node, Volumes: []string{name}}, `rm "/volumes/$1/_data/seed" && rm -r "/volumes/$1/_data/lib/containerd/io.containerd.content.v1.content"`, name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func seeds(t *testing.T, d *docker.Docker) []string {
	t.Helper()
	out, err := d.Output(context.Background(), nil, "volume", "ls", "--quiet", "--filter", "label=lab.homelab/seed")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// forgetSeeds removes the seeds that the test makes when it ends.
func forgetSeeds(t *testing.T, d *docker.Docker) {
	t.Helper()
	before := seeds(t, d)
	t.Cleanup(func() {
		for _, name := range seeds(t, d) {
			if slices.Contains(before, name) {
				continue
			}
			if _, err := d.Output(context.Background(), nil, "volume", "rm", name); err != nil {
				t.Error(err)
			}
		}
	})
}
