//go:build e2e && names

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/hostnames"
	"homelab/lab/ui"
)

const (
	namesLab    = "e2e-names"
	namesDoor   = "lab-e2e-names-door"
	namesDomain = "e2e-names.localhost"
	withDoor    = "role: hub\n  door: {}"
)

// TestNames reaches what two clusters offer by name: from this machine and from a pod of another cluster. It has no limits; task names runs it.
func TestNames(t *testing.T) { names(t, lab.EngineArgoCD) }

// TestNamesOnFlux is like TestNames with Flux.
func TestNamesOnFlux(t *testing.T) { names(t, lab.EngineFlux) }

func names(t *testing.T, engine lab.EngineType) {
	l := newLab(t, namesLab, "hub", "dev", "prod")
	if engine == lab.EngineFlux {
		l.runs(string(engine))
	}
	l.edit("clusters/hub/cluster.yaml", "role: hub", withDoor)
	l.add("environments/dev/addons/podinfo/values.yaml", "service: {type: LoadBalancer}\n")
	l.add("environments/prod/addons/podinfo/values.yaml", "ingress:\n  enabled: true\n  hosts: [{host: podinfo.prod."+namesDomain+", paths: [{path: /, pathType: Prefix}]}]\n")
	l.must("up", "--fix")
	for _, p := range []part{
		{"names from this machine", namesHere},
		{"addresses make objects healthy", namesAddressed},
		{"names in Chromium", namesInChromium},
		{"names in a pod of another cluster", namesInPod},
		{"door killed and spoilt", doorSpoilt},
		{"authority survives a restore", doorRestored},
		{"door left the estate", doorLeft},
		{"down leaves no remains", finalDown},
	} {
		t.Run(p.name, func(t *testing.T) { l.within(t, p.run) })
	}
}

// add appends to a file of the estate.
func (l *testLab) add(file, text string) {
	l.t.Helper()
	had, err := os.ReadFile(filepath.Join(l.estate, filepath.FromSlash(file)))
	if err != nil {
		l.t.Fatal(err)
	}
	l.write(file, strings.TrimRight(string(had), "\n")+"\n"+text)
}

// doorAt returns the address of the door on this machine, and the port in URLs: ":8443", or "" for 443.
func (l *testLab) doorAt() (address, port string) {
	l.t.Helper()
	for _, e := range decode[ui.Status](l, "status").Endpoints {
		if e.Name != "names" {
			continue
		}
		u, err := url.Parse(e.URL)
		if err != nil || u.Hostname() != namesDomain {
			l.t.Fatalf("%s, %v", e.URL, err)
		}
		if u.Port() == "" {
			return "127.0.0.1:443", ""
		}
		return net.JoinHostPort("127.0.0.1", u.Port()), ":" + u.Port()
	}
	l.t.Fatal("lab status has no names")
	return "", ""
}

// getName asks for a host of the lab by the door.
func (l *testLab) getName(ctx context.Context, host, path string) (int, string, error) {
	l.t.Helper()
	at, port := l.doorAt()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+port+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := hostnames.Client(at, l.must("ca").stdout).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// served waits until a name answers as its cluster's podinfo.
func (l *testLab) served(t *testing.T, cluster string) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		status, text, err := l.getName(t.Context(), "podinfo."+cluster+"."+namesDomain, "/api/info")
		if err == nil && (status != http.StatusOK || !strings.Contains(text, `"message": "`+cluster+": ")) {
			err = fmt.Errorf("%s: %d %s", cluster, status, text)
		}
		return err
	})
}

func namesHere(t *testing.T, l *testLab) {
	l.served(t, "dev")
	l.served(t, "prod")
	if status, text, err := l.getName(t.Context(), "nothing.dev."+namesDomain, "/"); err != nil || status != http.StatusNotFound || !strings.Contains(text, "nothing in the lab is called") {
		t.Errorf("an unknown name: %d %s, %v", status, text, err)
	}
	if status, text, err := l.getName(t.Context(), namesDomain, "/"); err != nil || status != http.StatusOK || !strings.Contains(text, "podinfo.prod."+namesDomain) {
		t.Errorf("the list: %d %s, %v", status, text, err)
	}
	at, _ := l.doorAt()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+namesDomain+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "rebound.example.com"
	resp, err := hostnames.Client(at, l.must("ca").stdout).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a foreign host: %s", resp.Status)
	}
	if got := decode[ui.OpenResult](l, "open", "podinfo", "--cluster", "dev"); !strings.HasPrefix(got.URL, "https://podinfo.dev."+namesDomain) {
		t.Errorf("%+v", got)
	}
	l.fails(lab.ExitInvalid, "usage", "open", "podinfo")
	if made := docker(t, "inspect", "--format", "{{json .HostConfig.PortBindings}}{{json .HostConfig.CapAdd}}{{.HostConfig.NetworkMode}}{{.HostConfig.Privileged}}", namesDoor); strings.Count(made, `"HostIp":"127.0.0.1"`) != 2 || !strings.Contains(made, "NET_ADMIN") || !strings.HasSuffix(made, lab.NetworkName(namesLab)+"false") {
		t.Errorf("%s", made)
	}
	only(t, decode[ui.UpResult](l, "up"))
}

