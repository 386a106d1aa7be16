package cluster

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
)

// A failing provider fails Observe. A cluster known to both providers is reported as lab's own.
func TestSetObserve(t *testing.T) {
	e := newTestExisting(t, "demo", newFakeCluster())
	attachEdge(t, e)
	for _, name := range []string{"dev", "b"} {
		e.estate[name] = e.estate["edge"]
		if err := e.Record(t.Context(), name, "i"); err != nil {
			t.Fatal(err)
		}
	}
	states, err := NewSet(&recorder{}, e).Observe(t.Context())
	if err != nil || len(states) != 3 || states[0].Name != "b" || states[1].Name != "dev" || states[1].Attached || states[2].Name != "edge" {
		t.Errorf("%+v, %v", states, err)
	}
	if _, err := NewSet(&blind{}, e).Observe(t.Context()); !errors.Is(err, errBlind) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewSet(&recorder{}, e).Observe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestSetErrors(t *testing.T) {
	o := newFakeCluster()
	e := newTestExisting(t, "demo", o)
	attachEdge(t, e)
	o.fail = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no"))
	s := NewSet(&recorder{fail: errBlind}, e)
	for name, is := range map[string]func(error) bool{
		"dev": func(err error) bool { return errors.Is(err, errBlind) }, "edge": apierrors.IsForbidden,
	} {
		spec := Spec{Cluster: lab.Cluster{Name: name, Provider: lab.ProviderKind}}
		if name == "edge" {
			spec = edgeSpec()
		}
		calls := map[string]error{
			"create": s.Create(t.Context(), spec, nil), "start": s.Start(t.Context(), name, nil), "mark": s.Mark(t.Context(), name, "i", nil), "delete": s.Delete(t.Context(), name),
		}
		if name == "dev" {
			calls["load"], calls["record"] = s.Load(t.Context(), name, nil, nil), s.Record(t.Context(), name, "i")
		}
		for call, err := range calls {
			if !is(err) {
				t.Errorf("%s %s: %v", call, name, err)
			}
		}
	}
	if err := s.Forget(t.Context(), "edge"); err != nil || e.state.Cluster("edge").Attached {
		t.Errorf("forget: %v", err)
	}
}

var errBlind = errors.New("the engine does not answer")

type blind struct{ recorder }

func (*blind) Observe(context.Context, ...string) ([]lab.ClusterState, error) { return nil, errBlind }
