//go:build e2e

package e2e

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/ui"
)

// newExamples returns a lab with the worked examples as its estate.
func newExamples(t *testing.T) *testLab {
	l := newLab(t, "e2e-examples", "hub")
	l.remove("")
	copyTree(t, filepath.Join("testdata", "worked-examples"), l.estate)
	return l
}

func examplesUp(t *testing.T, l *testLab) {
	if out := l.must("generate"); !strings.Contains(out.stdout, "everything is up to date") {
		t.Errorf("generate: %s", out.stdout)
	}
	l.must("up", "--fix")
	l.converged(2, 8)
}

func exampleStorageClass(t *testing.T, l *testLab) {
	c, err := l.kube("dev").StorageV1().StorageClasses().Get(t.Context(), "gp3", metav1.GetOptions{})
	if err != nil || c.Provisioner != "rancher.io/local-path" {
		t.Errorf("%+v, %v", c, err)
	}
}

// exampleMetrics sends the request of `kubectl top nodes`.
func exampleMetrics(t *testing.T, l *testLab) {
	eventually(t, time.Minute, func() error {
		list, err := l.dynamic("dev").Resource(schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "nodes"}).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) == 0 {
			err = fmt.Errorf("no metrics of a node")
		}
		return err
	})
}

// environment returns a podinfo's environment.
func (l *testLab) environment(app string) ([]string, error) {
	data, err := l.kube("dev").CoreV1().Services(app).ProxyGet("http", app, "9898", "env", nil).DoRaw(l.t.Context())
	if err != nil {
		return nil, err
	}
	var env []string
	return env, json.Unmarshal(data, &env)
}

// hasVariable waits until a podinfo's environment has a line with a prefix.
func (l *testLab) hasVariable(app, begins string) {
	l.t.Helper()
	eventually(l.t, time.Minute, func() error {
		env, err := l.environment(app)
		if err == nil && !slices.ContainsFunc(env, func(line string) bool { return strings.HasPrefix(line, begins) }) {
			err = fmt.Errorf("%s has no %s in %q", app, begins, env)
		}
		return err
	})
}

// layerOf returns the only ConfigMap of an addon's infrastructure values.
func (l *testLab) layerOf(addon string) corev1.ConfigMap {
	l.t.Helper()
	list, err := l.kube("hub").CoreV1().ConfigMaps("cluster-dev").List(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	all := slices.DeleteFunc(list.Items, func(c corev1.ConfigMap) bool { return !strings.HasPrefix(c.Name, addon+"-bridge-") })
	if len(all) != 1 || all[0].Immutable == nil || !*all[0].Immutable {
		l.t.Fatalf("want one immutable ConfigMap: %+v", all)
	}
	return all[0]
}

func exampleValues(t *testing.T, l *testLab) {
	l.hasVariable("auth", "PODINFO_UI_COLOR=#2e7d32") // environments/dev
	l.hasVariable("auth", "PODINFO_UI_MESSAGE=https://auth.dev.example.com in eu-central-1 of ")
	l.hasVariable("auth", "AUTH_PASSWORD=not-a-secret-of-dev")
	l.hasVariable("dashboard", "DASHBOARD_TOKEN=not-a-token-of-dev")
	sa, err := l.kube("dev").CoreV1().ServiceAccounts("karpenter").Get(t.Context(), "karpenter", metav1.GetOptions{})
	if err != nil || !strings.HasPrefix(sa.Annotations["eks.amazonaws.com/role-arn"], "arn:aws:iam::") {
		t.Errorf("%v, %v", sa.Annotations, err)
	}
}

// exampleBridge changes infrastructure metadata, which replaces the ConfigMap.
func exampleBridge(t *testing.T, l *testLab) {
	before := l.layerOf("auth")
	l.edit("environments/default/environment.yaml", "region: eu-central-1", "region: eu-west-1")
	l.must("up")
	l.hasVariable("auth", "PODINFO_UI_MESSAGE=https://auth.dev.example.com in eu-west-1 of ")
	if after := l.layerOf("auth"); after.Name == before.Name || after.UID == before.UID || !strings.Contains(after.Data["bridge.yaml"], "eu-west-1") {
		t.Errorf("%s with %q, was %s", after.Name, after.Data, before.Name)
	}
	l.checkIdle()
}

// loadReloader loads the image of the reloader, which no registry has, onto a node.
func loadReloader(t *testing.T, node string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "reloader")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./reloader")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	root, archive := filepath.Join(dir, "root.tar"), filepath.Join(dir, "image.tar")
	f, err := os.Create(root)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	err = w.WriteHeader(&tar.Header{Name: "reloader", Mode: 0o755, Size: int64(len(data))})
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	const image = "lab/reloader:1"
	docker(t, "import", "--change", `ENTRYPOINT ["/reloader"]`, root, image)
	defer docker(t, "image", "rm", image)
	docker(t, "save", "--output", archive, image)
	docker(t, "cp", archive, node+":/reloader.tar")
	docker(t, "exec", node, "sh", "-c", `snapshotter=$(sed -n 's/^ *snapshotter = "\(.*\)"/\1/p' /etc/containerd/config.toml | head -n 1)
ctr --namespace=k8s.io images import --local --snapshotter="${snapshotter:-overlayfs}" /reloader.tar && rm /reloader.tar`)
}

