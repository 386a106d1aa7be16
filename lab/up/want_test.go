package up_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/forge"
	"homelab/lab/front"
	"homelab/lab/up"
)

// requests are the last ones to an engine.
type requests struct {
	want          engine.Want
	root          engine.Root
	repositories  []engine.Repository
	registrations map[string]lab.Registration
	spokes        map[string]*rest.Config
	departures    []engine.Departure
}

// listening is an engine that records requests.
type listening struct {
	up.Engine
	requests *requests
}

func (e listening) ApplyRepositories(ctx context.Context, repos []engine.Repository) ([]string, error) {
	e.requests.repositories = repos
	return e.Engine.ApplyRepositories(ctx, repos)
}

func (e listening) ApplyRoot(ctx context.Context, root engine.Root) (bool, error) {
	e.requests.root = root
	return e.Engine.ApplyRoot(ctx, root)
}

func (e listening) WaitConverged(ctx context.Context, want engine.Want, p lab.Progress) ([]lab.Application, error) {
	e.requests.want = want
	return e.Engine.WaitConverged(ctx, want, p)
}

// registering serializes recording, as steps run in parallel.
type registering struct {
	listening
	of *stage
}

func (e registering) Register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error) {
	e.of.mu.Lock()
	e.requests.registrations[reg.Cluster], e.requests.spokes[reg.Cluster] = reg, spoke
	e.of.mu.Unlock()
	return e.Engine.Register(ctx, reg, spoke)
}

func (e registering) Unregister(ctx context.Context, d engine.Departure, p lab.Progress) ([]string, error) {
	e.of.mu.Lock()
	e.requests.departures = append(e.requests.departures, d)
	e.of.mu.Unlock()
	return e.Engine.Unregister(ctx, d, p)
}

// follow runs a lab and returns its engine's requests.
func (s *stage) follow(t *testing.T, l *up.Lab, o up.Options) (requests, up.Outcome) {
	t.Helper()
	got := requests{registrations: map[string]lab.Registration{}, spokes: map[string]*rest.Config{}}
	connect := l.Connect
	l.Connect = func(hub string) (up.Engine, error) {
		e, err := connect(hub)
		return registering{listening{e, &got}, s}, err
	}
	o.Timeout = time.Second
	out, err := l.Follow(t.Context(), o, &audience{})
	must(t, err)
	return got, out
}

func (s *stage) started(t *testing.T) map[string]time.Time {
	t.Helper()
	states, err := s.clusters.Observe(t.Context())
	must(t, err)
	started := map[string]time.Time{}
	for _, c := range states {
		started[c.Name] = c.Started
	}
	return started
}

func TestWantOfRun(t *testing.T) {
	s := newStage(t)
	got, _ := s.follow(t, (&process{stage: s}).lab(), up.Options{})
	want := got.want
	if want.Revision != s.head(t) || !want.Changed || want.Clusters != nil || len(want.LeftOut) > 0 {
		t.Errorf("%+v", want)
	}
	if !slices.Equal(want.Expected, []string{"dev-podinfo", "prod-podinfo"}) || !slices.Equal(want.Gone, []string{"hub-podinfo"}) {
		t.Errorf("Expected %q, Gone %q", want.Expected, want.Gone)
	}
	for name, spoke := range got.spokes {
		if (spoke == nil) != (name == "hub") {
			t.Errorf("spoke access to %s = %v", name, spoke)
		}
	}

	s.clusters.Stop("dev")
	got, _ = s.follow(t, (&process{stage: s}).lab(), up.Options{})
	if now := s.started(t); !maps.EqualFunc(got.want.Since, now, time.Time.Equal) {
		t.Errorf("since %v, started %v", got.want.Since, now)
	}
	if got.want.Clusters != nil {
		t.Errorf("clusters %q", got.want.Clusters)
	}
	if got.want.Revision != s.head(t) {
		t.Errorf("revision %q, want %q", got.want.Revision, s.head(t))
	}
}

func TestWantOfSomeClusters(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	s.clusters.Stop("dev")
	var o up.Options
	must(t, o.Only(s.estate, []string{"dev"}))
	got, out := s.follow(t, (&process{stage: s}).lab(), o)
	if want := got.want; !slices.Equal(want.Clusters, []string{"dev", "hub"}) || !slices.Equal(want.Expected, []string{"dev-podinfo"}) || out.Clusters != 2 {
		t.Errorf("%+v of %d clusters", want, out.Clusters)
	}

	s.leave("dev") // kept: its applications are not waited for
	s.clusters.Stop("prod")
	got, _ = s.follow(t, (&process{stage: s}).lab(), up.Options{})
	if want := got.want; !slices.Equal(want.Clusters, []string{"hub", "prod"}) {
		t.Errorf("%+v", want)
	}
}

// Applications of clusters outside the run are not repaired.
func TestSomeClustersIdle(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	for _, e := range s.engines {
		e.Break("prod-podinfo", "no such image")
	}
	for name, idle := range map[string]bool{"dev": true, "prod": false} {
		l := (&process{stage: s}).lab()
		var o up.Options
		must(t, o.Only(s.estate, []string{name}))
		seen, err := l.Observe(t.Context(), o)
		must(t, err)
		broken := slices.ContainsFunc(seen.Applications, func(a lab.Application) bool { return !a.Converged() })
		if len(seen.Applications) == 0 || broken == idle {
			t.Errorf("application of %s observed: %+v", name, seen.Applications)
		}
	}
}

