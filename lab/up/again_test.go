package up_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/plan"
	"homelab/lab/up"
)

// result returns the outcome of dev's cluster step.
func result(t *testing.T, out up.Outcome) string {
	t.Helper()
	for _, r := range out.Result.Steps {
		if r.Name == plan.KindCluster && r.Cluster == "dev" {
			return r.Result
		}
	}
	t.Fatalf("%+v", out.Result)
	return ""
}

// After a cluster is recreated, the next run has nothing to do.
func TestRecreated(t *testing.T) {
	for _, name := range []string{"dev", "hub"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			converge(t, s)
			was := s.clusters.Whole()
			_, err := (&process{stage: s}).up(t.Context(), up.Options{Recreate: []string{name}})
			must(t, err)
			made := s.clusters.Whole()
			if made[name] == "" || made[name] == was[name] {
				t.Errorf("%s was %q, is %q", name, was[name], made[name])
			}
			changed, err := (&process{stage: s}).up(t.Context(), up.Options{})
			if err != nil || len(changed) > 0 {
				t.Errorf("the next run changed %q, %v", changed, err)
			}
			s.requireKept(t, made, "after the next run")
		})
	}
}

// A node of a killed run may also appear late during --recreate.
func TestRecreatedWithLateNodes(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	var attempts atomic.Int32
	p := &process{stage: s, hit: func(_ int, call string) effect {
		if call != "clusters.create dev" || attempts.Add(1) > 1 {
			return effect{}
		}
		return effect{before: &lab.Error{Exit: lab.ExitFailed, Code: cluster.CodeLeftOver, Message: "its nodes appeared meanwhile"}}
	}}
	if _, err := p.up(t.Context(), up.Options{Recreate: []string{"dev"}}); err != nil || s.clusters.Whole()["dev"] == "" {
		t.Errorf("%v", err)
	}
}

