package up_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/plan"
	"homelab/lab/up"
)

// attach adds an existing cluster to the estate.
func (s *stage) attach() {
	s.t.Helper()
	s.files["clusters/edge/cluster.yaml"] = &fstest.MapFile{Mode: 0o644, Data: []byte(`apiVersion: lab/v1alpha1
kind: Cluster
metadata:
  name: edge
spec:
  role: spoke
  environment: prod
  provider: existing
  existing: {context: edge, server: "https://edge.example.com:6443"}
  cloud: {provider: aws, accountID: "210987654321"}
  addons: {podinfo: true}
`)}
	s.load()
}

// installed returns what the hub's engine installed in the attached cluster.
func (s *stage) installed() []string {
	e := s.engines[s.clusters.Identity("hub")]
	if e == nil {
		return nil
	}
	return e.Holds("edge")
}

func attachedLab(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.attach()
	converge(t, s)
	if held := s.installed(); len(held) != 2 {
		t.Fatalf("engine installed %v, want 2 objects", held)
	}
	return s
}

func TestRemoveAttachedCluster(t *testing.T) {
	s := attachedLab(t)
	hub := s.engines[s.clusters.Identity("hub")]
	if out, err := (&process{stage: s}).lab().Follow(t.Context(), up.Options{}, stepRecorder{&process{stage: s}}); err != nil || !out.Idle {
		t.Errorf("second run not idle: %v, %+v", err, out.Steps)
	}
	p := &process{stage: s}
	p.estate = nil // Remove works without an estate
	r, err := p.lab().Remove(t.Context(), up.DownOptions{Existed: true}, silent)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(r.Removed, "cluster edge") {
		t.Errorf("removed %q, want cluster edge", r.Removed)
	}
	if held := hub.Holds("edge"); len(held) != 0 {
		t.Errorf("left in edge: %v", held)
	}
	if at := slices.Index(p.calls, "engine.withdraw"); at < 0 || at > slices.IndexFunc(p.calls, func(c string) bool { return strings.HasPrefix(c, "clusters.delete") }) {
		t.Errorf("engine.withdraw not before clusters.delete: %q", p.calls)
	}
	if got := s.clusters.Outside("edge"); got != "outside edge" {
		t.Errorf("edge is %q", got)
	}
}

// Down removes nothing while it cannot clean up attached clusters.
func TestRemoveAttachedClusterUnreachable(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(s *stage)
		code  string
	}{
		"edge silent":    {func(s *stage) { s.clusters.Silence("edge", true) }, "unreachable"},
		"hub silent":     {func(s *stage) { s.clusters.Silence("hub", true) }, "no_engine"},
		"hub lost":       {func(s *stage) { s.clusters.Lose("hub") }, "no_engine"},
		"others stopped": {func(s *stage) { s.clusters.Stop("hub"); s.clusters.Stop("dev"); s.clusters.Stop("prod") }, "no_engine"},
	} {
		t.Run(name, func(t *testing.T) {
			s := attachedLab(t)
			c.spoil(s)
			before := s.clusters.Contents()
			_, err := (&process{stage: s}).lab().Remove(t.Context(), up.DownOptions{Existed: true}, silent)
			var le *lab.Error
			if !errors.As(err, &le) || le.Code != c.code || !strings.Contains(le.Cure, "--abandon edge") {
				t.Fatalf("%v", err)
			}
			if after := s.clusters.Contents(); !slices.Equal(before, after) {
				t.Errorf("contents changed:\n%q\n%q", before, after)
			}
			if !s.dir.Exists() {
				t.Error("state folder was removed")
			}
			r, err := (&process{stage: s}).lab().Remove(t.Context(), up.DownOptions{Existed: true, Abandon: []string{"edge"}}, silent)
			if err != nil || len(s.clusters.Contents()) != 0 {
				t.Errorf("Remove with Abandon: %v, removed %q, left %q", err, r.Removed, s.clusters.Contents())
			}
			if got := s.clusters.Outside("edge"); got != "outside edge" {
				t.Errorf("edge is %q", got)
			}
		})
	}
}

func TestRemoveAbandonUnattached(t *testing.T) {
	s := attachedLab(t)
	_, err := (&process{stage: s}).lab().Remove(t.Context(), up.DownOptions{Existed: true, Abandon: []string{"dev"}}, silent)
	var le *lab.Error
	if !errors.As(err, &le) || le.Exit != lab.ExitInvalid || s.clusters.Identity("dev") == "" {
		t.Errorf("%v", err)
	}
}

// A cluster that leaves the estate is unregistered and released, not deleted; neither --recreate nor a changed provider recreates it.
func TestFollowAttachedClusterKept(t *testing.T) {
	s := attachedLab(t)
	if err := up.Recreatable(s.estate, []string{"edge"}); err == nil {
		t.Error("Recreatable accepts edge")
	}
	edit(s.files, "clusters/edge/cluster.yaml", "  provider: existing\n  existing: {context: edge, server: \"https://edge.example.com:6443\"}\n", "")
	s.load()
	for _, o := range []up.Options{{}, {Recreate: []string{"edge"}}} {
		_, err := (&process{stage: s}).up(t.Context(), o)
		var le *lab.Error
		if !errors.As(err, &le) || le.Code != "provider" {
			t.Errorf("options %+v: error %v, want code provider", o, err)
		}
	}
	s.leave("edge")
	s.clusters.Silence("edge", true)
	var le *lab.Error
	if _, err := (&process{stage: s}).up(t.Context(), up.Options{Prune: true}); !errors.As(err, &le) || le.Code != "unreachable" || len(s.installed()) == 0 {
		t.Errorf("prune while unreachable: %v, edge contains %v", err, s.installed())
	}
	s.clusters.Silence("edge", false)
	p := &process{stage: s}
	if _, err := p.up(t.Context(), up.Options{Prune: true}); err != nil {
		t.Fatal(err)
	}
	if got := s.clusters.Outside("edge"); got != "outside edge" || len(s.installed()) != 0 {
		t.Errorf("edge is %q, contains %v", got, s.installed())
	}
}

