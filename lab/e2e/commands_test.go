//go:build e2e

package e2e

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"homelab/lab"
	"homelab/lab/ui"
)

// checked tests lab status --check on a converged lab, and with a component off.
func checked(t *testing.T, l *testLab) {
	l.must("status", "--check")
	halt(t, "stop", l.node("dev"))
	out := l.run("status", "--check")
	if out.code != int(lab.ExitUnmet) || !strings.Contains(out.stdout, "cluster dev is stopped") || !strings.Contains(out.stdout, "lab up starts it") {
		t.Errorf("exit %d\n%s", out.code, out.stdout)
	}
	if s := decode[ui.Status](l, "status"); len(s.Off) != 1 || s.Starts == "" || s.Clusters[1].State != "stopped" {
		t.Errorf("%+v", s)
	}
	l.must("up")
}

// merged tests that merging keeps the contents of the user's kubeconfig.
func merged(t *testing.T, l *testLab) {
	file := filepath.Join(t.TempDir(), "config")
	const mine = "apiVersion: v1\nkind: Config\ncurrent-context: mine\nclusters: [{name: mine, cluster: {server: \"https://example.org\"}}]\n" +
		"contexts: [{name: mine, context: {cluster: mine, user: mine}}]\nusers: [{name: mine, user: {}}]\n"
	replace(t, file, mine)
	l.env = append(l.env, "KUBECONFIG="+file)
	defer func() { l.env = l.env[:len(l.env)-1] }()
	l.must("kubeconfig")
	if text, err := os.ReadFile(file); err != nil || string(text) != mine {
		t.Errorf("lab kubeconfig changed the user's file: %v\n%s", err, text)
	}
	for range 2 {
		l.must("kubeconfig", "--merge")
	}
	cfg, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.CurrentContext != "mine" || cfg.Contexts["mine"] == nil || cfg.Contexts["kind-"+l.name+"-hub"] == nil || cfg.Contexts["kind-"+l.name+"-dev"] == nil {
		t.Errorf("merged into %+v", cfg)
	}
}

// diagnosed tests the presence and absence of files and secrets in the archive.
func diagnosed(t *testing.T, l *testLab) {
	// A secret of the cluster, also in an annotation, and the environment of a pod that never starts.
	const canary = "Canary-of-a-Secret-1"
	core, meta := l.kube("hub").CoreV1(), metav1.ObjectMeta{Name: "diagnosed", Annotations: map[string]string{"note": "it is " + canary}}
	if _, err := core.Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"any": canary}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer core.Secrets("default").Delete(context.WithoutCancel(t.Context()), meta.Name, metav1.DeleteOptions{})
	container := corev1.Container{Name: "c", Image: "none.example.com/x", ImagePullPolicy: corev1.PullNever, Env: []corev1.EnvVar{{Name: "ANY", Value: "Canary-of-a-pod-2"}}}
	if _, err := core.Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer core.Pods("default").Delete(context.WithoutCancel(t.Context()), meta.Name, metav1.DeleteOptions{})
	file := filepath.Join(t.TempDir(), "d.tar.gz")
	l.must("diagnose", file)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var all strings.Builder
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.TrimPrefix(h.Name, "lab-"+l.name+"/"))
		if _, err := io.Copy(&all, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"version.json", "lab.json", "doctor.json", "status.json", "containers.json", "hub/pods.json", "hub/" + rootOf[l.engine()].resource.Resource + ".json", "dev/events.json", "logs/" + l.node("dev") + ".journal"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s among %v", want, names)
		}
	}
	for _, secret := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), "Canary-of-a-pod-2"} {
		if strings.Contains(all.String(), secret) {
			t.Errorf("archive contains %s", secret)
		}
	}
	for _, c := range decode[ui.CredsResult](l, "creds").Credentials {
		if strings.Contains(all.String(), c.Password) {
			t.Errorf("archive contains the password of %s", c.Service)
		}
	}
}