// namesInChromium asks for pages with a browser that has the authority, with one that has not, and for one under a foreign name.
func namesInChromium(t *testing.T, l *testLab) {
	home := t.TempDir()
	run := func(program string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v (apt-get install chromium libnss3-tools)\n%s", program, err, out)
		}
		return string(out)
	}
	https, port := l.doorAt()
	page := func(url string, flags ...string) string {
		t.Helper()
		return run("chromium", slices.Concat([]string{"--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + t.TempDir(), "--enable-logging=stderr"}, flags, []string{"--dump-dom", url})...)
	}
	podinfo := "https://podinfo.dev." + namesDomain + port + "/api/info"
	if text := page(podinfo); !strings.Contains(text, "net_error -202") || strings.Contains(text, "dev: ") { // ERR_CERT_AUTHORITY_INVALID
		t.Errorf("without the authority:\n%s", text)
	}
	db, ca := "sql:"+filepath.Join(home, ".pki", "nssdb"), filepath.Join(home, "ca.crt")
	if err := errors.Join(os.MkdirAll(filepath.Join(home, ".pki", "nssdb"), 0o700), os.WriteFile(ca, []byte(l.must("ca").stdout), 0o600)); err != nil {
		t.Fatal(err)
	}
	run("certutil", "-d", db, "-N", "--empty-password")
	run("certutil", "-d", db, "-A", "-n", "lab", "-t", "C,,", "-i", ca)
	if text := page(podinfo); !strings.Contains(text, "dev: ") {
		t.Errorf("podinfo of dev:\n%s", text)
	}
	_, open, err := net.SplitHostPort(https)
	if err != nil {
		t.Fatal(err)
	}
	foreign := "rebound.example.com"
	if text := page("https://"+foreign+":"+open+"/", "--host-resolver-rules=MAP "+foreign+" 127.0.0.1", "--ignore-certificate-errors"); !strings.Contains(text, "serves no other host") {
		t.Errorf("a foreign name:\n%s", text)
	}
}

// namesAddressed requires that the engine's own health checks are satisfied.
func namesAddressed(t *testing.T, l *testLab) {
	s, err := l.kube("dev").CoreV1().Services("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil || len(s.Status.LoadBalancer.Ingress) != 1 || s.Status.LoadBalancer.Ingress[0].Hostname != "podinfo.dev."+namesDomain {
		t.Errorf("%+v, %v", s.Status, err)
	}
	i, err := l.kube("prod").NetworkingV1().Ingresses("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil || len(i.Status.LoadBalancer.Ingress) != 1 || i.Status.LoadBalancer.Ingress[0].Hostname != "podinfo.prod."+namesDomain {
		t.Errorf("%+v, %v", i.Status, err)
	}
	if l.engine() == lab.EngineArgoCD {
		cm, err := l.kube("hub").CoreV1().ConfigMaps("argocd").Get(t.Context(), "argocd-cm", metav1.GetOptions{})
		if err != nil || cm.Data["resource.customizations.health.Service"] != "" || cm.Data["resource.customizations.health.networking.k8s.io_Ingress"] != "" {
			t.Errorf("%v, %v", cm.Data, err)
		}
	}
	l.must("status", "--check")
}

// namesInPod has a pod of prod ask for a name of dev, with the authority that its cluster has.
func namesInPod(t *testing.T, l *testLab) {
	kube := l.kube("prod")
	ca, err := kube.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "lab-ca", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ca.Name}, Data: ca.Data}
	if _, err := kube.CoreV1().ConfigMaps("default").Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, port := l.doorAt()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "asks"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64),
		Containers: []corev1.Container{{
			Name: "asks", Image: "ghcr.io/stefanprodan/podinfo:6.7.0", ImagePullPolicy: corev1.PullIfNotPresent,
			Command:      []string{"podcli", "check", "http", "https://podinfo.dev." + namesDomain + port + "/api/info", "--retry", "60", "--delay", "2s"},
			Env:          []corev1.EnvVar{{Name: "SSL_CERT_FILE", Value: "/ca/ca.crt"}},
			VolumeMounts: []corev1.VolumeMount{{Name: "ca", MountPath: "/ca"}},
		}},
		Volumes: []corev1.Volume{{Name: "ca", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: ca.Name}}}}},
	}}
	pods := kube.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, func() error {
		got, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.PodSucceeded {
			text, _ := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
			err = fmt.Errorf("it is %s: %s", got.Status.Phase, text)
		}
		return err
	})
	if err := errors.Join(pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}), kube.CoreV1().ConfigMaps("default").Delete(t.Context(), ca.Name, metav1.DeleteOptions{})); err != nil {
		t.Fatal(err)
	}
}

