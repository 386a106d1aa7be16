package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab"
	"homelab/lab/state"
	"homelab/lab/trust"
)

// fakeCluster is an existing cluster with an in-memory API.
type fakeCluster struct {
	*fake.Clientset
	mu   sync.Mutex
	fail error // returned by every request; nil while it answers
}

// setError sets the error of every request.
func (o *fakeCluster) setError(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail = err
}

func newFakeCluster() *fakeCluster {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	o := &fakeCluster{Clientset: fake.NewClientset(node, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system, UID: "canary"}})}
	o.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.fail != nil, nil, o.fail
	})
	return o
}

const edgeConfig = `apiVersion: v1
kind: Config
current-context: other
clusters: [{name: edge, cluster: {server: "https://127.0.0.1:6443"}}, {name: other, cluster: {server: "https://127.0.0.1:7443"}}]
users: [{name: edge, user: {token: secret}}]
contexts: [{name: edge, context: {cluster: edge, user: edge}}, {name: other, context: {cluster: other, user: edge}}]
`

// trusted agrees to everything.
func trusted(trust.Thing) bool { return true }

// newTestExisting returns a lab's existing clusters, with one called edge.
func newTestExisting(t *testing.T, labName string, o *fakeCluster) *Existing {
	t.Helper()
	root := t.TempDir()
	file := filepath.Join(root, "config")
	if err := os.WriteFile(file, []byte(edgeConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return existingIn(&state.Dir{Lab: labName, Path: filepath.Join(root, labName)}, file, o)
}

func existingIn(dir *state.Dir, file string, o *fakeCluster) *Existing {
	est := &lab.Estate{Clusters: []lab.Cluster{
		{Name: "dev", Provider: lab.ProviderKind},
		{Name: "edge", Provider: lab.ProviderExisting, Existing: lab.Existing{Kubeconfig: file, Context: "edge", Server: "https://edge:6443"}},
	}}
	if file == "" {
		est = nil
	}
	e := NewExisting(dir, est, trusted)
	e.connect = func(*rest.Config) (kubernetes.Interface, error) { return o, nil }
	return e
}

func edgeSpec() Spec { return Spec{Cluster: lab.Cluster{Name: "edge", Provider: lab.ProviderExisting}} }

func attachEdge(t *testing.T, e *Existing) {
	t.Helper()
	if err := e.Create(t.Context(), edgeSpec(), nil); err != nil {
		t.Fatal(err)
	}
	if err := e.Mark(t.Context(), "edge", "inputs", nil); err != nil {
		t.Fatal(err)
	}
}

func TestExisting(t *testing.T) {
	o := newFakeCluster()
	e := newTestExisting(t, "demo", o)
	if states, err := e.Observe(t.Context()); err != nil || len(states) != 0 {
		t.Fatalf("before: %+v, %v", states, err)
	}
	if !e.has("edge") || e.has("dev") {
		t.Error("has reports the wrong clusters")
	}
	attachEdge(t, e)
	states, err := e.Observe(t.Context(), "edge")
	if err != nil || len(states) != 1 {
		t.Fatalf("%+v, %v", states, err)
	}
	s := states[0]
	if !s.Exists || !s.Running || !s.Answers || !s.Ready || !s.Marked || !s.Recorded || !s.Attached || s.Made != lab.MadeWhole || s.Inputs != "inputs" || s.Kubernetes == "" || s.Fault != "" {
		t.Errorf("%+v", s)
	}
	if states, err := e.Observe(t.Context(), "other"); err != nil || len(states) != 0 {
		t.Errorf("Observe of another cluster: %+v, %v", states, err)
	}
	text, err := os.ReadFile(e.Kubeconfig("edge"))
	if err != nil || strings.Contains(string(text), "7443") || !strings.Contains(string(text), "secret") {
		t.Errorf("lab's copy: %s, %v", text, err)
	}
	if fi, err := os.Stat(e.Kubeconfig("edge")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}

	forgotten := existingIn(e.state, "", o) // without an estate
	if states, err := forgotten.Observe(t.Context()); err != nil || len(states) != 1 || !states[0].Answers {
		t.Fatalf("without an estate: %+v, %v", states, err)
	}
	if cfg, err := forgotten.RESTConfig("edge"); err != nil || cfg.Host != "https://127.0.0.1:6443" {
		t.Errorf("%+v, %v", cfg, err)
	}
	for range 2 {
		if err := forgotten.Delete(t.Context(), "edge"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.CoreV1().ConfigMaps(system).Get(t.Context(), markName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("mark after Delete: %v", err)
	}
	if ns, err := o.CoreV1().Namespaces().Get(t.Context(), system, metav1.GetOptions{}); err != nil || ns.UID != "canary" {
		t.Errorf("%+v, %v", ns, err)
	}
	if _, err := os.Stat(e.Kubeconfig("edge")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("lab's copy after Delete: %v", err)
	}
	if states, err := e.Observe(t.Context()); err != nil || len(states) != 0 {
		t.Errorf("after: %+v, %v", states, err)
	}
}

func TestExistingOtherLab(t *testing.T) {
	o := newFakeCluster()
	first, second := newTestExisting(t, "demo", o), newTestExisting(t, "other", o)
	attachEdge(t, first)
	for name, do := range map[string]func() error{
		"create": func() error { return second.Create(t.Context(), edgeSpec(), nil) },
		"start":  func() error { return second.Start(t.Context(), "edge", nil) },
		"mark":   func() error { return second.Mark(t.Context(), "edge", "theirs", nil) },
	} {
		var e *lab.Error
		if err := do(); !errors.As(err, &e) || e.Code != "not_ours" || !strings.Contains(e.Message, "demo") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if states, err := second.Observe(t.Context()); err != nil || len(states) != 0 {
		t.Errorf("%+v, %v", states, err)
	}
	if err := second.Delete(t.Context(), "edge"); err != nil {
		t.Error(err)
	}
	if states, _ := first.Observe(t.Context()); len(states) != 1 || !states[0].Marked || states[0].Inputs != "inputs" {
		t.Errorf("first lab: %+v", states)
	}
}

func TestExistingUnreachable(t *testing.T) {
	o := newFakeCluster()
	e := newTestExisting(t, "demo", o)
	attachEdge(t, e)
	o.setError(errors.New("connection refused"))
	states, err := e.Observe(t.Context())
	if err != nil || len(states) != 1 || states[0].Answers || !states[0].Exists || states[0].Made != lab.MadeWhole || states[0].Fault == "" {
		t.Errorf("%+v, %v", states, err)
	}
	if err := e.Delete(t.Context(), "edge"); err == nil || !e.state.Cluster("edge").Attached {
		t.Errorf("Delete of an unreachable cluster: %v", err)
	}
	if err := e.Forget("edge"); err != nil || e.state.Cluster("edge").Attached {
		t.Errorf("Forget: %v", err)
	}
}

func TestExistingWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeCluster()
		e := newTestExisting(t, "demo", o)
		o.setError(errors.New("connection refused"))
		var progress []string
		began := time.Now()
		err := e.Create(t.Context(), edgeSpec(), func(s string) { progress = append(progress, s) })
		var le *lab.Error
		if !errors.As(err, &le) || le.Exit != lab.ExitTimeout || !strings.Contains(le.Message, "connection refused") || time.Since(began) != attachLimit {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if len(progress) == 0 || !strings.Contains(progress[0], "connection refused") {
			t.Errorf("%q", progress)
		}
		if e.state.Cluster("edge").Attached {
			t.Error("recorded as attached")
		}
		time.AfterFunc(10*time.Second, func() { o.setError(nil) })
		if err := e.Create(t.Context(), edgeSpec(), nil); err != nil {
			t.Error(err)
		}
		o.setError(apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no")))
		began = time.Now()
		if err := e.Start(t.Context(), "edge", nil); !apierrors.IsForbidden(err) || time.Since(began) > time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		o.setError(errors.New("connection refused"))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		if err := e.Start(ctx, "edge", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func TestExistingAccessError(t *testing.T) {
	o := newFakeCluster()
	e := newTestExisting(t, "demo", o)
	from := e.estate["edge"]
	from.Existing.Context = "nowhere"
	e.estate["edge"] = from
	var le *lab.Error
	if err := e.Create(t.Context(), edgeSpec(), nil); !errors.As(err, &le) || le.Code != "no_context" || !slices.Contains(le.Details, "it has edge, other") {
		t.Errorf("%v", err)
	}
	from.Existing.Kubeconfig = filepath.Join(t.TempDir(), "none")
	e.estate["edge"] = from
	if err := e.Create(t.Context(), edgeSpec(), nil); err == nil {
		t.Error("read a missing file")
	}
}

func TestSetProvider(t *testing.T) {
	o := newFakeCluster()
	e := newTestExisting(t, "demo", o)
	made := &recorder{}
	s := NewSet(made, e)
	for _, name := range []string{"dev", "edge"} {
		spec := Spec{Cluster: lab.Cluster{Name: name, Provider: lab.ProviderKind}}
		if name == "edge" {
			spec = edgeSpec()
		}
		for _, err := range []error{
			s.Create(t.Context(), spec, nil), s.Start(t.Context(), name, nil), s.Load(t.Context(), name, nil, nil), s.Mark(t.Context(), name, "i", nil),
			s.Record(t.Context(), name, "i"),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := s.RESTConfig(name); err != nil {
			t.Error(err)
		}
	}
	states, err := s.Observe(t.Context())
	if err != nil || len(states) != 2 || states[0].Name != "dev" || states[0].Attached || !states[1].Attached {
		t.Errorf("%+v, %v", states, err)
	}
	for _, name := range []string{"edge", "dev"} {
		if err := s.Delete(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"create dev", "start dev", "load dev", "mark dev", "record dev", "reach dev", "delete dev"}; !slices.Equal(made.calls, want) {
		t.Errorf("%q", made.calls)
	}
}

type recorder struct {
	Networked
	calls []string
	fail  error
}

func (r *recorder) note(call, name string) error {
	r.calls = append(r.calls, call+" "+name)
	return r.fail
}

func (r *recorder) Observe(context.Context, ...string) ([]lab.ClusterState, error) {
	return []lab.ClusterState{{Name: "dev", Exists: true}}, nil
}

func (r *recorder) Create(_ context.Context, s Spec, _ lab.Progress) error {
	return r.note("create", s.Cluster.Name)
}

func (r *recorder) Start(_ context.Context, name string, _ lab.Progress) error {
	return r.note("start", name)
}

func (r *recorder) Load(_ context.Context, name string, _ []lab.Image, _ lab.Progress) error {
	return r.note("load", name)
}

func (r *recorder) Mark(_ context.Context, name, _ string, _ []string) error {
	return r.note("mark", name)
}
func (r *recorder) Record(_ context.Context, name, _ string) error { return r.note("record", name) }
func (r *recorder) Delete(_ context.Context, name string) error    { return r.note("delete", name) }
func (r *recorder) RESTConfig(name string) (*rest.Config, error) {
	return &rest.Config{}, r.note("reach", name)
}

// A ConfigMap of the owner's is neither overwritten nor deleted.
func TestExistingNotAMark(t *testing.T) {
	o := newFakeCluster()
	hers := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: markName, Namespace: system}, Data: map[string]string{"hers": "kept"}}
	if _, err := o.CoreV1().ConfigMaps(system).Create(t.Context(), hers, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e := newTestExisting(t, "demo", o)
	for name, do := range map[string]func() error{
		"create": func() error { return e.Create(t.Context(), edgeSpec(), nil) },
		"mark":   func() error { return e.Mark(t.Context(), "edge", "x", nil) },
	} {
		var failed *lab.Error
		if err := do(); !errors.As(err, &failed) || failed.Code != "not_ours" || !strings.Contains(failed.Message, "that is not lab's") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := e.Delete(t.Context(), "edge"); err != nil {
		t.Error(err)
	}
	if m, err := o.CoreV1().ConfigMaps(system).Get(t.Context(), markName, metav1.GetOptions{}); err != nil || m.Data["hers"] != "kept" {
		t.Errorf("%+v, %v", m, err)
	}
}
