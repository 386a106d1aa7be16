//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/ui"
)

// TestParts covers the optional parts of a lab.
func TestParts(t *testing.T) { play(t) }

// partsEstate is the suite of the optional parts.
func partsEstate() suite {
	return suite{name: "TestParts", lab: shared("e2e-parts", "hub", "dev"), parts: []part{
		{"up", partsUp},
		{"registry added", registryAdded},
		{"image and chart deployed", pushed},
		{"registry killed and spoilt", registrySpoilt},
		{"registry in a snapshot", registrySnapshot},
		{"upstream cached", upstreamCached},
		{"registry left the estate", registryLeft},
		{"down leaves no remains", finalDown},
	}}
}

func partsUp(t *testing.T, l *testLab) { l.must("up", "--fix") }

const pushedImage, pushedRef = "ghcr.io/stefanprodan/podinfo:6.9.2", "registry:5000/team/podinfo:1"

// registryAdded adds a registry to a running lab: no cluster is created again.
func registryAdded(t *testing.T, l *testLab) {
	l.fails(lab.ExitFailed, "no_registry", "registry", "ls")
	before := l.nodeIDs(t)
	l.edit("clusters/hub/cluster.yaml", "engine: {type: argocd}", "engine: {type: argocd}\n  registry: {}")
	only(t, decode[ui.UpResult](l, "up"), "registry", "cluster hub", "cluster dev", "estate", "addons")
	only(t, decode[ui.UpResult](l, "up"))
	if after := l.nodeIDs(t); after != before {
		t.Errorf("nodes %s, then %s", before, after)
	}
	if at := docker(t, "inspect", "--format", "{{json .HostConfig.PortBindings}}{{json .Config}}", "lab-e2e-parts-registry"); !strings.Contains(at, `"HostIp":"127.0.0.1"`) || strings.Contains(at, l.registryPassword()) {
		t.Errorf("%s", at)
	}
	if got := decode[ui.RegistryURLResult](l, "registry", "url"); !strings.HasPrefix(got.URL, "http://127.0.0.1:") || got.Host != "registry:5000" {
		t.Errorf("%+v", got)
	}
	if list := l.contents(); len(list) != 0 {
		t.Errorf("a new registry has %v", list)
	}
}

func (l *testLab) nodeIDs(t *testing.T) string {
	t.Helper()
	return docker(t, "ps", "--no-trunc", "--quiet", "--filter", "label=io.x-k8s.kind.role")
}

func (l *testLab) registryPassword() string {
	return decode[ui.Credential](l, "creds", "registry").Password
}

// contents returns the names of what the registry has.
func (l *testLab) contents() []string {
	l.t.Helper()
	var names []string
	for _, c := range decode[ui.RegistryListResult](l, "registry", "ls").Contents {
		names = append(names, c.Kind+" "+c.Name)
	}
	return names
}

// pushed pushes an image and a chart, and deploys both: the image on a spoke, by a pod, and the chart on the hub, by Argo CD.
func pushed(t *testing.T, l *testLab) {
	if got := decode[ui.RegistryPushResult](l, "registry", "push", pushedImage, "team/podinfo:1").Pushed; got.Name != pushedRef || got.Kind != "image" || got.Bytes == 0 {
		t.Errorf("%+v", got)
	}
	l.fails(lab.ExitInvalid, "no_image", "registry", "push", "ghcr.io/nobody/nothing:1")
	l.fails(lab.ExitInvalid, "usage", "registry", "push", pushedImage, "Team/Podinfo")
	chart := packChart(t)
	if got := decode[ui.RegistryPushResult](l, "registry", "push", chart).Pushed; got.Name != "registry:5000/charts/web:0.1.0" || got.Kind != "chart" {
		t.Errorf("%+v", got)
	}
	if got, want := l.contents(), []string{"chart registry:5000/charts/web:0.1.0", "image " + pushedRef}; !slices.Equal(got, want) {
		t.Errorf("registry ls: %q, want %q", got, want)
	}
	l.runsPushed(t, "one")

	// The same content under its own name needs no registry, and what is preloaded starts again.
	if err := l.kube("dev").CoreV1().Pods("podinfo").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, func() error {
		d, err := l.kube("dev").AppsV1().Deployments("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{})
		if err == nil && (d.Status.ReadyReplicas == 0 || d.Status.UnavailableReplicas != 0) {
			err = fmt.Errorf("podinfo: %+v", d.Status)
		}
		return err
	})

	applications := l.dynamic("hub").Resource(schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}).Namespace("argocd")
	app := &unstructured.Unstructured{}
	text := `{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "web"}, "spec": {"project": "default",
		"source": {"repoURL": "registry:5000/charts", "chart": "web", "targetRevision": "0.1.0"}, "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"},
		"syncPolicy": {"automated": {}, "syncOptions": ["CreateNamespace=true"]}}}`
	if err := json.Unmarshal([]byte(text), app); err != nil {
		t.Fatal(err)
	}
	if _, err := applications.Create(t.Context(), app, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, func() error {
		got, err := applications.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		sync, _, _ := unstructured.NestedString(got.Object, "status", "sync", "status")
		health, _, _ := unstructured.NestedString(got.Object, "status", "health", "status")
		if sync != "Synced" || health != "Healthy" {
			return fmt.Errorf("web is %s, %s: %v", sync, health, got.Object["status"])
		}
		return nil
	})
	if err := applications.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.kube("hub").CoreV1().Namespaces().Delete(t.Context(), "web", metav1.DeleteOptions{})); err != nil {
		t.Fatal(err)
	}
}