// doorSpoilt kills the door, and takes away its container, its account and its zone. Each time, the next lab up repairs that.
func doorSpoilt(t *testing.T, l *testLab) {
	at := docker(t, "port", namesDoor)
	for _, spoil := range []struct {
		what string
		do   func()
		off  string
	}{
		{"killed", func() { docker(t, "kill", namesDoor) }, "the door is stopped"},
		{"removed", func() { docker(t, "rm", "--force", namesDoor) }, "the door is absent"},
		{"account lost", func() {
			if err := l.kube("dev").CoreV1().ServiceAccounts("lab-system").Delete(t.Context(), "door", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"authority lost", func() {
			if err := l.kube("prod").CoreV1().ConfigMaps("kube-public").Delete(t.Context(), "lab-ca", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, ""},
	} {
		spoil.do()
		if st := decode[ui.Status](l, "status"); spoil.off != "" && !slices.Contains(st.Off, spoil.off) {
			t.Errorf("%s: off %q", spoil.what, st.Off)
		}
		if got := decode[ui.UpResult](l, "up").Changed; !slices.Contains(got, "door") || slices.ContainsFunc(got, func(title string) bool { return strings.HasPrefix(title, "cluster") }) {
			t.Errorf("%s: changed %q", spoil.what, got)
		}
		l.served(t, "dev")
		if now := docker(t, "port", namesDoor); now != at {
			t.Errorf("%s: published at %s, was at %s", spoil.what, now, at)
		}
	}
}

func doorRestored(t *testing.T, l *testLab) {
	before := l.must("ca").stdout
	l.must("snapshot", "save", "named")
	l.must("snapshot", "restore", "named")
	if after := l.must("ca").stdout; after != before {
		t.Errorf("authority %s, was %s", after, before)
	}
	l.served(t, "dev")
	l.served(t, "prod")
	only(t, decode[ui.UpResult](l, "up"))
	l.must("snapshot", "rm", "named")
}

// doorLeft takes the door out of the estate: nothing of it stays in the clusters.
func doorLeft(t *testing.T, l *testLab) {
	before := l.must("ca").stdout
	l.edit("clusters/hub/cluster.yaml", withDoor, "role: hub")
	if got := decode[ui.UpResult](l, "up").Changed; !slices.Contains(got, "door") {
		t.Errorf("changed %q", got)
	}
	only(t, decode[ui.UpResult](l, "up"))
	if left := docker(t, "ps", "--all", "--quiet", "--filter", "name="+namesDoor); left != "" {
		t.Errorf("left: %s", left)
	}
	for _, c := range []string{"hub", "dev", "prod"} {
		if _, err := l.kube(c).CoreV1().ConfigMaps("kube-public").Get(t.Context(), "lab-ca", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: lab-ca: %v", c, err)
		}
		if _, err := l.kube(c).RbacV1().ClusterRoles().Get(t.Context(), "lab-door", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: lab-door: %v", c, err)
		}
		dns, err := l.kube(c).CoreV1().ConfigMaps("kube-system").Get(t.Context(), "coredns", metav1.GetOptions{})
		if err != nil || strings.Contains(dns.Data["Corefile"], namesDomain) {
			t.Errorf("%s: %v, %s", c, err, dns.Data["Corefile"])
		}
	}
	if after := l.must("ca").stdout; after != before {
		t.Error("another authority, which nobody trusts")
	}
	l.edit("clusters/hub/cluster.yaml", "role: hub", withDoor) // in a running lab, as it was
	l.must("up")
	l.served(t, "prod")
	if after := l.must("ca").stdout; after != before {
		t.Error("another authority after all")
	}
}