func TestWantOfLeftOut(t *testing.T) {
	s := newStage(t)
	i := slices.IndexFunc(s.estate.Applications, func(a lab.Generated) bool { return a.Name == "prod-podinfo" })
	s.estate.Applications[i].LeftOut = "charts.example.com does not answer"
	got, _ := s.follow(t, (&process{stage: s}).lab(), up.Options{})
	want := got.want
	if !slices.Equal(want.LeftOut, []string{"prod-podinfo"}) || !slices.Equal(want.Expected, []string{"dev-podinfo"}) || slices.Contains(want.Gone, "prod-podinfo") {
		t.Errorf("%+v", want)
	}
}

// mirrored returns a lab with a mounted repository. Manifests use upstream addresses.
func mirrored(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	edit(s.files, lab.ClusterFile("hub"), "  role: hub\n", "  role: hub\n  repositories: {https://github.com/acme/gitops: upstream}\n")
	s.files["upstream/apps/web.yaml"] = &fstest.MapFile{Data: []byte("one\n"), Mode: 0o644}
	s.load()
	gitops := s.estate.Repositories[0]
	gitops.Written = true
	s.estate.Repositories = []lab.Repository{{Name: "estate", URL: "https://github.com/acme/mono", Dir: ".", Branch: "main", FS: s.estate.FS, Written: true}, gitops}
	return s
}

func TestWantOfRepositories(t *testing.T) {
	s := mirrored(t)
	s.estate.Repositories[1].SSH = []string{"git@github.com:acme/gitops.git", "ssh://git@github.com/acme/gitops"}
	got, _ := s.follow(t, (&process{stage: s}).lab(), up.Options{})
	var names []string
	for _, r := range got.repositories {
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"estate", "charts", "upstream-estate", "mirror-gitops", "ssh-1-gitops", "ssh-2-gitops", "upstream-gitops"}) {
		t.Errorf("repositories %q", names)
	}
	for i, address := range s.estate.Repositories[1].SSH {
		r := got.repositories[4+i]
		if r.URL != address || r.Proxy != "socks5://lab-front.argocd.svc:1080" || !r.Insecure || r.Username+r.Password != "" || !strings.HasPrefix(r.SSHKey, "-----BEGIN EC PRIVATE KEY") {
			t.Errorf("%s: url %s, proxy %s", r.Name, r.URL, r.Proxy)
		}
	}
	const served = "http://lab-demo-forge:3000/lab/"
	if want := map[string]string{"https://github.com/acme/mono": served + "estate.git", "https://github.com/acme/gitops": served + "gitops.git"}; !maps.Equal(got.root.Mirrors, want) {
		t.Errorf("mirrors %q", got.root.Mirrors)
	}
	for _, address := range []string{"acme/mono", "acme/gitops"} {
		if !serves(got.root, address) {
			t.Errorf("the front does not serve %s", address)
		}
	}
	if !slices.ContainsFunc(s.clusters.Images("hub"), func(i lab.Image) bool { return i.Name == front.Component }) {
		t.Errorf("images of the hub: %+v", s.clusters.Images("hub"))
	}
	mirror, err := s.forge.Mirrored(t.Context(), forge.MirrorOf(s.estate.Repositories[1]), "", "")
	must(t, err)
	heads := []engine.Head{
		{Addresses: []string{served + "estate.git", "https://github.com/acme/mono"}, Branch: "main", Commit: s.head(t)},
		{Addresses: []string{served + "gitops.git", "https://github.com/acme/gitops"}, Branch: s.estate.Repositories[1].Branch, Commit: mirror.Commit},
	}
	same := func(a, b engine.Head) bool {
		return slices.Equal(a.Addresses, b.Addresses) && a.Branch == b.Branch && a.Commit == b.Commit && a.Commit != ""
	}
	if !slices.EqualFunc(got.want.Heads, heads, same) {
		t.Errorf("heads %+v, want %+v", got.want.Heads, heads)
	}

	s.clusters.Stop("dev") // nothing is pushed
	got, _ = s.follow(t, (&process{stage: s}).lab(), up.Options{})
	if !slices.EqualFunc(got.want.Heads, heads, same) {
		t.Errorf("heads of the next run %+v, want %+v", got.want.Heads, heads)
	}

	_, err = s.forge.Mirror(t.Context(), forge.MirrorOf(s.estate.Repositories[1]), "http://elsewhere", "w")
	must(t, err)
	seen, err := (&process{stage: s}).lab().Observe(t.Context(), up.Options{})
	if must(t, err); !slices.Equal(seen.Estate, []string{"the webhook of repository gitops is gone"}) {
		t.Errorf("differs in %q", seen.Estate)
	}
}

// A cluster with another address in manifests is reached through the front.
func TestRegistrationThroughFront(t *testing.T) {
	s := newStage(t)
	s.estate.Clusters = slices.Clone(s.estate.Clusters)
	for i := range s.estate.Clusters {
		if c := &s.estate.Clusters[i]; c.Name == "dev" {
			c.Server = "https://dev.example.com"
		}
	}
	got, _ := s.follow(t, (&process{stage: s}).lab(), up.Options{})
	if r := got.registrations["dev"]; r.Server != "https://dev.example.com" || r.Via != "https://demo-dev-control-plane:6443" || r.Proxy == "" {
		t.Errorf("%+v", r)
	}
	if r := got.registrations["prod"]; r.Via != "" || r.Proxy != "" {
		t.Errorf("%+v", r)
	}
	if !serves(got.root, "dev.example.com") || serves(got.root, "demo-prod-control-plane") {
		t.Errorf("front objects %+v", got.root.Extra)
	}
}

// serves reports whether the root has a front for an address.
func serves(root engine.Root, address string) bool {
	return slices.ContainsFunc(root.Extra, func(o *unstructured.Unstructured) bool { return strings.Contains(fmt.Sprint(o.Object), address) })
}
