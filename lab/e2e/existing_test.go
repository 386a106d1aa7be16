//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"homelab/lab"
)

// stranger is a Kind cluster outside lab.
const stranger = "e2e-stranger"

const strangerConfig = `kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
kubeadmConfigPatches:
- |
  kind: KubeletConfiguration
  failCgroupV1: false
containerdConfigPatches:
- |-
  [plugins."io.containerd.cri.v1.runtime"]
    restrict_oom_score_adj = true
`

const edgeCluster = `apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: edge}
spec:
  role: spoke
  environment: prod
  provider: existing
  existing:
    kubeconfig: KUBECONFIG
    context: kind-e2e-stranger
    server: https://e2e-stranger-control-plane:6443
  cloud: {provider: aws}
  addons: {identity: true}
`

// existing attaches an existing cluster, removes it from the estate, adds it again, and takes the lab down. The cluster must end up unchanged.
func existing(t *testing.T) {
	l := newLab(t, "e2e-edge", "hub")
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	l.must("up", "--fix")

	kind := filepath.Join(dir, "kind")
	shell(t, "go", "build", "-o", kind, "sigs.k8s.io/kind")
	if err := os.WriteFile(filepath.Join(dir, "kind.yaml"), []byte(strangerConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	image := shell(t, "docker", "inspect", "--format", "{{.Config.Image}}", "e2e-edge-hub-control-plane")
	t.Cleanup(func() {
		_ = exec.Command(kind, "delete", "cluster", "--quiet", "--name", stranger, "--kubeconfig", kubeconfig).Run()
	})
	// Where lab doctor --fix registered a runtime, it is not the default, and kind finds it by this PATH alone.
	shell(t, "env", "PATH=/usr/local/lib/lab/bin:"+os.Getenv("PATH"), kind, "create", "cluster", "--quiet", "--name", stranger, "--image", strings.TrimSpace(image), "--config", filepath.Join(dir, "kind.yaml"), "--kubeconfig", kubeconfig, "--wait", "180s")
	shell(t, "docker", "network", "connect", "lab-e2e-edge", stranger+"-control-plane")
	theirs := client(t, kubeconfig)
	_, err := theirs.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "canary"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := held(t, theirs)

	l.write("clusters/edge/cluster.yaml", strings.Replace(edgeCluster, "KUBECONFIG", kubeconfig, 1))
	if out := l.run("up"); out.code != int(lab.ExitInvalid) || !strings.Contains(out.stderr, "context \"kind-e2e-stranger\"") || !strings.Contains(out.stderr, "--trust") {
		t.Errorf("without trust: exit %d\n%s", out.code, out.stderr)
	}
	if now := held(t, theirs); !slices.Equal(now, found) {
		t.Errorf("without trust %q\nbefore %q", now, found)
	}
	arrives := func() {
		t.Helper()
		l.must("up", "--trust")
		l.converged(2, 2)
		if _, err := theirs.CoreV1().ConfigMaps("identity").Get(t.Context(), "cloud", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	arrives()
	if out := l.must("up"); !strings.Contains(out.stderr+out.stdout, "up to date") {
		t.Errorf("second run: %s%s", out.stdout, out.stderr)
	}

	for _, c := range []struct{ flag, has, lacks string }{{"--attached=false", "edge/attached.txt", "edge/pods.json"}, {"--attached", "edge/pods.json", "edge/attached.txt"}} {
		archive := filepath.Join(dir, "diagnose.tar.gz")
		l.must("diagnose", c.flag, archive)
		if names := shell(t, "tar", "-tzf", archive); !strings.Contains(names, c.has) || strings.Contains(names, c.lacks) || !strings.Contains(names, "hub/pods.json") {
			t.Errorf("diagnose %s: %s", c.flag, names)
		}
	}

	l.remove("clusters/edge")
	l.must("up", "--prune")
	if now := held(t, theirs); !slices.Equal(now, found) {
		t.Errorf("after release %q\nbefore %q", now, found)
	}
	l.write("clusters/edge/cluster.yaml", strings.Replace(edgeCluster, "KUBECONFIG", kubeconfig, 1))
	arrives()

	if out := l.must("down", "--dry-run"); !strings.Contains(out.stdout, "cluster/edge     released, keeps running") {
		t.Errorf("plan: %s", out.stdout)
	}
	shell(t, "docker", "pause", "e2e-edge-hub-control-plane")
	out := l.run("down")
	if out.code != 1 || !strings.Contains(out.stderr, "lab down --abandon edge") {
		t.Errorf("without the hub: exit %d\n%s", out.code, out.stderr)
	}
	shell(t, "docker", "unpause", "e2e-edge-hub-control-plane")
	l.must("down")
	if now := held(t, theirs); !slices.Equal(now, found) {
		t.Errorf("after down %q\nbefore %q", now, found)
	}
	if out, err := exec.Command("docker", "network", "inspect", "lab-e2e-edge").CombinedOutput(); err == nil {
		t.Errorf("network left over:\n%s", out)
	}
}

// held lists a cluster's namespaces, roles, definitions and webhooks, with the uids of those that must not be recreated.
func held(t *testing.T, c kubernetes.Interface) []string {
	t.Helper()
	var list []string
	namespaces, err := c.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range namespaces.Items {
		if ns.DeletionTimestamp == nil {
			list = append(list, "namespace "+ns.Name+" "+string(ns.UID))
		}
	}
	bindings, err := c.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings.Items {
		list = append(list, "binding "+b.Name)
	}
	roles, err := c.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range roles.Items {
		list = append(list, "role "+r.Name)
	}
	if _, err := c.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "lab", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		list = append(list, "mark")
	}
	return list
}

func client(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func shell(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
