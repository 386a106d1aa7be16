//go:build e2e

package argocd_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/argocd"
	"homelab/lab/engine/enginetest"
	"homelab/lab/engine/helm"
)

// env returns an environment variable, and skips the test if it is unset. The suite needs two clusters on one Docker network, with the images of Argo CD, Redis
// and podinfo loaded: LAB_E2E_HUB and LAB_E2E_SPOKE (kubeconfigs; the hub has no Argo CD), LAB_E2E_SPOKE_SERVER (the spoke's address from the hub,
// https://NAME-control-plane:6443), LAB_E2E_CHART (the argo-cd chart, a .tgz), LAB_E2E_IMAGES (references of Argo CD and Redis) and LAB_E2E_LISTEN (an address
// of this machine that pods reach: the network's gateway).
func env(t *testing.T, key string) string {
	t.Helper()
	v := os.Getenv(key)
	if v == "" {
		t.Skip(key + " is not set")
	}
	return v
}

// world serves an estate's Git repository and a chart repository to the clusters.
type world struct {
	url, dir string
	hub      *rest.Config
	spoke    *rest.Config
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), hub: kubeconfig(t, "LAB_E2E_HUB"), spoke: kubeconfig(t, "LAB_E2E_SPOKE")}
	l, err := net.Listen("tcp", net.JoinHostPort(env(t, "LAB_E2E_LISTEN"), "0"))
	if err != nil {
		t.Fatal(err)
	}
	w.url = "http://" + l.Addr().String()
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
	chart, err := loader.LoadDir("testdata/e2e/hello")
	if err == nil {
		_, err = chartutil.Save(chart, charts)
	}
	if err == nil {
		var index *repo.IndexFile
		if index, err = repo.IndexDirectory(charts, w.url+"/charts"); err == nil {
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
	cfg, err := clientcmd.BuildConfigFromFlags("", env(t, key))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func (w *world) git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=lab", "-c", "user.email=lab@localhost", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files into the estate and returns the commit.
func (w *world) commit(t *testing.T, files map[string]string) string {
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

func (w *world) read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/e2e", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(b, []byte("SERVER"), []byte(w.url)))
}

const helloValues = "environments/default/addons/hello/values.yaml"

// newEngine returns the engine of the hub and lab's values for it.
func newEngine(t *testing.T, w *world) (*argocd.ArgoCD, lab.Chart, map[string]any) {
	t.Helper()
	e, err := argocd.New("engdev", w.hub, argocd.WithReach(func(string) (*rest.Config, error) { return w.spoke, nil }))
	if err != nil {
		t.Fatal(err)
	}
	archive := env(t, "LAB_E2E_CHART")
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	images := strings.Fields(env(t, "LAB_E2E_IMAGES"))
	chart := lab.Chart{Name: "argo-cd", Version: "3.2.11", Digest: hex.EncodeToString(sum[:]), Archive: archive}
	// LAB_E2E_BANNER changes the values, for upgrades killed by hand.
	over := map[string]any{}
	if banner := os.Getenv("LAB_E2E_BANNER"); banner != "" {
		over = map[string]any{"configs": map[string]any{"cm": map[string]any{"ui.bannercontent": banner}}}
	}
	return e, chart, argocd.Values(argocd.Settings{
		Lab: "engdev", Image: lab.Image{Ref: images[0]}, Redis: lab.Image{Ref: images[1]},
		PasswordHash:  "$2a$10$eFJHrYvSJVdq1k2Jv8zHSOyYIRvWmeoBWgPU6v2hJ9g1c9hQ8UCiq",
		WebhookSecret: webhookSecret, URL: "http://127.0.0.1:8080",
	}, over)
}

const webhookSecret = "hush"

func TestArgoCDKeepsTheContract(t *testing.T) {
	w := newWorld(t)
	e, chart, values := newEngine(t, w)
	revision := w.commit(t, map[string]string{
		"addons/hello/applicationset.yaml": w.read(t, "applicationset.yaml"), helloValues: "replicas: 1\n",
	})
	enginetest.Contract(t, enginetest.Subject{
		Engine: e, Chart: chart, Values: values,
		OtherValues: helm.Merge(values, map[string]any{"configs": map[string]any{"cm": map[string]any{"ui.bannercontent": "lab"}}}),
		Spoke:       w.spoke, Server: env(t, "LAB_E2E_SPOKE_SERVER"),
		Repositories: []engine.Repository{
			{Name: "estate", Type: "git", URL: w.url + "/git/estate.git", Username: "lab", Password: "hush-hush"},
			{Name: "charts", Type: "helm", URL: w.url + "/charts"},
		},
		Root:     engine.Root{Manifest: []byte(w.read(t, "root.yaml"))},
		Revision: revision,
		Break:    func(t *testing.T) string { return w.commit(t, map[string]string{helloValues: "tag: 9.9.9\n"}) },
		Mend:     func(t *testing.T) string { return w.commit(t, map[string]string{helloValues: "replicas: 2\n"}) },
		Region: func(t *testing.T) string {
			c, err := kubernetes.NewForConfig(w.spoke)
			if err != nil {
				t.Fatal(err)
			}
			m, err := c.CoreV1().ConfigMaps("hello").Get(t.Context(), "hello", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return m.Data["region"]
		},
		Revoke: func(t *testing.T) {
			c, err := kubernetes.NewForConfig(w.spoke)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.CoreV1().ServiceAccounts("lab-system").Delete(t.Context(), "argocd-manager", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		Holds:       func(t *testing.T) []string { return holds(t, w) },
		Fingerprint: func(t *testing.T) []string { return fingerprint(t, w) },
		Patience:    3 * time.Minute,
	})
}

// fingerprint returns every object that lab writes with its resourceVersion, or generation for Applications, whose status Argo CD writes.
func fingerprint(t *testing.T, w *world) []string {
	t.Helper()
	var out []string
	for name, cfg := range map[string]*rest.Config{"hub": w.hub, "spoke": w.spoke} {
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, ns := range []string{"argocd", "lab-system"} {
			all, err := c.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range all.Items {
				out = append(out, fmt.Sprintf("%s/%s/%s %s", name, ns, s.Name, s.ResourceVersion))
			}
			maps, err := c.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
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

// holds returns the spoke's objects beyond those of a new kind cluster. The foreign namespace is omitted, but must remain.
func holds(t *testing.T, w *world) []string {
	t.Helper()
	c, err := kubernetes.NewForConfig(w.spoke)
	if err != nil {
		t.Fatal(err)
	}
	const canary = "somebody"
	_, err = c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: canary}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if err == nil {
		spokeCanary = ""
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
			case ns.Name == canary && spokeCanary == "":
				spokeCanary = string(ns.UID)
			case ns.Name == canary && spokeCanary != string(ns.UID):
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

var spokeCanary string // uid of the namespace
