package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab"
	"homelab/lab/state"
)

// Kubeconfig paths are relative to the estate, in the home directory, absolute, or kubectl's default.
func TestExistingKubeconfigPath(t *testing.T) {
	home, estate, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", filepath.Join(elsewhere, "default"))
	for file, port := range map[string]string{
		filepath.Join(home, "config"): "1001", filepath.Join(estate, "config"): "1002", filepath.Join(elsewhere, "config"): "1003", filepath.Join(elsewhere, "default"): "1004",
	} {
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(edgeConfig, "6443", port)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for written, port := range map[string]string{"~/config": "1001", "config": "1002", filepath.Join(elsewhere, "config"): "1003", "": "1004"} {
		e := NewExisting(&state.Dir{Lab: "demo", Path: t.TempDir()}, &lab.Estate{Dir: estate, Clusters: []lab.Cluster{
			{Name: "edge", Provider: lab.ProviderExisting, Existing: lab.Existing{Kubeconfig: written, Context: "edge"}},
		}}, trusted)
		cfg, err := e.RESTConfig("edge")
		if err != nil || cfg.Host != "https://127.0.0.1:"+port || cfg.UserAgent != "lab" {
			t.Errorf("%q: %+v, %v", written, cfg, err)
		}
	}
}

// A missing file is reported as such, not as a missing context.
func TestExistingKubeconfigMissing(t *testing.T) {
	e := newTestExisting(t, "demo", newFakeCluster())
	from := e.estate["edge"]
	from.Existing.Kubeconfig = filepath.Join(t.TempDir(), "none")
	e.estate["edge"] = from
	_, err := e.RESTConfig("edge")
	var le *lab.Error
	if !errors.Is(err, os.ErrNotExist) || errors.As(err, &le) {
		t.Errorf("%v", err)
	}
	if err := e.Create(t.Context(), edgeSpec(), nil); !errors.Is(err, os.ErrNotExist) || e.state.Cluster("edge").Attached {
		t.Errorf("attached: %v", err)
	}
	if err := e.state.SaveCluster("edge", state.Cluster{Attached: true}); err != nil {
		t.Fatal(err)
	}
	states, err := e.Observe(t.Context())
	if err != nil || len(states) != 1 || states[0].Answers || states[0].Fault != "its kubeconfig cannot be loaded" {
		t.Errorf("%+v, %v", states, err)
	}
	for call, err := range map[string]error{
		"create": e.Create(t.Context(), edgeSpec(), nil), "mark": e.Mark(t.Context(), "edge", "i", nil), "delete": e.Delete(t.Context(), "edge"),
	} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if !e.state.Cluster("edge").Attached {
		t.Error("unreachable cluster was forgotten")
	}
}

// The version request takes no context, so the client has a timeout.
func TestExistingTimeout(t *testing.T) {
	e := newTestExisting(t, "demo", newFakeCluster())
	var limit time.Duration
	connect := e.connect
	e.connect = func(cfg *rest.Config) (kubernetes.Interface, error) {
		limit = cfg.Timeout
		return connect(cfg)
	}
	if _, err := e.inspect(t.Context(), "edge"); err != nil || limit != answerLimit {
		t.Errorf("%s, %v", limit, err)
	}
}

// A cluster belongs to the lab once recorded, so that lab down finds it even if the run ended before marking it.
func TestExistingUnmarked(t *testing.T) {
	o := newFakeCluster()
	e := newTestExisting(t, "demo", o)
	if err := e.Create(t.Context(), edgeSpec(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(e.Kubeconfig("edge")); err != nil {
		t.Error(err)
	}
	forgotten := existingIn(e.state, "", o) // without an estate
	states, err := forgotten.Observe(t.Context())
	if err != nil || len(states) != 1 || !states[0].Exists || states[0].Marked || states[0].Recorded {
		t.Errorf("%+v, %v", states, err)
	}
	if err := forgotten.Delete(t.Context(), "edge"); err != nil || forgotten.has("edge") {
		t.Errorf("%v", err)
	}
}

// The mark identifies a cluster whose record was lost.
func TestExistingUnrecorded(t *testing.T) {
	o := newFakeCluster()
	e := newTestExisting(t, "demo", o)
	attachEdge(t, e)
	if err := e.Forget("edge"); err != nil {
		t.Fatal(err)
	}
	states, err := e.Observe(t.Context())
	if err != nil || len(states) != 1 || !states[0].Marked || states[0].Recorded || states[0].Inputs != "inputs" {
		t.Fatalf("%+v, %v", states, err)
	}
	if err := e.Delete(t.Context(), "edge"); err != nil {
		t.Fatal(err)
	}
	if states, err := e.Observe(t.Context()); err != nil || len(states) != 0 {
		t.Errorf("after Delete: %+v, %v", states, err)
	}
}

// Observe returns clusters of the estate and of the records in order of name, each once.
func TestExistingObserveOrder(t *testing.T) {
	o := newFakeCluster()
	e := newTestExisting(t, "demo", o)
	for _, name := range []string{"c", "edge", "a", "d", "b"} {
		e.estate[name] = e.estate["edge"]
		if err := e.Record(t.Context(), name, "inputs of "+name); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		states, err := e.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range states {
			names = append(names, s.Name)
		}
		if !slices.Equal(names, []string{"a", "b", "c", "d", "edge"}) {
			t.Fatalf("%q", names)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Observe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// Failed writes are reported, as the next run could not determine the cluster's owner.
func TestExistingWriteError(t *testing.T) {
	for what, lose := range map[string]func(t *testing.T, e *Existing){
		"kubeconfig": func(t *testing.T, e *Existing) {
			if err := os.MkdirAll(filepath.Join(e.Kubeconfig("edge"), "in the way"), 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"record": func(t *testing.T, e *Existing) {
			if err := os.MkdirAll(e.state.Path, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(e.state.Path, "clusters"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			e := newTestExisting(t, "demo", newFakeCluster())
			lose(t, e)
			for call, err := range map[string]error{
				"create": e.Create(t.Context(), edgeSpec(), nil), "mark": e.Mark(t.Context(), "edge", "i", nil), "record": e.Record(t.Context(), "edge", "i"),
			} {
				if err == nil {
					t.Errorf("%s: no error", call)
				}
			}
			if err := e.Delete(t.Context(), "edge"); err == nil {
				t.Error("delete: no error")
			}
		})
	}
}

// A single failed request leaves the state unknown and prevents a release.
func TestExistingPartialAnswer(t *testing.T) {
	for _, c := range []struct{ verb, resource string }{{"get", "version"}, {"list", "nodes"}, {"get", "configmaps"}} {
		t.Run(c.verb+" "+c.resource, func(t *testing.T) {
			o := newFakeCluster()
			e := newTestExisting(t, "demo", o)
			attachEdge(t, e)
			o.PrependReactor(c.verb, c.resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("overloaded") })
			s, err := e.inspect(t.Context(), "edge")
			if err == nil || s.Answers || s.Marked || !s.Exists || s.Fault == "" {
				t.Errorf("%+v, %v", s, err)
			}
			if c.resource != "configmaps" {
				return
			}
			if err := e.Mark(t.Context(), "edge", "other", nil); err == nil {
				t.Error("marked a cluster of unknown owner")
			}
			if err := e.Delete(t.Context(), "edge"); err == nil || !e.state.Cluster("edge").Attached {
				t.Errorf("released: %v", err)
			}
		})
	}
}

// A failure to write or remove the mark is reported and leaves the record unchanged.
func TestExistingMarkError(t *testing.T) {
	for verb, do := range map[string]func(*Existing) error{
		"patch":  func(e *Existing) error { return e.Mark(t.Context(), "edge", "new", nil) },
		"delete": func(e *Existing) error { return e.Delete(t.Context(), "edge") },
	} {
		o := newFakeCluster()
		e := newTestExisting(t, "demo", o)
		attachEdge(t, e)
		o.PrependReactor(verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("read only") })
		if err := do(e); err == nil || !strings.Contains(err.Error(), "read only") {
			t.Errorf("%s: %v", verb, err)
		}
		if r := e.state.Cluster("edge"); !r.Attached || r.Inputs != "inputs" {
			t.Errorf("%s: %+v", verb, r)
		}
	}
}

// The mark may be removed between the read and the delete.
func TestExistingMarkNotFound(t *testing.T) {
	o := newFakeCluster()
	e := newTestExisting(t, "demo", o)
	attachEdge(t, e)
	o.PrependReactor("delete", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, markName)
	})
	if err := e.Delete(t.Context(), "edge"); err != nil || e.state.Cluster("edge").Attached {
		t.Errorf("%v", err)
	}
}

func TestExistingNoReadyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeCluster()
		if err := o.CoreV1().Nodes().Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e := newTestExisting(t, "demo", o)
		var le *lab.Error
		if err := e.Create(t.Context(), edgeSpec(), nil); !errors.As(err, &le) || le.Cure == "" || !strings.Contains(le.Message, "none of its nodes is ready") {
			t.Errorf("%v", err)
		}
		o.fail = apierrors.NewUnauthorized("expired")
		began := time.Now()
		if err := e.Create(t.Context(), edgeSpec(), nil); !apierrors.IsUnauthorized(err) || time.Since(began) > 0 {
			t.Errorf("Create after %s: %v, want immediate Unauthorized", time.Since(began), err)
		}
	})
}