// settled waits for an application that lab does not wait for, as no source has its image.
func (l *testLab) settled(name string) {
	l.t.Helper()
	eventually(l.t, 2*time.Minute, func() error {
		apps := decode[ui.Status](l, "status").Applications
		i := slices.IndexFunc(apps, func(a lab.Application) bool { return a.Name == name })
		if i < 0 || !apps[i].Converged() {
			return fmt.Errorf("%s has not converged: %+v", name, apps)
		}
		return nil
	})
}

// exampleReloader enables the reloader and changes a ConfigMap in Git: only the Deployment that reads it restarts.
func exampleReloader(t *testing.T, l *testLab) {
	loadReloader(t, lab.KindName(l.name, "dev")+"-control-plane")
	l.edit("clusters/dev/cluster.yaml", "reloader: false", "reloader: true")
	l.must("generate")
	l.must("up", "--trust") // lab asks docker.io for the image
	l.settled("dev-reloader")
	l.converged(2, 9)
	l.hasVariable("dashboard", "DASHBOARD_BANNER=first")
	auth := deployment(t, l, "auth", "auth").Generation
	l.edit("addons/settings/flux/settings.yaml", "text: first", "text: second")
	l.must("up")
	l.hasVariable("dashboard", "DASHBOARD_BANNER=second")
	if after := deployment(t, l, "auth", "auth").Generation; after != auth {
		t.Errorf("auth is at generation %d, was at %d", after, auth)
	}
	l.settled("dev-reloader")
	l.converged(2, 9)
	l.checkIdle()
}

// exampleNodes makes pods wait for nodes from Karpenter. These have no kubelet: the pods are bound but do not start.
func exampleNodes(t *testing.T, l *testLab) {
	const replicas = 3
	labels, wanted := map[string]string{"app": "inflate"}, int32(replicas)
	_, err := l.kube("dev").AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "inflate"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &wanted, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"karpenter.sh/nodepool": "default"},
					Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // nodes without a kubelet never get ready
					Containers: []corev1.Container{{
						Name: "pause", Image: "registry.k8s.io/pause:3.10",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
					}},
				},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bridge := l.layerOf("auth").Data["bridge.yaml"] // the region depends on the parts before
	began := time.Now()
	eventually(t, 2*time.Minute, func() error {
		nodes, err := l.kube("dev").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=default"})
		if err != nil {
			return err
		}
		names := map[string]bool{}
		for _, n := range nodes.Items {
			names[n.Name] = true
			region, account := n.Labels["example.com/region"], n.Labels["example.com/account"]
			if !strings.HasPrefix(region, "eu-") || !strings.Contains(bridge, region) || len(account) != 12 {
				t.Errorf("node %s: %v, bridge %s", n.Name, n.Labels, bridge)
			}
		}
		pods, err := l.kube("dev").CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=inflate"})
		if err != nil {
			return err
		}
		bound := 0
		for _, p := range pods.Items {
			if names[p.Spec.NodeName] {
				bound++
			}
		}
		if bound != replicas {
			return fmt.Errorf("%d nodes, %d of %d pods on them", len(names), bound, replicas)
		}
		return nil
	})
	t.Logf("nodes after %.1fs", time.Since(began).Seconds())
}