// runsPushed runs a pod of the pushed image on the spoke, which must pull it.
func (l *testLab) runsPushed(t *testing.T, name string) {
	t.Helper()
	l.runsPulled(t, "dev", name, pushedRef)
}

// runsPulled runs a pod of an image that a cluster must pull.
func (l *testLab) runsPulled(t *testing.T, cluster, name, image string) {
	t.Helper()
	pods := l.kube(cluster).CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pushed-" + name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web", Image: image, ImagePullPolicy: corev1.PullAlways}}, TerminationGracePeriodSeconds: new(int64),
	}}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() error {
		got, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("%s is %s: %+v", pod.Name, got.Status.Phase, got.Status.ContainerStatuses)
		}
		return err
	})
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// packChart writes a chart whose Deployment has the pushed image.
func packChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "web")
	for name, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 0.1.0\n",
		"templates/deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n" +
			"  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: " + pushedRef + "}]}}\n",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	shell(t, "tar", "-C", filepath.Dir(dir), "-czf", dir+"-0.1.0.tgz", "web")
	return dir + "-0.1.0.tgz"
}

// registrySpoilt stops the registry and takes away its container, its login and what nodes know of it. Each time, the next lab up repairs that and nothing else.
func registrySpoilt(t *testing.T, l *testLab) {
	const container = "lab-e2e-parts-registry"
	has := l.contents()
	port := docker(t, "port", container)
	empty := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []struct {
		what    string
		do      func()
		off     string
		changed []string
	}{
		{"killed", func() { docker(t, "kill", container) }, "the registry is stopped", []string{"registry", "addons"}},
		{"removed", func() { docker(t, "rm", "--force", container) }, "the registry is absent", []string{"registry", "addons"}},
		{"login lost", func() {
			docker(t, "cp", empty, container+":/etc/distribution/htpasswd")
			docker(t, "restart", container)
		}, "the registry is unreachable", []string{"registry", "addons"}},
		{"disconnected", func() { docker(t, "network", "disconnect", "lab-e2e-parts", container) }, "the registry is not connected", []string{"registry", "addons"}},
		{"forgotten by a node", func() {
			docker(t, "exec", "e2e-parts-dev-control-plane", "rm", "/etc/containerd/certs.d/registry:5000/hosts.toml")
		}, "", []string{"cluster dev"}},
	} {
		spoil.do()
		if st := decode[ui.Status](l, "status"); spoil.off != "" && !slices.Contains(st.Off, spoil.off) {
			t.Errorf("%s: off %q, parts %+v", spoil.what, st.Off, st.Parts)
		}
		got := decode[ui.UpResult](l, "up").Changed
		for _, title := range got {
			if !slices.Contains(append(spoil.changed, "bridge dev", "addons"), title) {
				t.Errorf("%s: changed %q", spoil.what, got)
			}
		}
		if !slices.Contains(got, spoil.changed[0]) {
			t.Errorf("%s: changed %q", spoil.what, got)
		}
		if now := l.contents(); !slices.Equal(now, has) {
			t.Errorf("%s: the registry has %q, had %q", spoil.what, now, has)
		}
		if now := docker(t, "port", container); now != port {
			t.Errorf("%s: published at %s, was at %s", spoil.what, now, port)
		}
		l.runsPushed(t, "after-"+strings.ReplaceAll(spoil.what, " ", "-"))
	}
}