// The reason of a change distinguishes a restarted cluster, which kept its contents, from a new one.
func TestRepairedClusterReason(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, s *stage)
		hit     func(s *stage) // when the step observes the cluster
		want    string
	}{
		"absent":  {func(*testing.T, *stage) {}, func(*stage) {}, "v1.36.3"},
		"stopped": {stopped, func(*stage) {}, "restarted, contents kept"},
		"ending": {func(t *testing.T, s *stage) {
			converge(t, s)
			s.clusters.Expire("dev", time.Now().AddDate(0, 0, 20))
		}, func(*stage) {}, "certificates renewed, contents kept"},
		"lost": {stopped, func(s *stage) { s.clusters.Lose("dev") }, "v1.36.3"},
		"half": {func(t *testing.T, s *stage) {
			_, err := failingAfter(s, "clusters.create/ready dev").up(t.Context(), up.Options{})
			if !strings.Contains(fmt.Sprint(err), "killed") {
				t.Fatal(err)
			}
		}, func(*stage) {}, "v1.36.3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c.prepare(t, s)
			var once sync.Once
			p := &process{stage: s, hit: func(_ int, call string) effect {
				if call == "clusters.observe dev" {
					once.Do(func() { c.hit(s) })
				}
				return effect{}
			}}
			out, err := p.lab().Follow(t.Context(), up.Options{Timeout: time.Second}, stepRecorder{p})
			must(t, err)
			if got := result(t, out); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// failingAfter returns a process that is killed after a call.
func failingAfter(s *stage, call string) *process {
	p := &process{stage: s}
	p.hit = func(_ int, name string) effect {
		if name != call {
			return effect{}
		}
		return faults["killed after"](s, p, nil)
	}
	return p
}

// Every observation during a repair may fail, as may the creation of a cluster that vanished.
func TestRepairFails(t *testing.T) {
	quiet := newStage(t)
	stopped(t, quiet)
	p := &process{stage: quiet, points: map[string]int{}}
	must(t, plainUp(t.Context(), p))
	looks := p.points["clusters.observe dev"]
	if looks < 3 {
		t.Fatalf("%d observations", looks)
	}
	for n := range looks {
		s := newStage(t)
		stopped(t, s)
		p := &process{stage: s, points: map[string]int{}}
		p.change = func(point string, do func() error) error {
			if point == fmt.Sprintf("clusters.observe dev #%d", n) {
				return errFull
			}
			return do()
		}
		if err := plainUp(t.Context(), p); !errors.Is(err, errFull) {
			t.Errorf("observation %d fails: %v", n, err)
		}
	}

	s := newStage(t)
	stopped(t, s)
	p = failing(s, "clusters.create dev")
	hit := p.hit
	p.hit = func(n int, call string) effect {
		if call == "clusters.observe dev" {
			s.clusters.Lose("dev")
		}
		return hit(n, call)
	}
	if err := plainUp(t.Context(), p); !errors.Is(err, errFull) {
		t.Errorf("recreated: %v", err)
	}

	s = newStage(t)
	_, _ = failingAfter(s, "clusters.create/ready dev").up(t.Context(), up.Options{})
	if err := plainUp(t.Context(), failing(s, "clusters.create dev")); !errors.Is(err, errFull) {
		t.Errorf("half created: %v", err)
	}
}

// Every destructive step of a plan fails without the corresponding option.
func TestStepUnconfirmed(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	s.leave("dev")
	was, l := s.clusters.Whole(), (&process{stage: s}).lab()
	seen, err := l.Observe(t.Context(), up.Options{Prune: true})
	must(t, err)
	doomed := 0
	for _, st := range l.Plan(t.Context(), up.Options{Prune: true}, seen) {
		if st.Action != lab.ActionDelete {
			continue
		}
		doomed++
		st.Needs = nil
		if _, err := l.Apply(t.Context(), up.Options{}, seen, []lab.Step{st}, nil); err == nil || !strings.Contains(err.Error(), "not requested") {
			t.Errorf("%s: %v", st.ID, err)
		}
	}
	if s.requireKept(t, was, "after an unconfirmed plan"); doomed != 2 {
		t.Errorf("%d destructive steps, want 2", doomed)
	}
}

// Nodes hold the images of their workloads in every version of the estate; the forge and node images are loaded into the container engine.
func TestImagesLoaded(t *testing.T) {
	s := newStage(t)
	s.estate.Addons = slices.Clone(s.estate.Addons)
	for i := range s.estate.Addons { // environments without clusters count, too
		a := &s.estate.Addons[i]
		a.Versions = maps.Clone(a.Versions)
		a.Versions["qa"] = "7.0.0"
	}
	s.estate.Addons = append(s.estate.Addons, lab.Addon{Name: "off", Chart: "off", Versions: map[string]string{"dev": "1.0.0"}}) // in no cluster
	p := &process{stage: s}
	l := p.lab()
	l.Supply = versioned{supply{}}
	out, err := l.Follow(t.Context(), up.Options{Timeout: time.Second}, stepRecorder{p})
	must(t, err)
	for name, want := range map[string][]string{
		"hub": {"argocd", "redis"}, "dev": {"podinfo-6.7.0", "podinfo-6.9.2", "podinfo-7.0.0"}, "prod": {"podinfo-6.7.0", "podinfo-6.9.2", "podinfo-7.0.0"},
	} {
		var got []string
		for _, i := range s.clusters.Images(name) {
			got = append(got, i.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s contains %q, want %q", name, got, want)
		}
	}
	if !slices.Contains(out.Result.Changes, "estate: podinfo 7.0.0") || slices.Contains(out.Result.Changes, "estate: off 1.0.0") {
		t.Errorf("changed %q", out.Result.Changes)
	}
	for _, image := range []string{"node", "gitea"} {
		if _, ok := s.loaded.Load(image); !ok {
			t.Errorf("image %s is not in the container engine", image)
		}
	}
}

// A cluster also holds the images of other environments' versions, so that promotion works offline.
func TestImagesOfOtherEnvironments(t *testing.T) {
	s := newStage(t)
	s.estate.Addons = slices.Clone(s.estate.Addons)
	for i := range s.estate.Addons { // versions set elsewhere
		s.estate.Addons[i].Versions = nil
	}
	p := &process{stage: s}
	l := p.lab()
	l.Supply = versioned{supply{}}
	_, err := l.Follow(t.Context(), up.Options{Timeout: time.Second}, stepRecorder{p})
	must(t, err)
	var got []string
	for _, i := range s.clusters.Images("dev") {
		got = append(got, i.Name)
	}
	if !slices.Equal(got, []string{"podinfo-6.7.0", "podinfo-6.9.2"}) {
		t.Errorf("images of dev: %q", got)
	}
}

// noting records the specs of created clusters.
type noting struct {
	up.Clusters
	specs *sync.Map
}

func (n noting) Create(ctx context.Context, spec cluster.Spec, p lab.Progress) error {
	n.specs.Store(spec.Cluster.Name, spec)
	return n.Clusters.Create(ctx, spec, p)
}

// Only the hub publishes ports.
func TestClusterSpecs(t *testing.T) {
	s := newStage(t)
	p := &process{stage: s}
	l := p.lab()
	var specs sync.Map
	l.Clusters = noting{l.Clusters, &specs}
	_, err := l.Follow(t.Context(), up.Options{Timeout: time.Second}, stepRecorder{p})
	must(t, err)
	for name, want := range map[string][]cluster.Port{"hub": {{Host: 8080, Node: 30080}}, "dev": nil, "prod": nil} {
		made, _ := specs.Load(name)
		spec, _ := made.(cluster.Spec)
		if !slices.Equal(spec.Ports, want) || spec.NodeRef != "example.org/node:1" {
			t.Errorf("%s is created from %+v", name, spec)
		}
	}
}

// A running cluster gets newly required images.
func TestImagesAdded(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	was := s.clusters.Whole()
	for range 2 {
		p := &process{stage: s}
		l := p.lab()
		l.Supply = versioned{supply{}}
		_, err := l.Follow(t.Context(), up.Options{Timeout: time.Second}, stepRecorder{p})
		must(t, err)
		if !slices.ContainsFunc(s.clusters.Images("dev"), func(i lab.Image) bool { return i.Name == "podinfo-6.9.2" }) {
			t.Errorf("images of dev: %+v", s.clusters.Images("dev"))
		}
	}
	s.requireKept(t, was, "with new images")
}

// versioned is a Supply whose chart versions have different images.
type versioned struct{ supply }

func (versioned) ImagesOf(chart, version string) []string { return []string{chart + "-" + version} }

// The engine fetches charts that lab does not supply; charts available locally are not fetched.
func TestNeeds(t *testing.T) {
	s := newStage(t)
	p := &process{stage: s}
	l := p.lab()
	asked := &partial{}
	l.Supply = asked
	out, err := l.Follow(t.Context(), up.Options{Timeout: time.Second}, stepRecorder{p})
	must(t, err)
	var fetched []string
	for _, c := range out.Result.Changes {
		if what, ok := strings.CutPrefix(c, "images: "); ok {
			fetched = append(fetched, what)
		}
	}
	if !slices.Equal(fetched, []string{"redis from "}) {
		t.Errorf("fetched %q", fetched)
	}
	if !slices.Equal(asked.expected, []string{"node", "gitea", "gate", "podinfo", "argocd", "redis"}) {
		t.Errorf("expected %q", asked.expected)
	}
	if slices.ContainsFunc(out.Result.Changes, func(c string) bool { return strings.HasPrefix(c, "estate: podinfo 6.7.0") }) {
		t.Errorf("changed %q", out.Result.Changes)
	}
}

// partial is a Supply without one image and some chart versions.
type partial struct {
	supply
	expected []string
}

func (*partial) Present(image, _, _ string) bool   { return image != "redis" }
func (*partial) HasChart(_, version string) bool   { return version != "6.7.0" }
func (s *partial) Expect(images ...string) error   { s.expected = images; return nil }
func (*partial) ImagesOf(chart, _ string) []string { return []string{chart} }

// The images step fails if an image does, even if other steps request it.
func TestImagesFail(t *testing.T) {
	for _, call := range []string{"supply.expect", "supply.image redis", "supply.chart podinfo 6.7.0"} {
		s := newStage(t)
		s.fetches = true
		l := failing(s, call).lab()
		seen, err := l.Observe(t.Context(), up.Options{})
		must(t, err)
		steps := l.Plan(t.Context(), up.Options{}, seen)
		i := slices.IndexFunc(steps, func(st lab.Step) bool { return st.Kind == plan.KindImages })
		if _, err := l.Apply(t.Context(), up.Options{}, seen, steps[i:i+1], nil); !errors.Is(err, errFull) {
			t.Errorf("%s fails: %v", call, err)
		}
	}
}

// A refused plan reports no losses.
func TestRefusedPlanSteps(t *testing.T) {
	a := &audience{}
	if _, err := (&process{stage: kindEdited(t)}).lab().Follow(t.Context(), up.Options{}, a); err == nil || len(a.lines) > 0 {
		t.Errorf("%v, progress %q", err, a.lines)
	}
	s := kindEdited(t)
	l := (&process{stage: s}).lab()
	seen, err := l.Observe(t.Context(), up.Options{})
	must(t, err)
	p := &process{stage: s}
	if _, err := p.lab().Apply(t.Context(), up.Options{}, seen, l.Plan(t.Context(), up.Options{}, seen), nil); err == nil || len(p.calls) > 0 {
		t.Errorf("%v, calls %q", err, p.calls)
	}
}
