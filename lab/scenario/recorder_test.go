package scenario

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
)

func object(version string) State {
	return State{Known: true, Object: map[string]any{"metadata": map[string]any{"resourceVersion": version}}}
}

// Observations from before the story's own change are ignored.
func TestObservationsBeforeOwnChange(t *testing.T) {
	at := Subject{Cluster: "dev", APIVersion: "v1", Kind: "ConfigMap", Namespace: "a", Name: "b"}
	for name, c := range map[string]struct {
		change func(c *Call)
		next   string // version that counts
	}{
		"changed": {func(c *Call) { c.Changed(at, "7") }, "7"},
		"deleted": {func(c *Call) { c.Deleted(at, "7") }, "8"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t.Context(), World{}, time.Now())
			defer r.Close()
			r.see(at, object("5"), "5")
			r.forget(r.now())
			c.change(&Call{playing: &playing{recorder: r}})
			r.see(at, object("6"), "6")
			if state := r.view(r.now())[at]; state.Known {
				t.Errorf("%+v", state)
			}
			r.see(at, object(c.next), c.next)
			if state := r.view(r.now())[at]; versionOf(state.Object) != c.next {
				t.Errorf("%+v", state)
			}
		})
	}
}

// A long log drops its beginning but keeps the state.
func TestLongLog(t *testing.T) {
	r := newRecorder(t.Context(), World{}, time.Now())
	defer r.Close()
	first := Subject{Cluster: "dev", APIVersion: "v1", Kind: "ConfigMap", Namespace: "a", Name: "first"}
	other := Subject{Cluster: "dev", APIVersion: "v1", Kind: "ConfigMap", Namespace: "a", Name: "other"}
	r.see(first, object("1"), "1")
	start := r.now()
	for range maxObservations {
		r.see(other, object("2"), "2")
	}
	if len(r.log) != maxObservations || r.now().n != maxObservations+1 {
		t.Errorf("%d observations up to %d", len(r.log), r.now().n)
	}
	if v := r.view(start); !v[first].Known || v[other].Known {
		t.Errorf("%+v", v)
	}
	if v := r.view(r.now()); !v[first].Known || !v[other].Known {
		t.Errorf("%+v", v)
	}
}

// Events are recorded once, and those from before the story never.
func TestEventsListedAgain(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r := newRecorder(t.Context(), World{}, began)
	defer r.Close()
	o := observer{recorder: r, watching: &watching{of: EventsIn("dev", "a")}}
	event := func(name string, at time.Time) unstructured.Unstructured {
		u := unstructured.Unstructured{Object: map[string]any{"lastTimestamp": at.Format(time.RFC3339)}}
		u.SetName(name)
		return u
	}
	list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{event("before", began.Add(-time.Minute)), event("since", began.Add(time.Minute))}}
	for range 3 {
		o.recordAll(list)
	}
	list.Items = append(list.Items, event("late", began.Add(-time.Second))) // listed late, but from before the story
	o.recordAll(list)
	var names []string
	for _, seen := range r.log {
		for _, e := range seen.state.Events {
			names = append(names, (&unstructured.Unstructured{Object: e}).GetName())
		}
	}
	if !slices.Equal(names, []string{"since", "late"}) {
		t.Errorf("recorded %q", names)
	}
}