// registrySnapshot restores a snapshot of the registry's content.
func registrySnapshot(t *testing.T, l *testLab) {
	has := l.contents()
	l.must("snapshot", "save", "pushed")
	l.must("registry", "rm", "team/podinfo:1")
	l.fails(lab.ExitInvalid, "no_tag", "registry", "rm", "team/podinfo:1")
	if now := l.contents(); len(now) != len(has)-1 {
		t.Errorf("after its removal: %q", now)
	}
	l.must("snapshot", "restore", "pushed")
	if now := l.contents(); !slices.Equal(now, has) {
		t.Errorf("restored: %q, saved %q", now, has)
	}
	l.runsPushed(t, "restored")
	only(t, decode[ui.UpResult](l, "up"))
	l.must("snapshot", "rm", "pushed")
}

// upstreamCached pulls an image through the cache of a registry on the lab's network: without the registry once it has passed, and without the cache.
func upstreamCached(t *testing.T, l *testLab) {
	const network, registry, upstream, host = "lab-e2e-parts", "lab-e2e-parts-registry", "e2e-parts-upstream", "upstream.example.com:5000"
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(config, []byte("version: 0.1\nstorage: {filesystem: {rootdirectory: /data}}\nhttp: {addr: \":5000\"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	docker(t, "create", "--name", upstream, "--network", network, "--network-alias", "upstream.example.com", "--env", "OTEL_TRACES_EXPORTER=none",
		"--entrypoint", "/bin/registry", docker(t, "inspect", "--format", "{{.Config.Image}}", registry), "serve", "/config.yml")
	t.Cleanup(func() { docker(t, "rm", "--force", "--volumes", upstream) })
	docker(t, "cp", registry+":/var/lib/registry/data", dir)
	docker(t, "cp", filepath.Join(dir, "data"), upstream+":/")
	docker(t, "cp", config, upstream+":/config.yml")
	docker(t, "start", upstream)

	cache := lab.Upstream{Host: host}.Cache()
	l.edit("clusters/hub/cluster.yaml", "registry: {}", `registry: {through: ["http://`+host+`"]}`)
	only(t, decode[ui.UpResult](l, "up"), cache, "cluster hub", "cluster dev", "estate", "addons")
	only(t, decode[ui.UpResult](l, "up"))
	image := host + "/team/podinfo:1"
	l.runsPulled(t, "dev", "through", image)
	docker(t, "stop", upstream)
	l.runsPulled(t, "hub", "cached", image)
	docker(t, "start", upstream)
	docker(t, "kill", "lab-e2e-parts-"+cache)
	l.runsPulled(t, "dev", "past", image)
	if st := decode[ui.Status](l, "status"); !slices.Contains(st.Off, "the "+cache+" is stopped") {
		t.Errorf("off %q, parts %+v", st.Off, st.Parts)
	}
	only(t, decode[ui.UpResult](l, "up"), cache)

	l.edit("clusters/hub/cluster.yaml", `registry: {through: ["http://`+host+`"]}`, "registry: {}")
	only(t, decode[ui.UpResult](l, "up"), cache, "cluster hub", "cluster dev", "estate", "addons")
	if left := docker(t, "ps", "--all", "--quiet", "--filter", "name="+cache) + docker(t, "volume", "ls", "--quiet", "--filter", "name="+cache); left != "" {
		t.Errorf("left: %s", left)
	}
	if left := docker(t, "exec", "e2e-parts-dev-control-plane", "sh", "-c", "ls /etc/containerd/certs.d/*/hosts.toml"); left != "/etc/containerd/certs.d/registry:5000/hosts.toml" {
		t.Errorf("left: %s", left)
	}
}

// registryLeft takes the registry out of the estate: it is kept until that is agreed to, and its nodes are not configured again.
func registryLeft(t *testing.T, l *testLab) {
	l.edit("clusters/hub/cluster.yaml", "\n  registry: {}", "")
	out := l.must("up")
	if !strings.Contains(out.stderr, "kept, though no longer in the estate: registry") {
		t.Errorf("%s", out.stderr)
	}
	if len(l.contents()) == 0 {
		t.Error("its content is gone")
	}
	only(t, decode[ui.UpResult](l, "up", "--prune"), "registry", "addons")
	only(t, decode[ui.UpResult](l, "up"))
	l.fails(lab.ExitFailed, "no_registry", "registry", "ls")
	if left := docker(t, "volume", "ls", "--quiet", "--filter", "name=lab-e2e-parts-registry"); left != "" {
		t.Errorf("left: %s", left)
	}
}