// portTaken tests a foreign listener on the hub's port.
func portTaken(t *testing.T, l *testLab) {
	halt(t, "stop", l.node("hub"))
	u, err := url.Parse(decode[ui.Status](l, "status").Endpoints[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	if out := l.run("up"); out.code != int(lab.ExitFailed) || !strings.Contains(out.stderr, "another process listens on "+u.Host) {
		t.Errorf("exit %d\n%s", out.code, out.stderr)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	l.must("up")
}

// withoutEngine tests lab down without a container engine: it fails and keeps its records.
func withoutEngine(t *testing.T, l *testLab) {
	l.env = append(l.env, "DOCKER_HOST=unix://"+filepath.Join(t.TempDir(), "none.sock"))
	out := l.run("down")
	l.env = l.env[:len(l.env)-1]
	if out.code != int(lab.ExitFailed) || !strings.Contains(out.stderr, "start the docker engine and run lab down again") {
		t.Errorf("exit %d\n%s", out.code, out.stderr)
	}
	l.must("status", "--check")
}

// clouds sets the metadata of one cloud after the other on a cluster.
func clouds(t *testing.T, l *testLab) {
	const file = "clusters/dev/cluster.yaml"
	before, err := os.ReadFile(filepath.Join(l.estate, file))
	if err != nil {
		t.Fatal(err)
	}
	for provider, want := range map[string]struct{ region, annotation string }{
		"azure": {"westeurope", "azure_subscription_id"},
		"gcp":   {"europe-west4", "gcp_project_id"},
	} {
		text := strings.Replace(string(before), "identity: true", "identity: false", 1) // the addon supports only one cloud
		l.write(file, strings.Replace(text, "  provider: kind\n", "  provider: kind\n  cloud: {provider: "+provider+", region: "+want.region+"}\n", 1))
		l.must("up")
		s, err := l.kube("hub").CoreV1().Secrets("argocd").List(t.Context(), metav1.ListOptions{LabelSelector: "argocd.argoproj.io/secret-type=cluster,environment=dev"})
		if err != nil || len(s.Items) != 1 {
			t.Fatalf("%d registrations of dev, %v", len(s.Items), err)
		}
		if a := s.Items[0].Annotations; a[want.annotation] == "" || a["aws_account_id"] != "" {
			t.Errorf("%s: annotations %v", provider, a)
		}
	}
	l.write(file, string(before))
	l.must("up")
}

func builtin(t *testing.T) {
	l := newLab(t, "e2e-builtin", "hub")
	l.estate = ""
	if err := os.MkdirAll(filepath.Join(l.state, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out := l.run("up", "--only", "dev"); out.code != int(lab.ExitInvalid) || !strings.Contains(out.stderr, l.state) || !strings.Contains(out.stderr, "lab up --builtin") {
		t.Errorf("repository without an estate: exit %d\n%s", out.code, out.stderr)
	}
	if left := l.leftovers(); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	out := l.must("up", "--only", "dev", "--builtin")
	if !strings.Contains(out.stderr, "the estate is the built-in one") {
		t.Errorf("lab up does not name its estate:\n%s", out.stderr)
	}
	if up := decode[ui.UpResult](l, "up", "--only", "dev", "--builtin"); len(up.Changed) > 0 {
		t.Errorf("second up changed %v", up.Changed)
	}
	if s := decode[ui.Status](l, "status"); !s.Clusters[0].Ready || len(s.Applications) != 4 {
		t.Errorf("%+v", s)
	}
	l.must("down")
	if left := l.leftovers(); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// fresh plays a scenario on its own lab, which is removed afterwards.
func fresh(t *testing.T, l *testLab) {
	out := l.must("scenario", "run", "--fresh", "bridge-metadata")
	if !strings.Contains(out.stdout+out.stderr, "passed") {
		t.Errorf("%s%s", out.stdout, out.stderr)
	}
	if names := docker(t, "ps", "--all", "--format", "{{.Names}}", "--filter", "name="+l.name+"-fresh"); names != "" {
		t.Errorf("left over: %s", names)
	}
}
