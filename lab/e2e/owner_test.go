//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"homelab/lab"
	"homelab/lab/engine/argocd"
	"homelab/lab/engine/enginetest"
)

// besideOwner attaches a cluster whose owner runs an Argo CD and a Flux there, in the namespaces and with an application of the name that lab uses, and replaces
// the lab's engine by the other and back before it lets go of the cluster. The owner's engines work all the time, and nobody changes their objects. Until the owner's
// Argo CD can tell its Application from the lab's, the cluster is not attached.
func besideOwner(t *testing.T) {
	l := newLab(t, "e2e-edge", "hub")
	kubeconfig := kindCluster(t)
	o := newOwner(t, kubeconfig)
	o.install(t)
	o.works(t, "before")
	was := o.objects(t)
	check := func(when string) {
		t.Helper()
		if d := cmp.Diff(was, o.objects(t)); d != "" {
			t.Errorf("%s, the owner's objects changed:\n%s", when, d)
		}
		o.works(t, when)
		was = o.objects(t)
	}

	l.must("up", "--fix")
	docker(t, "network", "connect", "lab-e2e-edge", stranger+"-control-plane")
	l.write("clusters/edge/cluster.yaml", strings.Replace(edgeCluster, "KUBECONFIG", kubeconfig, 1))
	l.must("generate")
	if out := l.run("up", "--trust"); out.code != int(lab.ExitInvalid) || !strings.Contains(out.stderr, "edge: argocd/edge-identity") || !strings.Contains(out.stderr, "installationID") {
		t.Errorf("an Application of the owner's with the lab's name: exit %d\n%s", out.code, out.stderr)
	}
	check("refused")
	id := []byte(`{"data": {"installationID": "hers"}}`)
	if _, err := o.client(t).CoreV1().ConfigMaps("argocd").Patch(t.Context(), "argocd-cm", types.MergePatchType, id, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	o.works(t, "told apart")
	was = o.objects(t)
	l.must("up", "--trust")
	l.converged(2, 2)
	check("attached")
	for _, engine := range []lab.EngineType{lab.EngineFlux, lab.EngineArgoCD} {
		l.must("up", "--engine", string(engine), "--switch-engine")
		l.converged(2, 2)
		if left := o.traces(t, namesOf[map[lab.EngineType]lab.EngineType{lab.EngineFlux: lab.EngineArgoCD, lab.EngineArgoCD: lab.EngineFlux}[engine]]); len(left) > 0 {
			t.Errorf("left by the former engine:\n%s", strings.Join(left, "\n"))
		}
		check("switched to " + string(engine))
	}
	l.must("down")
	check("detached")
	if ns := o.namespaces(t); slices.Contains(ns, "identity") || slices.Contains(ns, "lab-system") {
		t.Errorf("left: %q", ns)
	}
}

// kindCluster creates a Kind cluster outside lab and returns its kubeconfig.
func kindCluster(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	kubeconfig, kind := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "kind")
	shell(t, "go", "build", "-o", kind, "sigs.k8s.io/kind")
	if err := os.WriteFile(filepath.Join(dir, "kind.yaml"), []byte(strangerConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	image := strings.Fields(docker(t, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "lab/node"))
	if len(image) == 0 {
		t.Fatal("no node image; lab pull builds it")
	}
	t.Setenv("PATH", "/usr/local/lib/lab/bin:"+os.Getenv("PATH")) // on hosts that need it, the node gets the runtime of lab doctor --fix
	t.Cleanup(func() {
		_ = exec.Command(kind, "delete", "cluster", "--quiet", "--name", stranger, "--kubeconfig", kubeconfig).Run()
	})
	shell(t, kind, "create", "cluster", "--quiet", "--name", stranger, "--image", image[0], "--config", filepath.Join(dir, "kind.yaml"), "--kubeconfig", kubeconfig, "--wait", "180s")
	return kubeconfig
}

// owner is the owner of an attached cluster, with a Git server of her own.
type owner struct {
	cfg  *rest.Config
	url  string // of her repository
	work string // her clone
}

func newOwner(t *testing.T, kubeconfig string) *owner {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	gateway := ""
	for _, at := range strings.Fields(docker(t, "network", "inspect", "kind", "--format", "{{range .IPAM.Config}}{{.Gateway}} {{end}}")) {
		if !strings.Contains(at, ":") {
			gateway = at
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(gateway, "0"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	backend := filepath.Join(strings.TrimSpace(shell(t, "git", "--exec-path")), "git-http-backend")
	server := &http.Server{Handler: &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"}}}
	go server.Serve(listener) //nolint:errcheck // ends with the test
	t.Cleanup(func() { server.Close() })
	o := &owner{cfg: cfg, url: "http://" + listener.Addr().String() + "/hers.git", work: filepath.Join(dir, "work")}
	shell(t, "git", "init", "-q", "--bare", "-b", "main", filepath.Join(dir, "hers.git"))
	shell(t, "git", "clone", "-q", filepath.Join(dir, "hers.git"), o.work)
	return o
}

// commit makes both engines' ConfigMaps say something.
func (o *owner) commit(t *testing.T, word string) {
	t.Helper()
	for _, by := range []string{"argo", "flux"} {
		if err := os.MkdirAll(filepath.Join(o.work, by), 0o755); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hers, namespace: hers-%s}\ndata: {word: %q}\n", by, word)
		if err := os.WriteFile(filepath.Join(o.work, by, "hers.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := []string{"-C", o.work, "-c", "user.name=hers", "-c", "user.email=hers@example.com"}
	shell(t, "git", append(git, "add", "-A")...)
	shell(t, "git", append(git, "commit", "-q", "-m", word)...)
	shell(t, "git", append(git, "push", "-q", "origin", "HEAD:main")...)
}

// hers are the owner's own objects of her engines. The Application has the name of the lab's.
const hers = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: edge-identity, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  project: default
  source: {repoURL: REPOSITORY, path: argo, targetRevision: main}
  destination: {server: 'https://kubernetes.default.svc', namespace: hers-argo}
  syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: [CreateNamespace=true]}
---
apiVersion: v1
kind: Namespace
metadata: {name: hers-flux}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {url: REPOSITORY, ref: {branch: main}, interval: 10s}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {path: flux, prune: true, interval: 1m, sourceRef: {kind: GitRepository, name: flux-system}}
`

// install installs an Argo CD and a Flux from lab's store, as manifests of the owner's.
func (o *owner) install(t *testing.T) {
	t.Helper()
	for _, image := range []string{"argocd", "redis", "source-controller", "kustomize-controller"} {
		in, err := os.Open(stored(t, image, "image.tar"))
		if err != nil {
			t.Fatal(err)
		}
		load := exec.Command("docker", "exec", "-i", stranger+"-control-plane", "ctr", "-n", "k8s.io", "images", "import", "-")
		load.Stdin = in
		if out, err := load.CombinedOutput(); err != nil {
			t.Fatalf("load %s: %v\n%s", image, err, out)
		}
		in.Close()
	}
	ref := func(image string) lab.Image {
		var meta struct{ Ref string }
		text, err := os.ReadFile(stored(t, image, "meta.json"))
		if err == nil {
			err = json.Unmarshal(text, &meta)
		}
		if err != nil {
			t.Fatal(err)
		}
		return lab.Image{Ref: meta.Ref}
	}
	theirs := argocd.Values(argocd.Settings{Image: ref("argocd"), Redis: ref("redis"), PasswordHash: "x", WebhookSecret: "x", URL: "http://argocd"}, map[string]any{
		"global": map[string]any{"additionalLabels": nil}, "configs": map[string]any{"cm": map[string]any{"installationID": nil, "timeout.reconciliation": "10s"}},
	})
	off := map[string]any{"create": false}
	o.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: argocd}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: flux-system}\n---\n"+
		"apiVersion: v1\nkind: Secret\nmetadata: {name: argocd-redis, namespace: argocd}\nstringData: {auth: hers}\n")
	o.apply(t, render(t, "argocd", "argocd", stored(t, "chart-argo-cd", "*.tgz"), theirs))
	o.apply(t, render(t, "flux", "flux-system", stored(t, "chart-flux2", "*.tgz"), map[string]any{
		"helmController": off, "notificationController": off, "imageReflectionController": off, "imageAutomationController": off, "sourceWatcher": off,
	}))
	o.commit(t, "first")
	o.apply(t, strings.ReplaceAll(hers, "REPOSITORY", o.url))
}

// stored returns a file of the newest build of a component in lab's store.
func stored(t *testing.T, component, file string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "lab", "store", component+"-*", file))
	found = slices.DeleteFunc(found, func(f string) bool { return strings.Contains(f, component+"-program-") })
	if err != nil || len(found) == 0 {
		t.Fatalf("%s of %s is not in lab's store: %v", file, component, err)
	}
	return found[len(found)-1]
}

// render renders a chart as `helm template` does.
func render(t *testing.T, release, namespace, archive string, values map[string]any) string {
	t.Helper()
	chart, err := loader.Load(archive)
	if err != nil {
		t.Fatal(err)
	}
	in := action.NewInstall(&action.Configuration{})
	in.ReleaseName, in.Namespace, in.ClientOnly, in.DryRun, in.IncludeCRDs = release, namespace, true, true, true
	in.KubeVersion = &chartutil.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"}
	rel, err := in.Run(chart, values)
	if err != nil {
		t.Fatal(err)
	}
	return rel.Manifest
}

// apply applies a manifest as the owner does.
func (o *owner) apply(t *testing.T, manifest string) {
	t.Helper()
	apply := exec.Command("docker", "exec", "-i", stranger+"-control-plane", "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "apply", "--server-side", "-f", "-")
	apply.Stdin = bytes.NewReader([]byte(manifest))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// works checks that both of the owner's engines sync a commit.
func (o *owner) works(t *testing.T, word string) {
	t.Helper()
	began := time.Now()
	o.commit(t, word)
	c := o.client(t)
	eventually(t, 3*time.Minute, func() error {
		for _, by := range []string{"argo", "flux"} {
			m, err := c.CoreV1().ConfigMaps("hers-"+by).Get(t.Context(), "hers", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := m.Data["word"]; got != word {
				return fmt.Errorf("%s: the owner's %s synced %q last", word, by, got)
			}
		}
		return nil
	})
	t.Logf("%s: the owner's engines synced a commit in %.0fs", word, time.Since(began).Seconds())
}

// objects returns the owner's objects: those that nobody writes by their resourceVersion, the others by what a person writes, as their controllers write the rest.
func (o *owner) objects(t *testing.T) map[string]string {
	t.Helper()
	mine := []string{"argocd", "flux-system", "hers-argo", "hers-flux"}
	written := []string{"Application", "AppProject", "Kustomization", "GitRepository", "Deployment", "StatefulSet", "ReplicaSet", "Pod", "Namespace", "CustomResourceDefinition", "NetworkPolicy", "Service"}
	passing := []string{"Lease", "Endpoints", "EndpointSlice", "Event", "ControllerRevision", "PodMetrics"}
	found := map[string]string{}
	for _, x := range enginetest.Objects(t, map[string]*rest.Config{"edge": o.cfg}) {
		kind := x.GetKind()
		at := x.GetNamespace()
		if kind == "Namespace" {
			at = x.GetName()
		}
		definition := kind == "CustomResourceDefinition" || strings.HasPrefix(kind, "ClusterRole") && !strings.HasPrefix(x.GetName(), "lab-")
		if !slices.Contains(mine, at) && !definition || slices.Contains(passing, kind) {
			continue
		}
		what := string(x.GetUID()) + " version " + x.GetResourceVersion()
		if slices.Contains(written, kind) {
			what = string(x.GetUID()) + " " + plain(t, &x)
		}
		found[kind+" "+x.GetNamespace()+"/"+x.GetName()] = what
	}
	if len(found) < 40 {
		t.Errorf("only %d objects: %q", len(found), slices.Sorted(maps.Keys(found)))
	}
	return found
}

// plain returns an object without what controllers write.
func plain(t *testing.T, x *unstructured.Unstructured) string {
	t.Helper()
	for _, field := range [][]string{{"status"}, {"operation"}, {"metadata", "resourceVersion"}, {"metadata", "generation"}} {
		unstructured.RemoveNestedField(x.Object, field...)
	}
	var managers []string
	for _, e := range x.GetManagedFields() {
		managers = append(managers, e.Manager)
	}
	slices.Sort(managers)
	x.SetManagedFields(nil)
	text, err := json.Marshal(x.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + " by " + strings.Join(slices.Compact(managers), ", ")
}

// traces returns the objects of the lab's addon that name an engine.
func (o *owner) traces(t *testing.T, words []string) []string {
	t.Helper()
	return slices.DeleteFunc(enginetest.Naming(t, map[string]*rest.Config{"edge": o.cfg}, words...), func(line string) bool {
		return !strings.Contains(line, " identity/") && !strings.Contains(line, "/identity ") && !strings.Contains(line, "lab-system")
	})
}

func (o *owner) namespaces(t *testing.T) []string {
	t.Helper()
	list, err := o.client(t).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, ns := range list.Items {
		if ns.DeletionTimestamp == nil {
			names = append(names, ns.Name)
		}
	}
	return names
}

func (o *owner) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(o.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