func TestRestoreAttachedCluster(t *testing.T) {
	s := attachedLab(t)
	_, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "one", false, up.Consent{}, silent)
	must(t, err)
	p := &process{stage: s}
	_, err = p.lab().Restore(t.Context(), "one", up.Consent{}, silent)
	must(t, err)
	if slices.Contains(p.calls, "clusters.delete edge") || !strings.Contains(s.clusters.Outside("edge"), "demo") {
		t.Errorf("calls %q, edge is %q", p.calls, s.clusters.Outside("edge"))
	}
	if _, err := (&process{stage: s}).up(t.Context(), up.Options{}); err != nil {
		t.Error(err)
	}
}

func TestLeaving(t *testing.T) {
	s := attachedLab(t)
	steps, _, err := (&process{stage: s}).lab().Leaving(context.Background(), up.DownOptions{})
	must(t, err)
	want := `delete   engine           removes its objects from edge
delete   cluster/edge     released, keeps running   (after engine)
delete   cluster/dev      removed   (after cluster/edge)
delete   cluster/hub      removed   (after cluster/edge)
delete   cluster/prod     removed   (after cluster/edge)
delete   forge            removed, with its volume   (after cluster/edge)
delete   network          removed   (after engine, cluster/edge, cluster/dev, cluster/hub, cluster/prod, forge)
`
	if got := plan.String(steps); got != want {
		t.Errorf("%s", got)
	}
}

// A lab can be taken down regardless of where the first run that attached a cluster was interrupted, and leaves nothing in that cluster.
func TestRemoveAfterInterruptedAttach(t *testing.T) {
	whole := newStage(t)
	whole.attach()
	p := &process{stage: whole, points: map[string]int{}}
	must(t, plainUp(t.Context(), p))
	for _, point := range p.pointNames() {
		for _, end := range []string{"interrupted", "killed"} {
			t.Run(end+"/"+point, func(t *testing.T) {
				s := newStage(t)
				s.attach()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				p := &process{stage: s, points: map[string]int{}}
				p.reach = func(at string) {
					if at == point {
						ends[end].reach(p, cancel)
					}
				}
				_ = plainUp(ctx, p)
				hub := s.engines[s.clusters.Identity("hub")]
				must(t, down(t.Context(), &process{stage: s}))
				if left := s.clusters.Contents(); len(left) != 0 {
					t.Errorf("left %q", left)
				}
				if got := s.clusters.Outside("edge"); got != "outside edge" && got != "absent" {
					t.Errorf("edge is %q", got)
				}
				if hub != nil && len(hub.Holds("edge")) != 0 {
					t.Errorf("left in edge: %v", hub.Holds("edge"))
				}
			})
		}
	}
}

// Where the owner's engine would take what the lab deploys for its own, nothing is attached.
func TestContested(t *testing.T) {
	s := newStage(t)
	s.attach()
	must(t, s.dir.Create())
	must(t, os.WriteFile(s.clusters.Kubeconfig("edge"), nil, 0o600))
	l := (&process{stage: s}).lab()
	l.Definition.Contests = func(_ context.Context, cluster *rest.Config, names []string) ([]string, error) {
		if !slices.Contains(names, "edge-podinfo") {
			t.Errorf("%q", names)
		}
		return []string{"argocd/edge-podinfo"}, nil
	}
	_, err := l.Follow(t.Context(), up.Options{Timeout: time.Second}, &audience{})
	var failed *lab.Error
	if !errors.As(err, &failed) || failed.Exit != lab.ExitInvalid || !slices.Equal(failed.Details, []string{"cluster edge: argocd/edge-podinfo"}) {
		t.Errorf("%+v", err)
	}
	if names, err := s.clusters.Observe(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// Whether it would is unknown if the cluster cannot be asked, which is reported, and attaching continues.
func TestContestsUnknown(t *testing.T) {
	s := newStage(t)
	s.attach()
	must(t, s.dir.Create())
	must(t, os.WriteFile(s.clusters.Kubeconfig("edge"), nil, 0o600))
	l := (&process{stage: s}).lab()
	l.Definition.Contests = func(context.Context, *rest.Config, []string) ([]string, error) { return nil, errors.New("forbidden") }
	a := &audience{}
	if _, err := l.Follow(t.Context(), up.Options{Timeout: time.Second}, a); err != nil {
		t.Error(err)
	}
	if want := "cluster edge: whether its owner's engine has applications with names of the lab's is unknown: forbidden"; !slices.Contains(a.lines, want) {
		t.Errorf("%q, want %q", a.lines, want)
	}
}