// Comparing does not modify the objects.
func TestWithoutAllocatedCopies(t *testing.T) {
	port := map[string]any{"port": int64(80), "nodePort": int64(30080)}
	service := map[string]any{"kind": "Service", "spec": map[string]any{"clusterIP": "10.96.0.1", "ports": []any{port, "odd"}}}
	got := withoutAllocated(service)
	want := map[string]any{"kind": "Service", "spec": map[string]any{"ports": []any{map[string]any{"port": int64(80)}, "odd"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if spec := service["spec"].(map[string]any); spec["clusterIP"] != "10.96.0.1" || port["nodePort"] != int64(30080) {
		t.Errorf("state %v", service)
	}
}

func TestObjectListed(t *testing.T) {
	at := Subject{Cluster: "dev", APIVersion: "v1", Kind: "ConfigMap", Namespace: "a", Name: "b"}
	r := newRecorder(t.Context(), World{}, time.Now())
	defer r.Close()
	o := observer{recorder: r, watching: &watching{of: at}}
	named := func(name string) unstructured.Unstructured {
		var u unstructured.Unstructured
		u.SetName(name)
		return u
	}
	for _, list := range [][]unstructured.Unstructured{{named("a"), named("b")}, {named("a")}} {
		o.recordAll(&unstructured.UnstructuredList{Items: list})
		if state := r.view(r.now())[at]; !state.Known || (state.Object != nil) != (len(list) == 2) {
			t.Errorf("of %d: %+v", len(list), state)
		}
	}
}

// A lost subject has a reason, recorded once.
func TestLose(t *testing.T) {
	at := Subject{Cluster: "dev", APIVersion: "v1", Kind: "ConfigMap", Namespace: "a", Name: "b"}
	r := newRecorder(t.Context(), World{}, time.Now())
	defer r.Close()
	r.see(at, object("1"), "1")
	all := func(Subject) bool { return true }
	for _, step := range []struct {
		why       error
		message   string
		seen      int
		elsewhere bool
	}{
		{errors.New("refused"), "refused", 1, true}, // of another source
		{errors.New("refused"), "refused", 2, false},
		{errors.New("refused"), "refused", 2, false},
		{errStartOver, "refused", 2, false},
		{errors.New("no answer"), "no answer", 3, false},
	} {
		which := all
		if step.elsewhere {
			which = func(Subject) bool { return false }
		}
		r.lose(which, step.why)
		state := r.view(r.now())[at]
		if len(r.log) != step.seen || !step.elsewhere && (state.Known || !state.Lost || state.Why != step.message) {
			t.Errorf("%d observations, %+v", len(r.log), state)
		}
	}
}

// Bookkeeping of controllers and appliers is not a difference; other metadata is.
func TestEssence(t *testing.T) {
	meta := func(annotations map[string]any, finalizers ...any) map[string]any {
		return map[string]any{"kind": "Deployment", "metadata": map[string]any{"name": "a", "annotations": annotations, "finalizers": finalizers}, "status": map[string]any{"n": len(annotations)}}
	}
	was := meta(map[string]any{"note": "x", "deployment.kubernetes.io/revision": "1"})
	for name, c := range map[string]struct {
		is   map[string]any
		want []string
	}{
		"revision":  {meta(map[string]any{"note": "x", "deployment.kubernetes.io/revision": "2"}), nil},
		"applied":   {meta(map[string]any{"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"}), nil},
		"note":      {meta(map[string]any{"note": "y"}), []string{"a: metadata.annotations.note: x -> y"}},
		"finalizer": {meta(map[string]any{"note": "x"}, "f"), []string{`a: metadata.finalizers: (none) -> ["f"]`}},
		"gone":      {nil, []string{"a is gone"}},
	} {
		if got := differences("a", essence(was), essence(c.is)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if m := was["metadata"].(map[string]any)["annotations"].(map[string]any); len(m) != 2 {
		t.Errorf("state %v", was)
	}
}

// Lenient expansion keeps unset variables.
func TestLenientExpansion(t *testing.T) {
	f := filler{vars: map[string]any{"a": 1, "f": 0.5, "t": true}, lenient: true, left: maxStepText}
	const text = "${a} ${f} ${t} ${later} $${a}"
	if got, err := f.expand(text); err != nil || got != "1 0.5 true ${later} ${a}" {
		t.Errorf("%q, %v", got, err)
	}
	f.lenient = false
	if got, err := f.expand(text); err == nil {
		t.Errorf("%q", got)
	}
}

// reported is an engine that reports applications once.
type reported struct {
	Engine
	apps []Application
}

func (e reported) Watch(ctx context.Context, seen func(Application), ready func()) error {
	for _, a := range e.apps {
		seen(a)
	}
	ready()
	<-ctx.Done()
	return nil
}

// A set may generate several applications of an addon on a cluster, as for previews and tenants.
func TestApplicationsOfOneAddon(t *testing.T) {
	of := func(name, sync, health string) Application {
		return Application{Application: lab.Application{Name: name, Addon: "web", Cluster: "dev", Sync: sync, Health: health}}
	}
	gone := of("web-pr-3", "", "")
	gone.Gone = true
	r := newRecorder(t.Context(), World{Estate: &lab.Estate{}, Engine: reported{apps: []Application{of("web-pr-1", "OutOfSync", "Degraded"), of("web-pr-2", "Synced", "Healthy"), gone}}}, time.Now())
	defer r.Close()
	if err := r.watch(t.Context(), []Subject{Applications()}); err != nil {
		t.Fatal(err)
	}
	v, all := r.view(r.now()), ApplicationOf("dev", "web")
	if got, want := v.Of(all), []Subject{of("web-pr-1", "", "").Subject(), of("web-pr-2", "", "").Subject()}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, converged := range map[string]bool{"web-pr-1": false, "web-pr-2": true} {
		s := ApplicationRef{Cluster: "dev", Addon: "web", Name: name}.Subject()
		if a := v.State(s).Application; a == nil || a.Converged() != converged || s.String() != "application "+name {
			t.Errorf("%s: %+v", s, a)
		}
	}
	for _, s := range []Subject{gone.Subject(), ApplicationOf("prod", "web")} {
		if state := v.State(s); !state.Known || state.Application != nil {
			t.Errorf("%s: %+v", s, state)
		}
	}
	lanes := map[Lane]bool{}
	for _, m := range r.timeline() {
		lanes[m.Lane] = true
	}
	if len(lanes) != 3 {
		t.Errorf("%d lanes", len(lanes))
	}
}

// An engine may lose the end of a rollout, and finds it when it looks again: what it calls progressing has not come to rest before.
func TestProgressingIsNoRest(t *testing.T) {
	at := ApplicationRef{Cluster: "prod", Addon: "web", Name: "prod-web"}.Subject()
	for health, met := range map[string]bool{"Progressing": true, "Degraded": false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRecorder(t.Context(), World{}, time.Now())
			defer r.Close()
			see := func(health string) {
				r.see(at, State{Known: true, Application: &Application{Application: lab.Application{Name: at.Name, Sync: "Synced", Health: health}}}, "")
			}
			see(health)
			time.AfterFunc(125*time.Second, func() { see("Healthy") })
			out, err := r.await(t.Context(), Wish{
				From: r.now(), By: time.Now().Add(10 * time.Minute), Patience: 2 * time.Minute, Concerns: anything,
				Judge: func(v View) Judgement { return Judgement{Met: v[at].Application.Converged()} },
			})
			if err != nil || out.Met != met || (out.Still > 0) == met {
				t.Errorf("%s: met is %t, still for %s, %v", health, out.Met, out.Still, err)
			}
		})
	}
}

// A sync that fails is tried again, which its message counts: no progress. A rollout's count of replicas is.
func TestRetriesAreNoProgress(t *testing.T) {
	at := ApplicationRef{Cluster: "prod", Addon: "web", Name: "prod-web"}.Subject()
	for _, c := range []struct {
		health, message, next string
		moves                 bool
	}{
		{"Healthy", "the cluster does not answer (retried 3 times)", "the cluster does not answer (retried 4 times)", false},
		{"Healthy", "read 10.0.0.1:4711: timeout", "read 10.0.0.1:4712: timeout", false},
		{"Healthy", "the cluster does not answer (retried 3 times)", "forbidden (retried 4 times)", true},
		{"Progressing", "1 of 3 replicas", "2 of 3 replicas", true},
	} {
		see := func(message string) observation {
			return observation{subject: at, at: time.Now().Add(time.Minute), state: State{Known: true, Application: &Application{Application: lab.Application{Name: at.Name, Sync: "OutOfSync", Health: c.health, Message: message}}}}
		}
		w := Wish{Patience: time.Minute, Concerns: anything}
		p := newPace(w, View{at: see(c.message).state})
		before := p.moved
		p.see(w, see(c.next))
		if moves := p.moved != before; moves != c.moves {
			t.Errorf("%s: %q, then %q: moves is %t", c.health, c.message, c.next, moves)
		}
	}
}
