//go:build e2e

package enginetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/repo"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"homelab/lab"
	"homelab/lab/engine/kube"
)

// Env returns an environment variable, and skips the test if it is unset. Suites need two clusters on one Docker network, with the images of the engine and of
// podinfo loaded: LAB_E2E_HUB and LAB_E2E_SPOKE (kubeconfigs; the hub has no engine), LAB_E2E_SPOKE_SERVER (the spoke's address from the hub,
// https://NAME-control-plane:6443), LAB_E2E_CHART (the engine's chart, a .tgz), LAB_E2E_VERSION (its version, of Argo CD alone), LAB_E2E_IMAGES (references of its images) and LAB_E2E_LISTEN (an address of this
// machine that pods reach: the network's gateway).
func Env(t *testing.T, key string) string {
	t.Helper()
	v := os.Getenv(key)
	if v == "" {
		t.Skip(key + " is not set")
	}
	return v
}

// World serves an estate's Git repository and a chart repository with the chart hello to the clusters.
type World struct {
	URL        string
	Hub, Spoke *rest.Config

	dir    string
	canary string // uid of a foreign namespace in the spoke
}

// NewWorld returns a world of the environment, with an empty estate.
func NewWorld(t *testing.T) *World {
	t.Helper()
	w := &World{dir: t.TempDir(), Hub: kubeconfig(t, "LAB_E2E_HUB"), Spoke: kubeconfig(t, "LAB_E2E_SPOKE")}
	l, err := net.Listen("tcp", net.JoinHostPort(Env(t, "LAB_E2E_LISTEN"), "0"))
	if err != nil {
		t.Fatal(err)
	}
	w.URL = "http://" + l.Addr().String()
	gitCore, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/git/", &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(gitCore)), "git-http-backend"), Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(w.dir, "git"), "GIT_HTTP_EXPORT_ALL=1"},
	})
	mux.Handle("/charts/", http.StripPrefix("/charts/", http.FileServer(http.Dir(filepath.Join(w.dir, "charts")))))
	server := &http.Server{Handler: mux}
	go server.Serve(l) //nolint:errcheck // ends with the test
	t.Cleanup(func() { server.Close() })

	charts := filepath.Join(w.dir, "charts")
	chart, err := loader.LoadDir("../enginetest/testdata/hello")
	if err == nil {
		_, err = chartutil.Save(chart, charts)
	}
	if err == nil {
		var index *repo.IndexFile
		if index, err = repo.IndexDirectory(charts, w.URL+"/charts"); err == nil {
			err = index.WriteFile(filepath.Join(charts, "index.yaml"), 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	w.git(t, "", "init", "-q", "--bare", "-b", "main", filepath.Join(w.dir, "git", "estate.git"))
	w.git(t, "", "clone", "-q", filepath.Join(w.dir, "git", "estate.git"), filepath.Join(w.dir, "work"))
	return w
}

func kubeconfig(t *testing.T, key string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", Env(t, key))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func (w *World) git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=lab", "-c", "user.email=lab@localhost", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Commit writes files into the estate and returns the commit.
func (w *World) Commit(t *testing.T, files map[string]string) string {
	t.Helper()
	work := filepath.Join(w.dir, "work")
	for name, text := range files {
		file := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.git(t, work, "add", "-A")
	w.git(t, work, "commit", "-q", "-m", "test")
	w.git(t, work, "push", "-q", "origin", "HEAD:main")
	return w.git(t, work, "rev-parse", "HEAD")
}

// Publish serves a repository, git/NAME, with the files of a folder.
func (w *World) Publish(t *testing.T, name, dir string) {
	t.Helper()
	bare, work := filepath.Join(w.dir, "git", name), t.TempDir()
	w.git(t, "", "init", "-q", "--bare", "-b", "main", bare)
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	w.git(t, work, "init", "-q", "-b", "main")
	w.git(t, work, "add", "-A", "-f")
	w.git(t, work, "commit", "-q", "-m", "test")
	w.git(t, work, "push", "-q", bare, "HEAD:main")
}

// Read returns a file of testdata/e2e with the world's address for SERVER.
func (w *World) Read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/e2e", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(b, []byte("SERVER"), []byte(w.URL)))
}

// Chart returns the engine's chart.
func (w *World) Chart(t *testing.T, name, version string) lab.Chart {
	t.Helper()
	archive := Env(t, "LAB_E2E_CHART")
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return lab.Chart{Name: name, Version: version, Digest: hex.EncodeToString(sum[:]), Archive: archive}
}

// Client returns a client of the spoke.
func (w *World) Client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(w.Spoke)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Region returns the region deployed by hello.
func (w *World) Region(t *testing.T) string {
	t.Helper()
	m, err := w.Client(t).CoreV1().ConfigMaps("hello").Get(t.Context(), "hello", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Data["region"]
}

// Revoke removes the engine's account from the spoke.
func (w *World) Revoke(t *testing.T, account string) {
	t.Helper()
	if err := w.Client(t).CoreV1().ServiceAccounts("lab-system").Delete(t.Context(), account, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Fingerprint returns lab's objects in namespaces with their resourceVersion, or generation if others write the status.
func (w *World) Fingerprint(t *testing.T, namespaces ...string) []string {
	t.Helper()
	var out []string
	for name, cfg := range map[string]*rest.Config{"hub": w.Hub, "spoke": w.Spoke} {
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, ns := range append(namespaces, "lab-system") {
			all, err := c.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range all.Items {
				out = append(out, fmt.Sprintf("%s/%s/%s %s", name, ns, s.Name, s.ResourceVersion))
			}
			const byKubernetes = "kube-root-ca.crt" // appears some time after its namespace
			maps, err := c.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=" + byKubernetes})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range maps.Items {
				out = append(out, fmt.Sprintf("%s/%s/%s %s", name, ns, s.Name, s.ResourceVersion))
			}
			deployments, err := c.AppsV1().Deployments(ns).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range deployments.Items {
				out = append(out, fmt.Sprintf("%s/%s/%s generation %d", name, ns, d.Name, d.Generation))
			}
		}
	}
	slices.Sort(out)
	return out
}

// Holds returns the spoke's objects beyond those of a new kind cluster. The foreign namespace is omitted, but must remain.
func (w *World) Holds(t *testing.T) []string {
	t.Helper()
	c := w.Client(t)
	const canary = "foreign"
	_, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: canary}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if err == nil {
		w.canary = ""
	}
	var held []string
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for range 60 { // terminating objects take a moment
		held = nil
		list, err := c.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		leaving := false
		for _, ns := range list.Items {
			switch {
			case ns.Name == canary && w.canary == "":
				w.canary = string(ns.UID)
			case ns.Name == canary && w.canary != string(ns.UID):
				t.Error("foreign namespace was replaced")
			case ns.Name != canary && ns.Name != "default" && ns.Name != "local-path-storage" && !strings.HasPrefix(ns.Name, "kube-"):
				held = append(held, "namespace "+ns.Name)
				leaving = leaving || ns.DeletionTimestamp != nil
			}
		}
		if !leaving {
			break
		}
		<-tick.C
	}
	bindings, err := c.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{LabelSelector: lab.LabelName})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings.Items {
		held = append(held, "clusterrolebinding "+b.Name)
	}
	return held
}

// Applied returns hello's objects in the spoke, with uids.
func (w *World) Applied(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, o := range objects(t, w.Spoke) {
		if o.GetNamespace() == "hello" && (o.GetKind() == "Deployment" || o.GetKind() == "Pod" || o.GetKind() == "ConfigMap" || o.GetKind() == "Service") {
			list = append(list, fmt.Sprintf("%s %s %s", o.GetKind(), o.GetName(), o.GetUID()))
		}
	}
	slices.Sort(list)
	return list
}

// Naming returns the objects of both clusters that contain any of the words in their metadata.
func (w *World) Naming(t *testing.T, words ...string) []string {
	t.Helper()
	return Naming(t, map[string]*rest.Config{"hub": w.Hub, "spoke": w.Spoke}, words...)
}

// Naming returns the objects of clusters that contain any of the words in their metadata.
func Naming(t *testing.T, clusters map[string]*rest.Config, words ...string) []string {
	t.Helper()
	var list []string
	for name, cfg := range clusters {
		for _, o := range objects(t, cfg) {
			b, err := json.Marshal(o.Object["metadata"])
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range words {
				if strings.Contains(string(b), word) {
					list = append(list, fmt.Sprintf("%s: %s %s/%s has %s", name, o.GetKind(), o.GetNamespace(), o.GetName(), word))
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// Objects lists all objects of clusters except events.
func Objects(t *testing.T, clusters map[string]*rest.Config) []unstructured.Unstructured {
	t.Helper()
	var all []unstructured.Unstructured
	for _, cfg := range clusters {
		all = append(all, objects(t, cfg)...)
	}
	return all
}

// objects lists all objects of a cluster except events.
func objects(t *testing.T, cfg *rest.Config) []unstructured.Unstructured {
	t.Helper()
	c, err := kube.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := discovery.ServerPreferredResources(c.Typed.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	var all []unstructured.Unstructured
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Name == "events" {
				continue
			}
			list, err := c.Dynamic.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, list.Items...)
		}
	}
	return all
}
